//===----------------------------------------------------------------------===//
// duckdb/overlay/dispatch.hpp
//
// Which engine unites many polygons: decided for each union that is large enough, and logged in vibe_dispatch_log()
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/operators/operator_dispatch.hpp"
#include "duckdb/pinned/polygons.hpp"
#include "engine/gpu/interface/overlay.hpp"
#include "engine/overlay/grouped_overlay.hpp"

namespace duckdb {

//! For one union; costs nothing until the union asks
class OverlayDispatch : public vibespatial::OverlayDevice {
public:
	//! `pinned`: whose rows are united, or why it is not; may be null
	explicit OverlayDispatch(ClientContext &context, optional_ptr<const PinnedPolygons> pinned = nullptr)
	    : context(context), pinned(pinned) {
	}
	~OverlayDispatch() override;

	//! What a union may need, while its query is planned; never waits
	static void RequestKernels(ClientContext &context);

	//! Whether the device would take so many groups now; never waits, and leaves no event
	static bool WouldTake(ClientContext &context, size_t groups, size_t vertices);
	//! Mode gpu waits for the device
	bool Takes(size_t vertices) override;
	//! False where the device failed or has no room: the CPU does the rest. In mode gpu a failure is an IOException.
	bool Unite(const vibespatial::OverlayNet &net, vibespatial::Parallel &parallel, const Steps &steps) override;

	std::shared_ptr<const vibespatial::GpuRings> Resident(const vibespatial::KnownPolygons &known,
	                                                      vibespatial::Parallel &parallel) override;

	//! Many groups at once (GroupedOverlay::Run), in `wkb`; nothing is returned where the device does not take them
	std::vector<size_t> Unite(vibespatial::GroupedOverlay &groups, vibespatial::PagesVector<uint8_t> &wkb);
	//! The same with threads that are there already
	std::vector<size_t> Unite(vibespatial::GroupedOverlay &groups, vibespatial::PagesVector<uint8_t> &wkb,
	                          vibespatial::Parallel &parallel);

	//! The event of the union tells of it
	bool IsLogged() const {
		return dispatch != nullptr;
	}
	//! For EXPLAIN: what would be decided now
	static string DescribePlan(ClientContext &context);

private:
	//! Out of device memory is no failure in mode gpu
	void Fail(const std::exception &error, bool for_memory);

	ClientContext &context;
	const optional_ptr<const PinnedPolygons> pinned;
	vibespatial::Operation operation = vibespatial::Operation::UNION_AGG;
	//! Once the union has asked
	unique_ptr<OperatorDispatch> waiting;
	unique_ptr<vibespatial::Dispatch> dispatch;
	//! Parts that were sent to the device, and parts that it left to the CPU
	idx_t parts = 0;
	idx_t parts_left = 0;
	idx_t vertices_left = 0;
};

} // namespace duckdb
