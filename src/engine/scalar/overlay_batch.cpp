#include "engine/scalar/overlay_batch.hpp"

#include "engine/overlay/grouped_overlay.hpp"
#include "geometry/error.hpp"

namespace vibespatial {

namespace {

class OverlayBatch : public GpuScalarBatch {
public:
	OverlayBatch(const ScalarTask &task, BeginUnion begin) : task(task), begin(std::move(begin)) {
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
		GroupedOverlay pairs(task.overlay);
		const auto rows = Add(pairs);
		results.assign(input.count, vibe::PAIR_OPEN);
		OnDevice device(begin, result.times);
		Serial serial;
		if (task.GivesNumbers()) {
			TakeAreas(rows, pairs.Areas(device, serial));
		} else {
			TakeGeometries(rows, pairs.Run(device, serial));
		}
		result.results = results.data();
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
			times = work->times;
			return true;
		}

	private:
		const BeginUnion &begin;
		GpuTimes &times;
	};

	static WkbSlice Slice(const ScalarSide &side, size_t row) {
		return WkbSlice {side.Shapes().Wkb(row), side.Shapes().Rows()[row].size};
	}
	//! Returns the rows of the batch that are among the pairs
	std::vector<size_t> Add(GroupedOverlay &pairs) const {
		std::vector<size_t> rows;
		rows.reserve(input.count);
		Poll poll;
		for (size_t i = 0; i < input.count; i++) {
			const auto left = Slice(*input.left, input.left_is_constant ? 0 : input.first + i);
			const auto right = Slice(*input.right, input.right_is_constant ? 0 : input.first + i);
			poll(left.size + right.size);
			try {
				if (left.data && right.data && pairs.AddPair(left, right)) {
					rows.push_back(i);
				}
			} catch (const GeometryError &) { // NOLINT: the CPU reports it
			}
		}
		return rows;
	}
	void TakeAreas(const std::vector<size_t> &rows, const std::vector<double> &areas) {
		numbers.assign(input.count, 0);
		for (size_t i = 0; i < rows.size(); i++) {
			if (areas[i] == areas[i]) {
				numbers[rows[i]] = areas[i];
				results[rows[i]] = vibe::PAIR_TRUE;
			}
		}
		result.numbers = numbers.data();
	}
	void TakeGeometries(const std::vector<size_t> &rows, const std::vector<CountedVector<uint8_t>> &made) {
		wkb.clear();
		wkb_begin.assign(1, 0);
		size_t next = 0;
		for (size_t row = 0; row < input.count; row++) {
			if (next < rows.size() && rows[next] == row) {
				wkb.insert(wkb.end(), made[next].begin(), made[next].end());
				results[row] = made[next].empty() ? vibe::PAIR_OPEN : vibe::PAIR_TRUE;
				next++;
			}
			wkb_begin.push_back(int64_t(wkb.size()));
		}
		result.wkb = wkb.data();
		result.wkb_begin = wkb_begin.data();
	}

	const ScalarTask task;
	const BeginUnion begin;
	ScalarInput input;
	ScalarResult result;
	std::vector<uint8_t> results;
	std::vector<double> numbers;
	std::vector<uint8_t> wkb;
	std::vector<int64_t> wkb_begin;
};

} // namespace

std::unique_ptr<GpuScalarBatch> MakeOverlayBatch(const ScalarTask &task, BeginUnion begin) {
	return std::make_unique<OverlayBatch>(task, std::move(begin));
}

} // namespace vibespatial
