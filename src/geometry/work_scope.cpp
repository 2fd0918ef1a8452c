#include "geometry/work_scope.hpp"

#include <sys/mman.h>

namespace vibespatial {

//===----------------------------------------------------------------------===//
// MemoryAccount
//===----------------------------------------------------------------------===//
void MemoryAccount::Grow(size_t bytes) {
	const auto now = used += bytes;
	if (now <= covered) {
		return;
	}
	std::lock_guard<std::mutex> guard(lock);
	const size_t before = covered;
	const size_t needed = used;
	if (needed <= before) {
		return;
	}
	// Steps grow with what is there, so that their number stays small
	const auto more = std::max({needed - before, STEP, before / 16});
	try {
		Reserve(more);
	} catch (...) {
		used -= bytes;
		throw;
	}
	covered = before + more;
}

void MemoryAccount::Shrink(size_t bytes) noexcept {
	const auto now = used -= bytes;
	// What a loop takes and gives back again stays reserved
	const auto kept = [](size_t size) { return size + size / 8 + 2 * STEP; };
	if (covered <= kept(now)) {
		return;
	}
	std::lock_guard<std::mutex> guard(lock);
	const size_t before = covered;
	const auto after = std::max(FREE, size_t(used) + STEP);
	if (before > after) {
		covered = after;
		Free(before - after);
	}
}

void MemoryAccount::Release() noexcept {
	if (--references > 0) {
		return;
	}
	if (covered > FREE) {
		Free(covered - FREE);
	}
	delete this;
}

//===----------------------------------------------------------------------===//
// WorkScope
//===----------------------------------------------------------------------===//
static thread_local WorkScope *current_scope = nullptr;

WorkScope *WorkScope::Current() noexcept {
	return current_scope;
}

WorkScope::Use::Use(WorkScope *scope) noexcept : before(current_scope) {
	current_scope = scope;
}

WorkScope::Use::~Use() {
	current_scope = before;
}

WorkScope::~WorkScope() {
	if (account) {
		account.load()->Shrink(held);
		account.load()->Release();
	}
}

MemoryAccount &WorkScope::Account() {
	if (!account) {
		std::lock_guard<std::mutex> guard(lock);
		if (!account) {
			account = MakeAccount();
		}
	}
	return *account;
}

void WorkScope::Hold(size_t bytes) {
	Account().Grow(bytes);
	held += bytes;
}

//===----------------------------------------------------------------------===//
// Poll
//===----------------------------------------------------------------------===//
void CheckWork() noexcept(false) {
	if (current_scope) {
		current_scope->Check();
	}
}

void Poll::Now() {
	left = STEP;
	CheckWork();
}

void PollCall(size_t work) noexcept(false) {
	static thread_local Poll poll;
	poll(work);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//
static constexpr size_t LINE = 64;
//! Bytes from which on a block is the system's
static constexpr size_t LEAST_PAGES = size_t(1) << 22;

//! A block ends with its account, or nullptr
static size_t WithTrailer(size_t bytes) {
	return (bytes + sizeof(MemoryAccount *) - 1) / sizeof(MemoryAccount *) * sizeof(MemoryAccount *) +
	       sizeof(MemoryAccount *);
}

static MemoryAccount *&TrailerOf(void *at, size_t bytes) {
	return *reinterpret_cast<MemoryAccount **>(static_cast<char *>(at) + WithTrailer(bytes) - sizeof(MemoryAccount *));
}

static void *AllocateBlock(size_t bytes) {
	if (bytes < LEAST_PAGES) {
		return ::operator new (bytes, std::align_val_t {LINE});
	}
	auto *at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED) {
		throw std::bad_alloc();
	}
	return at;
}

void *AllocateCounted(size_t bytes) {
	const auto scope = WorkScope::Current();
	MemoryAccount *account = nullptr;
	if (scope) {
		scope->Check();
		account = &scope->Account();
		account->Grow(bytes);
	}
	void *at;
	try {
		at = AllocateBlock(WithTrailer(bytes));
	} catch (...) {
		if (account) {
			account->Shrink(bytes);
		}
		throw;
	}
	if (account) {
		account->Retain();
	}
	TrailerOf(at, bytes) = account;
	return at;
}

void FreeCounted(void *at, size_t bytes) noexcept {
	const auto account = TrailerOf(at, bytes);
	const auto all = WithTrailer(bytes);
	if (all < LEAST_PAGES) {
		::operator delete (at, std::align_val_t {LINE});
	} else {
		munmap(at, all);
	}
	if (account) {
		account->Shrink(bytes);
		account->Release();
	}
}

void HeldMemory::Grow(size_t bytes) {
	if (!account) {
		const auto scope = WorkScope::Current();
		if (!scope) {
			return;
		}
		account = &scope->Account();
		account->Retain();
	}
	account->Grow(bytes - size);
	size = bytes;
}

HeldMemory::~HeldMemory() {
	if (account) {
		account->Shrink(size);
		account->Release();
	}
}

} // namespace vibespatial
