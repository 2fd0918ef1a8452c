//===----------------------------------------------------------------------===//
// duckdb/support/cpu_work.hpp
//
// What functions do on the CPU in mode gpu. vibe_dispatch_log() has one event for each function and query; with vibe_gpu_strict it is an
// error. Other modes pay for one load of a flag.
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/function/aggregate_function.hpp"
#include "duckdb/main/client_context.hpp"

#include <chrono>

namespace duckdb {

//! A function as the log has it, and why the CPU computes it
struct CpuFunction {
	//! `kind`: what stands in the column "operator"
	static CpuFunction Scalar(const string &name);
	static CpuFunction Aggregate(const string &name);

	const char *kind;
	string name;
	string reason;
	//! Large inputs go to the device, by an operation that logs them itself: what is left to the CPU is known when it is done
	bool may_use_device;
};

//! One call of a function, for rows of a chunk or for one group
class CpuWork {
public:
	//! Whether a call is logged: in mode gpu, and not inside of an operator that logs its calls itself
	static bool IsLogged(ClientContext &context);

	//! Starts the time; throws if the GPU has to compute the function
	CpuWork(ClientContext &context, const CpuFunction &function);
	//! The call is done: adds its rows to the event of the query, less those that went to the device. Throws if the GPU had to compute them.
	//! `rows_at_once`: of one call of the device.
	void Finish(idx_t rows, idx_t rows_at_once = 1);

	//! The thread's call has called the device, which logs that itself
	static void CountDeviceCall();

private:
	ClientContext &context;
	const CpuFunction &function;
	const std::chrono::steady_clock::time_point begin;
};

//! While it lives, the calls of the thread are those of the groups of one aggregate, and Finish() logs them at once. A query may have millions
//! of groups, and the log has one lock.
class CpuWorkOfGroups {
public:
	CpuWorkOfGroups();
	~CpuWorkOfGroups();
	CpuWorkOfGroups(const CpuWorkOfGroups &) = delete;
	CpuWorkOfGroups &operator=(const CpuWorkOfGroups &) = delete;

	void Finish();

private:
	friend class CpuWork;

	CpuWorkOfGroups *const around;
	//! Of the first call
	ClientContext *context = nullptr;
	bool is_logged = false;
	//! Of the first call that the CPU has done
	const CpuFunction *function = nullptr;
	idx_t rows = 0;
	double milliseconds = 0;
};

//! The callback that finalizes the groups of a vector. The type of the input differs between versions of DuckDB.
template <class STATE, class RESULT, class AGGREGATE, class INPUT>
void FinalizeGroups(Vector &states, INPUT &input, Vector &result, idx_t count, idx_t offset) {
	CpuWorkOfGroups work;
	AggregateFunction::StateFinalize<STATE, RESULT, AGGREGATE>(states, input, result, count, offset);
	work.Finish();
}

//! While it lives, the calls of the thread are logged by the operator around them
class CpuWorkOfOperator {
public:
	CpuWorkOfOperator();
	~CpuWorkOfOperator();
	CpuWorkOfOperator(const CpuWorkOfOperator &) = delete;
	CpuWorkOfOperator &operator=(const CpuWorkOfOperator &) = delete;
};

//! Throws if vibe_gpu_strict is on in mode gpu: the CPU would do the work of `what`
void RequireGpu(ClientContext &context, const string &what, const string &reason);

} // namespace duckdb
