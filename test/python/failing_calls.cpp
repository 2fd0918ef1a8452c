// Calls of the system that fail when a test says so. Loaded before all else (LD_PRELOAD); until failing_calls_arm() nothing fails and
// nothing is counted. The call with the given number fails, or that one and all after it.
//
//   thread   pthread_create: EAGAIN
//   memory   malloc, calloc, realloc, aligned_alloc, posix_memalign of so many bytes or more: ENOMEM
//   pages    mmap of so many bytes or more, without a file: ENOMEM
//   write    write, pwrite, writev, ftruncate, fallocate of a plain file: ENOSPC. A truncation that changes nothing is none of them: a full
//            disk does not make it fail
//   truncate such a truncation: EIO
//   open     open, openat of any file: EMFILE
//   spawn    posix_spawn, fork: EAGAIN
//
// Calls from the libraries of NVIDIA's driver and toolkit, and from CCCL, which has the CUDA runtime in it, do not fail: they do not promise
// to survive that.
//
// A signal that ends the process prints the calls that led to it first.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <iterator>
#include <pthread.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

namespace {

enum Kind { NONE, THREAD, MEMORY, PAGES, WRITE, TRUNCATE, OPEN, SPAWN };
constexpr const char *NAMES[] = {"none", "thread", "memory", "pages", "write", "truncate", "open", "spawn"};

std::atomic<int> armed {NONE};
std::atomic<long> seen {0};
std::atomic<long> fails_at {0};
std::atomic<bool> fails_on {false};
std::atomic<size_t> least_bytes {1};
std::atomic<size_t> most_bytes {SIZE_MAX};
std::atomic<bool> traced {false};
//! libcuda is loaded
std::atomic<bool> has_driver {false};
//! What is done here does not count
thread_local bool inside = false;

void PrintTrace() {
	void *calls[64];
	backtrace_symbols_fd(calls, backtrace(calls, 64), 2);
}

//! Whether the libraries on the stack, but for those that pass a request on, begin with one of NVIDIA's
bool IsFromDriver() {
	static const char *const passing_on[] = {"libfailing_calls", "libc.",      "libc-",
	                                         "libstdc++",        "libpthread", "ld-linux"};
	static const char *const drivers[] = {"libcuda.", "libnv", "libcudart", "libcccl"};
	const auto begins = [](const char *name, const char *const *first, size_t count) {
		return std::any_of(first, first + count,
		                   [&](const char *start) { return std::strncmp(name, start, std::strlen(start)) == 0; });
	};
	inside = true;
	void *calls[24];
	const int count = backtrace(calls, 24);
	bool driver = false;
	for (int i = 0; i < count; i++) {
		Dl_info info;
		if (dladdr(calls[i], &info) == 0 || !info.dli_fname) {
			continue;
		}
		const char *slash = std::strrchr(info.dli_fname, '/');
		const char *name = slash ? slash + 1 : info.dli_fname;
		if (!begins(name, passing_on, std::size(passing_on))) {
			driver = begins(name, drivers, std::size(drivers));
			break;
		}
	}
	inside = false;
	return driver;
}

bool Fails(Kind kind, size_t bytes = 1) {
	if (armed.load(std::memory_order_relaxed) != kind || inside || bytes < least_bytes || bytes > most_bytes) {
		return false;
	}
	const long number = ++seen;
	const bool now =
	    fails_at > 0 && (number == fails_at || (fails_on && number > fails_at)) && !(has_driver && IsFromDriver());
	if (now && traced.exchange(false)) {
		inside = true;
		PrintTrace();
		inside = false;
	}
	return now;
}

bool IsPlainFile(int fd) {
	struct stat info;
	return fd > 2 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
}

template <class FUNCTION>
FUNCTION Next(FUNCTION &slot, const char *name) {
	if (!slot) {
		inside = true;
		slot = reinterpret_cast<FUNCTION>(dlsym(RTLD_NEXT, name));
		inside = false;
	}
	return slot;
}

void Fatal(int number, siginfo_t *info, void *context) {
	armed = NONE;
#if defined(__aarch64__)
	auto &machine = static_cast<ucontext_t *>(context)->uc_mcontext;
	void *places[] = {info->si_addr, reinterpret_cast<void *>(machine.pc), reinterpret_cast<void *>(machine.regs[30])};
#elif defined(__x86_64__)
	auto &machine = static_cast<ucontext_t *>(context)->uc_mcontext;
	void *places[] = {info->si_addr, reinterpret_cast<void *>(machine.gregs[REG_RIP])};
#else
	static_cast<void>(context);
	void *places[] = {info->si_addr};
#endif
	// The address, the instruction, and where that has one, the return address
	backtrace_symbols_fd(places, sizeof(places) / sizeof(places[0]), 2);
	PrintTrace();
	signal(number, SIG_DFL);
	raise(number);
}

} // namespace

#define REAL(name)                                                                                                     \
	static decltype(&name) slot = nullptr;                                                                             \
	auto *real = Next(slot, #name)

extern "C" {

//! `at`: the number of the call, from 1; 0: none, they are only counted. `on`: all after it, too
void failing_calls_arm(const char *kind, long at, int on, size_t bytes, int trace) {
	// Loads what it needs before memory is short
	void *calls[4];
	backtrace(calls, 4);
	struct sigaction action {};
	action.sa_sigaction = Fatal;
	action.sa_flags = SA_SIGINFO;
	for (int number : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGALRM}) {
		sigaction(number, &action, nullptr);
	}
	if (void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD)) {
		has_driver = true;
		dlclose(driver);
	}
	seen = 0;
	fails_at = at;
	fails_on = on != 0;
	least_bytes = bytes;
	traced = trace != 0;
	for (int i = 0; i <= SPAWN; i++) {
		if (std::strcmp(kind, NAMES[i]) == 0) {
			armed = i;
		}
	}
}

//! Larger requests do not count, either
void failing_calls_at_most(size_t bytes) {
	most_bytes = bytes;
}

//! How many calls there were
long failing_calls_disarm() {
	armed = NONE;
	return seen;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
	REAL(pthread_create);
	return Fails(THREAD) ? EAGAIN : real(thread, attributes, start, argument);
}

// The C library's own names: dlsym() would ask for memory
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *at, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

void *malloc(size_t bytes) {
	if (Fails(MEMORY, bytes)) {
		errno = ENOMEM;
		return nullptr;
	}
	return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes) {
	if (Fails(MEMORY, count * bytes)) {
		errno = ENOMEM;
		return nullptr;
	}
	return __libc_calloc(count, bytes);
}

void *realloc(void *at, size_t bytes) {
	if (Fails(MEMORY, bytes)) {
		errno = ENOMEM;
		return nullptr;
	}
	return __libc_realloc(at, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
	if (Fails(MEMORY, bytes)) {
		errno = ENOMEM;
		return nullptr;
	}
	return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **at, size_t alignment, size_t bytes) {
	if (Fails(MEMORY, bytes)) {
		return ENOMEM;
	}
	*at = __libc_memalign(alignment, bytes);
	return *at ? 0 : ENOMEM;
}

void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) {
	REAL(mmap);
	if ((flags & MAP_ANONYMOUS) && Fails(PAGES, bytes)) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return real(at, bytes, protection, flags, fd, offset);
}

void *mmap64(void *at, size_t bytes, int protection, int flags, int fd, off64_t offset) {
	return mmap(at, bytes, protection, flags, fd, offset);
}

#define FULL_DISK(fd)                                                                                                  \
	if (armed == WRITE && IsPlainFile(fd) && Fails(WRITE)) {                                                           \
		errno = ENOSPC;                                                                                                \
		return -1;                                                                                                     \
	}

ssize_t write(int fd, const void *data, size_t bytes) {
	REAL(write);
	FULL_DISK(fd)
	return real(fd, data, bytes);
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset) {
	REAL(pwrite);
	FULL_DISK(fd)
	return real(fd, data, bytes, offset);
}

ssize_t pwrite64(int fd, const void *data, size_t bytes, off64_t offset) {
	return pwrite(fd, data, bytes, offset);
}

ssize_t writev(int fd, const iovec *parts, int count) {
	REAL(writev);
	FULL_DISK(fd)
	return real(fd, parts, count);
}

int ftruncate(int fd, off_t bytes) noexcept {
	REAL(ftruncate);
	struct stat info;
	const bool changes = fstat(fd, &info) != 0 || info.st_size != bytes;
	if (!changes && Fails(TRUNCATE)) {
		errno = EIO;
		return -1;
	}
	if (changes) {
		FULL_DISK(fd)
	}
	return real(fd, bytes);
}

int ftruncate64(int fd, off64_t bytes) noexcept {
	return ftruncate(fd, bytes);
}

int fallocate(int fd, int mode, off_t offset, off_t bytes) {
	REAL(fallocate);
	FULL_DISK(fd)
	return real(fd, mode, offset, bytes);
}

int open(const char *path, int flags, ...) {
	REAL(open);
	va_list rest;
	va_start(rest, flags);
	const mode_t mode = va_arg(rest, mode_t);
	va_end(rest);
	if (Fails(OPEN)) {
		errno = EMFILE;
		return -1;
	}
	return real(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
	va_list rest;
	va_start(rest, flags);
	const mode_t mode = va_arg(rest, mode_t);
	va_end(rest);
	return open(path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...) {
	REAL(openat);
	va_list rest;
	va_start(rest, flags);
	const mode_t mode = va_arg(rest, mode_t);
	va_end(rest);
	if (Fails(OPEN)) {
		errno = EMFILE;
		return -1;
	}
	return real(folder, path, flags, mode);
}

int openat64(int folder, const char *path, int flags, ...) {
	va_list rest;
	va_start(rest, flags);
	const mode_t mode = va_arg(rest, mode_t);
	va_end(rest);
	return openat(folder, path, flags, mode);
}

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]) {
	REAL(posix_spawn);
	return Fails(SPAWN) ? EAGAIN : real(pid, path, actions, attributes, arguments, environment);
}

pid_t fork() {
	REAL(fork);
	if (Fails(SPAWN)) {
		errno = EAGAIN;
		return -1;
	}
	return real();
}
}

//! For programs that are no Python: FAILING_CALLS=kind:at[+][:bytes] arms it at the start
static const bool from_environment = [] {
	const char *text = std::getenv("FAILING_CALLS");
	const char *colon = text ? std::strchr(text, ':') : nullptr;
	if (colon) {
		char kind[16] = {};
		std::memcpy(kind, text, std::min<size_t>(sizeof(kind) - 1, static_cast<size_t>(colon - text)));
		char *end = nullptr;
		const long at = std::strtol(colon + 1, &end, 10);
		const bool on = *end == '+';
		end += on;
		failing_calls_arm(kind, at, on, *end == ':' ? std::strtoul(end + 1, nullptr, 10) : 1, 0);
	}
	return colon != nullptr;
}();
