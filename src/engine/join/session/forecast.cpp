#include "engine/join/session/forecast.hpp"

#include "engine/dispatch/thresholds.hpp"
#include "engine/join/probe.hpp"
#include "engine/join/tuning.hpp"
#include "geometry/error.hpp"

#include <algorithm>
#include <atomic>

namespace vibespatial {

namespace {

using Clock = std::function<double()>;

double SteadyMilliseconds() {
	return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

//! Some of the first rows, from small to large: so a huge one keeps no time from the others
std::vector<size_t> SampleRows(const JoinRow *rows, size_t count) {
	const size_t samples = std::min(join_tuning::FORECAST_ROWS, count);
	std::vector<size_t> sample(samples);
	for (size_t i = 0; i < samples; i++) {
		// In the middle of its share: tables are often sorted, with the largest row first
		sample[i] = (2 * i + 1) * count / (2 * samples);
	}
	std::stable_sort(sample.begin(), sample.end(), [&](size_t l, size_t r) { return rows[l].size < rows[r].size; });
	return sample;
}

//! Whether there is time for sample number i
bool HasTime(size_t i, double spent) {
	return i < join_tuning::FORECAST_LEAST_ROWS || spent <= join_tuning::FORECAST_MS;
}

//! A row of the sample
struct RowTime {
	//! Negative: there was no time for it
	double again = -1;
	//! What it took longer the first time, when rows of the build side were read, to be kept
	double prepared = 0;
	//! Rows of the build side that it was compared with
	uint64_t compared = 0;
};

//! Rows that there was no time for, which are the largest, as many times as long as their bytes are more
void FillUnseen(std::vector<double> &spent, const std::vector<size_t> &sample, const JoinRow *rows) {
	double seen_ms = 0, seen_bytes = 0;
	for (size_t i = 0; i < spent.size(); i++) {
		if (spent[i] >= 0) {
			seen_ms += spent[i];
			seen_bytes += std::max(1.0, double(rows[sample[i]].size));
		}
	}
	for (size_t i = 0; i < spent.size(); i++) {
		if (spent[i] < 0) {
			spent[i] = seen_ms / seen_bytes * std::max(1.0, double(rows[sample[i]].size));
		}
	}
}

//! How long a row takes, or would take
class RowTimer {
public:
	RowTimer(JoinHost &host, JoinIndex &index, bool first_only, const Clock &now_p)
	    : now(now_p), probe(index, [this, &host] {
		      host.Poll();
		      Look();
	      }) {
		probe.SetFirstOnly(first_only);
		probe.SetKeepShapes(true);
		probe.SetWorkPerPoll(join_tuning::FORECAST_WORK_PER_POLL);
	}

	//! Throws GeometryError
	double Run(const JoinRow *row, const double *limit) {
		constexpr size_t AT_ONCE = 256;
		uint32_t probe_rows[AT_ONCE], build_rows[AT_ONCE];
		begin = now();
		found = -1;
		try {
			probe.Begin(row, 1, limit, nullptr);
			while (probe.Next(probe_rows, build_rows, AT_ONCE) > 0) {
			}
		} catch (const Cut &) {
			const auto seen = double(probe.CandidatesSeen() - found_seen);
			const auto left = double(probe.Candidates() - probe.CandidatesSeen());
			const double end = now();
			return end - begin + (end - found) * left / seen;
		}
		return now() - begin;
	}
	//! Rows of the build side that rows were compared with so far
	uint64_t Compared() const {
		return probe.counts.exact_tests;
	}

private:
	//! The row has had its part of the time
	struct Cut {};

	//! Candidates are found before the first of them is looked at
	void Look() {
		if (probe.Candidates() == 0) {
			return;
		}
		if (found < 0) {
			found = now();
			found_seen = probe.CandidatesSeen();
			return;
		}
		constexpr double ROW_MS = join_tuning::FORECAST_MS / join_tuning::FORECAST_ROW_PART;
		if (probe.CandidatesSeen() >= found_seen + join_tuning::FORECAST_LEAST_CANDIDATES && now() - begin > ROW_MS) {
			throw Cut();
		}
	}

	const Clock &now;
	double begin = 0;
	//! When the first candidate was looked at, and how many had been; negative: not yet
	double found = -1;
	size_t found_seen = 0;
	JoinProbe probe;
};

//! How long each row of a sample takes. None where one is invalid.
std::vector<RowTime> JoinSample(JoinHost &host, JoinIndex &index, const JoinInput &first_rows, bool first_only,
                                const std::vector<size_t> &sample, const Clock &now) {
	constexpr size_t ROWS_PER_STEP = 4;
	std::vector<RowTime> times(sample.size());
	std::atomic<bool> all_valid {true};
	const double begin = now();
	host.Run([&](Parallel &parallel) {
		parallel.For((sample.size() + ROWS_PER_STEP - 1) / ROWS_PER_STEP, [&](size_t step) {
			RowTimer timer(host, index, first_only, now);
			const auto run = [&](size_t i) {
				return timer.Run(first_rows.rows + sample[i],
				                 first_rows.limits ? first_rows.limits + sample[i] : nullptr);
			};
			const size_t first = step * ROWS_PER_STEP;
			size_t end = first;
			try {
				for (; end < std::min(sample.size(), first + ROWS_PER_STEP) && HasTime(end, now() - begin); end++) {
					const auto before = timer.Compared();
					times[end].prepared = run(end);
					times[end].compared = timer.Compared() - before;
				}
				for (size_t i = first; i < end; i++) {
					times[i].again = run(i);
					times[i].prepared = std::max(0.0, times[i].prepared - times[i].again);
				}
			} catch (const GeometryError &) {
				all_valid = false;
			}
		});
	});
	if (!all_valid) {
		return {};
	}
	return times;
}

//! Few rows are much larger than the others. One of them says little about all.
double MeanWithoutLargest(std::vector<double> &spent) {
	std::sort(spent.begin(), spent.end());
	const size_t kept = std::max<size_t>(1, spent.size() - spent.size() / join_tuning::FORECAST_DROPPED_PART);
	double sum = 0;
	for (size_t i = 0; i < kept; i++) {
		sum += spent[i];
	}
	return sum / static_cast<double>(kept);
}

//! What all rows would take one thread. A row of the build side is prepared once, whatever the number of probe rows that meet it.
double WorkOfAll(const std::vector<RowTime> &times, const std::vector<size_t> &sample, const JoinInput &first_rows,
                 size_t build_rows, double rows) {
	std::vector<double> again, prepared;
	uint64_t compared = 0;
	for (auto &time : times) {
		again.push_back(time.again);
		if (time.again >= 0) {
			prepared.push_back(time.prepared);
			compared += time.compared;
		}
	}
	FillUnseen(again, sample, first_rows.rows);
	double often = rows / static_cast<double>(prepared.size());
	if (compared > 0) {
		often = std::min(often, static_cast<double>(build_rows) / static_cast<double>(compared));
	}
	const double preparing = MeanWithoutLargest(prepared) * static_cast<double>(prepared.size()) * often;
	return MeanWithoutLargest(again) * rows + preparing;
}

} // namespace

bool ForecastJoin(JoinHost &host, JoinIndex &index, const JoinInput &first_rows, const ForecastInput &input,
                  Forecast &forecast) {
	using namespace join_tuning;
	if (first_rows.count == 0 || index.RowCount() > MAX_FORECAST_BUILD_ROWS) {
		return false;
	}
	index.Tree(); // not part of what a row takes
	const auto sample = SampleRows(first_rows.rows, first_rows.count);
	const auto now = input.now_ms ? input.now_ms : Clock(SteadyMilliseconds);
	const auto times = JoinSample(host, index, first_rows, input.first_only, sample, now);
	if (times.empty()) {
		return false;
	}
	const auto rows = static_cast<double>(input.probe_rows);
	const double row_bytes = static_cast<double>(first_rows.bytes) / static_cast<double>(first_rows.count);
	const auto expected = [&](const std::vector<RowTime> &of) {
		const double work = WorkOfAll(of, sample, first_rows, index.RowCount(), rows);
		return work / static_cast<double>(host.Threads()) *
		       (index.Condition().limit_from != JoinLimit::NONE ? FORECAST_OF_DISTANCES : 1);
	};
	forecast.cpu_ms = expected(times);
	forecast.gpu_from_ms =
	    Thresholds::Current().PaysFrom(rows * row_bytes + static_cast<double>(input.build_bytes), forecast.cpu_ms);
	if (input.first_only && forecast.cpu_ms >= forecast.gpu_from_ms) {
		auto all_pairs = JoinSample(host, index, first_rows, false, sample, now);
		for (size_t i = 0; i < all_pairs.size(); i++) {
			all_pairs[i].prepared += times[i].prepared;
			all_pairs[i].compared += times[i].compared;
		}
		if (!all_pairs.empty()) {
			forecast.gpu_from_ms += std::max(0.0, expected(all_pairs) - forecast.cpu_ms) * DEVICE_PART_OF_CPU;
		}
	}
	return true;
}

bool ForecastNeighbours(KnnSearch &search, const KnnIndex &index, const std::vector<JoinRow> &first_rows,
                        uint64_t left_rows, size_t threads, Forecast &forecast) {
	const auto sample = SampleRows(first_rows.data(), first_rows.size());
	std::vector<double> spent(sample.size(), -1);
	const double begin = SteadyMilliseconds();
	size_t bytes = 0;
	for (size_t i = 0; i < sample.size(); i++) {
		const auto &row = first_rows[sample[i]];
		bytes += row.size;
		const double row_begin = SteadyMilliseconds();
		if (!HasTime(i, row_begin - begin)) {
			continue;
		}
		try {
			search.Find(row);
		} catch (const GeometryError &) {
			return false;
		}
		spent[i] = SteadyMilliseconds() - row_begin;
	}
	if (spent.empty()) {
		return false;
	}
	FillUnseen(spent, sample, first_rows.data());
	const auto rows = static_cast<double>(left_rows);
	const double row_bytes = static_cast<double>(bytes) / static_cast<double>(spent.size());
	forecast.cpu_ms = MeanWithoutLargest(spent) * rows / static_cast<double>(threads);
	forecast.gpu_from_ms =
	    Thresholds::Current().PaysFrom(rows * row_bytes + static_cast<double>(index.DeviceBytes()), forecast.cpu_ms);
	return true;
}

} // namespace vibespatial
