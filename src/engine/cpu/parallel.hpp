//===----------------------------------------------------------------------===//
// engine/cpu/parallel.hpp
//
// How the engine asks for more than one thread without knowing whose threads they are.
//===----------------------------------------------------------------------===//
#pragma once

#include <cstddef>
#include <functional>

namespace vibespatial {

//! Runs independent steps on the threads that there are; the host decides which
class Parallel {
public:
	virtual ~Parallel() = default;

	//! How many steps may run at the same time
	virtual size_t Threads() const = 0;
	//! Runs step(0) .. step(count - 1), in any order, and returns when none is running any more. Throws what a step
	//! throws; no step starts after that, nor after the query was cancelled (which throws too). Not called from a step.
	virtual void For(size_t count, const std::function<void(size_t)> &step) = 0;
};

//! The calling thread alone
class Serial : public Parallel {
public:
	size_t Threads() const override {
		return 1;
	}
	void For(size_t count, const std::function<void(size_t)> &step) override {
		for (size_t i = 0; i < count; i++) {
			step(i);
		}
	}
};

} // namespace vibespatial
