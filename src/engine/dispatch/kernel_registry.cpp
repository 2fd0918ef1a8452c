#include "engine/dispatch/kernel_registry.hpp"

#include <cstring>

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

std::vector<std::string> KernelNeeds(const std::string &operator_name) {
	std::vector<std::string> names;
	auto add = [&](const char *name, const std::vector<const char *> &needed_by) {
		for (auto *user : needed_by) {
			if (operator_name == user) {
				names.emplace_back(name);
				return;
			}
		}
	};
	for (auto &unit : KernelUnits()) {
		add(unit.name, unit.needed_by);
	}
	for (auto &spec : KernelSpecs()) {
		add(spec.name, spec.needed_by);
	}
	return names;
}

} // namespace vibespatial
