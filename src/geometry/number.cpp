#include "geometry/number.hpp"

#include <charconv>

namespace vibespatial {

//! The longest shortest form is 24 characters: -2.2250738585072014e-308
static constexpr size_t NUMBER_CHARS = 32;

std::string FormatNumber(double value) {
	char buffer[NUMBER_CHARS];
	const auto written = std::to_chars(buffer, buffer + NUMBER_CHARS, value);
	return std::string(buffer, written.ptr);
}

void AppendJsonNumber(double value, std::string &out) {
	constexpr int LEAST_FIXED = -6;
	constexpr int MOST_FIXED = 20;

	// d.ddde+xx: the digits and the exponent of the first one
	char buffer[NUMBER_CHARS];
	const auto end = std::to_chars(buffer, buffer + NUMBER_CHARS, value, std::chars_format::scientific).ptr;
	const char *pos = buffer;
	if (*pos == '-') {
		out.push_back(*pos++);
	}
	char digits[NUMBER_CHARS] = {*pos++};
	int count = 1;
	for (; *pos != 'e'; pos++) {
		if (*pos != '.') {
			digits[count++] = *pos;
		}
	}
	pos++;
	pos += *pos == '+';
	int exponent = 0;
	std::from_chars(pos, end, exponent);

	if (exponent < LEAST_FIXED || exponent > MOST_FIXED) {
		out.push_back(digits[0]);
		if (count > 1) {
			out.push_back('.');
			out.append(digits + 1, count - 1);
		}
		out.push_back('e');
		out.append(std::to_string(exponent));
	} else if (exponent < 0) {
		out.append("0.");
		out.append(-exponent - 1, '0');
		out.append(digits, count);
	} else if (count <= exponent + 1) {
		out.append(digits, count);
		out.append(exponent + 1 - count, '0');
		out.append(".0");
	} else {
		out.append(digits, exponent + 1);
		out.push_back('.');
		out.append(digits + exponent + 1, count - exponent - 1);
	}
}

} // namespace vibespatial
