//===----------------------------------------------------------------------===//
// main.cpp
//
// One program for all targets: FUZZ_TARGET names the one to run. scripts/fuzz.py runs it.
//
//   FUZZ_TARGET=overlay vibespatial_fuzz -seed=1 -max_total_time=60 FOLDER
//===----------------------------------------------------------------------===//
#include "targets.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace vibespatial::fuzz;

namespace {

struct Target {
	const char *name;
	void (*run)(const uint8_t *data, size_t size);
};

constexpr Target TARGETS[] = {{"wkb", FuzzWkb},         {"geojson", FuzzGeoJson}, {"relate", FuzzRelate},
                              {"overlay", FuzzOverlay}, {"buffer", FuzzBuffer},   {"validity", FuzzValidity}};

const Target *chosen = nullptr;

} // namespace

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
	const char *name = std::getenv("FUZZ_TARGET");
	for (const auto &target : TARGETS) {
		if (name && std::strcmp(name, target.name) == 0) {
			chosen = &target;
		}
	}
	if (!chosen) {
		std::fprintf(stderr, "FUZZ_TARGET is one of wkb, geojson, relate, overlay, buffer and validity\n");
		std::exit(2);
	}
	return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	chosen->run(data, size);
	return 0;
}
