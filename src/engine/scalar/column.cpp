#include "engine/scalar/column.hpp"

#include "engine/dispatch/needs.hpp"
#include "engine/relate/prepared.hpp"
#include "geometry/error.hpp"
#include "geometry/wkb.hpp"

#include <algorithm>
#include <limits>

namespace vibespatial {

//! How often a batch is halved that is too large for the memory of the device
static constexpr size_t MAX_HALVES = 4;

ScalarColumn::ScalarColumn(ScalarHost &host, const ScalarTask &task, bool left_is_constant, bool right_is_constant)
    : task(task), host(host), left_is_constant(left_is_constant), right_is_constant(right_is_constant) {
}

void ScalarColumn::Clear() {
	left.Clear();
	right.Clear();
	constants_are_known = true;
	is_prepared = false;
	limits.clear();
	is_null.clear();
	unread.clear();
	launched = false;
	left_rows.clear();
	wkb.clear();
	wkb_rows.clear();
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//
void ScalarColumn::Prepare() {
	if (is_prepared) {
		return;
	}
	is_prepared = true;
	if (!device && host.IsActive()) {
		try {
			device = host.NewDeviceBatch(task);
		} catch (const GpuError &error) {
			host.DeviceFailed(error);
		}
	}
	auto memory_of = [&](bool is_left) -> ShapeRows::Memory {
		if (!device) {
			return nullptr;
		}
		return [this, is_left](size_t block) -> uint8_t * {
			try {
				return device->Block(is_left, block);
			} catch (const GpuError &error) {
				host.DeviceFailed(error);
				return nullptr;
			}
		};
	};
	left.Clear(memory_of(true));
	right.Clear(memory_of(false));
	if (!task.IsOfPairs() || task.IsOverlay()) {
		left.BeginShapes();
		right.BeginShapes();
	}
}

void ScalarColumn::SetConstant(bool is_left, const JoinRow &row) {
	Prepare();
	constants_are_known = AddGeometry(is_left ? left : right, row) && constants_are_known;
}

void ScalarColumn::AddPair(const JoinRow &left_row, const JoinRow &right_row, const double *limit) {
	Prepare();
	const bool has_limit = task.kind == ScalarTask::WITHIN;
	const bool null =
	    (!left_is_constant && !left_row.data) || (!right_is_constant && !right_row.data) || (has_limit && !limit);
	bool known = constants_are_known;
	auto add = [&](ScalarSide &side, const JoinRow &row) {
		if (null) {
			side.AddNothing();
		} else {
			known = AddGeometry(side, row) && known;
		}
	};
	if (!left_is_constant) {
		add(left, left_row);
	}
	if (!right_is_constant) {
		add(right, right_row);
	}
	if (has_limit) {
		limits.push_back(null ? 0 : *limit);
	}
	if (!known && !null) {
		unread.push_back(static_cast<uint32_t>(Count()));
	}
	is_null.push_back(null);
}

void ScalarColumn::AddRow(const JoinRow &row, const double *tolerance) {
	Prepare();
	const bool has_tolerance = task.kind == ScalarTask::SIMPLIFY;
	const bool null = !row.data || (has_tolerance && !tolerance);
	const bool known =
	    !null && task.IsForDevice(row.data, row.size) && (!has_tolerance || *tolerance >= 0); // the CPU refuses others
	if (known) {
		left.AddWkb(row.data, row.size);
	} else {
		left.AddNothing();
	}
	if (has_tolerance) {
		limits.push_back(known ? *tolerance : 0);
	}
	if (!null && !known) {
		unread.push_back(static_cast<uint32_t>(Count()));
	}
	is_null.push_back(null);
}

bool ScalarColumn::AddGeometry(ScalarSide &side, const JoinRow &row) {
	if (task.IsOverlay()) {
		const bool known = task.IsForDevice(row.data, row.size);
		if (known) {
			side.AddWkb(row.data, row.size);
		} else {
			side.AddNothing();
		}
		return known;
	}
	vibe::Vec2 point;
	if (TryReadPoint(row.data, row.size, point)) {
		side.AddPoint(point);
		return true;
	}
	try {
		// Not POINT EMPTY: the others stay points
		if (ReadWkbHeader(row.data, row.size).type != GeometryType::POINT) {
			if (ShapeRows::IsForDevice(row.data, row.size)) {
				side.AddWkb(row.data, row.size);
				return true;
			}
			BuildShape(row.data, row.size, scratch, shape);
			side.AddShape(shape.View());
			return true;
		}
	} catch (const GeometryError &) { // NOLINT: the CPU reports it
	}
	side.AddNothing();
	return false;
}

size_t ScalarColumn::HostBytes() const {
	return left.OwnBytes() + right.OwnBytes() + limits.capacity() * sizeof(double) + is_null.capacity() / 8 +
	       answers.capacity() + numbers.capacity() * sizeof(double) + wkb.capacity() +
	       wkb_rows.capacity() * sizeof(WkbPlace) + (unread.capacity() + left_rows.capacity()) * sizeof(uint32_t) +
	       (device ? device->HostBytes() : 0);
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//
ScalarInput ScalarColumn::Input(size_t first, size_t count) const {
	ScalarInput input;
	input.first = first;
	input.count = count;
	input.left = &left;
	if (task.IsOfPairs()) {
		input.right = &right;
		input.left_is_constant = left_is_constant;
		input.right_is_constant = right_is_constant;
	}
	input.limits = limits.empty() ? nullptr : limits.data();
	return input;
}

void ScalarColumn::Start(size_t first, size_t count) {
	begun = std::chrono::system_clock::now();
	device->Begin(Input(first, count));
}

void ScalarColumn::Need() {
	const auto kinds_of = [](const ScalarSide &side) {
		return side.IsPoints() ? SideKinds::Points()
		                       : SideKinds::Shapes(side.Shapes().HasPoints(), side.Shapes().HasLarge());
	};
	KernelNames cold;
	for (auto &name : ScalarNeeds(task, kinds_of(left), kinds_of(right))) {
		if (std::find(kernels.begin(), kernels.end(), name) == kernels.end()) {
			cold.push_back(name);
		}
	}
	if (!cold.empty()) {
		host.WaitForKernels(cold);
		kernels.insert(kernels.end(), cold.begin(), cold.end());
	}
}

void ScalarColumn::Launch() {
	if (Count() == 0 || !host.IsActive() || !device) {
		return;
	}
	try {
		Need();
		Start(0, Count());
		launched = true;
	} catch (const GpuMemoryError &) { // NOLINT: Finish() tries again with fewer rows
	} catch (const GpuError &error) {
		host.DeviceFailed(error);
	}
}

const std::vector<uint32_t> &ScalarColumn::Finish() {
	left_rows.clear();
	answers.assign(task.GivesNumbers() || task.GivesGeometries() ? 0 : Count(), 0);
	numbers.assign(task.GivesNumbers() ? Count() : 0, 0);
	wkb.clear();
	wkb_rows.assign(task.GivesGeometries() ? Count() : 0, WkbPlace {0, 0});
	if (!launched) {
		RunHalves(0, Count(), 0);
		return left_rows;
	}
	launched = false;
	try {
		Use(device->Finish(), 0, Count());
	} catch (const GpuMemoryError &) {
		RunHalves(0, Count(), 0);
	} catch (const GpuError &error) {
		host.DeviceFailed(error);
		LeaveToCpu(0, Count());
	}
	return left_rows;
}

void ScalarColumn::RunHalves(size_t first, size_t count, size_t depth) {
	const bool is_active = host.IsActive() && device;
	if (depth >= MAX_HALVES || count < 2 || !is_active) {
		LeaveToCpu(first, count);
		if (is_active) {
			host.LackedMemory(count);
		}
		return;
	}
	for (const size_t half : {size_t(0), count / 2}) {
		const size_t begin = first + half, some = half == 0 ? count / 2 : count - count / 2;
		if (!host.IsActive()) {
			LeaveToCpu(begin, some);
			continue;
		}
		try {
			host.Poll();
			Start(begin, some);
			Use(device->Finish(), begin, some);
		} catch (const GpuMemoryError &) {
			RunHalves(begin, some, depth + 1);
		} catch (const GpuError &error) {
			host.DeviceFailed(error);
			LeaveToCpu(begin, some);
		}
	}
}

void ScalarColumn::LeaveToCpu(size_t first, size_t count) {
	for (size_t row = first; row < first + count; row++) {
		if (!is_null[row]) {
			left_rows.push_back(static_cast<uint32_t>(row));
		}
	}
}

void ScalarColumn::Use(const ScalarResult &result, size_t first, size_t count) {
	const bool is_distance = task.kind == ScalarTask::DISTANCE;
	const size_t left_before = left_rows.size();
	auto next_unread = std::lower_bound(unread.begin(), unread.end(), first);
	for (size_t i = 0; i < count; i++) {
		const size_t row = first + i;
		const bool was_unread = next_unread != unread.end() && *next_unread == row;
		next_unread += was_unread;
		if (is_null[row]) {
			continue;
		}
		// The bits of a NaN are those of the CPU, but the distance of an EMPTY one is 0
		const bool is_nan = !numbers.empty() && result.numbers[i] != result.numbers[i];
		if (was_unread || result.results[i] == vibe::PAIR_OPEN || (is_nan && !is_distance)) {
			left_rows.push_back(static_cast<uint32_t>(row));
		} else if (!answers.empty()) {
			answers[row] = result.results[i] == vibe::PAIR_TRUE;
		} else if (!wkb_rows.empty()) {
			SetGeometry(row, result.wkb + result.wkb_begin[i],
			            static_cast<size_t>(result.wkb_begin[i + 1] - result.wkb_begin[i]));
		} else if (!is_nan) {
			numbers[row] = result.numbers[i];
		}
	}
	host.DeviceFinished(count, left_rows.size() - left_before, begun, result.times);
}

void ScalarColumn::SetGeometry(size_t row, const uint8_t *data, size_t size) {
	wkb_rows[row] = WkbPlace {wkb.size(), static_cast<uint32_t>(size)};
	wkb.insert(wkb.end(), data, data + size);
}

} // namespace vibespatial
