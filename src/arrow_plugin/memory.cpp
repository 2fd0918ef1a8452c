#include "arrow_plugin/plugin.hpp"

#include <atomic>

namespace vibespatial {

namespace {

class LimitedPool final : public arrow::MemoryPool {
public:
	using arrow::MemoryPool::Allocate;
	using arrow::MemoryPool::Free;
	using arrow::MemoryPool::Reallocate;

	arrow::Status Allocate(int64_t size, int64_t alignment, uint8_t **out) override {
		ARROW_RETURN_NOT_OK(Check(size));
		ARROW_RETURN_NOT_OK(wrapped->Allocate(size, alignment, out));
		held += size;
		total += size;
		count++;
		return arrow::Status::OK();
	}
	arrow::Status Reallocate(int64_t old_size, int64_t new_size, int64_t alignment, uint8_t **pointer) override {
		ARROW_RETURN_NOT_OK(Check(new_size - old_size));
		ARROW_RETURN_NOT_OK(wrapped->Reallocate(old_size, new_size, alignment, pointer));
		held += new_size - old_size;
		total += std::max<int64_t>(new_size - old_size, 0);
		return arrow::Status::OK();
	}
	void Free(uint8_t *buffer, int64_t size, int64_t alignment) override {
		wrapped->Free(buffer, size, alignment);
		held -= size;
	}
	int64_t bytes_allocated() const override {
		return held;
	}
	int64_t max_memory() const override {
		return wrapped->max_memory();
	}
	int64_t total_bytes_allocated() const override {
		return total;
	}
	int64_t num_allocations() const override {
		return count;
	}
	std::string backend_name() const override {
		return wrapped->backend_name();
	}

	std::atomic<int64_t> limit {INT64_MAX};

private:
	arrow::Status Check(int64_t more) const {
		if (more > limit - held) {
			return arrow::Status::OutOfMemory("reading it takes ", more,
			                                  " bytes of memory at once, more than is left of the ", limit.load(),
			                                  " bytes of memory_limit");
		}
		return arrow::Status::OK();
	}

	arrow::MemoryPool *wrapped = arrow::default_memory_pool();
	std::atomic<int64_t> held {0};
	std::atomic<int64_t> total {0};
	std::atomic<int64_t> count {0};
};

//! Never destroyed: arrays outlive the query that read them
LimitedPool &Pool() {
	static auto *pool = new LimitedPool();
	return *pool;
}

} // namespace

arrow::MemoryPool *ReadMemory() {
	return &Pool();
}

void SetReadLimit(int64_t bytes) {
	Pool().limit = bytes > 0 ? bytes : INT64_MAX;
}

} // namespace vibespatial
