#include "engine/scalar/overlay_batch.hpp"

#include "geometry/error.hpp"

namespace vibespatial {

namespace {

class OverlayBatch : public GpuScalarBatch {
public:
	OverlayBatch(const ScalarTask &task, BeginUnion begin, size_t enough)
	    : task(task), begin(std::move(begin)), enough(enough), pairs(task.overlay) {
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
		// After an error there may be some from before
		pairs = GroupedOverlay(task.overlay);
		rows.clear();
		Poll poll;
		for (size_t i = 0; i < input.count; i++) {
			const auto left = Slice(*input.left, input.left_is_constant ? 0 : input.first + i);
			const auto right = Slice(*input.right, input.right_is_constant ? 0 : input.first + i);
			poll(left.size + right.size);
			if (Add(left, right)) {
				rows.push_back(i);
			}
			if (pairs.Vertices() >= enough) {
				Run();
			}
		}
		Run();
		TakeUpTo(input.count);
		result.results = results.data();
		result.numbers = numbers.data();
		result.wkb = wkb.data();
		result.wkb_begin = wkb_begin.data();
		return result;
	}

private:
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
			times.bytes_to_device += work->times.bytes_to_device;
			times.bytes_from_device += work->times.bytes_from_device;
			times.wait_ms += work->times.wait_ms;
			times.to_device_ms += work->times.to_device_ms;
			times.kernel_ms += work->times.kernel_ms;
			times.from_device_ms += work->times.from_device_ms;
			return true;
		}

	private:
		const BeginUnion &begin;
		GpuTimes &times;
	};

	static WkbSlice Slice(const ScalarSide &side, size_t row) {
		return WkbSlice {side.Shapes().Wkb(row), side.Shapes().Rows()[row].size};
	}
	bool Add(WkbSlice left, WkbSlice right) {
		try {
			return left.data && right.data && pairs.AddPair(left, right);
		} catch (const GeometryError &) {
			return false; // the CPU reports it
		}
	}
	//! The pairs that were added
	void Run() {
		if (rows.empty()) {
			return;
		}
		OnDevice device(begin, result.times);
		Serial serial;
		if (task.GivesNumbers()) {
			const auto areas = pairs.Areas(device, serial);
			for (size_t i = 0; i < rows.size(); i++) {
				if (areas[i] == areas[i]) {
					numbers[rows[i]] = areas[i];
					results[rows[i]] = vibe::PAIR_TRUE;
				}
			}
		} else {
			const auto made = pairs.Run(device, serial);
			for (size_t i = 0; i < rows.size(); i++) {
				TakeUpTo(rows[i]);
				wkb.insert(wkb.end(), made[i].begin(), made[i].end());
				results[rows[i]] = made[i].empty() ? vibe::PAIR_OPEN : vibe::PAIR_TRUE;
			}
		}
		rows.clear();
	}
	//! Geometries come in the order of their rows: all before this one are there
	void TakeUpTo(size_t row) {
		wkb_begin.resize(row + 1, int64_t(wkb.size()));
	}

	const ScalarTask task;
	const BeginUnion begin;
	const size_t enough;
	ScalarInput input;
	GroupedOverlay pairs;
	//! Those of the pairs
	std::vector<size_t> rows;
	ScalarResult result;
	std::vector<uint8_t> results;
	std::vector<double> numbers;
	std::vector<uint8_t> wkb;
	std::vector<int64_t> wkb_begin;
};

} // namespace

std::unique_ptr<GpuScalarBatch> MakeOverlayBatch(const ScalarTask &task, BeginUnion begin, size_t enough) {
	return std::make_unique<OverlayBatch>(task, std::move(begin), enough);
}

} // namespace vibespatial
