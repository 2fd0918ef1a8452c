//===----------------------------------------------------------------------===//
// engine/gpu/machine/overlay.hpp
//
// Unions of many polygons, and overlays of many pairs, on a device: the kernels of overlay_split, segment_intersection and overlay_rings one after the
// other, with scans and sorts between them.
//
// Promise: the same edges as the CPU's, bit by bit, and the same rings. What the device cannot tell is left to the CPU: a part,
// the union of all parts, or its rings.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/interface/overlay.hpp"
#include "engine/gpu/machine/machine.hpp"
#include "engine/gpu/machine/net_rings.hpp"

namespace vibespatial {

class GpuOverlay : public GpuUnion {
public:
	//! Entries of a strip that one thread looks at
	static constexpr uint32_t MOST_ENTRIES = 1 << 17;

	//! Uploads the net
	GpuOverlay(std::unique_ptr<Machine> own, const OverlayNet &net, Parallel &parallel,
	           uint32_t most_entries = MOST_ENTRIES);

	std::vector<uint8_t> FindDoubtful(size_t polygons) override;
	std::vector<uint8_t> UniteParts() override;
	void Finish(OverlayNet::Edges &&others, bool whole, UnitedNet &united) override;
	void FinishParts(UnitedNet &united) override;

private:
	template <class T>
	using Array = MachineArray<T>;
	//! The entries of edges in strips, sorted
	struct Strips {
		Array<vibe::u64> keys;
		Array<vibe::i32> edges;
		vibe::NetEntries view;
	};
	//! Edges whose ends were matched
	struct Links {
		//! Sorted, as are the ends
		Array<vibe::u64> keys;
		Array<vibe::i32> ids;
		Array<vibe::u32> to;
		//! More than two meet in the head of an edge
		Array<vibe::u8> crowded;
		bool any_crowded;
	};

	//! Asks first whether the work is still wanted
	template <class... ARGUMENTS>
	void Launch(const char *unit, const char *entry_point, uint64_t threads, ARGUMENTS... arguments) {
		if (net.poll) {
			net.poll();
		}
		machine.Launch(unit, entry_point, threads, arguments...);
	}
	//! `counts` to where each begins; the last is the sum
	Array<vibe::i32> Positions(const Array<vibe::i32> &counts);
	uint32_t Total(const Array<vibe::i32> &positions);
	void Sort(Array<vibe::u64> &keys, Array<vibe::i32> &values, int bits);
	void PutParts(const std::vector<vibe::NetPart> &layout);
	std::vector<uint8_t> GetBytes(const Array<vibe::u8> &bytes);
	bool HasFailed();

	void Upload();
	//! All boundaries, and these edges, into one part
	void Join(const OverlayNet::Edges &others);
	//! All parts have yet to be done
	void Begin();
	//! The boundary of each part; by chains where parts are large
	void Unite(bool by_chains);
	void LeaveTouching(const Array<vibe::u8> &labels);
	void Settle();
	Strips FillStrips(double reach);
	//! Splits edges of active parts once, where they meet; false when there was nothing to split
	bool Split(const Strips &strips, double reach);
	//! Again and again, as OverlayArrangement does it, until edges meet in their ends only
	Strips SplitAll();
	//! The ends of edges: equal ones follow each other
	void SortEnds(const Array<vibe::NetEdge> &ends, Array<vibe::u64> &keys, Array<vibe::i32> &ids);
	Links Link(const Array<vibe::NetEdge> &ends);
	Array<vibe::NetHop> Double(Array<vibe::NetHop> hops, const char *entry_point);
	Array<vibe::NetHop> Leaders(const Links &found);
	//! By part, too; false where too many edges start in a point
	bool SortBoundary();
	UnitedNet::State BuildRings();
	//! The rings of a boundary in which no more than two edges meet anywhere; false where the device cannot tell which hole is whose
	bool TraceRings();
	UnitedNet::State LinkCrowded();
	template <class VECTOR, class T>
	void Fetch(const Array<T> &array, VECTOR &out);

	const std::unique_ptr<Machine> own;
	Machine &machine;
	const OverlayNet &net;
	//! For copies on the host's side
	Parallel &parallel;
	const uint32_t most_entries;
	//! Of all edges together along x, when they came
	double run = 0;
	size_t sent = 0;
	//! Of keys: a strip's number and 32 more
	int key_bits = 64;
	Array<vibe::NetPart> parts;
	Array<vibe::NetEdge> edges;
	Array<vibe::u8> failed;
	Array<vibe::u8> active;
	Array<vibe::NetEdge> boundary;
	Array<vibe::Vec2> vertices;
	Array<vibe::UnitedRing> rings;
	Links links;
	Array<vibe::u32> under;
};

} // namespace vibespatial
