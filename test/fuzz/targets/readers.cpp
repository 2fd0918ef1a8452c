//===----------------------------------------------------------------------===//
// readers.cpp
//
// WKB and GeoJSON as they come: what ../reader_checks.hpp asks for
//===----------------------------------------------------------------------===//
#include "targets.hpp"

#include "reader_checks.hpp"

namespace vibespatial {
namespace fuzz {

void FuzzWkb(const uint8_t *data, size_t size) {
	static WkbCheck check;
	Statistics statistics;
	check.Run(std::string(reinterpret_cast<const char *>(data), size), statistics);
}

void FuzzGeoJson(const uint8_t *data, size_t size) {
	static GeoJsonCheck check;
	Statistics statistics;
	check.Run(std::string(reinterpret_cast<const char *>(data), size), statistics);
}

} // namespace fuzz
} // namespace vibespatial
