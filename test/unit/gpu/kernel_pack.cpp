#include "gpu_plugin/compile/kernel_pack.hpp"
#include "temporary_folder.hpp"

#include <catch.hpp>
#include <fstream>

using vibespatial::KernelKey;
using vibespatial::KernelPack;

namespace {

KernelKey KeyOf(const std::string &name, int capability) {
	KernelKey key;
	key.name = name;
	key.source = "source of " + name;
	key.options = "options";
	key.capability = capability;
	key.nvrtc = "13.0";
	return key;
}

void WritePack(const std::string &path) {
	std::vector<KernelPack::Item> items;
	for (int capability : {80, 90, 100, 120}) {
		for (const char *name : {"bounds", "radix_sort_u64_i32"}) {
			items.push_back({KeyOf(name, capability), std::string(name) + std::to_string(capability)});
		}
	}
	KernelPack::Write(path, items);
}

} // namespace

TEST_CASE("Same major version, and a minor version not above the device's", "[gpu][kernel_pack]") {
	REQUIRE(KernelPack::Runs(80, 80));
	REQUIRE(KernelPack::Runs(86, 80));
	REQUIRE(KernelPack::Runs(89, 80));
	REQUIRE(KernelPack::Runs(103, 100));
	REQUIRE(KernelPack::Runs(121, 120));
	REQUIRE_FALSE(KernelPack::Runs(80, 86));
	REQUIRE_FALSE(KernelPack::Runs(90, 80));
	REQUIRE_FALSE(KernelPack::Runs(75, 80));
	REQUIRE_FALSE(KernelPack::Runs(120, 100));
}

TEST_CASE("The pack gives each device what runs on it", "[gpu][kernel_pack]") {
	TemporaryFolder folder;
	WritePack(folder.path + "/pack");
	KernelPack pack;
	REQUIRE(pack.Open(folder.path + "/pack"));
	REQUIRE(pack.Count() == 8);
	REQUIRE(pack.Capabilities() == std::vector<int> {80, 90, 100, 120});
	std::string payload, used, error;
	const std::pair<int, int> devices[] = {{80, 80}, {86, 80}, {89, 80}, {90, 90}, {103, 100}, {121, 120}};
	for (auto &device : devices) {
		REQUIRE(pack.Load(KeyOf("bounds", device.first), payload, used, error));
		REQUIRE(payload == "bounds" + std::to_string(device.second));
	}
	REQUIRE_FALSE(pack.Load(KeyOf("bounds", 75), payload, used, error));
	REQUIRE(error.find("sm_75") != std::string::npos);
	REQUIRE_FALSE(pack.Load(KeyOf("nothing", 90), payload, used, error));
	// Another compiler's kernel runs as well; one of other sources does not
	auto key = KeyOf("bounds", 90);
	key.nvrtc = "13.4";
	REQUIRE(pack.Load(key, payload, used, error));
	key.source = "changed";
	REQUIRE_FALSE(pack.Load(key, payload, used, error));
	REQUIRE(error.find("other sources") != std::string::npos);
}

TEST_CASE("A pack gives what the same compilers made, for whoever makes the next one", "[gpu][kernel_pack]") {
	const TemporaryFolder folder;
	WritePack(folder.path + "/pack");
	KernelPack pack;
	REQUIRE(pack.Open(folder.path + "/pack"));
	std::string payload;
	REQUIRE(pack.LoadSame(KeyOf("bounds", 90), payload));
	REQUIRE_FALSE(payload.empty());
	REQUIRE_FALSE(pack.LoadSame(KeyOf("bounds", 91), payload));
	REQUIRE_FALSE(pack.LoadSame(KeyOf("nothing", 90), payload));
	auto other = KeyOf("bounds", 90);
	other.nvrtc += "x";
	REQUIRE_FALSE(pack.LoadSame(other, payload));
}

TEST_CASE("A damaged pack is noticed", "[gpu][kernel_pack]") {
	TemporaryFolder folder;
	const auto path = folder.path + "/pack";
	WritePack(path);
	std::ifstream in(path, std::ios::binary);
	const std::string good(std::istreambuf_iterator<char>(in), {});
	auto write = [&](const std::string &bytes) {
		std::ofstream out(path, std::ios::binary | std::ios::trunc);
		out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
	};
	KernelPack missing;
	REQUIRE_FALSE(missing.Open(folder.path + "/none"));
	REQUIRE(missing.Problem().find("none") != std::string::npos);
	for (size_t size : {size_t(0), size_t(7), size_t(15), size_t(100), good.size() - 1}) {
		write(good.substr(0, size));
		KernelPack pack;
		REQUIRE_FALSE(pack.Open(path));
		REQUIRE_FALSE(pack.Problem().empty());
	}
	// A flipped bit is found when the file is opened or when that kernel is taken
	for (size_t at = 0; at < good.size(); at++) {
		auto bad = good;
		bad[at] = static_cast<char>(bad[at] ^ 4);
		write(bad);
		KernelPack pack;
		size_t loaded = 0;
		if (pack.Open(path)) {
			for (int capability : {80, 90, 100, 120}) {
				for (const char *name : {"bounds", "radix_sort_u64_i32"}) {
					std::string payload, used, error;
					if (pack.Load(KeyOf(name, capability), payload, used, error)) {
						REQUIRE(payload.compare(0, std::string(name).size(), name) == 0);
						loaded++;
					}
				}
			}
		}
		REQUIRE(loaded < 8);
	}
}
