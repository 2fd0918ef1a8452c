// Every primitive once, on random input, against the standard library.
#include "gpu_plugin/device/check.hpp"
#include "gpu_plugin/device/device.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

namespace vibespatial {

namespace {

constexpr size_t COUNT = 100003;

//! Host arrays to the device and back, on one stream
class Arrays {
public:
	Arrays(DeviceStream &stream, DeviceMemory &memory) : stream(stream), memory(memory) {
	}
	template <class T>
	T *Put(const std::vector<T> &items) {
		T *at = Make<T>(items.size());
		stream.CopyToDevice(at, items.data(), items.size() * sizeof(T));
		return at;
	}
	template <class T>
	T *Make(size_t count) {
		buffers.push_back(memory.Allocate(count * sizeof(T), stream.View()));
		return static_cast<T *>(buffers.back().data());
	}
	template <class T>
	std::vector<T> Get(const T *at, size_t count) {
		std::vector<T> items(count);
		stream.CopyFromDevice(items.data(), at, count * sizeof(T));
		return items;
	}

private:
	DeviceStream &stream;
	DeviceMemory &memory;
	std::vector<rmm::device_buffer> buffers;
};

template <class T>
std::vector<T> Random(std::mt19937_64 &random, uint64_t range, int64_t from = 0) {
	std::vector<T> items(COUNT);
	for (auto &item : items) {
		item = static_cast<T>(static_cast<int64_t>(random() % range) + from);
	}
	return items;
}

} // namespace

std::vector<std::string> CudaEngine::SelfTest() {
	std::vector<std::string> names, wrong;
	for (auto &spec : KernelSpecs()) {
		names.emplace_back(spec.name);
	}
	GpuTimes times;
	Need(names, "self test", times);
	auto held = CurrentMemory();
	auto lease = streams->Take();
	auto &stream = *lease;
	std::mt19937_64 random(20261115);
	auto expect = [&](bool good, const char *spec) {
		if (!good) {
			wrong.emplace_back(spec);
		}
	};

	auto scan = [&](const char *spec, auto zero) {
		using T = decltype(zero);
		Arrays arrays(stream, *held);
		const auto in = Random<T>(random, 100, -50);
		T *out = arrays.Make<T>(COUNT);
		const T init = 7;
		primitives.ExclusiveScan(spec, arrays.Put(in), out, COUNT, &init, stream, *held);
		std::vector<T> expected(COUNT);
		T sum = init;
		for (size_t i = 0; i < COUNT; i++) {
			expected[i] = sum;
			sum += in[i];
		}
		expect(arrays.Get(out, COUNT) == expected, spec);
	};
	scan("exclusive_scan_i32", int32_t(0));
	scan("exclusive_scan_i64", int64_t(0));

	auto select = [&](const char *spec, auto zero) {
		using T = decltype(zero);
		Arrays arrays(stream, *held);
		const auto in = Random<T>(random, 1000, -500);
		T *out = arrays.Make<T>(COUNT), *rest = arrays.Make<T>(COUNT);
		auto *selected = arrays.Make<int64_t>(2);
		primitives.Select(spec, arrays.Put(in), out, rest, selected, COUNT, stream, *held);
		std::vector<T> expected;
		std::copy_if(in.begin(), in.end(), std::back_inserter(expected), [](T item) { return item >= 0; });
		const auto counts = arrays.Get(selected, 1);
		expect(counts[0] == static_cast<int64_t>(expected.size()) && arrays.Get(out, expected.size()) == expected,
		       spec);
	};
	select("select_i32", int32_t(0));
	select("select_i64", int64_t(0));

	auto reduce = [&](const char *spec, auto zero) {
		using T = decltype(zero);
		Arrays arrays(stream, *held);
		const auto in = Random<T>(random, 1000, -500);
		T *out = arrays.Make<T>(1);
		const T init = 3;
		primitives.Reduce(spec, arrays.Put(in), out, COUNT, &init, stream, *held);
		// Small whole numbers: any order of additions gives the same
		expect(arrays.Get(out, 1)[0] == std::accumulate(in.begin(), in.end(), init), spec);
	};
	reduce("reduce_sum_f64", double(0));
	reduce("reduce_sum_i32", int32_t(0));

	auto segmented = [&](const char *spec, double init, auto &&combine) {
		Arrays arrays(stream, *held);
		const auto in = Random<double>(random, 100000, -50000);
		std::vector<int32_t> begin, end;
		for (size_t at = 0; at < COUNT;) {
			const size_t to = std::min(COUNT, at + random() % 400);
			begin.push_back(static_cast<int32_t>(at));
			end.push_back(static_cast<int32_t>(to));
			at = to == at ? at + 1 : to;
		}
		double *out = arrays.Make<double>(begin.size());
		primitives.SegmentedReduce(spec, arrays.Put(in), out, begin.size(), arrays.Put(begin), arrays.Put(end), init,
		                           stream, *held);
		std::vector<double> expected;
		for (size_t i = 0; i < begin.size(); i++) {
			double all = init;
			for (auto at = begin[i]; at < end[i]; at++) {
				all = combine(all, in[static_cast<size_t>(at)]);
			}
			expected.push_back(all);
		}
		expect(arrays.Get(out, begin.size()) == expected, spec);
	};
	const double infinity = std::numeric_limits<double>::infinity();
	segmented("segmented_reduce_sum_f64", 0, [](double a, double b) { return a + b; });
	segmented("segmented_reduce_min_f64", infinity, [](double a, double b) { return std::min(a, b); });
	segmented("segmented_reduce_max_f64", -infinity, [](double a, double b) { return std::max(a, b); });

	auto bound = [&](const char *spec, auto zero, bool upper) {
		using T = decltype(zero);
		Arrays arrays(stream, *held);
		auto data = Random<T>(random, 50000);
		std::sort(data.begin(), data.end());
		const auto values = Random<T>(random, 50010);
		auto *out = arrays.Make<int32_t>(COUNT);
		primitives.Bound(spec, arrays.Put(data), COUNT, arrays.Put(values), COUNT, out, stream);
		std::vector<int32_t> expected;
		for (auto value : values) {
			auto at = upper ? std::upper_bound(data.begin(), data.end(), value)
			                : std::lower_bound(data.begin(), data.end(), value);
			expected.push_back(static_cast<int32_t>(at - data.begin()));
		}
		expect(arrays.Get(out, COUNT) == expected, spec);
	};
	bound("lower_bound_i32", int32_t(0), false);
	bound("lower_bound_u64", uint64_t(0), false);
	bound("upper_bound_i32", int32_t(0), true);
	bound("upper_bound_u64", uint64_t(0), true);

	auto sort = [&](const char *spec, auto zero, bool radix) {
		using T = decltype(zero);
		Arrays arrays(stream, *held);
		const auto keys = Random<T>(random, 5000, std::is_signed<T>::value ? -2500 : 0);
		std::vector<int32_t> values(COUNT);
		std::iota(values.begin(), values.end(), 0);
		T *keys_out = arrays.Make<T>(COUNT);
		auto *values_out = arrays.Make<int32_t>(COUNT);
		if (radix) {
			primitives.RadixSort(spec, arrays.Put(keys), keys_out, arrays.Put(values), values_out, COUNT,
			                     static_cast<int>(8 * sizeof(T)), stream, *held);
		} else {
			primitives.MergeSort(spec, arrays.Put(keys), arrays.Put(values), keys_out, values_out, COUNT, stream,
			                     *held);
		}
		auto expected = values;
		std::stable_sort(expected.begin(), expected.end(), [&](int32_t a, int32_t b) {
			return keys[static_cast<size_t>(a)] < keys[static_cast<size_t>(b)];
		});
		std::vector<T> expected_keys;
		expected_keys.reserve(COUNT);
		for (auto value : expected) {
			expected_keys.push_back(keys[static_cast<size_t>(value)]);
		}
		expect(arrays.Get(keys_out, COUNT) == expected_keys && arrays.Get(values_out, COUNT) == expected, spec);
	};
	sort("radix_sort_i32_i32", int32_t(0), true);
	sort("radix_sort_u64_i32", uint64_t(0), true);
	sort("merge_sort_u64_i32", uint64_t(0), false);

	auto unique = [&](const char *spec, auto zero) {
		using T = decltype(zero);
		Arrays arrays(stream, *held);
		auto keys = Random<T>(random, 5000);
		std::sort(keys.begin(), keys.end());
		std::vector<int32_t> values(COUNT);
		std::iota(values.begin(), values.end(), 0);
		T *keys_out = arrays.Make<T>(COUNT);
		auto *values_out = arrays.Make<int32_t>(COUNT);
		auto *selected = arrays.Make<int64_t>(1);
		primitives.UniqueByKey(spec, arrays.Put(keys), arrays.Put(values), keys_out, values_out, selected, COUNT,
		                       stream, *held);
		std::vector<T> expected_keys;
		std::vector<int32_t> expected_values;
		for (size_t i = 0; i < COUNT; i++) {
			if (i == 0 || keys[i] != keys[i - 1]) {
				expected_keys.push_back(keys[i]);
				expected_values.push_back(values[i]);
			}
		}
		const auto found = arrays.Get(selected, 1)[0];
		expect(found == static_cast<int64_t>(expected_keys.size()) &&
		           arrays.Get(keys_out, expected_keys.size()) == expected_keys &&
		           arrays.Get(values_out, expected_values.size()) == expected_values,
		       spec);
	};
	unique("unique_by_key_i32_i32", int32_t(0));
	unique("unique_by_key_u64_i32", uint64_t(0));
	stream.Synchronize();
	return wrong;
}

} // namespace vibespatial
