#include "engine/overlay/known_polygons.hpp"

#include "engine/overlay/input.hpp"
#include "engine/overlay/tuning.hpp"
#include "geometry/error.hpp"

#include <algorithm>

namespace vibespatial {

using vibe::Vec2;
using Kind = OverlayChain::Kind;

namespace {

//! False for what an overlay has to look at more closely
bool ReadRow(const WkbSlice &row, OverlayInput &input) {
	Serial serial;
	input.Clear();
	try {
		if (!row.data || row.size > UINT32_MAX || !input.AddPolygons(Overlay::LEFT, row)) {
			return false;
		}
	} catch (const GeometryError &) {
		return false; // the union reports it
	}
	input.Prepare(serial);
	// A hole without a shell belongs to no polygon that its rings tell of
	auto &chains = input.chains;
	for (size_t i = 0; i < chains.size(); i++) {
		const bool is_first = i == 0 || chains[i].polygon != chains[i - 1].polygon;
		if (is_first != (chains[i].kind == Kind::SHELL)) {
			return false;
		}
	}
	return input.grid == 0;
}

} // namespace

KnownPolygons::KnownPolygons(const WkbSlice *rows, size_t count, Parallel &parallel) : members(count, NOT_USABLE) {
	const size_t steps = std::min(count, parallel.Threads() * overlay_tuning::CHECK_STEPS_PER_THREAD);
	std::vector<Share> shares(steps);
	parallel.For(steps,
	             [&](size_t step) { Read(rows, count * step / steps, count * (step + 1) / steps, shares[step]); });
	size_t all = 0;
	for (auto &share : shares) {
		all += share.rings.size();
	}
	rings.reserve(all);
	first_ring.reserve(count + 1);
	for (auto &share : shares) {
		uint32_t next = static_cast<uint32_t>(rings.size());
		for (auto of_row : share.rings_of_row) {
			first_ring.push_back(next);
			next += of_row;
		}
		rings.insert(rings.end(), share.rings.begin(), share.rings.end());
		share = Share();
	}
	first_ring.push_back(static_cast<uint32_t>(rings.size()));
	for (auto &ring : rings) {
		ring.start = vertices;
		vertices += ring.count;
	}
	valid = CountedVector<std::atomic<uint8_t>>(rings.size());
}

void KnownPolygons::Read(const WkbSlice *rows, size_t begin, size_t end, Share &share) {
	OverlayInput input;
	CountedVector<Vec2> points;
	Poll poll;
	for (auto row = begin; row < end; row++) {
		poll(rows[row].size / sizeof(Vec2));
		if (!ReadRow(rows[row], input)) {
			share.rings_of_row.push_back(0);
			continue;
		}
		members[row] = static_cast<uint32_t>(std::max<uint32_t>(input.polygons, 1));
		share.rings_of_row.push_back(static_cast<uint32_t>(input.chains.size()));
		for (auto chain : input.chains) {
			points.resize(chain.count);
			input.ReadPoints(chain, points.data());
			chain.points = points.data();
			Ring ring {};
			ring.box = chain.box;
			for (uint32_t k = 0; k < chain.count; k++) {
				ring.run += vibe::Abs(points[k + 1 == chain.count ? 0 : k + 1].x - points[k].x);
			}
			ring.offset = static_cast<uint32_t>(chain.wkb - rows[row].data);
			ring.count = chain.count;
			ring.kind = chain.kind;
			ring.stride = chain.stride;
			ring.weight = static_cast<int8_t>(chain.Weight());
			share.rings.push_back(ring);
		}
	}
}

bool KnownPolygons::Count(size_t row, Counts &counts) const {
	if (members[row] == NOT_USABLE) {
		return false;
	}
	counts.members += members[row];
	for (auto i = first_ring[row]; i < first_ring[row + 1]; i++) {
		counts.rings++;
		counts.polygons += rings[i].kind == Kind::SHELL;
		counts.vertices += rings[i].count;
	}
	return true;
}

void KnownPolygons::UseResident(OverlayNet &net, OverlayDevice &device, Parallel &parallel,
                                std::function<uint32_t(size_t ring)> number) const {
	net.resident = device.Resident(*this, parallel);
	net.resident_ring = [this, number = std::move(number)](size_t ring) {
		const auto at = number(ring);
		if (at == OverlayChain::NOT_KNOWN) {
			return ResidentRing();
		}
		const auto &known = rings[at];
		return ResidentRing {static_cast<uint32_t>(known.start), known.weight, known.box, known.run};
	};
}

OverlayNet KnownPolygons::All(const WkbSlice *rows, std::vector<vibe::NetRing> &net_rings) const {
	OverlayNet net;
	net_rings.resize(rings.size());
	for (size_t row = 0; row < Rows(); row++) {
		for (auto i = first_ring[row]; i < first_ring[row + 1]; i++) {
			// `polygon` is the row that it is read from
			net_rings[i] = vibe::NetRing {static_cast<uint32_t>(rings[i].start), 0, static_cast<uint32_t>(row), 0};
		}
	}
	net.rings = net_rings.data();
	net.ring_count = net_rings.size();
	net.vertex_count = vertices;
	net.parts = 1;
	net.read = [this, rows, &net_rings](size_t i, Vec2 *out) {
		const auto &ring = rings[i];
		const auto *at = rows[net_rings[i].polygon].data + ring.offset;
		for (uint32_t k = 0; k < ring.count; k++, at += ring.stride) {
			out[k] = LoadVertex(at);
		}
		PollCall(ring.count);
		return int32_t(ring.weight);
	};
	return net;
}

} // namespace vibespatial
