#include "gpu_plugin/compile/kernel_cache.hpp"
#include "temporary_folder.hpp"

#include <catch.hpp>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <fstream>
#include <random>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>

using vibespatial::KernelCache;
using vibespatial::KernelKey;

namespace {

constexpr uint64_t LARGE = 1 << 30;

KernelKey KeyOf(const std::string &name) {
	KernelKey key;
	key.name = name;
	key.source = "source";
	key.options = "options";
	key.capability = 90;
	key.nvrtc = "13.0";
	key.cccl = "1.2.1";
	return key;
}

std::string Payload(size_t size, unsigned seed) {
	std::mt19937 random(seed);
	std::string payload(size, 0);
	for (auto &byte : payload) {
		byte = static_cast<char>(random());
	}
	return payload;
}

std::string ReadFile(const std::string &path) {
	std::ifstream file(path, std::ios::binary);
	return std::string(std::istreambuf_iterator<char>(file), {});
}

void WriteFile(const std::string &path, const std::string &bytes) {
	std::ofstream file(path, std::ios::binary | std::ios::trunc);
	file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

bool FileExists(const std::string &path) {
	return access(path.c_str(), F_OK) == 0;
}

//! Runs `body` in a process of its own; true when it returned true
template <class BODY>
bool InProcess(BODY &&body) {
	const pid_t child = fork();
	if (child == 0) {
		_exit(body() ? 0 : 1);
	}
	int status = 0;
	waitpid(child, &status, 0);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

} // namespace

TEST_CASE("A kernel comes back from the cache as it went in", "[gpu][kernel_cache]") {
	TemporaryFolder folder;
	const auto payload = Payload(100000, 1);
	std::string found;
	{
		KernelCache cache(folder.path + "/a/b", LARGE);
		REQUIRE(cache.Usable());
		REQUIRE_FALSE(cache.Load(KeyOf("one"), found));
		cache.Store(KeyOf("one"), payload);
		REQUIRE(cache.Load(KeyOf("one"), found));
		REQUIRE(found == payload);
		REQUIRE(cache.Problem().empty());
	}
	KernelCache again(folder.path + "/a/b", LARGE);
	REQUIRE(again.Load(KeyOf("one"), found));
	REQUIRE(found == payload);
	struct stat info;
	REQUIRE(stat((folder.path + "/a/b").c_str(), &info) == 0);
	REQUIRE((info.st_mode & 0777) == 0700);
}

TEST_CASE("Everything in a key matters", "[gpu][kernel_cache]") {
	TemporaryFolder folder;
	KernelCache cache(folder.path, LARGE);
	cache.Store(KeyOf("one"), "payload");
	std::string found;
	std::vector<KernelKey> others(6, KeyOf("one"));
	others[0].name = "two";
	others[1].source = "other";
	others[2].options = "other";
	others[3].capability = 80;
	others[4].nvrtc = "13.1";
	others[5].cccl = "1.2.2";
	for (auto &other : others) {
		REQUIRE_FALSE(cache.Load(other, found));
		// Not even under the name of the right file
		WriteFile(folder.path + "/" + other.FileName(), ReadFile(folder.path + "/" + KeyOf("one").FileName()));
		REQUIRE_FALSE(cache.Load(other, found));
		REQUIRE(found.empty());
		REQUIRE(cache.Problem().find("made for other") != std::string::npos);
		REQUIRE_FALSE(FileExists(folder.path + "/" + other.FileName()));
	}
	REQUIRE(cache.Load(KeyOf("one"), found));
}

TEST_CASE("A flipped bit anywhere is noticed, and the file is made anew", "[gpu][kernel_cache]") {
	TemporaryFolder folder;
	KernelCache cache(folder.path, LARGE);
	const auto payload = Payload(500, 2);
	const auto path = folder.path + "/" + KeyOf("one").FileName();
	cache.Store(KeyOf("one"), payload);
	const auto good = ReadFile(path);
	for (size_t at = 0; at < good.size(); at++) {
		auto bad = good;
		bad[at] = static_cast<char>(bad[at] ^ (1 << (at % 8)));
		WriteFile(path, bad);
		std::string found;
		REQUIRE_FALSE(cache.Load(KeyOf("one"), found));
		REQUIRE_FALSE(FileExists(path));
	}
	cache.Store(KeyOf("one"), payload);
	std::string found;
	REQUIRE(cache.Load(KeyOf("one"), found));
}

TEST_CASE("A file that was cut short or made longer is noticed", "[gpu][kernel_cache]") {
	TemporaryFolder folder;
	KernelCache cache(folder.path, LARGE);
	const auto path = folder.path + "/" + KeyOf("one").FileName();
	cache.Store(KeyOf("one"), Payload(300, 3));
	const auto good = ReadFile(path);
	for (size_t size = 0; size <= good.size() + 3; size++) {
		if (size == good.size()) {
			continue;
		}
		auto bad = good;
		bad.resize(size);
		WriteFile(path, bad);
		std::string found;
		REQUIRE_FALSE(cache.Load(KeyOf("one"), found));
	}
}

TEST_CASE("A folder that others can write to, or that belongs to another, is refused", "[gpu][kernel_cache]") {
	TemporaryFolder folder;
	KernelCache(folder.path, LARGE).Store(KeyOf("one"), "payload");
	std::string found;
	for (mode_t mode : {0777, 0720, 0702}) {
		chmod(folder.path.c_str(), mode);
		KernelCache cache(folder.path, LARGE);
		REQUIRE_FALSE(cache.Usable());
		REQUIRE(cache.Problem().find("chmod go-w") != std::string::npos);
		REQUIRE_FALSE(cache.Load(KeyOf("one"), found));
		cache.Store(KeyOf("two"), "payload");
		REQUIRE_FALSE(FileExists(folder.path + "/" + KeyOf("two").FileName()));
	}
	chmod(folder.path.c_str(), 0700);
	if (geteuid() == 0) {
		REQUIRE(chown(folder.path.c_str(), 65534, 65534) == 0);
		KernelCache cache(folder.path, LARGE);
		REQUIRE_FALSE(cache.Usable());
		REQUIRE(cache.Problem().find("belongs to another user") != std::string::npos);
		REQUIRE_FALSE(cache.Load(KeyOf("one"), found));
		REQUIRE(chown(folder.path.c_str(), 0, 0) == 0);
		// A file of another user in a folder of our own is not taken either
		const auto path = folder.path + "/" + KeyOf("one").FileName();
		REQUIRE(chown(path.c_str(), 65534, 65534) == 0);
		KernelCache owned(folder.path, LARGE);
		REQUIRE_FALSE(owned.Load(KeyOf("one"), found));
	}
}

TEST_CASE("A link in place of a kernel is not followed", "[gpu][kernel_cache]") {
	TemporaryFolder folder;
	KernelCache cache(folder.path, LARGE);
	cache.Store(KeyOf("one"), "payload");
	const auto path = folder.path + "/" + KeyOf("one").FileName();
	REQUIRE(rename(path.c_str(), (folder.path + "/elsewhere").c_str()) == 0);
	REQUIRE(symlink("elsewhere", path.c_str()) == 0);
	std::string found;
	REQUIRE_FALSE(cache.Load(KeyOf("one"), found));
}

TEST_CASE("A folder that cannot be written or made is no cache", "[gpu][kernel_cache]") {
	TemporaryFolder folder;
	WriteFile(folder.path + "/file", "x");
	for (const char *bad : {"/file", "/file/below"}) {
		KernelCache cache(folder.path + bad, LARGE);
		REQUIRE_FALSE(cache.Usable());
		REQUIRE_FALSE(cache.Problem().empty());
	}
	KernelCache relative("some/folder", LARGE);
	REQUIRE(relative.Problem().find("absolute") != std::string::npos);
	REQUIRE(InProcess([&] {
		const auto locked = folder.path + "/locked";
		mkdir(locked.c_str(), 0500);
		if (geteuid() == 0) {
			// Root writes anywhere: be nobody, whose folder it is
			if (chown(locked.c_str(), 65534, 65534) != 0 || chmod(folder.path.c_str(), 0755) != 0 ||
			    setuid(65534) != 0) {
				return false;
			}
		}
		KernelCache cache(locked, LARGE);
		std::string found;
		cache.Store(KeyOf("one"), "payload");
		return !cache.Usable() && !cache.Problem().empty() && !cache.Load(KeyOf("one"), found);
	}));
}

TEST_CASE("A full disk loses nothing but the cached kernel", "[gpu][kernel_cache]") {
	TemporaryFolder folder;
	// A limit on the size of files fails the write in the middle, as a full disk does
	REQUIRE(InProcess([&] {
		signal(SIGXFSZ, SIG_IGN);
		rlimit limit {4096, 4096};
		KernelCache cache(folder.path, LARGE);
		cache.Store(KeyOf("small"), "payload");
		if (setrlimit(RLIMIT_FSIZE, &limit) != 0) {
			return false;
		}
		cache.Store(KeyOf("large"), Payload(100000, 4));
		std::string found;
		return cache.Problem().find("cannot be written") != std::string::npos && !cache.Load(KeyOf("large"), found) &&
		       cache.Load(KeyOf("small"), found) && cache.Measure().files == 1;
	}));
	// Nothing half-written is left
	KernelCache cache(folder.path, LARGE);
	REQUIRE(cache.Measure().files == 1);
	std::string command = "test $(ls '" + folder.path + "' | wc -l) = 1";
	REQUIRE(std::system(command.c_str()) == 0);
}

TEST_CASE("Beyond the limit, what was not used for longest goes", "[gpu][kernel_cache]") {
	TemporaryFolder folder;
	KernelCache cache(folder.path, 50000);
	std::string found;
	for (int i = 0; i < 4; i++) {
		cache.Store(KeyOf("k" + std::to_string(i)), Payload(10000, 5));
		std::this_thread::sleep_for(std::chrono::milliseconds(15));
	}
	REQUIRE(cache.Load(KeyOf("k0"), found)); // used again: now k1 is the oldest
	std::this_thread::sleep_for(std::chrono::milliseconds(15));
	cache.Store(KeyOf("k4"), Payload(10000, 5));
	cache.Store(KeyOf("k5"), Payload(10000, 5));
	REQUIRE(cache.Measure().bytes <= 50000);
	REQUIRE(cache.Load(KeyOf("k0"), found));
	REQUIRE(cache.Load(KeyOf("k5"), found));
	REQUIRE_FALSE(cache.Load(KeyOf("k1"), found));
}

TEST_CASE("Files of others in the folder are left alone", "[gpu][kernel_cache]") {
	TemporaryFolder folder;
	const auto name = KeyOf("one").FileName();
	const std::vector<std::string> others {"movie.part", "movie.kernel", ".part", ".kernel", "linux-sm90.kernel",
	                                       "one-sm90-0123456789abcdef01234567.part",
	                                       // Ours by name, not by content
	                                       KeyOf("two").FileName(), name + ".12.3.part",
	                                       // Ours by content, not by name
	                                       "x" + name + "x", name + ".part", name + ".12.part", name + ".12.x.part"};
	KernelCache source(folder.path, LARGE);
	source.Store(KeyOf("one"), "payload");
	const auto sealed = ReadFile(folder.path + "/" + name);
	const std::string old_part = folder.path + "/" + name + ".12.4.part", cut = folder.path + "/" + name + ".12.5.part";
	WriteFile(old_part, sealed.substr(0, 30));
	WriteFile(cut, "");
	for (auto &other : others) {
		const bool by_content = other.find(name) != std::string::npos && other != name + ".12.3.part";
		WriteFile(folder.path + "/" + other, by_content ? sealed : "a film of somebody's holidays");
	}
	// All of them are old
	const timespec long_ago[2] = {{1000, 0}, {1000, 0}};
	for (auto &path : {old_part, cut}) {
		REQUIRE(utimensat(AT_FDCWD, path.c_str(), long_ago, 0) == 0);
	}
	for (auto &other : others) {
		REQUIRE(utimensat(AT_FDCWD, (folder.path + "/" + other).c_str(), long_ago, 0) == 0);
	}
	// So small a limit that every kernel goes
	KernelCache cache(folder.path, 1);
	REQUIRE(cache.Measure().files == 1);
	std::string found;
	REQUIRE_FALSE(cache.Load(KeyOf("two"), found));
	REQUIRE(cache.Problem().find("left alone") != std::string::npos);
	cache.Store(KeyOf("two"), "payload");
	cache.Store(KeyOf("three"), "payload");
	for (auto &other : others) {
		INFO(other);
		CHECK(FileExists(folder.path + "/" + other));
	}
	CHECK(ReadFile(folder.path + "/" + KeyOf("two").FileName()) == "a film of somebody's holidays");
	// What processes that are gone left behind is ours
	CHECK_FALSE(FileExists(old_part));
	CHECK_FALSE(FileExists(cut));
	CHECK_FALSE(FileExists(folder.path + "/" + name));
}

TEST_CASE("Ten processes use one cache at once", "[gpu][kernel_cache]") {
	TemporaryFolder folder;
	std::vector<pid_t> children;
	for (unsigned process = 0; process < 10; process++) {
		const pid_t child = fork();
		if (child == 0) {
			// Small enough a limit that they also remove what others read
			KernelCache cache(folder.path, 400000);
			std::mt19937 random(process);
			bool good = true;
			for (int i = 0; i < 150; i++) {
				const unsigned which = random() % 8;
				const auto key = KeyOf("k" + std::to_string(which));
				std::string found;
				if (cache.Load(key, found)) {
					good = good && found == Payload(50000 + which, which);
				} else {
					cache.Store(key, Payload(50000 + which, which));
				}
			}
			_exit(good ? 0 : 1);
		}
		children.push_back(child);
	}
	for (auto child : children) {
		int status = 0;
		waitpid(child, &status, 0);
		REQUIRE((WIFEXITED(status) && WEXITSTATUS(status) == 0));
	}
	KernelCache cache(folder.path, LARGE);
	std::string found;
	for (unsigned which = 0; which < 8; which++) {
		if (cache.Load(KeyOf("k" + std::to_string(which)), found)) {
			REQUIRE(found == Payload(50000 + which, which));
		}
	}
	REQUIRE(cache.Problem().empty());
}
