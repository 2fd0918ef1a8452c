//===----------------------------------------------------------------------===//
// duckdb/overlay/dispatch.hpp
//
// Which engine unites many polygons: decided for each union that is large enough, told in vibe_dispatch_log()
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/operators/operator_dispatch.hpp"
#include "engine/gpu/interface/overlay.hpp"

namespace duckdb {

//! For one union; costs nothing until that asks
class OverlayDispatch : public vibespatial::OverlayDevice {
public:
	explicit OverlayDispatch(ClientContext &context) : context(context) {
	}
	//! Writes down what was done
	~OverlayDispatch() override;

	//! What a union may need, while its query is planned; never waits
	static void RequestKernels(ClientContext &context);

	//! In mode gpu it waits for the device
	bool Takes(size_t vertices) override;
	//! False where the device failed or has no room: then the CPU does the rest; in mode gpu a failure is an IOException
	bool Unite(const vibespatial::OverlayNet &net, vibespatial::Parallel &parallel,
	           vibespatial::UnitedNet &united) override;

private:
	void Fail(const std::exception &error, bool for_memory);

	ClientContext &context;
	//! Once somebody asked
	unique_ptr<OperatorDispatch> dispatch;
	vibespatial::Decision decision;
	vibespatial::DispatchEvent event;
	std::chrono::steady_clock::time_point begin;
	bool on_device = false;
	//! Parts that went there, and those that came back as they were
	idx_t parts = 0;
	idx_t left = 0;
};

} // namespace duckdb
