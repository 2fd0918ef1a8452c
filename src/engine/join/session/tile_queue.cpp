#include "engine/join/session/tile_queue.hpp"

namespace vibespatial {

//! How much a thread collects for a device that is still starting
static constexpr uint64_t MAX_WAITING_BYTES = 32 << 20;

TileQueue::TileQueue(JoinBuild &build) : session(build.session), build(build) {
}

void TileQueue::Add(const JoinInput &input) {
	size_t taken = 0;
	while (taken < input.count) {
		if (!collecting) {
			collecting = idle ? std::move(idle) : std::make_unique<Tile>(build, session.Output());
		}
		const auto some = collecting->Add(input, taken);
		taken += some;
		if (some == 0 || collecting->IsFull() || session.ordered) {
			EndTile();
		}
	}
}

bool TileQueue::MayWait() const {
	return !session.ordered && collecting->HasRoom() && waiting_bytes < MAX_WAITING_BYTES && session.IsAwaited();
}

void TileQueue::EndTile() {
	if (MayWait()) {
		waiting_bytes += collecting->Payload().CountedBytes();
		waiting.push_back(std::move(collecting));
		return;
	}
	for (auto &tile : waiting) {
		Launch(std::move(tile));
	}
	waiting.clear();
	Launch(std::move(collecting));
}

void TileQueue::Launch(std::unique_ptr<Tile> tile) {
	tile->Launch();
	auto back = std::move(running);
	running = std::move(tile);
	if (session.ordered) {
		// Results come out before the next rows go in
		back = std::move(running);
	}
	if (!back) {
		return;
	}
	if (session.Output() == JoinOutput::COUNTS) {
		back->Finish(&counts);
		back->Clear();
		idle = std::move(back);
	} else {
		back->Finish(nullptr);
		emitting.push_back(std::move(back));
	}
}

void TileQueue::Pop() {
	emitting.front()->Clear();
	idle = std::move(emitting.front());
	emitting.pop_front();
}

void TileQueue::End() {
	if (collecting && !session.IsAwaited()) {
		collecting->Launch();
	}
	std::vector<std::unique_ptr<Tile>> tiles;
	auto add = [&](std::unique_ptr<Tile> tile) {
		if (tile && tile->Count() > 0) {
			tiles.push_back(std::move(tile));
		}
	};
	add(std::move(running));
	for (auto &tile : waiting) {
		add(std::move(tile));
	}
	waiting.clear();
	add(std::move(collecting));
	if (session.Output() != JoinOutput::COUNTS) {
		session.AddTiles(std::move(tiles));
		return;
	}
	for (auto &tile : tiles) {
		tile->Finish(&counts);
	}
	session.AddCounts(counts);
}

} // namespace vibespatial
