#include "engine/gpu/machine/shared_memory.hpp"

#include <unistd.h>

namespace vibespatial {

namespace {

//! A piece of memory. The driver does not survive a fork: a child leaves what it has to its parent.
struct Share {
	Share(MachineShares &shares, std::shared_ptr<void> memory, size_t bytes)
	    : shares(shares), memory(std::move(memory)), bytes(bytes), process(getpid()) {
		shares.Add(bytes);
	}
	~Share() {
		if (getpid() != process) {
			static_cast<void>(new std::shared_ptr<void>(std::move(memory))); // NOLINT: never freed here
			return;
		}
		memory.reset();
		shares.Remove(bytes);
	}
	Share(const Share &) = delete;
	Share &operator=(const Share &) = delete;

	MachineShares &shares;
	std::shared_ptr<void> memory;
	const size_t bytes;
	const pid_t process;
};

class MachineSharedMemory : public GpuSharedMemory {
public:
	MachineSharedMemory(MachineShares &shares, std::unique_ptr<Machine> machine)
	    : shares(shares), machine(std::move(machine)) {
	}

	DeviceName Device() const override {
		return machine->Device();
	}
	std::shared_ptr<void> New(size_t bytes) override {
		auto memory = machine->AllocateShared(bytes);
		auto *at = memory.get();
		return std::shared_ptr<void>(std::make_shared<Share>(shares, std::move(memory), bytes), at);
	}
	void Put(void *to, const void *from, size_t bytes) override {
		machine->Put(to, from, bytes);
	}
	void Finish() override {
		machine->Synchronize();
	}

private:
	MachineShares &shares;
	const std::unique_ptr<Machine> machine;
};

} // namespace

std::unique_ptr<GpuSharedMemory> MachineShares::New(std::unique_ptr<Machine> machine) {
	return std::make_unique<MachineSharedMemory>(*this, std::move(machine));
}

void MachineShares::Add(uint64_t bytes) {
	const uint64_t now = used += bytes;
	count++;
	for (auto before = peak.load(); before < now && !peak.compare_exchange_weak(before, now);) {
	}
}

void MachineShares::Remove(uint64_t bytes) {
	used -= bytes;
	count--;
}

void MachineShares::Report(std::vector<GpuMemoryRow> &rows) const {
	rows.push_back(GpuMemoryRow {"device arrays", "results that others have: count is how many buffers", used.load(),
	                             peak.load(), count.load()});
}

} // namespace vibespatial
