// The searches of the GPU for neighbours, on the host's machine
#include "host_machine.hpp"
#include "neighbour_rows.hpp"

#include "engine/gpu/machine/neighbours.hpp"

using namespace vibespatial;

namespace {

neighbour_test::Searches HostDevice(bool backwards) {
	const auto machine = [backwards] { return std::make_unique<host_cuda::Machine>(backwards); };
	return neighbour_test::Searches {[=] { return std::make_shared<MachineBuild>(machine); },
	                                 [=](const std::shared_ptr<GpuBuild> &build, uint32_t k, double most) {
		                                 return MakeSearch(machine(), std::static_pointer_cast<MachineBuild>(build), k,
		                                                   most);
	                                 }};
}

} // namespace

TEST_CASE("neighbours: the machine's rows and bits are those of the CPU", "[knn]") {
	for (auto &input : neighbour_test::Cases(1)) {
		for (auto k : input.ks) {
			neighbour_test::Check(HostDevice(false), input, k, HUGE_VAL);
			neighbour_test::Check(HostDevice(true), input, k, 0.5);
		}
	}
}

TEST_CASE("neighbours: the list is a heap above 32", "[knn]") {
	std::mt19937_64 random(9);
	for (vibe::u32 k : {1u, 2u, 32u, 33u, 64u, 100u, 1000u}) {
		for (size_t offers : {0, 1, 31, 32, 33, 70, 3000}) {
			constexpr size_t STRIDE = 2;
			std::vector<double> distances(k * STRIDE);
			std::vector<uint32_t> rows(k * STRIDE);
			vibe::NearestList list {distances.data(), rows.data(), STRIDE, k, 40, 0};
			std::vector<std::pair<double, uint32_t>> all;
			for (uint32_t row = 0; row < offers; row++) {
				const double distance = double(random() % 50);
				list.Offer(distance, row);
				if (distance <= 40) {
					all.emplace_back(distance, row);
				}
				REQUIRE(list.Reach() <= 40);
			}
			std::sort(all.begin(), all.end());
			all.resize(std::min<size_t>(k, all.size()));
			REQUIRE(list.count == all.size());
			REQUIRE((all.size() < k || list.Reach() == all.back().first));
			list.Sort();
			for (size_t n = 0; n < all.size(); n++) {
				REQUIRE(distances[n * STRIDE] == all[n].first);
				REQUIRE(rows[n * STRIDE] == all[n].second);
				REQUIRE(list.Has(all[n].second));
			}
			REQUIRE(!list.Has(static_cast<uint32_t>(offers)));
		}
	}
}

TEST_CASE("neighbours: what the device cannot do is an error", "[knn]") {
	const auto device = HostDevice(false);
	neighbour_test::Rows right;
	right.Text("LINESTRING (0 0, 1 1)");
	KnnIndex index(right.Get());
	Serial serial;
	index.Build(serial);
	auto build = device.new_build();
	REQUIRE_THROWS_AS(device.new_search(build, 1, HUGE_VAL), GpuError);
	GpuTimes times;
	index.Upload(*build, serial, times);
	REQUIRE_THROWS_AS(device.new_search(build, 0, HUGE_VAL), GpuError);
	REQUIRE_THROWS_AS(device.new_search(build, GpuSearch::MAX_K + 1, HUGE_VAL), GpuError);
	REQUIRE(device.new_search(build, GpuSearch::MAX_K, HUGE_VAL));
}
