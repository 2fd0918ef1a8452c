#include "engine/common/trusted_file.hpp"
#include "engine/common/library_folders.hpp"
#include "temporary_folder.hpp"

#include <catch.hpp>
#include <fstream>
#include <sys/stat.h>

using namespace vibespatial; // NOLINT: a test

static std::string Made(const std::string &path, const std::string &bytes = "bytes", mode_t mode = 0644) {
	std::ofstream(path, std::ios::binary) << bytes;
	chmod(path.c_str(), mode);
	return path;
}

TEST_CASE("A file is trusted that belongs to the user or root and that not everybody can write", "[trusted_file]") {
	TemporaryFolder folder;
	std::string why;
	const auto file = Made(folder.path + "/plugin.so");
	CHECK(IsTrustedFile(file, why));
	CHECK(IsTrustedLibrary(file, why));
	for (mode_t mode : {0600, 0664, 0755}) {
		chmod(file.c_str(), mode);
		CHECK(IsTrustedFile(file, why));
	}
	chmod(file.c_str(), 0646);
	CHECK_FALSE(IsTrustedFile(file, why));
	CHECK_FALSE(IsTrustedLibrary(file, why));
	CHECK(why.find("written by everybody") != std::string::npos);
	chmod(file.c_str(), 0644);
	// Whoever can write the folder can put another file in its place, unless the folder is like /tmp
	chmod(folder.path.c_str(), 0777);
	CHECK_FALSE(IsTrustedFile(file, why));
	CHECK(why.find("written by everybody") != std::string::npos);
	chmod(folder.path.c_str(), 01777);
	CHECK(IsTrustedFile(file, why));
	CHECK_FALSE(IsTrustedFile(folder.path, why));
	CHECK(why.find("is not a file") != std::string::npos);
	CHECK_FALSE(IsTrustedFile(folder.path + "/none", why));
	CHECK(why.find("No such file") != std::string::npos);
	for (auto *relative : {"", "plugin.so", "./plugin.so"}) {
		CHECK_FALSE(IsTrustedFile(relative, why));
		CHECK(why.find("absolute") != std::string::npos);
	}
	if (geteuid() == 0) {
		REQUIRE(chown(file.c_str(), 65534, 65534) == 0);
		CHECK_FALSE(IsTrustedFile(file, why));
		CHECK(why.find("belongs to another user (id 65534)") != std::string::npos);
		// A library of another package may belong to whoever installed it
		CHECK(IsTrustedLibrary(file, why));
	}
}

TEST_CASE("A text is found in a file wherever it is", "[trusted_file]") {
	TemporaryFolder folder;
	const std::string text = "vibespatial-engine-0.1.0-0123456789abcdef";
	for (size_t before : {size_t(0), size_t(1), size_t((1 << 16) - 20), size_t(1 << 16), size_t(200001)}) {
		const auto file = Made(folder.path + "/file", std::string(before, 'v') + text + "end");
		CHECK(FileContains(file, text));
		CHECK_FALSE(FileContains(file, text + "0"));
	}
	CHECK_FALSE(FileContains(Made(folder.path + "/file", ""), text));
	CHECK_FALSE(FileContains(folder.path + "/none", text));
}

TEST_CASE("Libraries are not searched for in relative folders", "[trusted_file]") {
	CHECK(SplitFolders("relative:/usr/lib:./x::/opt:") == std::vector<std::string> {"/usr/lib", "/opt"});
	setenv("VIBESPATIAL_TEST_FOLDER", "relative", 1);
	CHECK(FolderVariable("VIBESPATIAL_TEST_FOLDER").empty());
	setenv("VIBESPATIAL_TEST_FOLDER", "/opt", 1);
	CHECK(FolderVariable("VIBESPATIAL_TEST_FOLDER") == "/opt");
	unsetenv("VIBESPATIAL_TEST_FOLDER");
	CHECK(FolderVariable("VIBESPATIAL_TEST_FOLDER").empty());

	TemporaryFolder folder;
	Made(folder.path + "/libvibespatial_test.so");
	char before[4096];
	REQUIRE(getcwd(before, sizeof(before)));
	const char *path = getenv("LD_LIBRARY_PATH");
	const std::string kept = path ? path : "";
	REQUIRE(chdir(folder.path.c_str()) == 0);
	std::string why;
	// The loader takes both separators, and an empty entry for the current folder
	for (auto *list : {".", ":/usr/lib", "/usr/lib:", "/usr/lib::/opt", "/usr/lib;./", "../"}) {
		INFO(list);
		setenv("LD_LIBRARY_PATH", list, 1);
		CHECK(IsSafeForLoader("libvibespatial_test.so", why) == (std::string(list) == "../"));
		CHECK(IsSafeForLoader("libvibespatial_other.so", why));
	}
	setenv("LD_LIBRARY_PATH", "/usr/lib:/opt", 1);
	CHECK(IsSafeForLoader("libvibespatial_test.so", why));
	unsetenv("LD_LIBRARY_PATH");
	CHECK(IsSafeForLoader("libvibespatial_test.so", why));
	if (!kept.empty()) {
		setenv("LD_LIBRARY_PATH", kept.c_str(), 1);
	}
	REQUIRE(chdir(before) == 0);
}
