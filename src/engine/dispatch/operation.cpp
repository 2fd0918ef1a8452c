#include "engine/dispatch/operation.hpp"

#include "engine/dispatch/kernel_registry.hpp"

#include <algorithm>

namespace vibespatial {

std::vector<std::string> KernelNeeds(KernelSet set) {
	const std::string wanted = KernelSetNames()[static_cast<size_t>(set)];
	std::vector<std::string> names;
	auto add = [&](const char *name, const std::vector<const char *> &needed_by) {
		if (std::find(needed_by.begin(), needed_by.end(), wanted) != needed_by.end()) {
			names.emplace_back(name);
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

KernelSet FindKernelSet(const std::string &name) {
	auto &names = KernelSetNames();
	auto found = std::find(names.begin(), names.end(), name);
	return found == names.end() ? KernelSet::NONE : static_cast<KernelSet>(found - names.begin());
}

} // namespace vibespatial
