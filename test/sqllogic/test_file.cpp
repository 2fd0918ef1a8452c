#include "test_file.hpp"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <fstream>
#include <sstream>

namespace sqllogic {

const std::vector<std::string> &EngineNames() {
	static const std::vector<std::string> names {"cpu", "gpu"};
	return names;
}

std::vector<std::string> SplitWords(const std::string &text) {
	std::istringstream stream(text);
	std::vector<std::string> words;
	std::string word;
	while (stream >> word) {
		words.push_back(word);
	}
	return words;
}

namespace {

//! con1, con_writer, con${i}: the rule that tells a connection from a label
bool IsConnectionName(const std::string &word) {
	return word.size() > 3 && word.compare(0, 3, "con") == 0 &&
	       (std::isdigit(static_cast<unsigned char>(word[3])) || word[3] == '_' || word[3] == '$');
}

class Parser {
public:
	explicit Parser(const std::string &path) {
		std::ifstream stream(path, std::ios::binary);
		if (!stream) {
			throw TestFailure(0, "cannot read the file");
		}
		std::string line;
		while (std::getline(stream, line)) {
			if (!line.empty() && line.back() == '\r') {
				line.pop_back();
			}
			lines.push_back(line);
		}
		file.path = path;
	}

	TestFile Parse() {
		file.commands = ParseBlock(0);
		if (!has_check) {
			throw TestFailure(0, "the file has no statement and no query");
		}
		return std::move(file);
	}

private:
	//! Reads commands up to the end of the file, or up to the "endloop" of the loop opened at loop_line
	std::vector<Command> ParseBlock(size_t loop_line) {
		std::vector<Command> commands;
		std::vector<std::string> skip_engines;
		size_t condition_line = 0;
		while (position < lines.size()) {
			auto line_number = position + 1;
			auto &line = lines[position];
			if (IsBlank(line) || line[0] == '#') {
				position++;
				continue;
			}
			auto words = SplitWords(line);
			auto directive = words[0];
			words.erase(words.begin());
			position++;

			if (directive == "skipif" || directive == "onlyif") {
				AddCondition(directive, words, line_number, skip_engines);
				condition_line = line_number;
				continue;
			}
			if (directive == "endloop") {
				if (!loop_line) {
					throw TestFailure(line_number, "endloop without loop");
				}
				CheckNoCondition(skip_engines, condition_line);
				ExpectWords(words, 0, 0, line_number, "endloop");
				return commands;
			}
			Command command;
			command.line = line_number;
			command.words = words;
			ParseCommand(directive, command);
			if (!command.body.empty() && !skip_engines.empty()) {
				throw TestFailure(condition_line, "skipif and onlyif do not apply to loops");
			}
			command.skip_engines.swap(skip_engines);
			commands.push_back(std::move(command));
		}
		if (loop_line) {
			throw TestFailure(loop_line, "loop without endloop");
		}
		CheckNoCondition(skip_engines, condition_line);
		return commands;
	}

	void ParseCommand(const std::string &directive, Command &command) {
		auto &words = command.words;
		auto line = command.line;
		if (directive == "statement") {
			ParseStatement(command);
		} else if (directive == "query") {
			ParseQuery(command);
		} else if (directive == "loop") {
			command.type = CommandType::LOOP;
			ExpectWords(words, 3, 3, line, "loop NAME FIRST END");
			ParseLoopBody(command);
		} else if (directive == "foreach") {
			command.type = CommandType::FOREACH;
			ExpectWords(words, 2, SIZE_MAX, line, "foreach NAME VALUE...");
			ParseLoopBody(command);
		} else if (directive == "require") {
			command.type = CommandType::REQUIRE;
			ExpectWords(words, 1, 1, line, "require NAME");
			if (words[0] == "vibespatial") {
				file.requires_vibespatial = true;
			}
		} else if (directive == "require-env") {
			command.type = CommandType::REQUIRE_ENV;
			ExpectWords(words, 1, 2, line, "require-env NAME [VALUE]");
		} else if (directive == "load") {
			command.type = CommandType::LOAD;
			ExpectWords(words, 0, 2, line, "load [PATH [readonly|readwrite]]");
			if (words.size() == 2 && words[1] != "readonly" && words[1] != "readwrite") {
				throw TestFailure(line, "load: unknown word '" + words[1] + "'");
			}
		} else if (directive == "restart") {
			command.type = CommandType::RESTART;
			ExpectWords(words, 0, 0, line, "restart");
		} else if (directive == "mode") {
			command.type = CommandType::MODE;
			ExpectWords(words, 1, 1, line, "mode skip|unskip");
			if (words[0] != "skip" && words[0] != "unskip") {
				throw TestFailure(line, "unknown mode '" + words[0] + "'");
			}
		} else if (directive == "halt") {
			command.type = CommandType::HALT;
			ExpectWords(words, 0, 0, line, "halt");
		} else if (directive == "sleep") {
			command.type = CommandType::SLEEP;
			ExpectWords(words, 2, 2, line, "sleep COUNT UNIT");
		} else if (directive == "set") {
			command.type = CommandType::SET_SEED;
			ExpectWords(words, 2, 2, line, "set seed NUMBER");
			if (words[0] != "seed") {
				throw TestFailure(line, "set: unknown word '" + words[0] + "'");
			}
		} else {
			throw TestFailure(line, "unknown directive '" + directive + "'");
		}
	}

	void ParseStatement(Command &command) {
		command.type = CommandType::STATEMENT;
		ExpectWords(command.words, 1, 2, command.line, "statement ok|error|maybe [CONNECTION]");
		auto &expectation = command.words[0];
		if (expectation == "ok") {
			command.expectation = StatementExpectation::OK;
		} else if (expectation == "error") {
			command.expectation = StatementExpectation::ERROR;
		} else if (expectation == "maybe") {
			command.expectation = StatementExpectation::MAYBE;
		} else {
			throw TestFailure(command.line, "statement: unknown word '" + expectation + "'");
		}
		if (command.words.size() == 2) {
			if (!IsConnectionName(command.words[1])) {
				throw TestFailure(command.line,
				                  "'" + command.words[1] + "' is not a connection name (con1, con2, con_name)");
			}
			command.connection = command.words[1];
		}
		auto has_result = ParseSQL(command);
		if (command.expectation == StatementExpectation::OK && has_result) {
			throw TestFailure(command.line, "statement ok takes no result (is this a query?)");
		}
		// An error without its text would also pass on a misspelt function name
		if (command.expectation == StatementExpectation::ERROR && command.expected.empty()) {
			throw TestFailure(command.line, "statement error needs the expected text after ----");
		}
	}

	void ParseQuery(Command &command) {
		command.type = CommandType::QUERY;
		ExpectWords(command.words, 1, 4, command.line, "query TYPES [SORT] [LABEL] [CONNECTION]");
		command.column_types = command.words[0];
		if (command.column_types.find_first_not_of("TIR") != std::string::npos) {
			throw TestFailure(command.line, "query: column types are T, I and R, not '" + command.column_types + "'");
		}
		bool has_sort = false;
		for (size_t i = 1; i < command.words.size(); i++) {
			auto &word = command.words[i];
			auto is_sort = word == "nosort" || word == "rowsort" || word == "valuesort";
			auto &name = IsConnectionName(word) ? command.connection : command.label;
			if (is_sort ? has_sort : !name.empty()) {
				throw TestFailure(command.line, "query: unknown word '" + word + "'");
			}
			if (is_sort) {
				has_sort = true;
				command.sort_mode = word == "nosort"    ? SortMode::NONE
				                    : word == "rowsort" ? SortMode::ROWS
				                                        : SortMode::VALUES;
			} else {
				name = word;
			}
		}
		if (!ParseSQL(command)) {
			throw TestFailure(command.line, "query without ----");
		}
	}

	//! Reads the SQL and the lines after "----"; returns whether there was a "----"
	bool ParseSQL(Command &command) {
		has_check = true;
		bool has_result = false;
		for (; position < lines.size() && !lines[position].empty(); position++) {
			auto &line = lines[position];
			if (has_result) {
				command.expected.push_back(line);
			} else if (line == "----") {
				has_result = true;
			} else {
				command.sql += (command.sql.empty() ? "" : "\n") + line;
			}
		}
		if (IsBlank(command.sql)) {
			throw TestFailure(command.line, "no SQL below the line");
		}
		return has_result;
	}

	void ParseLoopBody(Command &command) {
		command.body = ParseBlock(command.line);
		if (command.body.empty()) {
			throw TestFailure(command.line, "empty loop");
		}
	}

	static void AddCondition(const std::string &directive, const std::vector<std::string> &words, size_t line,
	                         std::vector<std::string> &skip_engines) {
		ExpectWords(words, 1, 1, line, directive + " ENGINE");
		if (words[0] == VERIFY) {
			skip_engines.emplace_back(directive == "skipif" ? VERIFY : NO_VERIFY);
			return;
		}
		auto &names = EngineNames();
		if (std::find(names.begin(), names.end(), words[0]) == names.end()) {
			throw TestFailure(line, directive + ": unknown engine '" + words[0] + "'");
		}
		for (auto &name : names) {
			if ((name == words[0]) == (directive == "skipif")) {
				skip_engines.push_back(name);
			}
		}
	}

	static void CheckNoCondition(const std::vector<std::string> &skip_engines, size_t line) {
		if (!skip_engines.empty()) {
			throw TestFailure(line, "skipif or onlyif without a command");
		}
	}

	static void ExpectWords(const std::vector<std::string> &words, size_t least, size_t most, size_t line,
	                        const std::string &usage) {
		if (words.size() < least || words.size() > most) {
			throw TestFailure(line, "expected: " + usage);
		}
	}

	static bool IsBlank(const std::string &text) {
		return text.find_first_not_of(" \t\n") == std::string::npos;
	}

private:
	TestFile file;
	std::vector<std::string> lines;
	size_t position = 0;
	bool has_check = false;
};

} // namespace

TestFile ParseTestFile(const std::string &path) {
	return Parser(path).Parse();
}

} // namespace sqllogic
