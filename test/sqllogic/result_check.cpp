#include "result_check.hpp"

#include "duckdb/common/crypto/md5.hpp"
#include "duckdb/common/re2_regex.hpp"

#include <algorithm>
#include <cmath>

namespace sqllogic {

using duckdb::LogicalTypeId;
using duckdb::Value;

//! Line breaks and tabs would be taken for the end of a cell in the test file, so they show as \n and \t
static std::string Escape(const std::string &text) {
	std::string result;
	for (auto c : text) {
		switch (c) {
		case '\n':
			result += "\\n";
			break;
		case '\t':
			result += "\\t";
			break;
		case '\r':
			result += "\\r";
			break;
		case '\0':
			result += "\\0";
			break;
		default:
			result += c;
		}
	}
	return result;
}

static Cell MakeCell(Value value) {
	Cell cell;
	cell.text = value.IsNull() ? "NULL" : value.ToString();
	if (cell.text.empty()) {
		cell.text = "(empty)";
	}
	cell.value = std::move(value);
	return cell;
}

static bool RowLess(const Row &left, const Row &right) {
	return std::lexicographical_compare(left.begin(), left.end(), right.begin(), right.end(),
	                                    [](const Cell &l, const Cell &r) { return l.text < r.text; });
}

std::vector<Row> ReadResult(duckdb::QueryResult &result, SortMode sort_mode) {
	std::vector<Row> rows;
	while (auto chunk = result.Fetch()) {
		for (size_t i = 0; i < chunk->size(); i++) {
			Row row;
			for (size_t column = 0; column < result.ColumnCount(); column++) {
				row.push_back(MakeCell(chunk->GetValue(column, i)));
				if (sort_mode == SortMode::VALUES) {
					rows.push_back(std::move(row));
					row.clear();
				}
			}
			if (sort_mode != SortMode::VALUES) {
				rows.push_back(std::move(row));
			}
		}
	}
	if (sort_mode != SortMode::NONE) {
		std::sort(rows.begin(), rows.end(), RowLess);
	}
	return rows;
}

std::string HashResult(const std::vector<Row> &rows) {
	duckdb::MD5Context context;
	size_t count = 0;
	for (auto &row : rows) {
		for (auto &cell : row) {
			// The format knows booleans as integers
			auto is_boolean = !cell.value.IsNull() && cell.value.type().id() == LogicalTypeId::BOOLEAN;
			context.Add(is_boolean ? (cell.value.GetValue<bool>() ? "1" : "0") : cell.text);
			context.Add("\n");
			count++;
		}
	}
	return std::to_string(count) + " values hashing to " + context.FinishHex();
}

bool MatchRegex(const std::string &pattern, const std::string &text) {
	// A bad pattern matches nothing, silently: with an empty alternative only a bad one refuses the empty text
	if (!duckdb_re2::RegexMatch("", duckdb_re2::Regex("|" + pattern))) {
		throw std::invalid_argument("not a regular expression: " + pattern);
	}
	// s: a dot matches line breaks too, as plans have them
	return duckdb_re2::RegexMatch(text, duckdb_re2::Regex("(?s)" + pattern));
}

//! Not DefaultTryCastAs, which is another function in each version of DuckDB
static bool TryCast(const Value &value, const duckdb::LogicalType &type, Value &result) {
	try {
		result = value.DefaultCastAs(type);
		return true;
	} catch (std::exception &) {
		return false;
	}
}

static bool EqualReal(double left, double right) {
	if (std::isnan(left) || std::isnan(right)) {
		return std::isnan(left) && std::isnan(right);
	}
	if (std::isinf(left) || std::isinf(right)) {
		return left == right;
	}
	return std::fabs(left - right) <= REAL_TOLERANCE * std::max(std::fabs(left), std::fabs(right));
}

static bool EqualCell(const std::string &expected, const Cell &actual, char column_type) {
	if (expected == actual.text || (expected == Escape(actual.text))) {
		return true;
	}
	auto &value = actual.value;
	if (value.IsNull()) {
		return false;
	}
	if (value.type().id() == LogicalTypeId::BOOLEAN) {
		return expected == (value.GetValue<bool>() ? "1" : "0");
	}
	// T is the text, to the last digit
	if (column_type == 'T' || !value.type().IsNumeric()) {
		return false;
	}
	Value number;
	if (column_type == 'R') {
		Value real;
		return TryCast(Value(expected), duckdb::LogicalType::DOUBLE, number) &&
		       TryCast(value, duckdb::LogicalType::DOUBLE, real) &&
		       EqualReal(number.GetValue<double>(), real.GetValue<double>());
	}
	// The cast to a whole number would round 1.5 to 2, so the text must survive it
	if (value.type().IsIntegral() && expected.find_first_not_of("+-0123456789") != std::string::npos) {
		return false;
	}
	return TryCast(Value(expected), value.type(), number) && number == value;
}

//! Splits the expected lines into rows: a row a line (cells between tabs) or a value a line
static bool SplitRows(const std::vector<std::string> &lines, size_t columns,
                      std::vector<std::vector<std::string>> &rows) {
	if (columns == 1) {
		for (auto &line : lines) {
			rows.push_back({line});
		}
		return true;
	}
	bool is_row_a_line = true;
	for (auto &line : lines) {
		std::vector<std::string> row;
		size_t begin = 0;
		for (auto end = line.find('\t'); end != std::string::npos; end = line.find('\t', begin)) {
			row.push_back(line.substr(begin, end - begin));
			begin = end + 1;
		}
		row.push_back(line.substr(begin));
		is_row_a_line = is_row_a_line && row.size() == columns;
		rows.push_back(std::move(row));
	}
	if (is_row_a_line) {
		return true;
	}
	rows.clear();
	if (lines.size() % columns != 0) {
		return false;
	}
	for (size_t i = 0; i < lines.size(); i += columns) {
		rows.emplace_back(lines.begin() + i, lines.begin() + i + columns);
	}
	return true;
}

//! Sorts expected rows as the actual ones are sorted: by the text DuckDB gives to their numbers and booleans
static std::vector<std::vector<std::string>> SortRows(const std::vector<std::vector<std::string>> &rows,
                                                      const Row &sample) {
	std::vector<std::pair<std::vector<std::string>, size_t>> keys;
	for (size_t r = 0; r < rows.size(); r++) {
		auto key = rows[r];
		for (size_t c = 0; c < key.size(); c++) {
			auto &type = sample[c].value.type();
			Value value;
			if ((type.IsNumeric() || type.id() == LogicalTypeId::BOOLEAN) && TryCast(Value(key[c]), type, value)) {
				key[c] = value.ToString();
			}
		}
		keys.emplace_back(std::move(key), r);
	}
	std::sort(keys.begin(), keys.end());
	std::vector<std::vector<std::string>> sorted;
	sorted.reserve(keys.size());
	for (auto &key : keys) {
		sorted.push_back(rows[key.second]);
	}
	return sorted;
}

//! Returns the first row that differs, or the number of rows
static size_t FirstDifference(const std::vector<std::vector<std::string>> &expected, const std::vector<Row> &actual,
                              const std::string &column_types, SortMode sort_mode) {
	for (size_t r = 0; r < expected.size() && r < actual.size(); r++) {
		for (size_t c = 0; c < expected[r].size(); c++) {
			auto &cell = actual[r][c];
			// "valuesort" mixes the columns, so a cell has no column type of its own: exact numbers
			auto type = sort_mode == SortMode::VALUES ? 'I' : column_types[c];
			auto equal = [&]() { return EqualCell(expected[r][c], cell, type); };
			if (!MatchExpected(expected[r][c], cell.text, equal)) {
				return r;
			}
		}
	}
	return std::min(expected.size(), actual.size());
}

static std::string ShowRow(const Row &row) {
	std::string result;
	for (auto &cell : row) {
		result += (result.empty() ? "" : "\t") + Escape(cell.text);
	}
	return result;
}

//! Shows a list of lines around the first difference, which is marked
template <class SHOW>
static std::string ShowLines(const std::string &title, size_t count, size_t difference, SHOW show) {
	static constexpr size_t BEFORE = 5;
	static constexpr size_t AFTER = 20;
	auto begin = difference > BEFORE ? difference - BEFORE : 0;
	auto end = std::min(count, difference + AFTER);
	std::string result = title + " (" + std::to_string(count) + (count == 1 ? " row)" : " rows)");
	for (auto i = begin; i < end; i++) {
		if (i == begin && begin > 0) {
			result += "\n    ...";
		}
		result += (i == difference ? "\n  > " : "\n    ") + show(i);
	}
	return result + (end < count ? "\n    ..." : "");
}

static bool IsHash(const std::vector<std::string> &expected) {
	return expected.size() == 1 && MatchRegex("[0-9]+ values hashing to [0-9a-f]{32}", expected[0]);
}

std::string CheckResult(const std::vector<Row> &actual, const std::vector<std::string> &expected_lines,
                        const std::string &column_types, SortMode sort_mode) {
	auto show_actual = [&](size_t i) { return ShowRow(actual[i]); };
	if (IsHash(expected_lines)) {
		auto hash = HashResult(actual);
		if (hash == expected_lines[0]) {
			return "";
		}
		return "wrong result\nexpected\n    " + expected_lines[0] + "\nactual\n    " + hash + "\n" +
		       ShowLines("actual rows", actual.size(), 0, show_actual);
	}

	auto columns = sort_mode == SortMode::VALUES ? 1 : column_types.size();
	auto lines = expected_lines;
	if (sort_mode == SortMode::VALUES && column_types.size() > 1) {
		// Rows with tabs are allowed here as well
		std::vector<std::vector<std::string>> rows;
		if (SplitRows(expected_lines, column_types.size(), rows)) {
			lines.clear();
			for (auto &row : rows) {
				lines.insert(lines.end(), row.begin(), row.end());
			}
		}
	}
	std::vector<std::vector<std::string>> expected;
	if (!SplitRows(lines, columns, expected)) {
		return "the expected result has neither " + std::to_string(columns) + " cells in each line nor a multiple of " +
		       std::to_string(columns) + " lines\n" + ShowLines("actual", actual.size(), 0, show_actual);
	}

	auto difference = FirstDifference(expected, actual, column_types, sort_mode);
	if (difference == expected.size() && difference == actual.size()) {
		return "";
	}
	if (sort_mode != SortMode::NONE && !actual.empty()) {
		// A sorted query compares sets of rows: the order in which the test file lists them does not matter.
		// As written came first because patterns cannot be sorted
		auto sorted = SortRows(expected, actual[0]);
		auto sorted_difference = FirstDifference(sorted, actual, column_types, sort_mode);
		if (sorted_difference == sorted.size() && sorted_difference == actual.size()) {
			return "";
		}
		if (sorted_difference > difference) {
			expected.swap(sorted);
			difference = sorted_difference;
		}
	}
	auto show_expected = [&](size_t i) {
		std::string result;
		for (auto &cell : expected[i]) {
			result += (result.empty() ? "" : "\t") + cell;
		}
		return result;
	};
	return "wrong result\n" + ShowLines("expected", expected.size(), difference, show_expected) + "\n" +
	       ShowLines("actual", actual.size(), difference, show_actual);
}

} // namespace sqllogic
