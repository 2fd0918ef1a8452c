//===----------------------------------------------------------------------===//
// duckdb/operators/task_parallel.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/main/client_context.hpp"
#include "duckdb/parallel/task_executor.hpp"
#include "duckdb/parallel/task_scheduler.hpp"
#include "engine/cpu/shared_work.hpp"

namespace duckdb {

//! Throws when the query was cancelled
inline std::function<void()> CancelPoll(ClientContext &context) {
	return [&context]() {
		if (context.IsInterrupted()) {
			throw InterruptException();
		}
	};
}

inline idx_t ThreadCount(ClientContext &context) {
	return NumericCast<idx_t>(TaskScheduler::GetScheduler(context).NumberOfThreads());
}

//! Runs work of the engine on DuckDB's threads: the calling one, and those that are free
inline void RunOnTasks(ClientContext &context, const std::function<void(vibespatial::Parallel &)> &work) {
	struct Helper : public BaseExecutorTask {
		Helper(TaskExecutor &executor, vibespatial::SharedWork &shared,
		       const std::function<void(vibespatial::Parallel &)> &work)
		    : BaseExecutorTask(executor), shared(shared), work(work) {
		}
		void ExecuteTask() override {
			shared.Run(work);
		}
		vibespatial::SharedWork &shared;
		const std::function<void(vibespatial::Parallel &)> &work;
	};
	auto threads = ThreadCount(context);
	vibespatial::SharedWork shared(threads, CancelPoll(context));
	TaskExecutor executor(context);
	for (idx_t i = 0; i < threads; i++) {
		executor.ScheduleTask(make_uniq<Helper>(executor, shared, work));
	}
	executor.WorkOnTasks();
}

} // namespace duckdb
