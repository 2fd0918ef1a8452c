#include "engine/dispatch/thresholds.hpp"

#include "engine/dispatch/events.hpp"
#include "engine/gpu/runtime/runtime.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>

namespace vibespatial {

namespace {

//! What one measurement may differ from the next, on one machine or on another of its kind: no reason to move a threshold
constexpr double NOISE = 1.5;
//! The part of what a device costs in any case that is launches and waits for their end. Estimate.
constexpr double LAUNCH_PART = 0.25;
//! The part of the CPU's time that kernels take on the reference machine, where the work is not known. Estimate.
constexpr double KERNEL_SHARE = 0.2;
//! A threshold moves so far at most; beyond that the CPU is faster at any number of rows
constexpr double MOST_LOWER = 16;
constexpr double MOST_HIGHER = 1000;

//! How many times as much as the reference
double Times(double figure, double reference) {
	const double times = figure / reference;
	return times * NOISE >= 1 && times <= NOISE ? 1 : times;
}

//! Two digits, for it is no more exact than that
uint64_t Round(double rows) {
	const double unit = std::pow(10, std::max(0.0, std::floor(std::log10(rows)) - 1));
	return static_cast<uint64_t>(std::max(1.0, std::round(rows / unit) * unit));
}

void LogUnusable(const std::string &problem) {
	DispatchEvent event;
	event.operator_name = "CALIBRATION";
	event.operation = "calibration";
	event.requested = "auto";
	event.selected = "gpu";
	event.actual = "none";
	event.reason = "the thresholds are those of the reference machine: " + problem;
	DispatchLog::Get().Add(event);
}

} // namespace

const GpuFigures &Thresholds::Reference() {
	// An H200 next to 16 cores of an Intel Xeon, as in docs/measurements/gpu.md
	static const auto &reference = *[] {
		auto *figures = new GpuFigures();
		figures->launch_us = 8.5;
		figures->to_device_gbs = 40;
		figures->from_device_gbs = 45;
		figures->edges_per_us = 150000;
		figures->cores = 16;
		figures->source = "reference";
		return figures;
	}();
	return reference;
}

Thresholds::Thresholds() {
	for (auto &operation : Operations()) {
		rows.push_back(operation.gpu_from_rows);
	}
}

Thresholds::Thresholds(const GpuFigures &figures) : Thresholds() {
	if (!figures.Problem().empty()) {
		return;
	}
	calibrated = true;
	const auto &reference = Reference();
	const double cores = Times(figures.cores, reference.cores);
	// A better device than the reference moves nothing: what its rows cost in any case is work of the CPU
	const double bus = std::min(1.0, std::min(Times(figures.to_device_gbs, reference.to_device_gbs),
	                                          Times(figures.from_device_gbs, reference.from_device_gbs)));
	const double kernels = std::min(1.0, Times(figures.edges_per_us, reference.edges_per_us));
	const double fixed = 1 + LAUNCH_PART * std::max(0.0, Times(figures.launch_us, reference.launch_us) - 1);
	for (size_t i = 0; i < rows.size(); i++) {
		const auto &info = Operations()[i];
		if (rows[i] == OperationInfo::NO_GPU || rows[i] == OperationInfo::NEVER ||
		    (info.copy_share == 0 && info.kernel_share == 0)) {
			continue;
		}
		const double gained_there = 1 - std::max(info.copy_share, info.kernel_share);
		const double gained = 1 / cores - std::max(info.copy_share / bus, info.kernel_share / kernels);
		const double times = gained > 0 ? fixed * gained_there / gained : MOST_HIGHER;
		if (times >= MOST_HIGHER) {
			rows[i] = OperationInfo::NEVER;
		} else if (times != 1) {
			rows[i] = Round(static_cast<double>(rows[i]) * std::max(times, 1 / MOST_LOWER));
		}
	}
	constexpr double BYTES_PER_GB_AND_MS = 1e6;
	fixed_ms *= fixed;
	ms_per_byte += (1 / bus - 1) / (reference.to_device_gbs * BYTES_PER_GB_AND_MS);
	slower_kernels = KERNEL_SHARE * cores * (1 / kernels - 1);
}

const Thresholds &Thresholds::Current() {
	static const auto &reference = *new Thresholds();
	static std::atomic<const Thresholds *> of_device {nullptr};
	if (const auto *known = of_device.load(std::memory_order_acquire)) {
		return *known;
	}
	auto *engine = GpuRuntime::Get().IfOpen();
	const auto *figures = engine ? engine->Figures() : nullptr;
	if (!figures) {
		return reference;
	}
	static std::mutex lock;
	std::lock_guard<std::mutex> guard(lock);
	if (!of_device) {
		const auto problem = figures->Problem();
		if (!problem.empty()) {
			LogUnusable(problem);
		}
		of_device = problem.empty() ? new Thresholds(*figures) : &reference;
	}
	return *of_device;
}

} // namespace vibespatial
