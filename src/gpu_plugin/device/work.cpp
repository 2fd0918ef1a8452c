// The work of the engine: each kind is a chain of engine/gpu/machine on machines of the plug-in.
#include "engine/dispatch/operation.hpp"
#include "engine/gpu/machine/scalar.hpp"
#include "engine/gpu/machine/join.hpp"
#include "engine/gpu/machine/neighbours.hpp"
#include "engine/gpu/machine/overlay.hpp"
#include "engine/gpu/machine/tree.hpp"
#include "gpu_plugin/device/device.hpp"
#include "gpu_plugin/device/machine.hpp"

namespace vibespatial {

std::unique_ptr<Machine> CudaEngine::NewMachine() {
	UseDevice();
	return std::make_unique<CudaMachine>(*this);
}

PackedBoxes CudaEngine::PackBoxes(const vibe::Box *boxes, size_t count, Parallel &parallel, GpuTimes &times) {
	if (count == 0) {
		return PackedBoxes();
	}
	Need(KernelNeeds(KernelSet::BOX_INDEX), "box_index", times);
	return vibespatial::PackBoxes(*NewMachine(), boxes, count, parallel, times);
}

std::shared_ptr<GpuBuild> CudaEngine::FindBuild(const BuildKey &key) {
	return resident.Find(key);
}

std::shared_ptr<GpuBuild> CudaEngine::NewBuild() {
	return std::make_shared<MachineBuild>([this] { return NewMachine(); });
}

void CudaEngine::KeepBuild(const BuildKey &key, const std::shared_ptr<GpuBuild> &build) {
	resident.Keep(key, build);
}

std::unique_ptr<GpuTile> CudaEngine::NewTile(const std::shared_ptr<GpuBuild> &build, const JoinCondition &condition) {
	return MakeTile(NewMachine(), std::static_pointer_cast<MachineBuild>(build), condition);
}

std::shared_ptr<GpuPinned> CudaEngine::NewPinned(const PinnedLayout &layout) {
	return pins.New([this] { return NewMachine(); }, layout);
}

std::unique_ptr<GpuSharedMemory> CudaEngine::NewSharedMemory() {
	return shares.New(NewMachine());
}

std::unique_ptr<GpuSearch> CudaEngine::NewSearch(const std::shared_ptr<GpuBuild> &build, uint32_t k, double most) {
	return MakeSearch(NewMachine(), std::static_pointer_cast<MachineBuild>(build), k, most);
}

std::unique_ptr<GpuScalarBatch> CudaEngine::NewScalarBatch(const ScalarTask &task) {
	return MakeScalarBatch(NewMachine(), task);
}

std::unique_ptr<GpuUnion> CudaEngine::BeginUnion(const OverlayNet &net, Parallel &parallel) {
	GpuTimes waited;
	Need(KernelNeeds(KernelSet::UNION_AGG), "union_agg", waited);
	auto on_device = std::make_unique<GpuOverlay>(NewMachine(), net, parallel);
	on_device->times.wait_ms += waited.wait_ms;
	return on_device;
}

} // namespace vibespatial
