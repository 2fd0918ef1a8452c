#include "engine/dispatch/kernel_registry.hpp"

namespace vibespatial {

const KernelUnit *FindUnit(const std::string &name) {
	for (auto &unit : KernelUnits()) {
		if (name == unit.name) {
			return &unit;
		}
	}
	return nullptr;
}

const KernelSpec *FindSpec(const std::string &name) {
	for (auto &spec : KernelSpecs()) {
		if (name == spec.name) {
			return &spec;
		}
	}
	return nullptr;
}

} // namespace vibespatial
