//===----------------------------------------------------------------------===//
// vibe/real.h
//
// The few words both compilers share: the host compiler and NVRTC. No header of
// the geometry core includes anything outside this folder.
//===----------------------------------------------------------------------===//
#pragma once

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define VIBE_HD __host__ __device__ inline
#define VIBE_HD_NOINLINE __host__ __device__ __noinline__ inline
//! Inlined by the host's compiler, where calls cost; called on a GPU, where NVRTC takes seconds for each copy
#define VIBE_HD_ONCE __host__ __device__ __noinline__ inline
//! Before a loop that is long and seldom hot: one copy of its body
#define VIBE_LOOP _Pragma("unroll 1")
#else
#define VIBE_HD inline
#define VIBE_HD_NOINLINE __attribute__((noinline)) inline
#define VIBE_HD_ONCE inline
#define VIBE_LOOP
#endif

namespace vibe {

using u8 = unsigned char;
using i32 = int;
using u32 = unsigned int;
using i64 = long long;
using u64 = unsigned long long;

#if defined(__CUDACC_RTC__)
//! a * b + c, rounded once
VIBE_HD double Fma(double a, double b, double c) {
	return fma(a, b, c);
}
VIBE_HD double Abs(double a) {
	return fabs(a);
}
VIBE_HD double Sqrt(double a) {
	return sqrt(a);
}
VIBE_HD void CopyBytes(void *to, const void *from, u64 size) {
	memcpy(to, from, size);
}
#else
VIBE_HD double Fma(double a, double b, double c) {
	return __builtin_fma(a, b, c);
}
VIBE_HD double Abs(double a) {
	return __builtin_fabs(a);
}
VIBE_HD double Sqrt(double a) {
	return __builtin_sqrt(a);
}
VIBE_HD void CopyBytes(void *to, const void *from, u64 size) {
	__builtin_memcpy(to, from, size);
}
#endif

//! A count at any address
VIBE_HD u32 LoadCount(const u8 *at) {
#if defined(__CUDACC_RTC__)
	// A GPU loads whole words only: byte after byte, or the two words that hold a part of it
	const u32 *words = (const u32 *)((u64)at & ~3ULL);
	const u32 shift = ((u64)at & 3) * 8;
	return shift == 0 ? words[0] : words[0] >> shift | words[1] << (32 - shift);
#else
	u32 value;
	CopyBytes(&value, at, sizeof(value));
	return value;
#endif
}

//! A double at any address
VIBE_HD double LoadDouble(const u8 *at) {
	double value;
#if defined(__CUDACC_RTC__)
	const u64 *words = (const u64 *)((u64)at & ~7ULL);
	const u32 shift = ((u64)at & 7) * 8;
	const u64 bits = shift == 0 ? words[0] : words[0] >> shift | words[1] << (64 - shift);
	CopyBytes(&value, &bits, sizeof(value));
#else
	CopyBytes(&value, at, sizeof(value));
#endif
	return value;
}

VIBE_HD double Infinity() {
	u64 bits = 0x7ff0000000000000ULL;
	double value;
	CopyBytes(&value, &bits, sizeof(value));
	return value;
}

VIBE_HD double Min(double a, double b) {
	return b < a ? b : a;
}

VIBE_HD double Max(double a, double b) {
	return a < b ? b : a;
}

VIBE_HD int Sign(double a) {
	return (a > 0.0) - (a < 0.0);
}

VIBE_HD bool IsFinite(double a) {
	return Abs(a) <= 1.7976931348623157e308;
}

VIBE_HD bool IsNan(double a) {
	return a != a;
}

//! The 64 bits of a double
VIBE_HD u64 Bits(double a) {
	u64 bits;
	CopyBytes(&bits, &a, sizeof(bits));
	return bits;
}

//! The least double above a; itself for infinity and NaN
VIBE_HD double NextUp(double a) {
	if (!(a < Infinity())) {
		return a;
	}
	// -0 and 0 are one
	u64 bits = a == 0.0 ? 1 : a > 0.0 ? Bits(a) + 1 : Bits(a) - 1;
	double value;
	CopyBytes(&value, &bits, sizeof(value));
	return value;
}

//! The greatest double below a; itself for -infinity and NaN
VIBE_HD double NextDown(double a) {
	return -NextUp(-a);
}

template <class T>
VIBE_HD void Swap(T &a, T &b) {
	T t = a;
	a = b;
	b = t;
}

} // namespace vibe
