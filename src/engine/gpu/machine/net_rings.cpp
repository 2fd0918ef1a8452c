#include "engine/gpu/machine/net_rings.hpp"

#include <algorithm>
#include <cstring>

namespace vibespatial {

using vibe::NetRing;
using vibe::Vec2;

namespace {

//! Extents of parts that follow each other, as one thread finds them
struct PartExtents {
	size_t first = 0;
	std::vector<PartExtent> parts;

	//! For the parts of some rings: a few where rings are sorted by part, all where they lie anywhere
	static PartExtents For(const OverlayNet &net, size_t begin, size_t end) {
		size_t first = net.parts, last = 0;
		for (auto ring = begin; ring < end; ring++) {
			first = std::min<size_t>(first, net.rings[ring].part);
			last = std::max<size_t>(last, net.rings[ring].part);
		}
		return PartExtents {first, std::vector<PartExtent>(begin < end ? last - first + 1 : 0)};
	}
	PartExtent &Of(const NetRing &ring) {
		return parts[ring.part - first];
	}
	//! Of all parts
	static std::vector<PartExtent> Join(const std::vector<PartExtents> &shares, size_t parts) {
		std::vector<PartExtent> all(parts);
		for (const auto &some : shares) {
			for (size_t i = 0; i < some.parts.size(); i++) {
				all[some.first + i].Add(some.parts[i]);
			}
		}
		return all;
	}
};

//! Where the vertices of a ring begin; for the number after the last one, where they end
size_t StartOf(const OverlayNet &net, size_t ring) {
	return ring == net.ring_count ? net.vertex_count : net.rings[ring].start;
}

//! Reads rings into memory that the device copies from, and takes down what is to be known of them meanwhile
class RingWriter {
public:
	RingWriter(const OverlayNet &net, Machine &machine, Vec2 *to) : net(net), machine(machine), to(to) {
	}

	//! To `to`; returns the extent of each part
	std::vector<PartExtent> Run(Parallel &parallel) {
		// Rings that follow each other and fit into a piece; one that does not is a piece by itself
		std::vector<size_t> pieces {0};
		for (size_t i = 0; i < net.ring_count; i++) {
			if (i > pieces.back() && Start(i + 1) - Start(pieces.back()) > MOST) {
				pieces.push_back(i);
			}
		}
		pieces.push_back(net.ring_count);
		const size_t shares = std::min(pieces.size() - 1, parallel.Threads() * 2);
		std::vector<PartExtents> extents(shares);
		parallel.For(shares, [&](size_t share) {
			const auto first = (pieces.size() - 1) * share / shares, end = (pieces.size() - 1) * (share + 1) / shares;
			extents[share] = PartExtents::For(net, pieces[first], pieces[end]);
			for (auto piece = first; piece < end; piece++) {
				Write(pieces[piece], pieces[piece + 1], extents[share]);
			}
		});
		return PartExtents::Join(extents, net.parts);
	}

private:
	static constexpr size_t MOST = RINGS_AT_ONCE / sizeof(Vec2);
	static_assert(RINGS_AT_ONCE <= Machine::MOST_WRITTEN, "one Write() sends them");

	size_t Start(size_t ring) const {
		return StartOf(net, ring);
	}
	void Write(size_t begin, size_t end, PartExtents &extents) {
		machine.Use();
		const auto first = Start(begin), count = Start(end) - first;
		if (count <= MOST) {
			machine.Write(to + first, count * sizeof(Vec2), [&](void *at) {
				for (auto ring = begin; ring < end; ring++) {
					Read(ring, static_cast<Vec2 *>(at) + (Start(ring) - first), extents);
				}
			});
			return;
		}
		PagesVector<Vec2> large(count);
		Read(begin, large.data(), extents);
		for (size_t at = 0; at < count; at += MOST) {
			const auto bytes = std::min(MOST, count - at) * sizeof(Vec2);
			machine.Write(to + first + at, bytes, [&](void *out) { std::memcpy(out, large.data() + at, bytes); });
		}
	}
	void Read(size_t ring, Vec2 *out, PartExtents &extents) {
		net.rings[ring].weight = net.read(ring, out);
		auto &extent = extents.Of(net.rings[ring]);
		const auto count = Start(ring + 1) - Start(ring);
		for (size_t i = 0; i < count; i++) {
			extent.Add(out[i], out[i + 1 == count ? 0 : i + 1]);
		}
	}

	const OverlayNet &net;
	Machine &machine;
	Vec2 *to;
};

//! The rings of a net that the device does not have, as a net of their own
struct OwnRings {
	OwnRings(const OverlayNet &of, const std::vector<size_t> &numbers) {
		for (auto number : numbers) {
			const auto &ring = of.rings[number];
			rings.push_back(NetRing {static_cast<uint32_t>(net.vertex_count), ring.part, ring.polygon, 0});
			net.vertex_count += StartOf(of, number + 1) - ring.start;
		}
		net.read = [&](size_t ring, Vec2 *out) { return of.read(numbers[ring], out); };
		net.rings = rings.data();
		net.ring_count = rings.size();
		net.parts = of.parts;
	}
	OwnRings(const OwnRings &) = delete;

	std::vector<NetRing> rings;
	OverlayNet net;
};

} // namespace

std::vector<PartExtent> WriteRings(const OverlayNet &net, Machine &machine, Vec2 *to, Parallel &parallel) {
	return RingWriter(net, machine, to).Run(parallel);
}

PlacedRings PlaceRings(const OverlayNet &net, Machine &machine, Parallel &parallel) {
	PlacedRings placed;
	if (!net.resident) {
		placed.sent = machine.New<Vec2>(net.vertex_count);
		placed.extents = WriteRings(net, machine, placed.sent.at, parallel);
		return placed;
	}
	const auto *resident = static_cast<const MachineRings &>(*net.resident).vertices.at;
	const size_t shares = std::min(net.ring_count, parallel.Threads() * 2);
	std::vector<const Vec2 *> addresses(net.ring_count);
	std::vector<PartExtents> extents(shares);
	std::vector<std::vector<size_t>> missing(shares);
	parallel.For(shares, [&](size_t share) {
		const auto begin = net.ring_count * share / shares, end = net.ring_count * (share + 1) / shares;
		extents[share] = PartExtents::For(net, begin, end);
		for (auto i = begin; i < end; i++) {
			const auto ring = net.resident_ring(i);
			if (ring.start == ResidentRing::NOT_RESIDENT) {
				missing[share].push_back(i);
				continue;
			}
			addresses[i] = resident + ring.start;
			net.rings[i].weight = ring.weight;
			extents[share].Of(net.rings[i]).Add(PartExtent {ring.box, ring.run, StartOf(net, i + 1) - StartOf(net, i)});
		}
	});
	placed.extents = PartExtents::Join(extents, net.parts);
	std::vector<size_t> numbers;
	for (auto &some : missing) {
		numbers.insert(numbers.end(), some.begin(), some.end());
	}
	if (!numbers.empty()) {
		const OwnRings own(net, numbers);
		placed.sent = machine.New<Vec2>(own.net.vertex_count);
		const auto sent_extents = WriteRings(own.net, machine, placed.sent.at, parallel);
		for (size_t i = 0; i < sent_extents.size(); i++) {
			placed.extents[i].Add(sent_extents[i]);
		}
		for (size_t i = 0; i < numbers.size(); i++) {
			addresses[numbers[i]] = placed.sent.at + own.rings[i].start;
			net.rings[numbers[i]].weight = own.rings[i].weight;
		}
	}
	placed.places = machine.New<const Vec2 *>(addresses.size());
	machine.Put(static_cast<void *>(placed.places.at), static_cast<const void *>(addresses.data()),
	            addresses.size() * sizeof(const Vec2 *), parallel);
	return placed;
}

} // namespace vibespatial
