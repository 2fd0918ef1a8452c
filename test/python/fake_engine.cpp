// A GPU plug-in without a GPU: it packs trees on the CPU, and fails as FAKE_GPU says. For tests of what is around the engine.
#include "engine/cpu/box_tree.hpp"
#include "engine/engine.hpp"
#include "vibe/box_node.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

using namespace vibespatial;

static bool Wants(const char *what) {
	auto fault = std::getenv("FAKE_GPU");
	return fault && std::string(fault) == what;
}

class FakeEngine : public GpuEngine {
public:
	explicit FakeEngine(const GpuOptions &options) : options(options) {
	}
	bool WaitForDevice(double timeout, std::string &error) override {
		if (Wants("slow device")) {
			std::this_thread::sleep_for(std::chrono::duration<double>(timeout));
			return false;
		}
		error = Device().error;
		return error.empty();
	}
	GpuDevice Device() override {
		GpuDevice device;
		device.present = !Wants("no device");
		device.name = "Fake";
		device.capability = 90;
		device.error = device.present ? "" : "the fake device is not there";
		return device;
	}
	std::vector<GpuComponent> Components() override {
		GpuComponent component;
		component.name = "options";
		component.found = true;
		component.detail = std::to_string(options.memory_limit) + " " + options.cache_dir + " " +
		                   std::to_string(options.kernel_timeout_seconds);
		return {component};
	}
	void Configure(const GpuOptions &changed) override {
		options = changed;
	}
	void Request(const std::vector<std::string> &names, const std::string &requested_by, bool) override {
		std::lock_guard<std::mutex> guard(lock);
		if (Wants("no device")) {
			return;
		}
		for (auto &name : names) {
			bool known = false;
			for (auto &status : all) {
				known |= status.name == name;
			}
			if (!known) {
				KernelStatus status;
				status.name = name;
				status.kind = "unit";
				status.requested_by = requested_by;
				status.state = Wants("cold") ? KernelState::COMPILING : KernelState::READY;
				status.begin_ms = 1;
				status.end_ms = 2;
				all.push_back(status);
			}
		}
	}
	std::vector<std::string> EnsureWarm(const std::vector<std::string> &names, double timeout) override {
		if (!Wants("cold")) {
			return {};
		}
		std::this_thread::sleep_for(std::chrono::duration<double>(timeout));
		return names;
	}
	std::vector<KernelStatus> Status() override {
		std::lock_guard<std::mutex> guard(lock);
		return all;
	}
	std::vector<GpuMemoryRow> Memory() override {
		return {GpuMemoryRow {"pool", "fake", 1, 2, 3}};
	}
	void Quiesce(double) override {
	}
	std::vector<GpuStep> Steps() override {
		return {};
	}
	void AddStep(const GpuStep &) override {
	}
	void WkbBounds(const uint8_t *, const uint64_t *, size_t, vibe::Box *, uint32_t *, GpuTimes &) override {
		throw GpuError("not here");
	}
	PackedBoxes PackBoxes(const vibe::Box *boxes, size_t count, Parallel &, GpuTimes &times) override {
		if (Wants("failure")) {
			throw GpuError("the fake device fell off");
		}
		Serial serial;
		BoxTree tree(boxes, count, serial);
		times.bytes_to_device = count * sizeof(vibe::Box);
		times.kernel_ms = 1;
		PackedBoxes packed;
		packed.ids = tree.Ids();
		if (Wants("nonsense")) {
			packed.ids.push_back(0);
			return packed;
		}
		packed.nodes.resize(tree.NodeCount());
		std::memcpy(packed.nodes.data(), tree.Nodes(), tree.NodeCount() * sizeof(vibe::PackedNode));
		return packed;
	}
	std::vector<std::string> SelfTest() override {
		return {};
	}

private:
	GpuOptions options;
	std::mutex lock;
	std::vector<KernelStatus> all;
};

extern "C" __attribute__((visibility("default"))) GpuEngine *
vibespatial_open_engine(const char *interface_version, const GpuOptions *options, const char **error) {
	if (Wants("slow")) {
		std::this_thread::sleep_for(std::chrono::seconds(2));
	}
	if (Wants("refusal") || std::string(interface_version) != VIBESPATIAL_ENGINE_INTERFACE) {
		*error = "the plug-in is for another interface";
		return nullptr;
	}
	return new FakeEngine(*options);
}
