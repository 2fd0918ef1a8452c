#include "runner.hpp"

#include "result_check.hpp"
#include "session.hpp"
#include "test_file.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <thread>

namespace sqllogic {

namespace {

//! The rest of the file does not apply here
class TestSkip : public std::runtime_error {
	using std::runtime_error::runtime_error;
};

class Runner {
public:
	Runner(const Options &options, const TestFile &file, const std::string &engine, const std::string &test_dir,
	       ProgressFunction progress)
	    : options(options), file(file), engine(engine), test_dir(test_dir), progress(progress),
	      session(options.extension, options.spatial, engine, test_dir + "/.duckdb", options.verify) {
	}

	void Run() {
		std::filesystem::create_directory(test_dir + "/.duckdb");
		session.Open("", false);
		// A file that does not say where the extension is loaded has it from the start
		if (session.HasVibespatial() && !file.requires_vibespatial) {
			session.LoadVibespatial();
		}
		RunBlock(file.commands);
		for (auto &label : labels) {
			if (!label.second.checked) {
				throw TestFailure(label.second.line,
				                  "label '" + label.first +
				                      "' has no expected result and no second query to compare with");
			}
		}
		if (checks_run == 0) {
			throw TestSkip("no statement or query applies");
		}
	}

private:
	struct Label {
		size_t line;
		std::string hash;
		//! Whether the result was compared with anything
		bool checked;
	};

	void RunBlock(const std::vector<Command> &commands) {
		for (auto &command : commands) {
			if (halted) {
				return;
			}
			if (command.type == CommandType::MODE) {
				SetMode(command);
				continue;
			}
			if (skip_level > 0 || IsLeftOut(command)) {
				continue;
			}
			progress(command.line, command.sql);
			try {
				RunCommand(command);
			} catch (TestFailure &) {
				throw;
			} catch (TestSkip &) {
				throw;
			} catch (std::invalid_argument &ex) {
				throw TestFailure(command.line, ex.what());
			} catch (std::exception &ex) {
				// DuckDB's exceptions carry JSON, ErrorData makes it a sentence
				throw TestFailure(command.line, duckdb::ErrorData(ex).Message());
			}
		}
	}

	//! Whether skipif or onlyif say so
	bool IsLeftOut(const Command &command) const {
		auto &skip = command.skip_engines;
		return std::find(skip.begin(), skip.end(), engine) != skip.end() ||
		       std::find(skip.begin(), skip.end(), options.verify ? VERIFY : NO_VERIFY) != skip.end();
	}

	void RunCommand(const Command &command) {
		switch (command.type) {
		case CommandType::STATEMENT:
			RunStatement(command);
			break;
		case CommandType::QUERY:
			RunQuery(command);
			break;
		case CommandType::LOOP:
			RunLoop(command);
			break;
		case CommandType::FOREACH:
			RunForeach(command);
			break;
		case CommandType::REQUIRE:
			Require(command.words[0]);
			break;
		case CommandType::REQUIRE_ENV:
			RequireEnvironment(command);
			break;
		case CommandType::LOAD:
			LoadDatabase(command);
			break;
		case CommandType::RESTART:
			session.Restart();
			break;
		case CommandType::MODE:
			break;
		case CommandType::HALT:
			halted = true;
			break;
		case CommandType::SLEEP:
			Sleep(command);
			break;
		case CommandType::SET_SEED:
			SetSeed(command);
			break;
		}
	}

	//===--------------------------------------------------------------------===//
	// Statements and queries
	//===--------------------------------------------------------------------===//
	duckdb::unique_ptr<duckdb::QueryResult> Execute(const Command &command, const std::string &sql) {
		progress(command.line, sql);
		checks_run++;
		return session.GetConnection(Substitute(command.connection, command.line)).Query(sql);
	}

	//! The first error of a result, or of those of the statements that followed in the same text
	static const duckdb::ErrorData *FindError(duckdb::QueryResult &first) {
		for (auto *result = &first; result; result = result->next.get()) {
			if (result->HasError()) {
				return &result->GetErrorObject();
			}
		}
		return nullptr;
	}

	void RunStatement(const Command &command) {
		auto sql = Substitute(command.sql, command.line);
		auto result = Execute(command, sql);
		auto error = FindError(*result);
		if (!error) {
			if (command.expectation == StatementExpectation::ERROR) {
				Fail(command, sql, "the statement should have failed\nexpected error\n    " + JoinExpected(command));
			}
			return;
		}
		if (command.expectation == StatementExpectation::OK) {
			Fail(command, sql, "the statement failed\n    " + error->Message());
		}
		auto expected = JoinExpected(command);
		auto is_fatal =
		    error->Type() == duckdb::ExceptionType::INTERNAL || error->Type() == duckdb::ExceptionType::FATAL;
		if (is_fatal && expected.find("INTERNAL") == std::string::npos && expected.find("FATAL") == std::string::npos) {
			Fail(command, sql, "the statement broke the database\n    " + error->Message());
		}
		auto contains = [&]() { return error->Message().find(expected) != std::string::npos; };
		if (!expected.empty() && !MatchExpected(expected, error->Message(), contains)) {
			Fail(command, sql, "wrong error\nexpected\n    " + expected + "\nactual\n    " + error->Message());
		}
	}

	void RunQuery(const Command &command) {
		auto sql = Substitute(command.sql, command.line);
		auto result = Execute(command, sql);
		if (auto error = FindError(*result)) {
			Fail(command, sql, "the query failed\n    " + error->Message());
		}
		if (result->next) {
			Fail(command, sql, "a query is one statement");
		}
		if (result->ColumnCount() != command.column_types.size()) {
			Fail(command, sql,
			     "expected " + std::to_string(command.column_types.size()) + " columns, got " +
			         std::to_string(result->ColumnCount()));
		}
		auto rows = ReadResult(*result, command.sort_mode);
		auto label = Substitute(command.label, command.line);
		// A label with nothing below "----" compares with the other queries of that label only
		if (label.empty() || !command.expected.empty()) {
			std::vector<std::string> expected;
			for (auto &line : command.expected) {
				expected.push_back(Substitute(line, command.line));
			}
			auto problem = CheckResult(rows, expected, command.column_types, command.sort_mode);
			if (!problem.empty()) {
				Fail(command, sql, problem);
			}
		}
		if (!label.empty()) {
			CheckLabel(command, sql, label, HashResult(rows));
		}
	}

	void CheckLabel(const Command &command, const std::string &sql, const std::string &name, const std::string &hash) {
		auto entry = labels.find(name);
		if (entry == labels.end()) {
			labels[name] = {command.line, hash, !command.expected.empty()};
			return;
		}
		auto &label = entry->second;
		label.checked = true;
		if (label.hash != hash) {
			Fail(command, sql,
			     "the result differs from that of label '" + name + "' in line " + std::to_string(label.line) +
			         "\nexpected\n    " + label.hash + "\nactual\n    " + hash);
		}
	}

	std::string JoinExpected(const Command &command) {
		std::string result;
		for (auto &line : command.expected) {
			result += (result.empty() ? "" : "\n") + line;
		}
		return Substitute(result, command.line);
	}

	[[noreturn]] static void Fail(const Command &command, const std::string &sql, const std::string &problem) {
		throw TestFailure(command.line, problem + "\nstatement\n" + sql);
	}

	//===--------------------------------------------------------------------===//
	// Variables and loops
	//===--------------------------------------------------------------------===//
	static void ReplaceAll(std::string &text, const std::string &from, const std::string &to) {
		for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
			text.replace(at, from.size(), to);
		}
	}

	std::string Substitute(std::string text, size_t line) {
		for (auto variable = variables.rbegin(); variable != variables.rend(); ++variable) {
			ReplaceAll(text, "${" + variable->first + "}", variable->second);
		}
		for (auto name : {"${TEST_DIR}", "{TEST_DIR}", "__TEST_DIR__"}) {
			ReplaceAll(text, name, test_dir);
		}
		for (auto name : {"${DATA_DIR}", "{DATA_DIR}"}) {
			if (text.find(name) == std::string::npos) {
				continue;
			}
			if (!std::filesystem::is_directory(options.data)) {
				throw TestFailure(line, "no data folder '" + options.data + "' (--data DIR names it)");
			}
			ReplaceAll(text, name, options.data);
		}
		return text;
	}

	int64_t ParseNumber(const std::string &word, size_t line) {
		auto text = Substitute(word, line);
		try {
			size_t end;
			auto number = std::stoll(text, &end);
			if (end == text.size()) {
				return number;
			}
		} catch (std::logic_error &) {
		}
		throw TestFailure(line, "'" + text + "' is not a whole number");
	}

	void RunLoop(const Command &command) {
		auto first = ParseNumber(command.words[1], command.line);
		auto end = ParseNumber(command.words[2], command.line);
		if (first >= end) {
			throw TestFailure(command.line, "a loop that never runs");
		}
		for (auto i = first; i < end && !halted; i++) {
			variables.emplace_back(command.words[0], std::to_string(i));
			RunBody(command);
			variables.pop_back();
		}
	}

	//! "foreach a,b 1,2 3,4" sets several variables at a time
	void RunForeach(const Command &command) {
		auto names = SplitCommas(command.words[0]);
		for (size_t w = 1; w < command.words.size() && !halted; w++) {
			auto word = Substitute(command.words[w], command.line);
			auto values = names.size() == 1 ? std::vector<std::string> {word} : SplitCommas(word);
			if (values.size() != names.size()) {
				throw TestFailure(command.line,
				                  "foreach: '" + word + "' does not have " + std::to_string(names.size()) + " values");
			}
			for (size_t i = 0; i < names.size(); i++) {
				variables.emplace_back(names[i], values[i]);
			}
			RunBody(command);
			variables.resize(variables.size() - names.size());
		}
	}

	//! Runs the body of a loop; a failure says in which round it happened
	void RunBody(const Command &command) {
		try {
			RunBlock(command.body);
		} catch (TestFailure &failure) {
			if (in_reported_failure) {
				throw;
			}
			in_reported_failure = true;
			std::string message = failure.what();
			message += "\nwith";
			for (auto &variable : variables) {
				message += " " + variable.first + "=" + variable.second;
			}
			throw TestFailure(failure.line, message);
		}
	}

	static std::vector<std::string> SplitCommas(const std::string &text) {
		std::vector<std::string> result;
		size_t begin = 0;
		for (auto end = text.find(','); end != std::string::npos; end = text.find(',', begin)) {
			result.push_back(text.substr(begin, end - begin));
			begin = end + 1;
		}
		result.push_back(text.substr(begin));
		return result;
	}

	//===--------------------------------------------------------------------===//
	// The other commands
	//===--------------------------------------------------------------------===//
	void SetMode(const Command &command) {
		if (IsLeftOut(command)) {
			return;
		}
		if (command.words[0] == "skip") {
			skip_level++;
		} else if (skip_level == 0) {
			throw TestFailure(command.line, "mode unskip without mode skip");
		} else {
			skip_level--;
		}
	}

	void Require(const std::string &name) {
		if (name == "vibespatial") {
			if (!session.HasVibespatial()) {
				throw TestSkip("require vibespatial: no --extension");
			}
			session.LoadVibespatial();
		} else if (name == "spatial") {
			if (!session.HasSpatial()) {
				throw TestSkip("require spatial: no --spatial");
			}
			session.LoadSpatial();
		} else if (!session.IsLoaded(name)) {
			throw TestSkip("require " + name + ": not built in");
		}
	}

	void RequireEnvironment(const Command &command) {
		auto &name = command.words[0];
		auto value = std::getenv(name.c_str());
		if (!value) {
			throw TestSkip("require-env " + name + ": not set");
		}
		if (command.words.size() == 2 && command.words[1] != value) {
			throw TestSkip("require-env " + name + ": not " + command.words[1]);
		}
		variables.emplace(variables.begin(), name, value);
	}

	void LoadDatabase(const Command &command) {
		if (command.words.empty()) {
			session.Open("", false);
			return;
		}
		auto path = Substitute(command.words[0], command.line);
		auto read_only = command.words.size() == 2 && command.words[1] == "readonly";
		if (!read_only) {
			// The database starts empty, so only one that is the test's own may be replaced
			if (path.compare(0, test_dir.size() + 1, test_dir + "/") != 0) {
				throw TestFailure(command.line, "load: '" + path + "' is not in {TEST_DIR}");
			}
			std::filesystem::remove(path);
			std::filesystem::remove(path + ".wal");
		}
		session.Open(path, read_only);
	}

	void Sleep(const Command &command) {
		static const std::map<std::string, int64_t> microseconds {
		    {"microsecond", 1}, {"millisecond", 1000}, {"second", 1000000}, {"minute", 60000000}};
		auto unit = command.words[1];
		if (!unit.empty() && unit.back() == 's') {
			unit.pop_back();
		}
		auto entry = microseconds.find(unit);
		if (entry == microseconds.end()) {
			throw TestFailure(command.line, "sleep: unknown unit '" + command.words[1] + "'");
		}
		auto count = ParseNumber(command.words[0], command.line);
		std::this_thread::sleep_for(std::chrono::microseconds(count * entry->second));
	}

	void SetSeed(const Command &command) {
		auto result =
		    session.GetConnection("").Query("SELECT setseed(" + Substitute(command.words[1], command.line) + ")");
		if (result->HasError()) {
			throw TestFailure(command.line, "set seed: " + result->GetError());
		}
	}

private:
	const Options &options;
	const TestFile &file;
	const std::string &engine;
	const std::string &test_dir;
	ProgressFunction progress;
	Session session;

	//! Inner loops last: their names hide those of outer ones
	std::vector<std::pair<std::string, std::string>> variables;
	std::map<std::string, Label> labels;
	size_t checks_run = 0;
	size_t skip_level = 0;
	bool halted = false;
	bool in_reported_failure = false;
};

} // namespace

TestResult RunTestFile(const Options &options, const std::string &path, const std::string &engine,
                       const std::string &test_dir, ProgressFunction progress) {
	TestResult result;
	try {
		auto file = ParseTestFile(path);
		Runner(options, file, engine, test_dir, progress).Run();
		result.verdict = Verdict::PASSED;
	} catch (TestFailure &failure) {
		result.verdict = Verdict::FAILED;
		auto place = failure.line ? path + ":" + std::to_string(failure.line) : path;
		result.message = place + ": " + failure.what();
	} catch (TestSkip &skip) {
		result.verdict = Verdict::SKIPPED;
		result.message = skip.what();
	} catch (std::exception &ex) {
		result.verdict = Verdict::FAILED;
		result.message = path + ": " + duckdb::ErrorData(ex).Message();
	}
	return result;
}

EngineProbe ProbeEngines(const Options &options, const std::string &test_dir) {
	EngineProbe probe;
	try {
		Session session(options.extension, "", "", test_dir, false);
		session.Open("", false);
		session.LoadVibespatial();
		auto has_setting = session.HasEngineSetting();
		for (auto &name : EngineNames()) {
			if (options.engine != "all" && options.engine != name) {
				continue;
			}
			// Without the setting there is one engine
			auto error = has_setting     ? session.TrySetEngine(name)
			             : name == "cpu" ? ""
			                             : "the extension has no setting vibe_execution_mode";
			if (error.empty()) {
				probe.engines.push_back(name);
			} else {
				probe.error.append("engine ").append(name).append(" is not present: ").append(error).append("\n");
			}
		}
	} catch (std::exception &ex) {
		probe.error = "cannot load the extension: " + duckdb::ErrorData(ex).Message() + "\n";
	}
	return probe;
}

} // namespace sqllogic
