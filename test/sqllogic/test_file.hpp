//===----------------------------------------------------------------------===//
//                         vibespatial
//
// test/sqllogic/test_file.hpp
//
//
//===----------------------------------------------------------------------===//

#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace sqllogic {

enum class CommandType {
	STATEMENT,
	QUERY,
	LOOP,
	FOREACH,
	REQUIRE,
	REQUIRE_ENV,
	LOAD,
	RESTART,
	MODE,
	HALT,
	SLEEP,
	SET_SEED
};

enum class StatementExpectation { OK, ERROR, MAYBE };

enum class SortMode { NONE, ROWS, VALUES };

//! One command of a test file. Text is kept as written: variables are replaced when the command runs
struct Command {
	CommandType type;
	size_t line;
	//! The words after the directive
	std::vector<std::string> words;
	//! Engines on which the command is left out; VERIFY or NO_VERIFY with the option --verify or without it
	std::vector<std::string> skip_engines;

	//! STATEMENT and QUERY: the SQL, the connection (empty: the default one) and the lines after "----"
	std::string sql;
	std::string connection;
	std::vector<std::string> expected;

	//! STATEMENT
	StatementExpectation expectation = StatementExpectation::OK;

	//! QUERY: one letter of T, I, R for each column
	std::string column_types;
	SortMode sort_mode = SortMode::NONE;
	std::string label;

	//! LOOP and FOREACH
	std::vector<Command> body;
};

struct TestFile {
	std::string path;
	std::vector<Command> commands;
	//! Whether the file says itself where the extension is loaded ("require vibespatial")
	bool requires_vibespatial = false;
};

//! A failed test: where, and the text to print
class TestFailure : public std::runtime_error {
public:
	TestFailure(size_t line, const std::string &message) : std::runtime_error(message), line(line) {
	}

	size_t line;
};

//! "skipif verify", "onlyif verify": DuckDB runs each query several times, and without its optimizer, too, which makes every join a
//! cross product
constexpr const char *VERIFY = "verify";
constexpr const char *NO_VERIFY = "no verify";

//! The names that "--engine", "skipif" and "onlyif" know
const std::vector<std::string> &EngineNames();

//! Splits at runs of blanks and tabs
std::vector<std::string> SplitWords(const std::string &text);

//! Reads a test file; throws TestFailure for anything the format does not have
TestFile ParseTestFile(const std::string &path);

} // namespace sqllogic
