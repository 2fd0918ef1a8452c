//===----------------------------------------------------------------------===//
// vibe/expansion.h
//
// Exact arithmetic on sums of doubles. Expansions (J. R. Shewchuk, "Adaptive
// Precision Floating-Point Arithmetic and Fast Robust Geometric Predicates",
// 1997): a value is a sum of non-overlapping doubles, smallest first. Products
// split by FMA instead of Dekker's halves. Exact while nothing over- or
// underflows; ExactSum below takes over where something would.
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/real.h"

namespace vibe {

//! hi + lo = a + b exactly
VIBE_HD void TwoSum(double a, double b, double &hi, double &lo) {
	hi = a + b;
	double bv = hi - a;
	double av = hi - bv;
	lo = (a - av) + (b - bv);
}

//! As TwoSum, given |a| >= |b|
VIBE_HD void FastTwoSum(double a, double b, double &hi, double &lo) {
	hi = a + b;
	lo = b - (hi - a);
}

//! The rounding error of x = a - b
VIBE_HD double TwoDiffTail(double a, double b, double x) {
	double bv = a - x;
	double av = x + bv;
	return (a - av) + (bv - b);
}

VIBE_HD void TwoDiff(double a, double b, double &hi, double &lo) {
	hi = a - b;
	lo = TwoDiffTail(a, b, hi);
}

//! hi + lo = a * b exactly
VIBE_HD void TwoProduct(double a, double b, double &hi, double &lo) {
	hi = a * b;
	lo = Fma(a, b, -hi);
}

//! out[0..3] = (a1 + a0) - (b1 + b0)
VIBE_HD void TwoTwoDiff(double a1, double a0, double b1, double b0, double out[4]) {
	double i, j, zero;
	TwoDiff(a0, b0, i, out[0]);
	TwoSum(a1, i, j, zero);
	TwoDiff(zero, b1, i, out[1]);
	TwoSum(j, i, out[3], out[2]);
}

//! h = e + f without zero terms; returns the length (at least 1). h holds elen + flen and is neither e nor f.
VIBE_HD_NOINLINE int ExpansionSum(const double *e, int elen, const double *f, int flen, double *h) {
	int i = 0, j = 0, n = 0;
	double q = 0.0;
	bool first = true;
	while (i < elen || j < flen) {
		double next;
		if (j >= flen || (i < elen && Abs(e[i]) < Abs(f[j]))) {
			next = e[i++];
		} else {
			next = f[j++];
		}
		if (first) {
			q = next;
			first = false;
			continue;
		}
		double sum, err;
		TwoSum(q, next, sum, err);
		if (err != 0.0) {
			h[n++] = err;
		}
		q = sum;
	}
	if (q != 0.0 || n == 0) {
		h[n++] = q;
	}
	return n;
}

//! h = e * b without zero terms; h holds 2 * elen
VIBE_HD_NOINLINE int ExpansionScale(const double *e, int elen, double b, double *h) {
	int n = 0;
	double q, err;
	TwoProduct(e[0], b, q, err);
	if (err != 0.0) {
		h[n++] = err;
	}
	for (int i = 1; i < elen; i++) {
		double hi, lo, sum;
		TwoProduct(e[i], b, hi, lo);
		TwoSum(q, lo, sum, err);
		if (err != 0.0) {
			h[n++] = err;
		}
		FastTwoSum(hi, sum, q, err);
		if (err != 0.0) {
			h[n++] = err;
		}
	}
	if (q != 0.0 || n == 0) {
		h[n++] = q;
	}
	return n;
}

VIBE_HD int ExpansionSign(const double *e, int elen) {
	return Sign(e[elen - 1]);
}

//! A fixed-point number wide enough for any sum of a few products of two doubles: exact on every finite input, with no
//! rounding, overflow or underflow (U. Kulisch's accumulator). Slow, and only for magnitudes that expansions cannot hold.
struct ExactSum {
	// Bit 0 of limb 0 weighs 2^-2176; products reach up to 2^2048.
	static constexpr int LIMBS = 136;
	static constexpr int BIAS = 2176;
	i64 limb[LIMBS];

	VIBE_HD ExactSum() {
		VIBE_LOOP
		for (int i = 0; i < LIMBS; i++) {
			limb[i] = 0;
		}
	}

	VIBE_HD static void Split(double a, bool &negative, u64 &mantissa, int &exponent) {
		u64 bits = Bits(a);
		negative = (bits >> 63) != 0;
		int e = (int)((bits >> 52) & 0x7ff);
		mantissa = bits & 0xfffffffffffffULL;
		if (e == 0) {
			e = 1;
		} else {
			mantissa |= 1ULL << 52;
		}
		exponent = e - 1075;
	}

	VIBE_HD void AddBits(u64 value, int position, bool negative) {
		int index = position >> 5;
		int shift = position & 31;
		u64 lo = (value & 0xffffffffULL) << shift;
		u64 hi = (value >> 32) << shift;
		i64 words[3];
		words[0] = (i64)(lo & 0xffffffffULL);
		words[1] = (i64)(lo >> 32) + (i64)(hi & 0xffffffffULL);
		words[2] = (i64)(hi >> 32);
		for (int i = 0; i < 3; i++) {
			limb[index + i] += negative ? -words[i] : words[i];
		}
	}

	//! Adds a * b, or subtracts it
	VIBE_HD_NOINLINE void AddProduct(double a, double b, bool subtract) {
		bool na, nb;
		u64 ma, mb;
		int ea, eb;
		Split(a, na, ma, ea);
		Split(b, nb, mb, eb);
		bool negative = (na != nb) != subtract;
		int position = ea + eb + BIAS;
		u64 al = ma & 0xffffffffULL, ah = ma >> 32;
		u64 bl = mb & 0xffffffffULL, bh = mb >> 32;
		AddBits(al * bl, position, negative);
		AddBits(al * bh, position + 32, negative);
		AddBits(ah * bl, position + 32, negative);
		AddBits(ah * bh, position + 64, negative);
	}

	VIBE_HD int Sign() {
		i64 carry = 0;
		bool nonzero = false;
		VIBE_LOOP
		for (int i = 0; i < LIMBS; i++) {
			i64 value = limb[i] + carry;
			carry = value >> 32;
			limb[i] = value & 0xffffffffLL;
			nonzero = nonzero || limb[i] != 0;
		}
		if (carry < 0) {
			return -1;
		}
		return nonzero || carry > 0 ? 1 : 0;
	}
};

} // namespace vibe
