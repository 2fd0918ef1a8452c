#include "catch.hpp"

#include "engine/constructive/offset_pieces.hpp"
#include "engine/measure/measure.hpp"
#include "engine/relate/validity.hpp"

#include <cmath>

using namespace vibespatial;
using vibe::Vec2;

namespace {

//! A ring around the origin, clockwise, whose radius goes from 0.9 to 1.1 and back from vertex to vertex, or is 1
OffsetRing RingOf(size_t count, double noise) {
	OffsetRing ring;
	for (size_t i = 0; i < count; i++) {
		const double angle = -2 * std::acos(-1.0) * double(i) / double(count);
		const double radius = 1 + noise * std::sin(double(i * i));
		ring.vertices.push_back(Vec2 {radius * std::cos(angle), radius * std::sin(angle)});
	}
	ring.MakeRing();
	return ring;
}

BufferStyle Style(BufferJoin join) {
	BufferStyle style;
	style.join = join;
	return style;
}

double AreaOf(const GeometryBatch &rows) {
	REQUIRE(rows.RowCount() == 1);
	REQUIRE(IsValid(rows, 0));
	return Area(rows.View(0));
}

} // namespace

TEST_CASE("Rings whose curves cross themselves everywhere are crowded", "[buffer]") {
	for (auto join : {BufferJoin::ROUND, BufferJoin::MITRE, BufferJoin::BEVEL}) {
		CHECK(IsCrowded(RingOf(2000, 0.1), 0.3, Style(join)));
		CHECK_FALSE(IsCrowded(RingOf(2000, 0.1), 1e-6, Style(join)));
		CHECK_FALSE(IsCrowded(RingOf(2000, 0), 0.5, Style(join)));
		// Past the centre of a circle
		CHECK(IsCrowded(RingOf(2000, 0), 1.5, Style(join)));
		CHECK_FALSE(IsCrowded(RingOf(16, 0.1), 5, Style(join)));
	}
}

TEST_CASE("Pieces cover what the curve winds around", "[buffer]") {
	Overlay overlay;
	Serial serial;
	for (auto join : {BufferJoin::MITRE, BufferJoin::BEVEL}) {
		// Longer than half of the edges: no corner of the curve is trimmed
		for (double distance : {0.1, 0.7}) {
			const auto ring = RingOf(300, 0.1);
			const auto style = Style(join);
			GeometryBatch swept, piece;
			AppendSweep(ring, distance, style, overlay, serial, swept);
			// All edges as one piece
			OffsetCurves curve(distance, style);
			curve.AddPiece(ring, 0, ring.Size());
			AppendArea(curve, overlay, serial, piece);
			CHECK(AreaOf(swept) == Approx(AreaOf(piece)).epsilon(1e-12));
		}
	}
}

TEST_CASE("Pieces with round joins reach the distance on both sides", "[buffer]") {
	Overlay overlay;
	Serial serial;
	GeometryBatch swept;
	AppendSweep(RingOf(1000, 0), 0.5, Style(BufferJoin::ROUND), overlay, serial, swept);
	const double all = std::acos(-1.0) * (1.5 * 1.5 - 0.5 * 0.5);
	CHECK(AreaOf(swept) < all);
	CHECK(AreaOf(swept) > 0.97 * all);
}

TEST_CASE("The pieces of a long ring are the same for any number of threads", "[buffer]") {
	//! Runs the steps backwards, as if by several threads
	class Backwards : public Parallel {
	public:
		size_t Threads() const override {
			return 4;
		}
		void For(size_t count, const std::function<void(size_t)> &step) override {
			while (count-- > 0) {
				step(count);
			}
		}
	};
	Overlay overlay;
	Serial serial;
	Backwards backwards;
	const auto ring = RingOf(5000, 0.1);
	GeometryBatch one, other;
	AppendSweep(ring, 0.3, Style(BufferJoin::BEVEL), overlay, serial, one);
	AppendSweep(ring, 0.3, Style(BufferJoin::BEVEL), overlay, backwards, other);
	CHECK(one.x == other.x);
	CHECK(one.y == other.y);
}
