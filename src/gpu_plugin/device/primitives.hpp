//===----------------------------------------------------------------------===//
// gpu_plugin/device/primitives.hpp
//
// The algorithms of CCCL that were loaded, ready to run: each by the name of its spec, all on a stream that is named.
// Arrays lie on the device. Throws GpuError.
//===----------------------------------------------------------------------===//
#pragma once

#include "gpu_plugin/compile/cccl_abi.hpp"
#include "gpu_plugin/device/stream.hpp"
#include "gpu_plugin/compile/libraries.hpp"
#include "engine/dispatch/kernel_registry.hpp"

#include <cuda_runtime_api.h>
#include <map>
#include <mutex>
#include <string>

namespace vibespatial {

class Primitives {
public:
	explicit Primitives(Libraries &libraries) : libraries(libraries) {
	}
	//! From the bytes that c.parallel serialized; its kernels
	cudaLibrary_t Load(const std::string &spec, const std::string &payload);

	//! out[i] = init + in[0] + .. + in[i - 1]
	void ExclusiveScan(const char *spec, const void *in, void *out, uint64_t count, const void *init,
	                   DeviceStream &stream, DeviceMemory &memory);
	//! The items that are not negative, in their order; *selected (an i64 pair on the device) says how many
	void Select(const char *spec, const void *in, void *out, void *rest, int64_t *selected, uint64_t count,
	            DeviceStream &stream, DeviceMemory &memory);
	void Reduce(const char *spec, const void *in, void *out, uint64_t count, const void *init, DeviceStream &stream,
	            DeviceMemory &memory);
	//! out[s] over in[begin[s], end[s])
	void SegmentedReduce(const char *spec, const double *in, double *out, uint64_t segments, const int32_t *begin,
	                     const int32_t *end, double init, DeviceStream &stream, DeviceMemory &memory);
	//! out[i] = where values[i] would go in data, sorted
	void Bound(const char *spec, const void *data, uint64_t count, const void *values, uint64_t value_count,
	           int32_t *out, DeviceStream &stream);
	void RadixSort(const char *spec, const void *keys, void *keys_out, const int32_t *values, int32_t *values_out,
	               uint64_t count, int end_bit, DeviceStream &stream, DeviceMemory &memory);
	void MergeSort(const char *spec, const void *keys, const int32_t *values, void *keys_out, int32_t *values_out,
	               uint64_t count, DeviceStream &stream, DeviceMemory &memory);
	//! The first of each run of equal keys; *selected is an i64 on the device
	void UniqueByKey(const char *spec, const void *keys, const int32_t *values, void *keys_out, int32_t *values_out,
	                 int64_t *selected, uint64_t count, DeviceStream &stream, DeviceMemory &memory);

private:
	struct Built {
		const KernelSpec *spec;
		cccl::AnyBuild build;
		void *run;
	};
	const Built &Find(const char *spec);

	Libraries &libraries;
	std::mutex lock;
	std::map<std::string, Built> built;
};

} // namespace vibespatial
