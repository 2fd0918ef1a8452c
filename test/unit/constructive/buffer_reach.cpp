#include "catch.hpp"

#include "engine/constructive/buffer_reach.hpp"
#include "geometry/error.hpp"

using vibespatial::BufferReach;

TEST_CASE("buffer_reach: between the chords and the circle", "[buffer_reach]") {
	const BufferReach reach(vibe::Box {0, 0, 0, 0}, 2);
	// chords of 3/2 of a quarter / 8
	CHECK(reach.inner <= 2 * 0.98917650996);
	CHECK(reach.inner > 2 * 0.98);
	CHECK(reach.outer >= 2);
	CHECK(reach.outer < 2.001);
}

TEST_CASE("buffer_reach: coordinates leave less and less to be sure of", "[buffer_reach]") {
	double inner = 2;
	double outer = 1;
	for (double at : {0.0, 1e6, 1e9, 1e12, 1e15}) {
		const BufferReach reach(vibe::Box {at, at, at, at}, 1);
		CHECK(reach.inner < inner);
		CHECK(reach.outer > outer);
		inner = reach.inner;
		outer = reach.outer;
	}
	// the whole buffer is a few units in the last place
	CHECK(inner < 0);
}

TEST_CASE("buffer_reach: distances that take away or have no error bound", "[buffer_reach]") {
	const vibe::Box box {0, 0, 10, 10};
	CHECK(BufferReach(box, 0).inner < 0);
	CHECK(BufferReach(vibe::Box {0, 0, 0, 0}, 0).inner < 0);
	CHECK(BufferReach(box, -3).inner < 0);
	CHECK(BufferReach(box, -3).outer > 0);
	for (double distance : {1e-200, 1e200}) {
		CHECK(BufferReach(box, distance).inner < 0);
		CHECK(BufferReach(box, distance).outer == vibe::Infinity());
	}
	CHECK_THROWS_AS(BufferReach(box, vibe::Infinity()), vibespatial::GeometryError);
	CHECK_THROWS_AS(BufferReach(box, vibe::Infinity() - vibe::Infinity()), vibespatial::GeometryError);
}
