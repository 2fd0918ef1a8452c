//===----------------------------------------------------------------------===//
// duckdb/operators/overlay_work.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/operators/counted_memory.hpp"
#include "duckdb/operators/task_parallel.hpp"
#include "engine/cpu/overlay.hpp"
#include "geometry/wkb_edit.hpp"

namespace duckdb {

//! The overlays of one thread, one after the other. Large ones run on all threads, with their memory counted by DuckDB.
class OverlayWork {
public:
	explicit OverlayWork(ClientContext &context) : context(context) {
	}

	//! Forgets what was added and not run
	void Begin() {
		overlay.Clear();
		memory.reset();
		bytes = 0;
		counted = 0;
	}
	//! May throw vibespatial::GeometryError
	void Add(vibespatial::Overlay::Side side, vibespatial::WkbSlice geometry) {
		overlay.AddWkb(side, geometry.data, geometry.size);
		bytes += geometry.size;
		if (bytes - counted >= LARGE) {
			Count(overlay.Memory());
		}
	}
	//! The result, until the next call
	const vibespatial::GeometryBatch &Run(const vibespatial::OverlayRule &rule) {
		output.Clear();
		if (bytes < LARGE) {
			vibespatial::Serial serial;
			overlay.Run(rule, serial, output);
		} else {
			Count(overlay.Memory() * RUN_FACTOR);
			TaskThreads(context).Run([&](vibespatial::Parallel &parallel) { overlay.Run(rule, parallel, output); });
			memory.reset();
		}
		return output;
	}
	//! Bytes kept for the next one
	idx_t Memory() const {
		return overlay.Memory();
	}

private:
	//! Bytes of WKB from which on other threads are called
	static constexpr idx_t LARGE = 1 << 20;
	//! Memory while it runs, by that of what was added
	static constexpr idx_t RUN_FACTOR = 4;

	void Count(idx_t size) {
		CancelPoll(context)();
		counted = bytes;
		if (!memory) {
			memory = make_uniq<CountedMemory>(context);
		}
		memory->Resize(size);
	}

	ClientContext &context;
	vibespatial::Overlay overlay;
	vibespatial::GeometryBatch output;
	//! Of WKB since Begin, and when memory was last counted
	idx_t bytes = 0;
	idx_t counted = 0;
	unique_ptr<CountedMemory> memory;
};

} // namespace duckdb
