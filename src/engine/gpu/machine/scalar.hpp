//===----------------------------------------------------------------------===//
// engine/gpu/machine/scalar.hpp
//
// Functions of one geometry or two, row by row. Each batch is a chain of kernels that the host waits for once.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/interface/scalar.hpp"
#include "engine/gpu/machine/machine.hpp"

namespace vibespatial {

//! What functions of one geometry and of two have in common
class MachineScalarBatch : public GpuScalarBatch {
public:
	MachineScalarBatch(std::unique_ptr<Machine> machine, const ScalarTask &task);

	uint64_t HostBytes() const override;
	const ScalarResult &Finish() override;

protected:
	//! Events of the machine
	enum Event : size_t { BEGUN, COPIED, COMPUTED, READ };

	void Start(const ScalarInput &input);
	template <class T>
	void Put(T *to, const T *from, size_t items) {
		machine->Put(to, from, items * sizeof(T));
	}
	//! Starts a copy into pinned memory of that number
	template <class T>
	const T *Read(size_t pinned, const T *from, size_t items) {
		auto *to = machine->Pinned(pinned, std::max<size_t>(items * sizeof(T), 1));
		machine->GetPinned(to, from, items * sizeof(T));
		return static_cast<const T *>(to);
	}

	const std::unique_ptr<Machine> machine;
	const ScalarTask task;
	ScalarResult result;
	size_t count = 0;
};

std::unique_ptr<GpuScalarBatch> MakeScalarBatch(std::unique_ptr<Machine> machine, const ScalarTask &task);
//! Functions of two geometries, and of one
std::unique_ptr<GpuScalarBatch> MakePairwise(std::unique_ptr<Machine> machine, const ScalarTask &task);
std::unique_ptr<GpuScalarBatch> MakeRowwise(std::unique_ptr<Machine> machine, const ScalarTask &task);

} // namespace vibespatial
