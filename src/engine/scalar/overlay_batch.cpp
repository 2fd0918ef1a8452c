#include "engine/scalar/overlay_batch.hpp"

namespace vibespatial {

namespace {

//! Fails as the engine does: with a GpuError
class OnDevice : public OverlayDevice {
public:
	OnDevice(const BeginUnion &begin, GpuTimes &times) : begin(begin), times(times) {
	}
	bool Takes(size_t) override {
		return true;
	}
	bool Unite(const OverlayNet &net, Parallel &parallel, const Steps &steps) override {
		const auto work = begin(net, parallel);
		steps(*work);
		times.Add(work->times);
		return true;
	}

private:
	const BeginUnion &begin;
	GpuTimes &times;
};

class OverlayBatch : public GpuScalarBatch {
public:
	OverlayBatch(const ScalarTask &task, BeginUnion begin, WithThreads threads, size_t enough)
	    : task(task), begin(std::move(begin)), threads(std::move(threads)), enough(enough) {
	}

	//! The host reads the rows
	uint8_t *Block(bool, size_t) override {
		return nullptr;
	}
	uint64_t HostBytes() const override {
		return results.capacity() + numbers.capacity() * sizeof(double) + wkb.capacity() +
		       wkb_begin.capacity() * sizeof(int64_t);
	}
	//! The device is waited for several times in between, so Finish() does all of it
	void Begin(const ScalarInput &input_p) override {
		input = input_p;
	}
	const ScalarResult &Finish() override {
		result = ScalarResult {};
		results.assign(input.count, vibe::PAIR_OPEN);
		numbers.assign(task.GivesNumbers() ? input.count : 0, 0);
		wkb.clear();
		wkb_begin.assign(1, 0);
		threads([&](Parallel &parallel) {
			for (size_t first = 0, end = 0; first < input.count; first = end) {
				end = EndOfNet(first);
				RunNet(first, end, parallel);
			}
		});
		result.results = results.data();
		result.numbers = numbers.data();
		result.wkb = wkb.data();
		result.wkb_begin = wkb_begin.data();
		return result;
	}

private:
	size_t LeftRow(size_t i) const {
		return input.left_is_constant ? 0 : input.first + i;
	}
	size_t RightRow(size_t i) const {
		return input.right_is_constant ? 0 : input.first + i;
	}
	//! Most batches are one net
	size_t EndOfNet(size_t first) const {
		const auto &left = input.left->Shapes().Rows(), &right = input.right->Shapes().Rows();
		size_t bytes = 0, end = first;
		while (end < input.count && bytes / sizeof(vibe::Vec2) < enough) {
			bytes += left[LeftRow(end)].size + right[RightRow(end)].size;
			end++;
		}
		return end;
	}
	static WkbSlice Slice(const ScalarSide &side, size_t row) {
		return WkbSlice {side.Shapes().Wkb(row), side.Shapes().Rows()[row].size};
	}
	//! The result of each row is PAIR_OPEN where the device has none
	void RunNet(size_t first, size_t end, Parallel &parallel) {
		GroupedOverlay pairs(task.overlay);
		pairs.AddPairs(
		    end - first,
		    [&](size_t i) {
			    return GroupedOverlay::Pair(Slice(*input.left, LeftRow(first + i)),
			                                Slice(*input.right, RightRow(first + i)));
		    },
		    parallel);
		OnDevice device(begin, result.times);
		if (task.GivesNumbers()) {
			const auto areas = pairs.Areas(device, parallel);
			for (auto i = first; i < end; i++) {
				if (areas[i - first] == areas[i - first]) {
					numbers[i] = areas[i - first];
					results[i] = vibe::PAIR_TRUE;
				}
			}
			return;
		}
		const auto before = wkb.size();
		const auto begins = pairs.Run(device, parallel, [&](size_t bytes) {
			wkb.resize(before + bytes);
			return wkb.data() + before;
		});
		for (auto i = first; i < end; i++) {
			const auto to = begins[i - first + 1];
			results[i] = to > begins[i - first] ? vibe::PAIR_TRUE : vibe::PAIR_OPEN;
			wkb_begin.push_back(int64_t(before + to));
		}
	}

	const ScalarTask task;
	const BeginUnion begin;
	const WithThreads threads;
	const size_t enough;
	ScalarInput input;
	ScalarResult result;
	std::vector<uint8_t> results;
	std::vector<double> numbers;
	UninitializedVector<uint8_t> wkb;
	std::vector<int64_t> wkb_begin;
};

} // namespace

std::unique_ptr<GpuScalarBatch> MakeOverlayBatch(const ScalarTask &task, BeginUnion begin, WithThreads threads,
                                                 size_t enough) {
	return std::make_unique<OverlayBatch>(task, std::move(begin), std::move(threads), enough);
}

} // namespace vibespatial
