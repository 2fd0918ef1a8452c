// The measurement of a device, on the host's machine
#include "host_machine.hpp"

#include "catch.hpp"

#include "engine/gpu/machine/calibrate.hpp"

#include <map>

using namespace vibespatial;

namespace {

//! Each step takes as many milliseconds as it is told to
class Timed : public host_cuda::Machine {
public:
	Timed(uint64_t processors, double milliseconds, bool wrong = false)
	    : host_cuda::Machine(true, processors), milliseconds(milliseconds), wrong(wrong) {
	}
	double Between(size_t, size_t) override {
		return milliseconds;
	}

protected:
	void DoGet(void *to, const void *from, size_t bytes, Parallel &parallel) override {
		host_cuda::Machine::DoGet(to, from, bytes, parallel);
		if (wrong) {
			*static_cast<uint8_t *>(to) ^= 1;
		}
	}

private:
	const double milliseconds;
	const bool wrong;
};

} // namespace

TEST_CASE("A device is measured by its copies, launches and tests of edges", "[calibrate]") {
	for (const uint64_t processors : {1, 20}) {
		Timed machine(processors, 2);
		const auto figures = MeasureFigures(machine);
		CHECK(figures.to_device_gbs == Approx((4 << 20) / 2e6));
		CHECK(figures.from_device_gbs == Approx((4 << 20) / 2e6));
		// 256 edges for each of the threads that run at once
		CHECK(figures.edges_per_us == Approx(double(processors) * 32 * 256 / 2e3));
		CHECK(figures.launch_us > 0);
		CHECK(figures.cores > 0);
		CHECK(figures.source == "measured");
		CHECK(figures.error.empty());
	}
}

TEST_CASE("A device without time gives figures that are not used", "[calibrate]") {
	Timed machine(2, 0);
	CHECK_FALSE(MeasureFigures(machine).Problem().empty());
}

TEST_CASE("A device that counts differently from the host is not measured", "[calibrate]") {
	Timed machine(2, 1, true);
	CHECK_THROWS_AS(MeasureFigures(machine), GpuError);
}
