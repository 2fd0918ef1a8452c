//===----------------------------------------------------------------------===//
// engine/scalar/column.hpp
//
// A function of one geometry or two over the rows of a batch, on the GPU.
// Promise: every row has the result of the device, or is among the rows that Finish() leaves to the CPU, whatever fails.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/interface/scalar.hpp"
#include "engine/input/row.hpp"
#include "engine/shape/shape.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace vibespatial {

//! What a column asks of the program around it. Any thread may call any of it.
class ScalarHost {
public:
	virtual ~ScalarHost() = default;

	//! Throws if the query was cancelled
	virtual void Poll() = 0;
	//! Whether rows go to the device
	virtual bool IsActive() const = 0;
	//! Waits until these kernels are ready. Throws GpuError.
	virtual void WaitForKernels(const std::vector<std::string> &names) = 0;
	//! Throws GpuError
	virtual std::unique_ptr<GpuScalarBatch> NewDeviceBatch(const ScalarTask &task) = 0;
	//! The device failed: the CPU computes the rest. Throws if it must not.
	virtual void DeviceFailed(const GpuError &error) = 0;
	//! The device computed `rows`, which it began then, and of which it left `open` to the CPU
	virtual void DeviceFinished(size_t rows, size_t open, std::chrono::system_clock::time_point begin,
	                            const GpuTimes &times) = 0;
	//! The CPU computes so many rows for lack of device memory
	virtual void LackedMemory(size_t rows) = 0;
};

//! The rows of one thread's batch: their arguments, then their results
class ScalarColumn {
public:
	//! A side that is constant has one geometry for all rows
	ScalarColumn(ScalarHost &host, const ScalarTask &task, bool left_is_constant, bool right_is_constant);

	//! Without rows, for the next batch
	void Clear();
	//! The constant of a task of pairs, before the first row. Rows of a constant that the device cannot read are for the CPU.
	void SetConstant(bool left, const JoinRow &wkb);
	//! A row. Geometries without data, and a limit that is not there, make it NULL; a constant side is not looked at. Rows that the
	//! device cannot read are for the CPU, which also reports what is wrong with them.
	void AddPair(const JoinRow &left, const JoinRow &right, const double *limit);
	//! SIMPLIFY: one without a tolerance is NULL
	void AddRow(const JoinRow &wkb, const double *tolerance = nullptr);

	size_t Count() const {
		return is_null.size();
	}
	bool ArePoints() const {
		return left.IsPoints() && right.IsPoints();
	}
	//! The size of the arguments. Every result of an overlay may be as large as a constant.
	size_t Bytes() const {
		const auto rows_of = [&](bool is_constant) { return is_constant && task.IsOverlay() ? Count() : 1; };
		return left.Bytes() * rows_of(left_is_constant) + right.Bytes() * rows_of(right_is_constant);
	}
	//! Memory of the host that arguments and results take, pinned memory included
	size_t HostBytes() const;

	//! Starts the device
	void Launch();
	//! Waits for the device, and has it compute fewer rows at a time where its memory is short. The rows that are left to the CPU, in
	//! ascending order.
	const std::vector<uint32_t> &Finish();

	// The results, in the one that fits the task (ScalarTask::GivesNumbers, GivesGeometries)
	bool IsNull(size_t row) const {
		return is_null[row];
	}
	const uint8_t *Answers() const {
		return answers.data();
	}
	const double *Numbers() const {
		return numbers.data();
	}
	JoinRow Geometry(size_t row) const {
		return JoinRow {wkb.data() + wkb_rows[row].begin, wkb_rows[row].size};
	}
	// Those of the CPU
	void SetNull(size_t row) {
		is_null[row] = true;
	}
	void SetAnswer(size_t row, bool answer) {
		answers[row] = answer;
	}
	void SetNumber(size_t row, double number) {
		numbers[row] = number;
	}
	void SetGeometry(size_t row, const uint8_t *data, size_t size);

	const ScalarTask task;

private:
	struct WkbPlace {
		size_t begin;
		uint32_t size;
	};

	//! Before the first row: memory that the device can read
	void Prepare();
	//! Waits for the kernels of these rows
	void Need();
	//! False for a geometry that is left to the CPU
	bool AddGeometry(ScalarSide &side, const JoinRow &row);
	ScalarInput Input(size_t first, size_t count) const;
	void Start(size_t first, size_t count);
	//! Computes rows in halves, quarters and so on until they fit into the memory of the device
	void RunHalves(size_t first, size_t count, size_t depth);
	//! Takes the results for the rows [first, first + count)
	void Use(const ScalarResult &result, size_t first, size_t count);
	void LeaveToCpu(size_t first, size_t count);

	ScalarHost &host;
	const bool left_is_constant;
	const bool right_is_constant;
	ScalarSide left;
	ScalarSide right;
	//! Both constants, where there are some, are geometries that the device can read
	bool constants_are_known = true;
	bool is_prepared = false;
	std::vector<double> limits;
	std::vector<bool> is_null;
	//! Rows whose arguments the device cannot read, in ascending order
	std::vector<uint32_t> unread;
	std::unique_ptr<GpuScalarBatch> device;
	bool launched = false;
	std::chrono::system_clock::time_point begun;
	//! The kernels that were waited for
	std::vector<std::string> kernels;

	std::vector<uint32_t> left_rows;
	std::vector<uint8_t> answers;
	std::vector<double> numbers;
	std::vector<uint8_t> wkb;
	std::vector<WkbPlace> wkb_rows;

	GeometryBatch scratch;
	Shape shape;
};

} // namespace vibespatial
