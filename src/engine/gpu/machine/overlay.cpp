#include "engine/gpu/machine/overlay.hpp"

#include <algorithm>
#include <cstring>

namespace vibespatial {

using vibe::i32;
using vibe::NetCut;
using vibe::NetEdge;
using vibe::NetEntries;
using vibe::NetHop;
using vibe::NetPart;
using vibe::NetRing;
using vibe::u32;
using vibe::u64;
using vibe::u8;
using vibe::UnitedRing;
using vibe::Vec2;

namespace {

constexpr const char *SPLIT = "overlay_split";
constexpr const char *MEET = "segment_intersection";
constexpr const char *RINGS = "overlay_rings";

//! Steps to a unit, where so many make up a length
double ScaleOf(double steps, double length) {
	const double scale = length > 0 ? steps / length : 0;
	return scale < vibe::Infinity() ? scale : 0;
}

//! Its strips are numbered from 0 on
NetPart PartOf(const PartExtent &extent) {
	NetPart part {};
	part.strips = 1;
	if (extent.count == 0) {
		return part;
	}
	const double width = extent.box.max_x - extent.box.min_x;
	part.strips = static_cast<uint32_t>(vibe::StripCount(static_cast<double>(extent.count), width, extent.run));
	part.low_x = extent.box.min_x;
	part.low_y = extent.box.min_y;
	part.scale = ScaleOf(part.strips, width);
	part.step = width / part.strips;
	part.height_scale = ScaleOf(4294967295.0, extent.box.max_y - extent.box.min_y);
	return part;
}

} // namespace

GpuOverlay::Array<i32> GpuOverlay::Positions(const Array<i32> &counts) {
	auto positions = machine.New<i32>(counts.count);
	machine.Scan(counts.at, positions.at, counts.count);
	return positions;
}

uint32_t GpuOverlay::Total(const Array<i32> &positions) {
	return static_cast<uint32_t>(machine.Value(positions.at + (positions.count - 1)));
}

void GpuOverlay::Sort(Array<u64> &keys, Array<i32> &values, int bits) {
	if (keys.count == 0) {
		return;
	}
	auto sorted_keys = machine.New<u64>(keys.count);
	auto sorted_values = machine.New<i32>(values.count);
	machine.Sort(keys.at, sorted_keys.at, values.at, sorted_values.at, keys.count, bits);
	keys = sorted_keys;
	values = sorted_values;
}

template <class VECTOR, class T>
void GpuOverlay::Fetch(const Array<T> &array, VECTOR &out) {
	out.resize(array.count);
	machine.Get(out.data(), array.at, array.count * sizeof(T), parallel);
}

std::vector<uint8_t> GpuOverlay::GetBytes(const Array<u8> &bytes) {
	std::vector<uint8_t> out;
	Fetch(bytes, out);
	return out;
}

namespace {

using Clock = std::chrono::steady_clock;

bool Any(const std::vector<uint8_t> &flags) {
	return std::any_of(flags.begin(), flags.end(), [](uint8_t flag) { return flag != 0; });
}

} // namespace

bool GpuOverlay::HasFailed() {
	return Any(GetBytes(failed));
}

GpuOverlay::GpuOverlay(std::unique_ptr<Machine> own_p, const OverlayNet &net, Parallel &parallel, uint32_t most_entries)
    : own(std::move(own_p)), machine(*own), net(net), parallel(parallel), most_entries(most_entries) {
	const auto begin = Clock::now();
	Upload();
	times.to_device_ms += machine.EndStep(begin);
	machine.AddBytes(times);
}

std::vector<uint8_t> GpuOverlay::FindDoubtful(size_t polygons) {
	const auto begin = Clock::now();
	Begin();
	const auto strips = FillStrips(0);
	auto doubtful = machine.NewZeros<u8>(polygons);
	Launch(MEET, "find_doubtful", strips.view.count, edges.at, static_cast<u32>(edges.count), parts.at, strips.view,
	       active.at, failed.at, doubtful.at);
	// A part that a thread had to leave says nothing of its polygons
	const bool unseen = Any(GetBytes(failed));
	auto flags = unseen ? std::vector<uint8_t>(polygons, 1) : GetBytes(doubtful);
	times.kernel_ms += machine.EndStep(begin);
	machine.AddBytes(times);
	return flags;
}

std::vector<uint8_t> GpuOverlay::UniteParts() {
	const auto begin = Clock::now();
	Unite(false);
	auto flags = GetBytes(failed);
	parts_left = static_cast<size_t>(std::count(flags.begin(), flags.end(), 1));
	for (size_t i = 0; parts_left > 0 && i < net.ring_count; i++) {
		const size_t end = i + 1 < net.ring_count ? net.rings[i + 1].start : net.vertex_count;
		vertices_left += flags[net.rings[i].part] ? end - net.rings[i].start : 0;
	}
	times.kernel_ms += machine.EndStep(begin);
	machine.AddBytes(times);
	return flags;
}

void GpuOverlay::Finish(OverlayNet::Edges &&others, bool whole, UnitedNet &united) {
	united.state = UnitedNet::State::PARTS;
	if (whole) {
		const auto begin = Clock::now();
		const auto reduced = boundary;
		Join(others);
		Unite(true);
		if (HasFailed()) {
			boundary = reduced;
			whole_is_left = true;
		} else {
			others.clear();
			united.state = BuildRings();
		}
		times.kernel_ms += machine.EndStep(begin);
	}
	const auto begin = Clock::now();
	if (united.state == UnitedNet::State::RINGS) {
		Fetch(vertices, united.vertices);
		Fetch(rings, united.rings);
	} else {
		Fetch(boundary, united.edges);
		united.edges.insert(united.edges.end(), others.begin(), others.end());
	}
	if (united.state == UnitedNet::State::LINKED) {
		Fetch(links.to, united.next);
		Fetch(links.crowded, united.crowded);
		Fetch(under, united.under);
	}
	times.from_device_ms += machine.EndStep(begin);
	machine.AddBytes(times);
}

//! Parts whose edges meet in twos become rings. The others, and all where the device is at a loss, stay edges.
void GpuOverlay::FinishParts(UnitedNet &united) {
	const auto begin = Clock::now();
	auto all = boundary;
	Array<NetEdge> marked_edges;
	std::vector<uint8_t> marked(parts.count, 1);
	failed = machine.NewZeros<u8>(parts.count);
	if (SortBoundary()) {
		all = boundary;
		const auto count = static_cast<u32>(boundary.count);
		links = Link(boundary);
		std::fill(marked.begin(), marked.end(), 0);
		if (links.any_crowded) {
			auto crowded = machine.NewZeros<u8>(parts.count);
			Launch(RINGS, "crowded_parts", count, boundary.at, links.crowded.at, count, crowded.at);
			auto counts = machine.New<i32>(uint64_t(count) + 1);
			Launch(RINGS, "count_unmarked", counts.count, boundary.at, count, crowded.at, counts.at);
			const auto positions = Positions(counts);
			auto open = machine.New<NetEdge>(Total(positions));
			marked_edges = machine.New<NetEdge>(count - open.count);
			Launch(RINGS, "split_marked", count, boundary.at, count, crowded.at, positions.at, marked_edges.at,
			       open.at);
			marked = GetBytes(crowded);
			boundary = open;
			links = Link(boundary);
		}
		if (boundary.count > 0 && !TraceRings()) {
			std::fill(marked.begin(), marked.end(), 1);
		}
	}
	const bool traced = std::count(marked.begin(), marked.end(), 0) > 0;
	times.kernel_ms += machine.EndStep(begin);
	const auto fetch = Clock::now();
	if (traced) {
		Fetch(vertices, united.vertices);
		Fetch(rings, united.rings);
	}
	Fetch(traced ? marked_edges : all, united.edges);
	for (auto flag : marked) {
		united.parts.push_back(flag ? UnitedNet::State::WHOLE : UnitedNet::State::RINGS);
	}
	times.from_device_ms += machine.EndStep(fetch);
	machine.AddBytes(times);
}

void GpuOverlay::PutParts(const std::vector<NetPart> &layout) {
	parts = machine.New<NetPart>(layout.size());
	machine.Put(parts.at, layout.data(), layout.size() * sizeof(NetPart), parallel);
	key_bits = 33;
	const uint64_t strips = layout.empty() ? 0 : uint64_t(layout.back().first_strip) + layout.back().strips;
	// What is no edge has all bits, and comes after the last strip
	while (strips >> (key_bits - 32) != 0) {
		key_bits++;
	}
}

void GpuOverlay::Upload() {
	const auto count = net.vertex_count;
	if (count > OverlayNet::MAX_COUNT || net.parts > OverlayNet::MAX_COUNT) {
		throw GpuMemoryError("more edges than 28 bits can number");
	}
	const auto placed = PlaceRings(net, machine, parallel);
	const auto &extents = placed.extents;
	std::vector<NetPart> layout(extents.size());
	InShares(parallel, layout.size(), [&](size_t begin, size_t end) {
		std::transform(extents.begin() + begin, extents.begin() + end, layout.begin() + begin, PartOf);
	});
	uint32_t strips = 0;
	for (size_t i = 0; i < layout.size(); i++) {
		layout[i].first_strip = strips;
		strips += layout[i].strips;
		run += extents[i].run;
		sent += extents[i].count;
	}
	PutParts(layout);
	edges = machine.New<NetEdge>(count);
	auto net_rings = machine.New<NetRing>(net.ring_count);
	machine.Put(net_rings.at, net.rings, net.ring_count * sizeof(NetRing), parallel);
	Launch(SPLIT, "ring_edges", count, static_cast<const Vec2 *>(placed.sent.at),
	       static_cast<const Vec2 *const *>(placed.places.at), static_cast<u32>(count),
	       static_cast<const NetRing *>(net_rings.at), static_cast<u32>(net.ring_count), net.rule, edges.at);
}

void GpuOverlay::Join(const OverlayNet::Edges &others) {
	const auto count = boundary.count + others.size();
	if (count > OverlayNet::MAX_COUNT) {
		throw GpuMemoryError("more edges than 28 bits can number");
	}
	PartExtent extent;
	extent.box = net.box;
	extent.count = count;
	// Edges are about as wide as they came
	extent.run = sent > 0 ? run * (static_cast<double>(count) / static_cast<double>(sent)) : 0;
	PutParts({PartOf(extent)});
	auto all = machine.New<NetEdge>(count);
	if (!others.empty()) {
		machine.Put(all.at + boundary.count, others.data(), others.size() * sizeof(NetEdge), parallel);
		Launch(RINGS, "join_parts", others.size(), all.at + boundary.count, static_cast<u32>(others.size()),
		       all.at + boundary.count);
	}
	Launch(RINGS, "join_parts", boundary.count, boundary.at, static_cast<u32>(boundary.count), all.at);
	edges = all;
}

void GpuOverlay::Begin() {
	failed = machine.NewZeros<u8>(parts.count);
	const std::vector<uint8_t> all(parts.count, 1);
	active = machine.New<u8>(parts.count);
	machine.Put(active.at, all.data(), all.size(), parallel);
}

void GpuOverlay::Unite(bool by_chains) {
	Begin();
	Settle();
	const auto strips = SplitAll();
	const auto count = static_cast<u32>(edges.count);
	auto depths = machine.New<i32>(count);
	Array<NetHop> leaders;
	if (by_chains) {
		leaders = Leaders(Link(edges));
	}
	Launch(MEET, "depths_below", count, edges.at, count, leaders.at, parts.at, strips.view, net.rule, failed.at,
	       depths.at);
	if (by_chains) {
		auto spread = machine.New<i32>(count);
		Launch(RINGS, "chain_depths", count, edges.at, count, leaders.at, depths.at, spread.at);
		depths = spread;
	}
	boundary = machine.New<NetEdge>(count);
	auto total = machine.NewZeros<u64>(1);
	Array<u8> labels;
	if (net.rule.HasLines()) {
		labels = machine.New<u8>(count);
	}
	Launch(MEET, "net_boundary", count, edges.at, count, depths.at, net.rule, failed.at, boundary.at, total.at,
	       labels.at);
	boundary.count = machine.Value(total.at);
	if (net.rule.HasLines()) {
		LeaveTouching(labels);
	}
}

//! Lines and points of an intersection are the CPU's
void GpuOverlay::LeaveTouching(const Array<u8> &labels) {
	Array<u64> keys;
	Array<i32> ids;
	SortEnds(edges, keys, ids);
	Launch(RINGS, "touching_parts", keys.count, edges.at, keys.at, ids.at, static_cast<u32>(edges.count), labels.at,
	       failed.at);
}

//===----------------------------------------------------------------------===//
// Edges that meet in their ends only
//===----------------------------------------------------------------------===//
//! Equal edges become one, and those that separate nothing go
void GpuOverlay::Settle() {
	const auto count = static_cast<u32>(edges.count);
	auto keys = machine.New<u64>(count);
	auto ids = machine.New<i32>(count);
	Launch(SPLIT, "edge_keys", count, edges.at, count, parts.at, keys.at, ids.at);
	Sort(keys, ids, key_bits);
	auto kept = machine.New<i32>(uint64_t(count) + 1);
	Launch(SPLIT, "unite_edges", kept.count, edges.at, keys.at, ids.at, count, net.rule, kept.at);
	const auto positions = Positions(kept);
	auto settled = machine.New<NetEdge>(Total(positions));
	Launch(SPLIT, "gather_edges", count, edges.at, ids.at, count, positions.at, settled.at);
	edges = settled;
}

GpuOverlay::Strips GpuOverlay::FillStrips(double reach) {
	const auto count = static_cast<u32>(edges.count);
	auto counts = machine.New<i32>(uint64_t(count) + 1);
	Launch(MEET, "strip_counts", counts.count, edges.at, count, parts.at, reach, counts.at);
	const auto starts = Positions(counts);
	const auto entries = Total(starts);
	Strips strips {machine.New<u64>(entries), machine.New<i32>(entries), {}};
	Launch(MEET, "strip_entries", count, edges.at, count, parts.at, reach, starts.at, strips.keys.at, strips.edges.at);
	Sort(strips.keys, strips.edges, key_bits);
	strips.view = NetEntries {strips.keys.at, strips.edges.at, entries, most_entries};
	return strips;
}

GpuOverlay::Strips GpuOverlay::SplitAll() {
	auto strips = FillStrips(0);
	if (!Split(strips, 0)) {
		return strips;
	}
	// Edges that meet anew go to near ends, as on the CPU. A part for which that is not enough is left to the CPU.
	const auto counts = [&] {
		auto each = machine.NewZeros<u32>(parts.count);
		Launch(MEET, "part_counts", edges.count, edges.at, static_cast<u32>(edges.count), each.at);
		std::vector<u32> out(parts.count);
		machine.Get(out.data(), each.at, out.size() * sizeof(u32), parallel);
		return out;
	};
	std::vector<u32> first;
	for (int round = 0;; round++) {
		strips = Strips();
		strips = FillStrips(0);
		auto meet = machine.NewZeros<u8>(parts.count);
		Launch(MEET, "find_meetings", strips.view.count, edges.at, parts.at, strips.view, active.at, meet.at,
		       failed.at);
		const auto again = GetBytes(meet);
		if (std::count(again.begin(), again.end(), 1) == 0) {
			return strips;
		}
		const auto now = counts();
		if (round == 0) {
			first = now;
		}
		auto gone = GetBytes(failed);
		auto goes_on = again;
		for (size_t part = 0; part < again.size(); part++) {
			if (again[part] &&
			    (round == vibe::NearRounds::COUNT || now[part] > vibe::NearRounds::MostEdges(first[part]))) {
				gone[part] = 1;
				goes_on[part] = 0;
			}
		}
		machine.Put(failed.at, gone.data(), gone.size(), parallel);
		machine.Put(active.at, goes_on.data(), goes_on.size(), parallel);
		const double reach = vibe::NearRounds::Reach(round);
		strips = Strips();
		Split(FillStrips(reach), reach);
	}
}

bool GpuOverlay::Split(const Strips &strips, double reach) {
	const auto count = static_cast<u32>(edges.count);
	// As many cuts as edges, or what it takes
	uint64_t found = 0, capacity = uint64_t(count) + 1024;
	Array<NetCut> cuts;
	Array<i32> counts;
	do {
		capacity = std::max(capacity, found);
		cuts = Array<NetCut>();
		cuts = machine.New<NetCut>(capacity);
		counts = machine.NewZeros<i32>(uint64_t(count) + 1);
		auto total = machine.NewZeros<u64>(1);
		Launch(MEET, "find_cuts", strips.view.count, edges.at, parts.at, strips.view, reach, active.at, cuts.at,
		       capacity, total.at, counts.at, failed.at);
		found = machine.Value(total.at);
		if (found + count > OverlayNet::MAX_COUNT) {
			throw GpuMemoryError("edges meet in more points than 28 bits can number");
		}
	} while (found > capacity);
	if (found == 0) {
		return false;
	}
	const auto starts = Positions(counts);
	auto points = machine.New<Vec2>(found);
	Launch(SPLIT, "place_cuts", found, cuts.at, static_cast<u32>(found), starts.at, points.at);
	auto piece_counts = machine.New<i32>(uint64_t(count) + 1);
	Launch(SPLIT, "count_pieces", piece_counts.count, edges.at, count, starts.at, points.at, piece_counts.at);
	const auto positions = Positions(piece_counts);
	auto pieces = machine.New<NetEdge>(Total(positions));
	Launch(SPLIT, "write_pieces", count, edges.at, count, starts.at, points.at, positions.at, net.rule, pieces.at);
	edges = pieces;
	Settle();
	return true;
}

//===----------------------------------------------------------------------===//
// Chains and rings
//===----------------------------------------------------------------------===//
void GpuOverlay::SortEnds(const Array<NetEdge> &ends, Array<u64> &keys, Array<i32> &ids) {
	keys = machine.New<u64>(ends.count * 2);
	ids = machine.New<i32>(keys.count);
	Launch(RINGS, "end_keys", keys.count, ends.at, static_cast<u32>(ends.count), keys.at, ids.at);
	Sort(keys, ids, 32);
}

GpuOverlay::Links GpuOverlay::Link(const Array<NetEdge> &ends) {
	const auto count = static_cast<u32>(ends.count);
	Array<u64> keys;
	Array<i32> ids;
	SortEnds(ends, keys, ids);
	Links found {keys, ids, machine.New<u32>(count), machine.New<u8>(count), false};
	auto any = machine.NewZeros<u32>(1);
	Launch(RINGS, "link_edges", keys.count, ends.at, keys.at, ids.at, count, found.to.at, found.crowded.at, any.at);
	found.any_crowded = machine.Value(any.at) != 0;
	return found;
}

GpuOverlay::Array<NetHop> GpuOverlay::Double(Array<NetHop> hops, const char *entry_point) {
	// Asking costs more than a few times too many
	constexpr int TIMES = 4;
	const auto count = static_cast<u32>(hops.count);
	auto other = machine.New<NetHop>(count);
	auto changed = machine.New<u32>(1);
	do {
		for (int i = 0; i < TIMES; i++) {
			machine.Zero(changed.at, sizeof(u32));
			Launch(RINGS, entry_point, count, hops.at, count, other.at, changed.at);
			std::swap(hops, other);
		}
	} while (machine.Value(changed.at) != 0);
	return hops;
}

GpuOverlay::Array<NetHop> GpuOverlay::Leaders(const Links &found) {
	auto hops = machine.New<NetHop>(found.to.count);
	Launch(RINGS, "first_hops", hops.count, found.to.at, static_cast<u32>(hops.count), hops.at);
	return Double(hops, "least_hops");
}

//! As EdgeBefore does
bool GpuOverlay::SortBoundary() {
	const auto count = static_cast<u32>(boundary.count);
	auto keys = machine.New<u64>(count);
	auto ids = machine.New<i32>(count);
	Launch(RINGS, "start_y_keys", count, boundary.at, count, keys.at, ids.at);
	Sort(keys, ids, 64);
	Launch(RINGS, "start_x_keys", count, boundary.at, ids.at, count, keys.at);
	Sort(keys, ids, 64);
	if (parts.count > 1) {
		int bits = 1;
		while (parts.count >> bits != 0) {
			bits++;
		}
		Launch(RINGS, "part_keys", count, boundary.at, ids.at, count, keys.at);
		Sort(keys, ids, bits);
	}
	auto sorted = machine.New<NetEdge>(count);
	Launch(RINGS, "sort_edges", count, boundary.at, ids.at, count, sorted.at, failed.at);
	if (HasFailed()) {
		return false;
	}
	boundary = sorted;
	return true;
}

//! Rings that come back to a point are cut by the CPU, which is told how edges follow each other
UnitedNet::State GpuOverlay::LinkCrowded() {
	const auto count = static_cast<u32>(boundary.count);
	Launch(RINGS, "link_crowded", links.keys.count, boundary.at, links.keys.at, links.ids.at, count, links.crowded.at,
	       links.to.at, failed.at);
	if (HasFailed()) {
		return UnitedNet::State::WHOLE;
	}
	edges = boundary;
	const auto strips = FillStrips(0);
	under = machine.New<u32>(count);
	Launch(RINGS, "edges_under", count, boundary.at, count, parts.at, strips.view, links.to.at, links.crowded.at,
	       under.at, failed.at);
	return !HasFailed() ? UnitedNet::State::LINKED : UnitedNet::State::WHOLE;
}

UnitedNet::State GpuOverlay::BuildRings() {
	if (!SortBoundary()) {
		return UnitedNet::State::WHOLE;
	}
	links = Link(boundary);
	if (links.any_crowded) {
		return LinkCrowded();
	}
	return TraceRings() ? UnitedNet::State::RINGS : UnitedNet::State::WHOLE;
}

bool GpuOverlay::TraceRings() {
	const auto count = static_cast<u32>(boundary.count);
	const auto least = Leaders(links);
	auto far = machine.New<NetHop>(count);
	Launch(RINGS, "ring_hops", count, links.to.at, least.at, count, far.at);
	far = Double(far, "far_hops");
	auto leads = machine.New<i32>(uint64_t(count) + 1);
	auto lengths = machine.New<i32>(uint64_t(count) + 1);
	Launch(RINGS, "count_rings", leads.count, least.at, far.at, count, leads.at, lengths.at);
	const auto ring_at = Positions(leads), vertex_at = Positions(lengths);
	rings = machine.New<UnitedRing>(Total(ring_at));
	vertices = machine.New<Vec2>(count);
	auto holes = machine.NewZeros<u32>(1);
	Launch(RINGS, "write_rings", count, boundary.at, links.to.at, least.at, far.at, count, ring_at.at, vertex_at.at,
	       vertices.at, rings.at, holes.at);
	Launch(RINGS, "ring_polygons", count, boundary.at, least.at, count, ring_at.at, rings.at);
	if (machine.Value(holes.at) == 0) {
		return true;
	}
	edges = boundary;
	const auto strips = FillStrips(0);
	Launch(RINGS, "rings_under", rings.count, boundary.at, parts.at, strips.view, least.at, ring_at.at, rings.at,
	       static_cast<u32>(rings.count), failed.at);
	return !HasFailed();
}

} // namespace vibespatial
