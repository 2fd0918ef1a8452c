// What our binaries take from glibc and libstdc++ that is younger than the oldest system they run on (scripts/link_stubs.py), in
// terms of what is there. It is linked into them, hidden, and nothing else of theirs is replaced.

#include <cerrno>
#include <csignal>
#include <ctime>
#include <exception>
#include <new>
#include <pthread.h>
#include <sstream>
#include <stdexcept>
#include <string>
#include <sys/stat.h>

// ---- glibc

// Functions since 2.33; before, the C library had these instead, with the version of the structure
extern "C" {
int __xstat(int, const char *, struct stat *);
int __lxstat(int, const char *, struct stat *);
int __fxstat(int, int, struct stat *);
int __fxstatat(int, int, const char *, struct stat *, int);

#if defined(__x86_64__)
#define STAT_VERSION 1
#else
#define STAT_VERSION 0
#endif

int stat(const char *path, struct stat *result) noexcept {
	return __xstat(STAT_VERSION, path, result);
}
int lstat(const char *path, struct stat *result) noexcept {
	return __lxstat(STAT_VERSION, path, result);
}
int fstat(int file, struct stat *result) noexcept {
	return __fxstat(STAT_VERSION, file, result);
}
int fstatat(int folder, const char *path, struct stat *result, int flags) noexcept {
	return __fxstatat(STAT_VERSION, folder, path, result, flags);
}

//! Since 2.32. It only ever saves an atomic operation: there may be threads
char __libc_single_threaded = 0;

//! Since 2.30: a deadline by another clock than the one of the condition
int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock, const timespec *until) {
	if (clock == CLOCK_REALTIME) {
		return pthread_cond_timedwait(condition, mutex, until);
	}
	timespec now, real;
	if (clock_gettime(clock, &now) != 0 || clock_gettime(CLOCK_REALTIME, &real) != 0) {
		return EINVAL;
	}
	timespec deadline;
	deadline.tv_sec = real.tv_sec + until->tv_sec - now.tv_sec;
	deadline.tv_nsec = real.tv_nsec + until->tv_nsec - now.tv_nsec;
	while (deadline.tv_nsec < 0) {
		deadline.tv_nsec += 1000000000;
		deadline.tv_sec--;
	}
	while (deadline.tv_nsec >= 1000000000) {
		deadline.tv_nsec -= 1000000000;
		deadline.tv_sec++;
	}
	return pthread_cond_timedwait(condition, mutex, &deadline);
}
}

// ---- libstdc++. The names are those that the compiler gives the members.

//! std::stringstream() and std::ostringstream(), since GCC 9: before, the constructor with its default argument
extern "C" void OlderStringStream(std::stringstream *self)
    __asm__("_ZNSt7__cxx1118basic_stringstreamIcSt11char_traitsIcESaIcEEC1Ev");
void OlderStringStream(std::stringstream *self) {
	new (self) std::stringstream(std::ios_base::in | std::ios_base::out);
}
extern "C" void OlderOutputStream(std::ostringstream *self)
    __asm__("_ZNSt7__cxx1119basic_ostringstreamIcSt11char_traitsIcESaIcEEC1Ev");
void OlderOutputStream(std::ostringstream *self) {
	new (self) std::ostringstream(std::ios_base::out);
}

//! std::runtime_error(std::runtime_error &&), since GCC 9: a copy
extern "C" void OlderRuntimeError(std::runtime_error *self, const std::runtime_error *other)
    __asm__("_ZNSt13runtime_errorC2EOS_");
void OlderRuntimeError(std::runtime_error *self, const std::runtime_error *other) {
	new (self) std::runtime_error(*other);
}

//! std::string::reserve(), since GCC 11: asks for less memory, which nobody has to grant
extern "C" void OlderReserve(std::string *self)
    __asm__("_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE7reserveEv");
void OlderReserve(std::string *) {
}

//! Since GCC 11
extern "C" [[noreturn]] void OlderBadLength() __asm__("_ZSt28__throw_bad_array_new_lengthv");
void OlderBadLength() {
	throw std::bad_array_new_length();
}

// exception_ptr counts its references inline since GCC 11, through these; before, its constructor and destructor did
extern "C" void CopyExceptionPointer(void *self, const void *other)
    __asm__("_ZNSt15__exception_ptr13exception_ptrC1ERKS0_");
extern "C" void EndExceptionPointer(void *self) __asm__("_ZNSt15__exception_ptr13exception_ptrD1Ev");

extern "C" void OlderAddReference(void *self) __asm__("_ZNSt15__exception_ptr13exception_ptr9_M_addrefEv");
void OlderAddReference(void *self) {
	void *copy = nullptr; // is never ended: its reference stays
	CopyExceptionPointer(&copy, self);
}
extern "C" void OlderRelease(void *self) __asm__("_ZNSt15__exception_ptr13exception_ptr10_M_releaseEv");
void OlderRelease(void *self) {
	EndExceptionPointer(self);
	*static_cast<void **>(self) = nullptr;
}
