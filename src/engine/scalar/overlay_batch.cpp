#include "engine/scalar/overlay_batch.hpp"

#include "geometry/error.hpp"

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

//! Some rows of a batch that follow each other, done by one thread
class OverlayPiece {
public:
	OverlayPiece(const ScalarTask &task, const ScalarInput &input, size_t first, size_t end)
	    : first(first), end(end), task(task), input(input) {
	}

	//! The result of each row is PAIR_OPEN where the device has none
	void Run(const BeginUnion &begin, uint8_t *results, double *numbers) {
		GroupedOverlay pairs(task.overlay);
		std::vector<size_t> rows;
		Poll poll;
		for (size_t i = first; i < end; i++) {
			const auto left = Slice(*input.left, input.left_is_constant ? 0 : input.first + i);
			const auto right = Slice(*input.right, input.right_is_constant ? 0 : input.first + i);
			poll(left.size + right.size);
			if (Add(pairs, left, right)) {
				rows.push_back(i);
			}
		}
		if (rows.empty()) {
			return;
		}
		OnDevice device(begin, times);
		Serial serial;
		if (task.GivesNumbers()) {
			const auto areas = pairs.Areas(device, serial);
			for (size_t i = 0; i < rows.size(); i++) {
				if (areas[i] == areas[i]) {
					numbers[rows[i]] = areas[i];
					results[rows[i]] = vibe::PAIR_TRUE;
				}
			}
			return;
		}
		auto made = pairs.Run(device, serial);
		for (size_t i = 0; i < rows.size(); i++) {
			results[rows[i]] = made[i].empty() ? vibe::PAIR_OPEN : vibe::PAIR_TRUE;
			begins.resize(rows[i] - first + 1, wkb.size());
			wkb.insert(wkb.end(), made[i].begin(), made[i].end());
		}
	}
	//! Adds the geometries of the rows to those of the rows before
	void MoveTo(std::vector<uint8_t> &all, std::vector<int64_t> &all_begins) {
		begins.resize(end - first, wkb.size());
		for (size_t i = 1; i < begins.size(); i++) {
			all_begins.push_back(int64_t(all.size() + begins[i]));
		}
		all.insert(all.end(), wkb.begin(), wkb.end());
		all_begins.push_back(int64_t(all.size()));
		std::vector<uint8_t>().swap(wkb);
	}

	const size_t first;
	const size_t end;
	GpuTimes times;

private:
	static WkbSlice Slice(const ScalarSide &side, size_t row) {
		return WkbSlice {side.Shapes().Wkb(row), side.Shapes().Rows()[row].size};
	}
	static bool Add(GroupedOverlay &pairs, WkbSlice left, WkbSlice right) {
		try {
			return left.data && right.data && pairs.AddPair(left, right);
		} catch (const GeometryError &) {
			return false; // the CPU reports it
		}
	}

	const ScalarTask &task;
	const ScalarInput &input;
	//! The geometries, and where each row's begins
	std::vector<uint8_t> wkb;
	std::vector<size_t> begins;
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
		auto pieces = Cut();
		threads([&](Parallel &parallel) {
			parallel.For(pieces.size(), [&](size_t i) { pieces[i].Run(begin, results.data(), numbers.data()); });
		});
		for (auto &piece : pieces) {
			piece.MoveTo(wkb, wkb_begin);
			result.times.Add(piece.times);
		}
		result.results = results.data();
		result.numbers = numbers.data();
		result.wkb = wkb.data();
		result.wkb_begin = wkb_begin.data();
		return result;
	}

private:
	//! About as many vertices in each
	std::vector<OverlayPiece> Cut() const {
		std::vector<OverlayPiece> pieces;
		size_t bytes = 0, first = 0;
		for (size_t i = 0; i < input.count; i++) {
			bytes += input.left->Shapes().Rows()[input.left_is_constant ? 0 : input.first + i].size;
			bytes += input.right->Shapes().Rows()[input.right_is_constant ? 0 : input.first + i].size;
			if (bytes / sizeof(vibe::Vec2) >= enough || i + 1 == input.count) {
				pieces.emplace_back(task, input, first, i + 1);
				first = i + 1;
				bytes = 0;
			}
		}
		return pieces;
	}

	const ScalarTask task;
	const BeginUnion begin;
	const WithThreads threads;
	const size_t enough;
	ScalarInput input;
	ScalarResult result;
	std::vector<uint8_t> results;
	std::vector<double> numbers;
	std::vector<uint8_t> wkb;
	std::vector<int64_t> wkb_begin;
};

} // namespace

std::unique_ptr<GpuScalarBatch> MakeOverlayBatch(const ScalarTask &task, BeginUnion begin, WithThreads threads,
                                                 size_t enough) {
	return std::make_unique<OverlayBatch>(task, std::move(begin), std::move(threads), enough);
}

} // namespace vibespatial
