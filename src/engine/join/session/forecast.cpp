#include "engine/join/session/forecast.hpp"

#include "engine/join/probe.hpp"
#include "engine/join/tuning.hpp"
#include "geometry/error.hpp"

#include <algorithm>
#include <atomic>

namespace vibespatial {

namespace {

using Clock = std::chrono::steady_clock;

double MillisecondsSince(Clock::time_point begin) {
	return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

//! How long each row of a sample took; negative for those that there was no time for. None where one is invalid.
std::vector<double> JoinSample(JoinHost &host, JoinIndex &index, const JoinInput &first_rows, bool first_only) {
	constexpr size_t AT_ONCE = 256, ROWS_PER_STEP = 4;
	const size_t samples = std::min(join_tuning::FORECAST_ROWS, first_rows.count);
	std::vector<double> spent(samples, -1);
	std::atomic<bool> all_valid {true};
	const auto begin = Clock::now();
	host.Run([&](Parallel &parallel) {
		parallel.For((samples + ROWS_PER_STEP - 1) / ROWS_PER_STEP, [&](size_t step) {
			uint32_t probe_rows[AT_ONCE], build_rows[AT_ONCE];
			JoinProbe probe(index, [&host] { host.Poll(); });
			probe.SetFirstOnly(first_only);
			for (size_t i = step * ROWS_PER_STEP; i < std::min(samples, (step + 1) * ROWS_PER_STEP); i++) {
				const auto row_begin = Clock::now();
				if (i > 0 && MillisecondsSince(begin) > join_tuning::FORECAST_MS) {
					return;
				}
				// In the middle of its share: tables are often sorted, with the largest row first
				const size_t row = (2 * i + 1) * first_rows.count / (2 * samples);
				const double *limit = first_rows.limits ? first_rows.limits + row : nullptr;
				try {
					probe.Begin(first_rows.rows + row, 1, limit, nullptr);
					while (probe.Next(probe_rows, build_rows, AT_ONCE) > 0) {
					}
				} catch (const GeometryError &) {
					all_valid = false;
					return;
				}
				spent[i] = MillisecondsSince(row_begin);
			}
		});
	});
	return all_valid ? spent : std::vector<double>();
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

//! From when on a device pays, that is sent so many bytes
double DevicePaysFrom(double bytes) {
	return join_tuning::DEVICE_MS + bytes / join_tuning::DEVICE_BYTES_PER_MS;
}

} // namespace

bool ForecastJoin(JoinHost &host, JoinIndex &index, const JoinInput &first_rows, const ForecastInput &input,
                  Forecast &forecast) {
	using namespace join_tuning;
	if (first_rows.count == 0 || index.RowCount() > MAX_FORECAST_BUILD_ROWS) {
		return false;
	}
	index.Tree(); // not part of what a row takes
	auto spent = JoinSample(host, index, first_rows, input.first_only);
	spent.erase(std::remove(spent.begin(), spent.end(), -1), spent.end());
	if (spent.empty()) {
		return false;
	}
	const auto rows = static_cast<double>(input.probe_rows);
	const double row_bytes = static_cast<double>(first_rows.bytes) / static_cast<double>(first_rows.count);
	forecast.cpu_ms = MeanWithoutLargest(spent) * rows / static_cast<double>(host.Threads());
	forecast.gpu_from_ms = DevicePaysFrom(rows * row_bytes + static_cast<double>(input.build_bytes));
	return true;
}

bool ForecastNeighbours(KnnSearch &search, const KnnIndex &index, const std::vector<JoinRow> &first_rows,
                        uint64_t left_rows, size_t threads, Forecast &forecast) {
	std::vector<double> spent;
	size_t bytes = 0;
	const size_t samples = std::min(join_tuning::FORECAST_ROWS, first_rows.size());
	const auto begin = Clock::now();
	for (size_t i = 0; i < samples && (i == 0 || MillisecondsSince(begin) < join_tuning::FORECAST_MS); i++) {
		const auto &row = first_rows[(2 * i + 1) * first_rows.size() / (2 * samples)];
		const auto row_begin = Clock::now();
		try {
			search.Find(row);
		} catch (const GeometryError &) {
			return false;
		}
		spent.push_back(MillisecondsSince(row_begin));
		bytes += row.size;
	}
	if (spent.empty()) {
		return false;
	}
	const auto rows = static_cast<double>(left_rows);
	const double row_bytes = static_cast<double>(bytes) / static_cast<double>(spent.size());
	forecast.cpu_ms = MeanWithoutLargest(spent) * rows / static_cast<double>(threads);
	forecast.gpu_from_ms = DevicePaysFrom(rows * row_bytes + static_cast<double>(index.DeviceBytes()));
	return true;
}

} // namespace vibespatial
