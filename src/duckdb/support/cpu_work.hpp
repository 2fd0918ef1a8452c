//===----------------------------------------------------------------------===//
// duckdb/support/cpu_work.hpp
//
// What functions do on the CPU in mode gpu. vibe_dispatch_log() has one event for each function and query; with vibe_gpu_strict it is an
// error. Other modes pay for one load of a flag.
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
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
