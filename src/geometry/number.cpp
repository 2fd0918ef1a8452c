#include "geometry/number.hpp"

#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>

namespace vibespatial {

//! The longest shortest form is 24 characters: -2.2250738585072014e-308
static constexpr size_t NUMBER_CHARS = 32;

std::string FormatNumber(double value) {
	char buffer[NUMBER_CHARS];
	const auto written = std::to_chars(buffer, buffer + NUMBER_CHARS, value);
	return std::string(buffer, written.ptr);
}

namespace {

//! digits * 10^exponent, without a zero at its end
struct Decimal {
	uint64_t digits;
	int exponent;
};

//===----------------------------------------------------------------------===//
// The shortest digits of doubles about as large as coordinates are: Schubfach (R. Giulietti, The Schubfach way to render
// doubles, 2020), of which only exact powers of ten are needed here
//===----------------------------------------------------------------------===//
using uint128 = unsigned __int128;

constexpr int MOST_POWER = 38;

//! 10^0 to 10^38, with their first bit at the front
constexpr std::array<uint128, MOST_POWER + 1> Powers() {
	std::array<uint128, MOST_POWER + 1> powers {};
	uint128 power = 1;
	for (int i = 0; i <= MOST_POWER; i++) {
		auto shifted = power;
		while (!(shifted >> 127)) {
			shifted <<= 1;
		}
		powers[i] = shifted;
		power *= 10;
	}
	return powers;
}
constexpr auto POWERS = Powers();

//! The upper bits of the product; the last one tells whether there is more below
uint64_t RoundToOdd(uint128 power, uint64_t c) {
	const uint128 low = static_cast<uint128>(static_cast<uint64_t>(power)) * c;
	const uint128 high =
	    static_cast<uint128>(static_cast<uint64_t>(power >> 64)) * c + static_cast<uint64_t>(low >> 64);
	return static_cast<uint64_t>(high >> 64) | (static_cast<uint64_t>(high) > 1);
}

//! Takes zeros off the end
template <uint64_t POWER>
void TakeZeros(Decimal &decimal, int zeros) {
	if (decimal.digits % POWER == 0) {
		decimal.digits /= POWER;
		decimal.exponent += zeros;
	}
}

//! Of a positive double with no more than seven places: of decimals with up to 15 digits each double has at most one, so it
//! is the shortest. False for all else.
bool ShortDecimal(double value, Decimal &decimal) {
	constexpr double SCALE = 1e7;
	constexpr int PLACES = 7;
	constexpr double MOST = 1e15;
	const double scaled = value * SCALE;
	if (!(scaled < MOST)) {
		return false;
	}
	const auto digits = static_cast<uint64_t>(scaled + 0.5);
	// Both are exact, so that the quotient is rounded once
	if (digits == 0 || static_cast<double>(digits) / SCALE != value) {
		return false;
	}
	decimal = Decimal {digits, -PLACES};
	TakeZeros<10000>(decimal, 4);
	TakeZeros<100>(decimal, 2);
	// What is left are one zero, or the zeros of an integer
	while (decimal.digits % 10 == 0) {
		decimal.digits /= 10;
		decimal.exponent++;
	}
	return true;
}

//! Of a positive double; false where another power than those above is needed
bool ShortestDecimal(double value, Decimal &decimal) {
	constexpr int FRACTION_BITS = 52;
	constexpr int BIAS = 1023 + FRACTION_BITS;
	uint64_t bits;
	std::memcpy(&bits, &value, sizeof(bits));
	const auto fraction = bits & ((uint64_t(1) << FRACTION_BITS) - 1);
	const auto biased = static_cast<int>(bits >> FRACTION_BITS);
	const auto q = biased - BIAS;
	const auto c = fraction | uint64_t(1) << FRACTION_BITS;
	if (q <= 0 && q >= -FRACTION_BITS && (c & ((uint64_t(1) << -q) - 1)) == 0) {
		// An integer
		decimal = Decimal {c >> -q, 0};
	} else {
		const bool closer = fraction == 0;
		// floor(log10(2^q)), or of 3/4 of it where the double below is closer
		const int k = (q * 1262611 - (closer ? 524031 : 0)) >> 22;
		if (biased == 0 || -k < 0 || -k > MOST_POWER) {
			return false;
		}
		const int h = q + ((-k * 1741647) >> 19) + 1;
		const auto power = POWERS[-k];
		const bool odd = c & 1;
		// Four times the decimal, and the limits of what reads back as the double
		const auto middle = RoundToOdd(power, (4 * c) << h);
		const auto lower = RoundToOdd(power, (4 * c - 2 + closer) << h) + odd;
		const auto upper = RoundToOdd(power, (4 * c + 2) << h) - odd;
		const auto s = middle / 4;
		const auto tens = s / 10;
		const bool down = lower <= 40 * tens, up = 40 * tens + 40 <= upper;
		if (down != up) {
			decimal = Decimal {tens + up, k + 1};
		} else {
			const bool below = lower <= 4 * s, above = 4 * s + 4 <= upper;
			const auto half = 4 * s + 2;
			const bool round = below != above ? above : middle > half || (middle == half && (s & 1));
			decimal = Decimal {s + round, k};
		}
	}
	TakeZeros<100000000>(decimal, 8);
	while (decimal.digits % 10 == 0) {
		decimal.digits /= 10;
		decimal.exponent++;
	}
	return true;
}

//! Digits are copied this many at a time, whatever their number: the size of a copy is known to the compiler
constexpr size_t DIGIT_CHARS = 24;

//! Eight digits
void WriteEight(uint32_t number, char *out) {
	static const char PAIRS[] =
	    "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
	    "5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";
	const auto high = number / 10000, low = number % 10000;
	std::memcpy(out, PAIRS + 2 * (high / 100), 2);
	std::memcpy(out + 2, PAIRS + 2 * (high % 100), 2);
	std::memcpy(out + 4, PAIRS + 2 * (low / 100), 2);
	std::memcpy(out + 6, PAIRS + 2 * (low % 100), 2);
}

//! The digits of a number other than 0, into memory of 2 * DIGIT_CHARS; returns the first
const char *WriteDigits(uint64_t number, char *out) {
	constexpr uint64_t EIGHT = 100000000;
	const auto low = number % EIGHT, high = number / EIGHT;
	WriteEight(static_cast<uint32_t>(low), out + 16);
	if (high == 0) {
		out += 16;
	} else {
		WriteEight(static_cast<uint32_t>(high % EIGHT), out + 8);
		if (high < EIGHT) {
			out += 8;
		} else {
			WriteEight(static_cast<uint32_t>(high / EIGHT), out);
		}
	}
	while (*out == '0') {
		out++;
	}
	return out;
}

//! By the C++ library, for all doubles; returns the number of digits and sets the exponent of the first
int LibraryDigits(double value, char *digits, int &exponent) {
	// d.ddde+xx
	char buffer[NUMBER_CHARS];
	const auto end = std::to_chars(buffer, buffer + NUMBER_CHARS, value, std::chars_format::scientific).ptr;
	const char *pos = buffer;
	digits[0] = *pos++;
	int count = 1;
	for (; *pos != 'e'; pos++) {
		if (*pos != '.') {
			digits[count++] = *pos;
		}
	}
	pos++;
	pos += *pos == '+';
	std::from_chars(pos, end, exponent);
	return count;
}

//! Copies DIGIT_CHARS, of which `count` stay
char *Append(char *out, const char *digits, int count) {
	std::memcpy(out, digits, DIGIT_CHARS);
	return out + count;
}
} // namespace

char *WriteJsonNumber(double value, char *out) {
	constexpr int LEAST_FIXED = -6;
	constexpr int MOST_FIXED = 20;

	if (__builtin_signbit(value)) {
		*out++ = '-';
		value = -value;
	}
	if (value == 0) {
		std::memcpy(out, "0.0", 3);
		return out + 3;
	}
	char memory[2 * DIGIT_CHARS];
	const char *digits = memory;
	int count;
	int exponent = 0;
	Decimal decimal;
	if (ShortDecimal(value, decimal) || ShortestDecimal(value, decimal)) {
		digits = WriteDigits(decimal.digits, memory);
		count = static_cast<int>(memory + DIGIT_CHARS - digits);
		exponent = decimal.exponent + count - 1;
	} else {
		count = LibraryDigits(value, memory, exponent);
	}

	if (exponent < LEAST_FIXED || exponent > MOST_FIXED) {
		*out++ = digits[0];
		if (count > 1) {
			*out++ = '.';
			out = Append(out, digits + 1, count - 1);
		}
		*out++ = 'e';
		return std::to_chars(out, out + NUMBER_CHARS, exponent).ptr;
	}
	if (exponent < 0) {
		std::memcpy(out, "0.00000", 7);
		return Append(out + 1 - exponent, digits, count);
	}
	if (count <= exponent + 1) {
		out = Append(out, digits, count);
		std::memset(out, '0', exponent + 1 - count);
		out += exponent + 1 - count;
		std::memcpy(out, ".0", 2);
		return out + 2;
	}
	out = Append(out, digits, exponent + 1);
	*out++ = '.';
	return Append(out, digits + exponent + 1, count - exponent - 1);
}

} // namespace vibespatial
