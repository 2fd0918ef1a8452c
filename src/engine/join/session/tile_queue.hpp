//===----------------------------------------------------------------------===//
// engine/join/session/tile_queue.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/join/session/tile.hpp"

#include <deque>

namespace vibespatial {

//! One thread's tiles: one is collecting rows while the device is running another and the results of a third are emitted
class TileQueue {
public:
	explicit TileQueue(JoinBuild &build);

	void Add(const JoinInput &input);
	//! The first tile that is ready to be emitted, or null
	Tile *Front() {
		return emitting.empty() ? nullptr : emitting.front().get();
	}
	//! The first tile was emitted
	void Pop();
	//! There are no more rows. Tiles that were not emitted go to the session, with COUNTS their counts.
	void End();

private:
	//! The tile that is collecting goes on: to the device, or to wait for a device that is still starting
	void EndTile();
	bool MayWait() const;
	//! Launches a tile, and finishes the one that was running
	void Launch(std::unique_ptr<Tile> tile);

	JoinSession &session;
	JoinBuild &build;
	std::unique_ptr<Tile> collecting;
	//! Tiles for a device that is still starting, first to last
	std::deque<std::unique_ptr<Tile>> waiting;
	uint64_t waiting_bytes = 0;
	std::unique_ptr<Tile> running;
	//! First to last; several where one chunk filled several tiles
	std::deque<std::unique_ptr<Tile>> emitting;
	//! Without rows; the next one to collect
	std::unique_ptr<Tile> idle;
	std::vector<uint64_t> counts;
};

} // namespace vibespatial
