//===----------------------------------------------------------------------===//
// engine/gpu_overlay.hpp
//
// Unions of many parts on a device: the kernels of overlay_split and segment_intersection one after the other, with scans
// and sorts between them. Whose kernels, scans and sorts these are is somebody else's matter: the plug-in's, or those of a
// test that runs kernels on the host.
//
// Promise: the edges that the CPU finds, bit by bit; what the device cannot tell is left to the CPU, part by part.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/cpu/overlay_device.hpp"

#include <memory>

namespace vibespatial {

//! One line of work on a device. Throws GpuError.
class OverlayMachine {
public:
	virtual ~OverlayMachine() = default;

	//! Memory of the device, as long as somebody holds it
	virtual std::shared_ptr<void> Allocate(size_t bytes) = 0;
	virtual void Zero(void *at, size_t bytes) = 0;
	//! Between the host's memory and the device's; both return when the host's may be used
	virtual void Put(void *to, const void *from, size_t bytes) = 0;
	virtual void Get(void *to, const void *from, size_t bytes) = 0;
	//! As CUDA takes arguments
	virtual void Launch(const char *unit, const char *entry_point, uint64_t threads, void **arguments) = 0;
	//! out[i] = in[0] + .. + in[i - 1]
	virtual void Scan(const vibe::i32 *in, vibe::i32 *out, uint64_t count) = 0;
	//! By the lowest so many bits of the keys
	virtual void Sort(const vibe::u64 *keys, vibe::u64 *keys_out, const vibe::i32 *values, vibe::i32 *values_out,
	                  uint64_t count, int bits) = 0;
};

class GpuOverlay {
public:
	//! Entries of a strip that one thread looks at
	static constexpr uint32_t MOST_ENTRIES = 1 << 17;

	explicit GpuOverlay(OverlayMachine &machine, uint32_t most_entries = MOST_ENTRIES)
	    : machine(machine), most_entries(most_entries) {
	}

	//! To the device
	void Send(const OverlayNet &net, Parallel &parallel);
	void Unite();
	//! What became of it
	void Fetch(UnitedNet &united);

private:
	template <class T>
	struct Array {
		std::shared_ptr<void> held;
		T *at = nullptr;
		uint64_t count = 0;
	};
	//! The entries of edges in strips, sorted
	struct Strips {
		Array<vibe::u64> keys;
		Array<vibe::i32> edges;
		vibe::NetEntries view;
	};

	template <class T>
	Array<T> New(uint64_t count);
	template <class T>
	Array<T> NewZeros(uint64_t count);
	template <class... ARGUMENTS>
	void Launch(const char *unit, const char *entry_point, uint64_t threads, ARGUMENTS... arguments);
	//! `counts` to where each begins; the last is the sum
	Array<vibe::i32> Positions(const Array<vibe::i32> &counts);
	uint32_t Total(const Array<vibe::i32> &positions);
	void Sort(Array<vibe::u64> &keys, Array<vibe::i32> &values);

	void Settle();
	Strips FillStrips();
	//! Once, where edges meet; false when there was nothing to split
	bool Split(const Strips &strips);

	OverlayMachine &machine;
	const uint32_t most_entries;
	size_t part_count = 0;
	//! Of keys: a strip's number and 32 more
	int key_bits = 64;
	Array<vibe::NetPart> parts;
	Array<vibe::NetEdge> edges;
	Array<vibe::u8> failed;
	Array<vibe::NetEdge> boundary;
	uint64_t boundary_count = 0;
};

} // namespace vibespatial
