//===----------------------------------------------------------------------===//
// duckdb/support/task_parallel.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/execution/executor.hpp"
#include "duckdb/main/client_context.hpp"
#include "duckdb/parallel/task_scheduler.hpp"
#include "duckdb/support/query_scope.hpp"
#include "engine/common/shared_work.hpp"

#include <chrono>

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

//! DuckDB's threads for the work of one operator: the calling one, and those that are free
class TaskThreads {
public:
	explicit TaskThreads(ClientContext &context)
	    : context(context), threads(ThreadCount(context)), waiting(make_shared_ptr<atomic<idx_t>>(idx_t(0))) {
	}

	idx_t Count() const {
		return threads;
	}
	//! Returns when the work is done; waits for no thread that has not begun to help
	void Run(const std::function<void(vibespatial::Parallel &)> &work) {
		auto shared = std::make_shared<vibespatial::SharedWork>(threads, CancelPoll(context));
		if (HasExecutor()) {
			Invite(shared);
		}
		if (vibespatial::WorkScope::Current()) {
			shared->Run(work);
		} else {
			const QueryScope scope(context);
			shared->Run(work);
		}
	}
	//! Calls for helpers with a work that others run; waits for nothing. Without memory for a helper there are fewer: to throw would
	//! leave those that were called with a work that nobody runs, whose end they would await beyond that of the query.
	void Invite(const std::shared_ptr<vibespatial::SharedWork> &work) {
		// Tasks of the query itself: the client's thread looks for no others, and would turn in circles meanwhile
		auto &producer = Executor::Get(context).GetToken();
		auto &scheduler = TaskScheduler::GetScheduler(context);
		// No more than there are threads, however often work is shared while all of them are busy
		while (*waiting + 1 < threads) {
			const bool called = TryCall(scheduler, producer, *waiting, [&]() -> shared_ptr<Task> {
				return make_shared_ptr<Helper>(scheduler, producer, work, waiting);
			});
			if (!called) {
				return;
			}
		}
	}

private:
	//! Schedules the task that is made; false where there is no memory for that
	template <class MAKE>
	static bool TryCall(TaskScheduler &scheduler, ProducerToken &producer, atomic<idx_t> &waiting, const MAKE &make) {
		++waiting;
		try {
			scheduler.ScheduleTask(producer, make());
			return true;
		} catch (const std::exception &) {
			--waiting;
			return false;
		}
	}

	//! May be run when the work is done and the query is gone
	class Helper : public Task {
	public:
		Helper(TaskScheduler &scheduler, ProducerToken &producer, std::shared_ptr<vibespatial::SharedWork> work,
		       shared_ptr<atomic<idx_t>> waiting)
		    : scheduler(scheduler), producer(producer), work(std::move(work)), waiting(std::move(waiting)) {
		}
		TaskExecutionResult Execute(TaskExecutionMode) override {
			--*waiting;
			// A thread that is needed elsewhere, or has a signal to answer, does not stay for long. DuckDB's threads catch nothing.
			constexpr std::chrono::milliseconds PATIENCE {50};
			work->Help(PATIENCE, [&] {
				TryCall(scheduler, producer, *waiting, [&]() -> shared_ptr<Task> { return shared_from_this(); });
			});
			return TaskExecutionResult::TASK_FINISHED;
		}

	private:
		TaskScheduler &scheduler;
		ProducerToken &producer;
		std::shared_ptr<vibespatial::SharedWork> work;
		shared_ptr<atomic<idx_t>> waiting;
	};

	//! Functions of constants are computed while a query is planned, before it has an executor
	bool HasExecutor() const {
		try {
			Executor::Get(context);
			return true;
		} catch (const InternalException &) {
			return false;
		}
	}

	ClientContext &context;
	const idx_t threads;
	//! Helpers that no thread has taken yet
	shared_ptr<atomic<idx_t>> waiting;
};

} // namespace duckdb
