#include "engine/gpu_overlay.hpp"

#include "engine/engine.hpp"

#include <algorithm>

namespace vibespatial {

using vibe::i32;
using vibe::NetCut;
using vibe::NetEdge;
using vibe::NetEntries;
using vibe::NetPart;
using vibe::NetRing;
using vibe::u32;
using vibe::u64;
using vibe::u8;
using vibe::Vec2;

namespace {

constexpr const char *SPLIT = "overlay_split";
constexpr const char *MEET = "segment_intersection";

//! What the strips of a part are made from
struct Extent {
	vibe::Box box = vibe::Box::Empty();
	//! Of all edges together, along x
	double run = 0;
	size_t count = 0;

	void Add(const Vec2 &a, const Vec2 &b) {
		box.Add(a.x, a.y);
		box.Add(b.x, b.y);
		run += vibe::Abs(b.x - a.x);
		count++;
	}
	void Add(const Extent &other) {
		box.Add(other.box);
		run += other.run;
		count += other.count;
	}
};

//! Steps to a unit, where so many make up a length
double ScaleOf(double steps, double length) {
	const double scale = length > 0 ? steps / length : 0;
	return scale < vibe::Infinity() ? scale : 0;
}

//! As OverlayEdges cuts its edges into strips
NetPart PartOf(const Extent &extent, uint32_t first_strip) {
	NetPart part {};
	part.first_strip = first_strip;
	part.strips = 1;
	if (extent.count == 0) {
		return part;
	}
	const double width = extent.box.max_x - extent.box.min_x, count = static_cast<double>(extent.count);
	if (extent.run > 0) {
		part.strips = static_cast<uint32_t>(std::max(1.0, std::min(count / 8, width * count / (2 * extent.run))));
	}
	part.low_x = extent.box.min_x;
	part.low_y = extent.box.min_y;
	part.scale = ScaleOf(part.strips, width);
	part.step = width / part.strips;
	part.height_scale = ScaleOf(4294967295.0, extent.box.max_y - extent.box.min_y);
	return part;
}

std::vector<NetPart> LayOut(const OverlayNet &net, Parallel &parallel) {
	const size_t items = net.rings ? net.ring_count : net.edge_count;
	constexpr size_t SHARE = 4096;
	const size_t shares = std::max<size_t>(1, std::min(items / SHARE, parallel.Threads()));
	// Parts of a share's items lie anywhere: each share has all of them, one after the other
	std::vector<std::vector<Extent>> extents(shares);
	parallel.For(shares, [&](size_t share) {
		auto &mine = extents[share];
		mine.resize(net.parts);
		for (auto i = items * share / shares; i < items * (share + 1) / shares; i++) {
			if (!net.rings) {
				mine[net.edges[i].part].Add(net.edges[i].a, net.edges[i].b);
				continue;
			}
			const size_t begin = net.rings[i].start;
			const size_t end = i + 1 == net.ring_count ? net.vertex_count : net.rings[i + 1].start;
			auto &extent = mine[net.rings[i].part];
			for (auto k = begin; k < end; k++) {
				extent.Add(net.vertices[k], net.vertices[k + 1 == end ? begin : k + 1]);
			}
		}
	});
	std::vector<NetPart> parts;
	parts.reserve(net.parts);
	uint32_t strips = 0;
	for (size_t part = 0; part < net.parts; part++) {
		Extent extent;
		for (auto &share : extents) {
			extent.Add(share[part]);
		}
		parts.push_back(PartOf(extent, strips));
		strips += parts.back().strips;
	}
	return parts;
}

} // namespace

template <class T>
GpuOverlay::Array<T> GpuOverlay::New(uint64_t count) {
	Array<T> array;
	array.held = machine.Allocate(std::max<uint64_t>(count, 1) * sizeof(T));
	array.at = static_cast<T *>(array.held.get());
	array.count = count;
	return array;
}

template <class T>
GpuOverlay::Array<T> GpuOverlay::NewZeros(uint64_t count) {
	auto array = New<T>(count);
	machine.Zero(array.at, count * sizeof(T));
	return array;
}

template <class... ARGUMENTS>
void GpuOverlay::Launch(const char *unit, const char *entry_point, uint64_t threads, ARGUMENTS... arguments) {
	void *addresses[] = {static_cast<void *>(&arguments)...};
	machine.Launch(unit, entry_point, threads, addresses);
}

GpuOverlay::Array<i32> GpuOverlay::Positions(const Array<i32> &counts) {
	auto positions = New<i32>(counts.count);
	machine.Scan(counts.at, positions.at, counts.count);
	return positions;
}

uint32_t GpuOverlay::Total(const Array<i32> &positions) {
	i32 total;
	machine.Get(&total, positions.at + (positions.count - 1), sizeof(total));
	return static_cast<uint32_t>(total);
}

void GpuOverlay::Sort(Array<u64> &keys, Array<i32> &values) {
	if (keys.count == 0) {
		return;
	}
	auto sorted_keys = New<u64>(keys.count);
	auto sorted_values = New<i32>(values.count);
	machine.Sort(keys.at, sorted_keys.at, values.at, sorted_values.at, keys.count, key_bits);
	keys = sorted_keys;
	values = sorted_values;
}

void GpuOverlay::Send(const OverlayNet &net, Parallel &parallel) {
	const auto count = net.rings ? net.vertex_count : net.edge_count;
	if (count > OverlayNet::MAX_COUNT || net.parts > OverlayNet::MAX_COUNT) {
		throw GpuMemoryError("more edges than 28 bits can number");
	}
	part_count = net.parts;
	const auto layout = LayOut(net, parallel);
	parts = New<NetPart>(layout.size());
	machine.Put(parts.at, layout.data(), layout.size() * sizeof(NetPart));
	key_bits = 33;
	const uint64_t strips = layout.empty() ? 0 : uint64_t(layout.back().first_strip) + layout.back().strips;
	// What is no edge has all bits, and comes after the last strip
	while (strips >> (key_bits - 32) != 0) {
		key_bits++;
	}
	edges = New<NetEdge>(count);
	if (!net.rings) {
		machine.Put(edges.at, net.edges, count * sizeof(NetEdge));
		return;
	}
	auto vertices = New<Vec2>(count);
	auto rings = New<NetRing>(net.ring_count);
	machine.Put(vertices.at, net.vertices, count * sizeof(Vec2));
	machine.Put(rings.at, net.rings, net.ring_count * sizeof(NetRing));
	Launch(SPLIT, "ring_edges", count, vertices.at, static_cast<u32>(count), rings.at, static_cast<u32>(net.ring_count),
	       edges.at);
}

void GpuOverlay::Unite() {
	failed = NewZeros<u8>(part_count);
	Settle();
	auto strips = FillStrips();
	if (Split(strips)) {
		strips = Strips();
		strips = FillStrips();
		Launch(MEET, "find_meetings", strips.view.count, edges.at, parts.at, strips.view, failed.at);
	}
	const auto count = static_cast<u32>(edges.count);
	auto depths = New<i32>(count);
	Launch(MEET, "depths_below", count, edges.at, count, parts.at, strips.view, failed.at, depths.at);
	boundary = New<NetEdge>(count);
	auto total = NewZeros<u64>(1);
	Launch(MEET, "union_boundary", count, edges.at, count, depths.at, failed.at, boundary.at, total.at);
	machine.Get(&boundary_count, total.at, sizeof(boundary_count));
}

void GpuOverlay::Fetch(UnitedNet &united) {
	united.edges.resize(boundary_count);
	united.failed.resize(part_count);
	machine.Get(united.edges.data(), boundary.at, boundary_count * sizeof(NetEdge));
	machine.Get(united.failed.data(), failed.at, part_count);
}

//! Equal edges become one, and those that separate nothing go
void GpuOverlay::Settle() {
	const auto count = static_cast<u32>(edges.count);
	auto keys = New<u64>(count);
	auto ids = New<i32>(count);
	Launch(SPLIT, "edge_keys", count, edges.at, count, parts.at, keys.at, ids.at);
	Sort(keys, ids);
	auto kept = New<i32>(uint64_t(count) + 1);
	Launch(SPLIT, "unite_edges", kept.count, edges.at, keys.at, ids.at, count, kept.at);
	const auto positions = Positions(kept);
	auto settled = New<NetEdge>(Total(positions));
	Launch(SPLIT, "gather_edges", count, edges.at, ids.at, count, positions.at, settled.at);
	edges = settled;
}

GpuOverlay::Strips GpuOverlay::FillStrips() {
	const auto count = static_cast<u32>(edges.count);
	auto counts = New<i32>(uint64_t(count) + 1);
	Launch(MEET, "strip_counts", counts.count, edges.at, count, parts.at, counts.at);
	const auto starts = Positions(counts);
	const auto entries = Total(starts);
	Strips strips {New<u64>(entries), New<i32>(entries), {}};
	Launch(MEET, "strip_entries", count, edges.at, count, parts.at, starts.at, strips.keys.at, strips.edges.at);
	Sort(strips.keys, strips.edges);
	strips.view = NetEntries {strips.keys.at, strips.edges.at, entries, most_entries};
	return strips;
}

bool GpuOverlay::Split(const Strips &strips) {
	const auto count = static_cast<u32>(edges.count);
	// As many cuts as edges, or what it takes
	uint64_t found = 0, capacity = uint64_t(count) + 1024;
	Array<NetCut> cuts;
	Array<i32> counts;
	do {
		capacity = std::max(capacity, found);
		cuts = Array<NetCut>();
		cuts = New<NetCut>(capacity);
		counts = NewZeros<i32>(uint64_t(count) + 1);
		auto total = NewZeros<u64>(1);
		Launch(MEET, "find_cuts", strips.view.count, edges.at, parts.at, strips.view, cuts.at, capacity, total.at,
		       counts.at, failed.at);
		machine.Get(&found, total.at, sizeof(found));
		if (found + count > OverlayNet::MAX_COUNT) {
			throw GpuMemoryError("edges meet in more points than 28 bits can number");
		}
	} while (found > capacity);
	if (found == 0) {
		return false;
	}
	const auto starts = Positions(counts);
	auto points = New<Vec2>(found);
	Launch(SPLIT, "place_cuts", found, cuts.at, static_cast<u32>(found), starts.at, points.at);
	auto piece_counts = New<i32>(uint64_t(count) + 1);
	Launch(SPLIT, "count_pieces", piece_counts.count, edges.at, count, starts.at, points.at, piece_counts.at);
	const auto positions = Positions(piece_counts);
	auto pieces = New<NetEdge>(Total(positions));
	Launch(SPLIT, "write_pieces", count, edges.at, count, starts.at, points.at, positions.at, pieces.at);
	edges = pieces;
	Settle();
	return true;
}

} // namespace vibespatial
