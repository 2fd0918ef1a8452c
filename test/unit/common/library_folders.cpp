#include "catch.hpp"

#include "engine/common/library_folders.hpp"

#include <climits>
#include <cstdlib>
#include <unistd.h>

using namespace vibespatial;

TEST_CASE("plug-ins are looked for beside the program, however it was started", "[library_folders]") {
	char here[PATH_MAX], program[PATH_MAX];
	REQUIRE(getcwd(here, sizeof(here)));
	REQUIRE(realpath("/proc/self/exe", program));
	const std::string path = program, own = path.substr(0, path.rfind('/'));
	// Where a relative name of the program leads nowhere
	REQUIRE(chdir("/") == 0);
	const auto folders = PluginFolders();
	REQUIRE(chdir(here) == 0);
	REQUIRE(folders.size() >= 5);
	CHECK(folders[0] == own + "/vibespatial");
	CHECK(folders[1] == own);
	for (auto &folder : folders) {
		CHECK(folder[0] == '/');
	}
}

TEST_CASE("a list of folders is split at its colons", "[library_folders]") {
	CHECK(SplitFolders("").empty());
	CHECK(SplitFolders("/a::/b:") == std::vector<std::string> {"/a", "/b"});
}
