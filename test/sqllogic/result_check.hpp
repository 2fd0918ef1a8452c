//===----------------------------------------------------------------------===//
//                         vibespatial
//
// test/sqllogic/result_check.hpp
//
//
//===----------------------------------------------------------------------===//

#pragma once

#include "test_file.hpp"

#include "duckdb.hpp"

#include <string>
#include <vector>

namespace sqllogic {

//! One value of a result: as it is shown, and what it takes to compare it as a number
struct Cell {
	std::string text;
	duckdb::Value value;
};

using Row = std::vector<Cell>;

//! The relative difference up to which a column of type R counts as equal
constexpr double REAL_TOLERANCE = 1e-9;

//! A result as it is compared: rows in the order that the sort mode asks for; "valuesort" gives rows of one cell
std::vector<Row> ReadResult(duckdb::QueryResult &result, SortMode sort_mode);

//! "N values hashing to MD5" of a result
std::string HashResult(const std::vector<Row> &rows);

//! Whether an expected text fits: "<REGEX>:" and "<!REGEX>:" match the whole text, anything else is given to equal
template <class EQUAL>
bool MatchExpected(const std::string &expected, const std::string &actual, EQUAL equal);
//! Whether the whole text matches the pattern; throws std::invalid_argument for a bad pattern
bool MatchRegex(const std::string &pattern, const std::string &text);

template <class EQUAL>
bool MatchExpected(const std::string &expected, const std::string &actual, EQUAL equal) {
	static const std::string match = "<REGEX>:";
	static const std::string no_match = "<!REGEX>:";
	if (expected.compare(0, match.size(), match) == 0) {
		return MatchRegex(expected.substr(match.size()), actual);
	}
	if (expected.compare(0, no_match.size(), no_match) == 0) {
		return !MatchRegex(expected.substr(no_match.size()), actual);
	}
	return equal();
}

//! Compares a result with the expected lines; returns what is wrong, empty if nothing is
std::string CheckResult(const std::vector<Row> &rows, const std::vector<std::string> &expected,
                        const std::string &column_types, SortMode sort_mode);

} // namespace sqllogic
