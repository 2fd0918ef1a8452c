#include "engine/gpu/machine/calibrate.hpp"

#include "vibe/orient2d.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

namespace vibespatial {

namespace {

enum : size_t { PINNED_COPY };
enum : size_t { BEGUN, ENDED };

constexpr int REPEATS = 3;
constexpr int LAUNCHES = 16;
//! 0.1 ms over a fast bus, a few over a slow one
constexpr size_t COPY_BYTES = 4 << 20;
//! So many vertices that their order matters, and so few that they stay in the cache of every device. A power of two.
constexpr uint32_t RING_SIZE = 4096;
constexpr uint32_t STEPS = 256;

//! A ring, and a walk over its edges that visits all of them in no order
struct Ring {
	Ring() : vertices(RING_SIZE), next(RING_SIZE) {
		for (uint32_t i = 0; i < RING_SIZE; i++) {
			const double angle = 6.283185307179586 * i / RING_SIZE, radius = 1 + 0.01 * (i % 7);
			vertices[i] = vibe::Vec2 {radius * std::cos(angle), radius * std::sin(angle)};
			// A step of full period modulo a power of two
			next[i] = (1664525u * i + 1013904223u) % RING_SIZE;
		}
	}
	//! What thread i counts
	uint32_t Count(uint32_t i) const {
		uint32_t at = i % RING_SIZE, count = 0;
		const vibe::Vec2 point {vertices[at].x * 0.5, vertices[at].y * 0.25};
		for (uint32_t step = 0; step < STEPS; step++) {
			count += vibe::Orient2d(vertices[at], vertices[(at + 1) % RING_SIZE], point) > 0 ? 1 : 0;
			at = next[at];
		}
		return count;
	}
	std::vector<vibe::Vec2> vertices;
	std::vector<uint32_t> next;
};

//! The least milliseconds that the device takes for it
template <class WORK>
double BestTime(Machine &machine, WORK &&work) {
	double best = std::numeric_limits<double>::infinity();
	for (int i = 0; i < REPEATS; i++) {
		machine.Record(BEGUN);
		work();
		machine.Record(ENDED);
		machine.Await(ENDED);
		best = std::min(best, machine.Between(BEGUN, ENDED));
	}
	return best;
}

} // namespace

GpuFigures MeasureFigures(Machine &machine) {
	GpuFigures figures;
	figures.source = "measured";
	figures.cores = std::max(1u, std::thread::hardware_concurrency());
	const Ring ring;
	auto vertices = machine.New<vibe::Vec2>(RING_SIZE);
	auto next = machine.New<uint32_t>(RING_SIZE);
	machine.Put(vertices.at, ring.vertices.data(), RING_SIZE * sizeof(vibe::Vec2));
	machine.Put(next.at, ring.next.data(), RING_SIZE * sizeof(uint32_t));
	const uint64_t threads = machine.ThreadsAtOnce("calibration", "edge_sides");
	auto counts = machine.New<uint32_t>(threads);
	const auto launch = [&](uint64_t some, uint32_t steps) {
		machine.Launch("calibration", "edge_sides", some, static_cast<const vibe::Vec2 *>(vertices.at),
		               static_cast<const uint32_t *>(next.at), RING_SIZE, steps, counts.at);
	};
	// The first launch loads the kernel
	launch(threads, STEPS);
	machine.Synchronize();
	// In whole blocks, so all of them are there
	for (const uint64_t i : {uint64_t(0), threads / 3, threads - 1}) {
		if (machine.Value(counts.at + i) != ring.Count(static_cast<uint32_t>(i))) {
			throw GpuError("the device finds other sides of edges than the host: it is not to be trusted");
		}
	}
	const double kernel_ms = BestTime(machine, [&] { launch(threads, STEPS); });
	figures.edges_per_us = static_cast<double>(threads) * STEPS / (kernel_ms * 1e3);

	double least_us = std::numeric_limits<double>::infinity();
	for (int i = 0; i < LAUNCHES; i++) {
		const auto begin = std::chrono::steady_clock::now();
		launch(1, 1);
		least_us = std::min(least_us, machine.EndStep(begin) * 1e3);
	}
	figures.launch_us = least_us;

	auto on_device = machine.New<uint8_t>(COPY_BYTES);
	auto *pinned = machine.Pinned(PINNED_COPY, COPY_BYTES);
	std::memset(pinned, 1, COPY_BYTES);
	const auto rate = [&](double milliseconds) { return double(COPY_BYTES) / (milliseconds * 1e6); };
	figures.to_device_gbs = rate(BestTime(machine, [&] { machine.PutPinned(on_device.at, pinned, COPY_BYTES); }));
	figures.from_device_gbs = rate(BestTime(machine, [&] { machine.GetPinned(pinned, on_device.at, COPY_BYTES); }));
	return figures;
}

} // namespace vibespatial
