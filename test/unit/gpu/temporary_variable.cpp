#include "gpu_plugin/compile/temporary_variable.hpp"

#include <atomic>
#include <catch.hpp>
#include <thread>
#include <vector>

using vibespatial::TemporaryVariable;

static std::string Variable(const char *name) {
	const char *value = std::getenv(name);
	return value ? value : "(none)";
}

TEST_CASE("A temporary variable is there as long as it lives", "[temporary_variable]") {
	const auto path = Variable("PATH");
	for (int i = 0; i < 3; i++) {
		TemporaryVariable variable("VIBESPATIAL_TEST_TEMPORARY", "2");
		CHECK(Variable("VIBESPATIAL_TEST_TEMPORARY") == "2");
		CHECK(Variable("PATH") == path);
	}
	CHECK(Variable("VIBESPATIAL_TEST_TEMPORARY") == "(none)");
	CHECK(Variable("PATH") == path);
	// The environment still takes new variables
	REQUIRE(setenv("VIBESPATIAL_TEST_OTHER", "yes", 1) == 0);
	CHECK(Variable("VIBESPATIAL_TEST_OTHER") == "yes");
	CHECK(Variable("PATH") == path);
	unsetenv("VIBESPATIAL_TEST_OTHER");
}

TEST_CASE("A temporary variable does not change one of the user's", "[temporary_variable]") {
	setenv("VIBESPATIAL_TEST_TEMPORARY", "mine", 1);
	{
		TemporaryVariable variable("VIBESPATIAL_TEST_TEMPORARY", "2");
		CHECK(Variable("VIBESPATIAL_TEST_TEMPORARY") == "mine");
	}
	CHECK(Variable("VIBESPATIAL_TEST_TEMPORARY") == "mine");
	unsetenv("VIBESPATIAL_TEST_TEMPORARY");
}

TEST_CASE("Other threads read the environment while a temporary variable comes and goes", "[temporary_variable]") {
	const auto path = Variable("PATH");
	std::atomic<bool> stop {false}, wrong {false};
	std::vector<std::thread> readers;
	for (int i = 0; i < 3; i++) {
		readers.emplace_back([&] {
			while (!stop) {
				wrong = wrong || Variable("PATH") != path;
			}
		});
	}
	for (int i = 0; i < 200; i++) {
		TemporaryVariable variable("VIBESPATIAL_TEST_TEMPORARY", "2");
		wrong = wrong || Variable("VIBESPATIAL_TEST_TEMPORARY") != "2";
	}
	stop = true;
	for (auto &reader : readers) {
		reader.join();
	}
	CHECK_FALSE(wrong);
}
