#include "engine/gpu/machine/bulk.hpp"

namespace vibespatial {

MachineBulk::MachineBulk(std::unique_ptr<Machine> machine_p, const BulkTask &task)
    : machine(std::move(machine_p)), task(task) {
}

uint64_t MachineBulk::HostBytes() const {
	return machine->PinnedBytes();
}

void MachineBulk::Start(const BulkInput &input) {
	machine->Use();
	result = BulkResult {};
	count = input.count;
	machine->Record(BEGUN);
}

const BulkResult &MachineBulk::Finish() {
	machine->Use();
	machine->Await(READ);
	machine->AddBytes(result.times);
	result.times.to_device_ms = machine->Between(BEGUN, COPIED);
	result.times.kernel_ms = machine->Between(COPIED, COMPUTED);
	result.times.from_device_ms = machine->Between(COMPUTED, READ);
	return result;
}

std::unique_ptr<GpuBulk> MakeBulk(std::unique_ptr<Machine> machine, const BulkTask &task) {
	return task.IsOfPairs() ? MakePairwise(std::move(machine), task) : MakeRowwise(std::move(machine), task);
}

} // namespace vibespatial
