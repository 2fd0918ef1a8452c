#include "engine/overlay/strips.hpp"

namespace vibespatial {

using namespace overlay_tuning;
using vibe::Vec2;

StripPiece CrowdedPairs::Clip(const StripPiece &piece, const StripPlan &plan, size_t strip) {
	const auto p = plan.frame.Map(piece.p), q = plan.frame.Map(piece.q);
	const double run = q.x - p.x;
	// Exceeds all rounding errors here, including the position of the border of a strip
	const double rounding =
	    1e-14 * (vibe::Abs(piece.p.x) + vibe::Abs(piece.p.y) + vibe::Abs(piece.q.x) + vibe::Abs(piece.q.y));
	const double margin = piece.reach + plan.width * 1e-6 + rounding;
	const double from = plan.Border(strip) - margin, to = plan.Border(strip + 1) + margin;
	// Those at the ends of the plan hold all that is beyond
	const bool first = strip == 0, last = strip + 1 == plan.strips;
	const auto inside = [&](double along) { return (first || along >= from) && (last || along <= to); };
	const auto at = [&](double along) {
		const double share = std::max(0.0, std::min((along - p.x) / run, 1.0));
		return Vec2 {piece.p.x + (piece.q.x - piece.p.x) * share, piece.p.y + (piece.q.y - piece.p.y) * share};
	};
	StripPiece clipped {piece.p, piece.q, piece.reach, piece.edge};
	if (!(run != 0)) {
		return clipped;
	}
	if (!inside(p.x)) {
		clipped.p = at(p.x < from ? from : to);
		clipped.reach = piece.reach + rounding;
	}
	if (!inside(q.x)) {
		clipped.q = at(q.x < from ? from : to);
		clipped.reach = piece.reach + rounding;
	}
	return clipped;
}

StripPlan CrowdedPairs::PlanOf(const CountedVector<StripPiece> &pieces) {
	StripPlan plan;
	plan.Choose(pieces.size(), [&](size_t i, Vec2 &a, Vec2 &b) {
		a = pieces[i].p;
		b = pieces[i].q;
		return pieces[i].reach;
	});
	return plan;
}

void CrowdedPairs::Deal(const CountedVector<StripPiece> &pieces, const StripPlan &plan,
                        std::vector<CountedVector<StripPiece>> &strips) {
	strips.resize(plan.strips);
	for (auto &piece : pieces) {
		const StripEdge edge(plan.frame, piece.p, piece.q, piece.reach);
		const auto last = plan.StripOf(edge.b.x + edge.reach);
		for (auto strip = plan.StripOf(edge.a.x - edge.reach); strip <= last; strip++) {
			strips[strip].push_back(Clip(piece, plan, strip));
		}
	}
}

CountedVector<CrowdedPairs::Extent> CrowdedPairs::Extents(const CountedVector<StripPiece> &pieces,
                                                          const StripFrame &frame) {
	CountedVector<Extent> extents;
	extents.reserve(pieces.size());
	for (auto &piece : pieces) {
		const StripEdge edge(frame, piece.p, piece.q, piece.reach);
		extents.push_back(Extent {edge.a.x - edge.reach, edge.b.x + edge.reach,
		                          std::min(edge.a.y, edge.b.y) - edge.reach, std::max(edge.a.y, edge.b.y) + edge.reach,
		                          piece.edge});
	}
	PolledSort(extents.begin(), extents.end(), [](const Extent &l, const Extent &r) { return l.s0 < r.s0; });
	return extents;
}

} // namespace vibespatial
