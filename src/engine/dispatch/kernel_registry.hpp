//===----------------------------------------------------------------------===//
// engine/dispatch/kernel_registry.hpp
//
// What can run on a device, as data: the units (our own kernels, compiled by NVRTC) and the specs (algorithms of CCCL) of
// kernels/units.json, with the kernels' text. scripts/embed_kernels.py writes the tables when the project is built.
//===----------------------------------------------------------------------===//
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace vibespatial {

struct KernelUnit {
	const char *name;
	const char *source;
	std::vector<const char *> entry_points;
	std::vector<const char *> needed_by;
};

struct KernelSpec {
	const char *name;
	//! As c.parallel calls it: scan, three_way_partition, ..
	const char *algorithm;
	//! i32, i64, u64 or f64: keys or items, then values where there are any
	std::vector<const char *> types;
	const char *op;
	std::vector<const char *> needed_by;
	//! No operator runs it: nobody waits for it who does not ask for it by name
	bool on_demand;
};

//! A header of the geometry core, by the name it is included with
struct KernelHeader {
	const char *name;
	const char *text;
};

const std::vector<KernelUnit> &KernelUnits();
const std::vector<KernelSpec> &KernelSpecs();
const std::vector<KernelHeader> &KernelHeaders();

const KernelUnit *FindUnit(const std::string &name);
const KernelSpec *FindSpec(const std::string &name);
} // namespace vibespatial
