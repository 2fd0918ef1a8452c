#include "engine/gpu/machine/scalar.hpp"

namespace vibespatial {

MachineScalarBatch::MachineScalarBatch(std::unique_ptr<Machine> machine_p, const ScalarTask &task)
    : machine(std::move(machine_p)), task(task) {
}

uint64_t MachineScalarBatch::HostBytes() const {
	return machine->PinnedBytes();
}

void MachineScalarBatch::Start(const ScalarInput &input) {
	machine->Use();
	result = ScalarResult {};
	count = input.count;
	machine->Record(BEGUN);
}

const ScalarResult &MachineScalarBatch::Finish() {
	machine->Use();
	machine->Await(READ);
	machine->AddBytes(result.times);
	result.times.to_device_ms = machine->Between(BEGUN, COPIED);
	result.times.kernel_ms = machine->Between(COPIED, COMPUTED);
	result.times.from_device_ms = machine->Between(COMPUTED, READ);
	return result;
}

std::unique_ptr<GpuScalarBatch> MakeScalarBatch(std::unique_ptr<Machine> machine, const ScalarTask &task) {
	return task.IsOfPairs() ? MakePairwise(std::move(machine), task) : MakeRowwise(std::move(machine), task);
}

} // namespace vibespatial
