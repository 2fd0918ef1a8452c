#include "gpu_plugin/device/primitives.hpp"

#include "gpu_plugin/device/check.hpp"

#include <cstring>

namespace vibespatial {

using namespace cccl; // NOLINT: the structures of its interface

namespace {

using Stream = cudaStream_t;

void CheckCccl(int status, const char *spec) {
	if (status != 0) {
		CheckLoss(spec);
		throw GpuError(std::string(spec) + " failed on the device (status " + std::to_string(status) + ")");
	}
}

//! The first bytes of what was built, as the structure that the algorithm takes
template <class BUILD>
BUILD As(const AnyBuild &any) {
	static_assert(sizeof(BUILD) <= sizeof(AnyBuild), "AnyBuild holds all of them");
	BUILD build;
	std::memcpy(&build, &any, sizeof(build));
	return build;
}

//! The kernels of what was built
cudaLibrary_t LibraryOf(const AnyBuild &any) {
	BuildHead head;
	std::memcpy(&head, &any, sizeof(head));
	return static_cast<cudaLibrary_t>(head.library);
}

//! Asks for the size of the temporary storage, then runs
template <class CALL>
void WithTemporary(const char *spec, DeviceStream &stream, DeviceMemory &memory, CALL &&call) {
	size_t bytes = 0;
	CheckCccl(call(static_cast<void *>(nullptr), &bytes), spec);
	void *temporary = stream.Temporary(spec, bytes, memory);
	CheckCccl(call(temporary, &bytes), spec);
}

} // namespace

cudaLibrary_t Primitives::Load(const std::string &name, const std::string &payload) {
	auto *spec = FindSpec(name);
	auto &library = libraries.Cccl();
	if (!spec || !library) {
		throw GpuError(name + ": " + (spec ? library.component.detail : "no such spec"));
	}
	const std::string algorithm = std::string("cccl_device_") + spec->algorithm;
	auto deserialize = library.Get<int (*)(void *, const void *, size_t)>((algorithm + "_deserialize").c_str());
	auto load = library.Get<int (*)(void *)>((algorithm + "_load").c_str());
	const auto entry =
	    std::strcmp(spec->algorithm, "scan") == 0 ? std::string("cccl_device_exclusive_scan") : algorithm;
	Built made {spec, {}, library.Symbol(entry.c_str())};
	if (!deserialize || !load || !made.run) {
		throw GpuError(name + ": libcccl.c.parallel has no " + spec->algorithm);
	}
	CheckCccl(deserialize(&made.build, payload.data(), payload.size()), spec->name);
	CheckCccl(load(&made.build), spec->name);
	std::lock_guard<std::mutex> guard(lock);
	built[name] = made;
	return LibraryOf(made.build);
}

const Primitives::Built &Primitives::Find(const char *spec) {
	std::lock_guard<std::mutex> guard(lock);
	const auto found = built.find(spec);
	if (found == built.end()) {
		throw GpuError(std::string(spec) + " was not loaded");
	}
	return found->second;
}

void Primitives::ExclusiveScan(const char *spec, const void *in, void *out, uint64_t count, const void *init,
                               DeviceStream &stream, DeviceMemory &memory) {
	auto &made = Find(spec);
	const auto type = TypeOf(made.spec->types[0]);
	using F = int (*)(ScanBuild, void *, size_t *, Iterator, Iterator, uint64_t, Op, Value, Stream);
	WithTemporary(spec, stream, memory, [&](void *temporary, size_t *bytes) {
		return reinterpret_cast<F>(made.run)(As<ScanBuild>(made.build), temporary, bytes, Pointer(type, in),
		                                     Pointer(type, out), count, Known(PLUS),
		                                     Value {InfoOf(type), const_cast<void *>(init)}, stream.Handle());
	});
}

void Primitives::Select(const char *spec, const void *in, void *out, void *rest, int64_t *selected, uint64_t count,
                        DeviceStream &stream, DeviceMemory &memory) {
	auto &made = Find(spec);
	const auto type = TypeOf(made.spec->types[0]);
	Op op {};
	op.size = 1;
	op.alignment = 1;
	// The second part is always empty
	using F = int (*)(PartitionBuild, void *, size_t *, Iterator, Iterator, Iterator, Iterator, Iterator, Op, Op,
	                  int64_t, Stream);
	WithTemporary(spec, stream, memory, [&](void *temporary, size_t *bytes) {
		return reinterpret_cast<F>(made.run)(As<PartitionBuild>(made.build), temporary, bytes, Pointer(type, in),
		                                     Pointer(type, out), Pointer(type, rest), Pointer(type, rest),
		                                     Pointer(INT64, selected), op, op, static_cast<int64_t>(count),
		                                     stream.Handle());
	});
}

void Primitives::Reduce(const char *spec, const void *in, void *out, uint64_t count, const void *init,
                        DeviceStream &stream, DeviceMemory &memory) {
	auto &made = Find(spec);
	const auto type = TypeOf(made.spec->types[0]);
	using F = int (*)(ReduceBuild, void *, size_t *, Iterator, Iterator, uint64_t, Op, Value, Stream);
	WithTemporary(spec, stream, memory, [&](void *temporary, size_t *bytes) {
		return reinterpret_cast<F>(made.run)(As<ReduceBuild>(made.build), temporary, bytes, Pointer(type, in),
		                                     Pointer(type, out), count, Known(PLUS),
		                                     Value {InfoOf(type), const_cast<void *>(init)}, stream.Handle());
	});
}

void Primitives::SegmentedReduce(const char *spec, const double *in, double *out, uint64_t segments,
                                 const int32_t *begin, const int32_t *end, double init, DeviceStream &stream,
                                 DeviceMemory &memory) {
	auto &made = Find(spec);
	const std::string name = made.spec->op;
	const auto op = Known(name == "plus" ? PLUS : name == "min" ? MINIMUM : MAXIMUM);
	using F = int (*)(SegmentedReduceBuild, void *, size_t *, Iterator, Iterator, uint64_t, Iterator, Iterator, Op,
	                  Value, size_t, Stream);
	WithTemporary(spec, stream, memory, [&](void *temporary, size_t *bytes) {
		// 0: how long segments are is not known
		return reinterpret_cast<F>(made.run)(As<SegmentedReduceBuild>(made.build), temporary, bytes,
		                                     Pointer(FLOAT64, in), Pointer(FLOAT64, out), segments,
		                                     Pointer(INT32, begin), Pointer(INT32, end), op,
		                                     Value {InfoOf(FLOAT64), &init}, 0, stream.Handle());
	});
}

void Primitives::Bound(const char *spec, const void *data, uint64_t count, const void *values, uint64_t value_count,
                       int32_t *out, DeviceStream &stream) {
	auto &made = Find(spec);
	const auto type = TypeOf(made.spec->types[0]);
	using F = int (*)(SearchBuild, Iterator, uint64_t, Iterator, uint64_t, Iterator, Op, Stream);
	CheckCccl(reinterpret_cast<F>(made.run)(As<SearchBuild>(made.build), Pointer(type, data), count,
	                                        Pointer(type, values), value_count, Pointer(INT32, out), Known(LESS),
	                                        stream.Handle()),
	          spec);
}

void Primitives::RadixSort(const char *spec, const void *keys, void *keys_out, const int32_t *values,
                           int32_t *values_out, uint64_t count, int end_bit, DeviceStream &stream,
                           DeviceMemory &memory) {
	auto &made = Find(spec);
	const auto type = TypeOf(made.spec->types[0]);
	using F = int (*)(RadixSortBuild, void *, size_t *, Iterator, Iterator, Iterator, Iterator, Op, size_t, int, int,
	                  bool, int *, Stream);
	int selector = -1;
	WithTemporary(spec, stream, memory, [&](void *temporary, size_t *bytes) {
		return reinterpret_cast<F>(made.run)(As<RadixSortBuild>(made.build), temporary, bytes, Pointer(type, keys),
		                                     Pointer(type, keys_out), Pointer(INT32, values),
		                                     Pointer(INT32, values_out), Op {}, count, 0, end_bit, false, &selector,
		                                     stream.Handle());
	});
}

void Primitives::MergeSort(const char *spec, const void *keys, const int32_t *values, void *keys_out,
                           int32_t *values_out, uint64_t count, DeviceStream &stream, DeviceMemory &memory) {
	auto &made = Find(spec);
	const auto type = TypeOf(made.spec->types[0]);
	using F = int (*)(MergeSortBuild, void *, size_t *, Iterator, Iterator, Iterator, Iterator, uint64_t, Op, Stream);
	WithTemporary(spec, stream, memory, [&](void *temporary, size_t *bytes) {
		return reinterpret_cast<F>(made.run)(As<MergeSortBuild>(made.build), temporary, bytes, Pointer(type, keys),
		                                     Pointer(INT32, values), Pointer(type, keys_out),
		                                     Pointer(INT32, values_out), count, Known(LESS), stream.Handle());
	});
}

void Primitives::UniqueByKey(const char *spec, const void *keys, const int32_t *values, void *keys_out,
                             int32_t *values_out, int64_t *selected, uint64_t count, DeviceStream &stream,
                             DeviceMemory &memory) {
	auto &made = Find(spec);
	const auto type = TypeOf(made.spec->types[0]);
	using F =
	    int (*)(UniqueBuild, void *, size_t *, Iterator, Iterator, Iterator, Iterator, Iterator, Op, size_t, Stream);
	WithTemporary(spec, stream, memory, [&](void *temporary, size_t *bytes) {
		return reinterpret_cast<F>(made.run)(As<UniqueBuild>(made.build), temporary, bytes, Pointer(type, keys),
		                                     Pointer(INT32, values), Pointer(type, keys_out),
		                                     Pointer(INT32, values_out), Pointer(INT64, selected), Known(EQUAL_TO),
		                                     count, stream.Handle());
	});
}

} // namespace vibespatial
