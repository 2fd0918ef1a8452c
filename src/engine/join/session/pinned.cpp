#include "engine/join/session/pinned.hpp"

#include "engine/join/session/tile.hpp"

namespace vibespatial {

std::vector<PinnedPiece> CutPinned(const PinnedRows &rows, size_t most) {
	std::vector<PinnedPiece> pieces;
	for (size_t segment = 0; segment < rows.Segments(); segment++) {
		const size_t count = rows.Count(segment);
		for (size_t begin = 0; begin < count; begin += most) {
			pieces.push_back(PinnedPiece {segment, begin, std::min(most, count - begin)});
		}
	}
	return pieces;
}

void CountPinned(JoinBuild &build, const PinnedProbe &probe) {
	//! One is prepared while the device works on the other
	constexpr size_t TILES = 2;
	auto &session = build.session;
	// A tile is large, so that the counts of all build rows are fewer bytes than its pairs: no matter what the session has chosen
	Tile tiles[TILES] = {Tile(build, JoinOutput::COUNTS), Tile(build, JoinOutput::COUNTS)};
	std::vector<uint64_t> counts;
	try {
		const size_t segments = probe.rows->Segments();
		for (size_t i = 0; i < segments + TILES; i++) {
			auto &tile = tiles[i % TILES];
			if (i >= TILES && i - TILES < segments) {
				// All threads scan the rows faster than this one reads a copy of them
				if (!session.IsActive()) {
					throw GpuError("the device has failed");
				}
				tile.Finish(&counts);
				tile.Clear();
			}
			if (i < segments) {
				session.host.Poll();
				tile.SetPinned(probe, PinnedPiece {i, 0, probe.rows->Count(i)});
				tile.Launch();
			}
		}
	} catch (const GpuError &error) {
		session.Note([](JoinReport &report) {
			report.rows = 0;
			report.tiles = 0;
			report.cpu_rows = 0;
		});
		session.Fail(error);
		throw;
	}
	session.AddCounts(counts);
}

} // namespace vibespatial
