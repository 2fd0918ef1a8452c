#include "engine/gpu/interface/figures.hpp"

#include <cmath>
#include <cstdio>
#include <sstream>

namespace vibespatial {

static constexpr const char *FIRST_LINE = "figures 1";

std::string GpuFigures::Problem() const {
	if (!error.empty()) {
		return error;
	}
	// Wider than any machine, so that only nonsense is refused
	struct Range {
		const char *name;
		double value, least, most;
	};
	for (auto &range : {Range {"launch_us", launch_us, 0.1, 1e6}, Range {"to_device_gbs", to_device_gbs, 0.01, 1e5},
	                    Range {"from_device_gbs", from_device_gbs, 0.01, 1e5},
	                    Range {"edges_per_us", edges_per_us, 0.1, 1e9}, Range {"cores", double(cores), 1, 1e5}}) {
		if (!(range.value >= range.least && range.value <= range.most)) {
			char text[96];
			std::snprintf(text, sizeof(text), "%s was measured as %g", range.name, range.value);
			return text;
		}
	}
	return "";
}

std::string GpuFigures::Describe() const {
	char text[192];
	std::snprintf(text, sizeof(text),
	              "launch and wait %.1f us, %.1f GB/s to the device, %.1f GB/s back, %.0f edge tests/us, %u cores",
	              launch_us, to_device_gbs, from_device_gbs, edges_per_us, cores);
	return text;
}

std::string GpuFigures::ToText() const {
	char text[256];
	std::snprintf(text, sizeof(text), "%s\n%.17g %.17g %.17g %.17g %u\n", FIRST_LINE, launch_us, to_device_gbs,
	              from_device_gbs, edges_per_us, cores);
	return text;
}

bool GpuFigures::FromText(const std::string &text, GpuFigures &figures) {
	std::istringstream stream(text);
	stream.imbue(std::locale::classic());
	std::string first;
	GpuFigures read;
	if (!std::getline(stream, first) || first != FIRST_LINE ||
	    !(stream >> read.launch_us >> read.to_device_gbs >> read.from_device_gbs >> read.edges_per_us >> read.cores)) {
		return false;
	}
	figures = read;
	return true;
}

} // namespace vibespatial
