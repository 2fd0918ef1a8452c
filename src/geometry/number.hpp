//===----------------------------------------------------------------------===//
// geometry/number.hpp
//
// Doubles as text: the fewest digits that read back as the same double
//===----------------------------------------------------------------------===//
#pragma once

#include <cstddef>
#include <string>

namespace vibespatial {

//! For messages: 0, 1.5, 1e+30, nan, inf
std::string FormatNumber(double value);

//! Writes a finite double the way DuckDB's JSON writer does: always with a fraction (1.0) or an exponent (1e300),
//! fixed notation from 1e-6 up to below 1e21. Returns the end; writes beyond it, into memory of JSON_NUMBER_CHARS.
char *WriteJsonNumber(double value, char *out);
constexpr size_t JSON_NUMBER_CHARS = 64;

} // namespace vibespatial
