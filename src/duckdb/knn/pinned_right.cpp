#include "duckdb/knn/pinned_right.hpp"

#include "duckdb/common/vector_operations/vector_operations.hpp"
#include "duckdb/knn/dispatch.hpp"
#include "duckdb/pinned/held.hpp"
#include "duckdb/support/settings.hpp"
#include "duckdb/support/task_parallel.hpp"
#include "vibe/wkb.h"

#include <algorithm>
#include <cstring>

namespace duckdb {

using vibespatial::Operation;
using vibespatial::PinnedSearchInput;

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//
string PinnedRight::WhyNot(ClientContext &context) {
	auto &request = plan.request;
	const auto why = table->WhyNot(context, plan.scan, filter);
	if (!why.empty()) {
		return why;
	}
	if (table->has_shapes) {
		return "some of its geometries are no points";
	}
	if (!table->has_order) {
		return "the order of its rows is not known: it has a column named rowid, or row ids above 4 billion";
	}
	if ((request.empty_is_near || request.null_is_last) && (table->has_null || table->has_empty)) {
		return "it has NULL or EMPTY geometries, which an order by the distance has, too";
	}
	if (request.k > vibespatial::GpuSearch::MAX_K) {
		return KnnDispatch::TooMany();
	}
	if (table->rows == 0) {
		return "it has no rows";
	}
	vector<bool> needed(plan.types.size());
	for (auto column : plan.columns) {
		needed[column] = true;
	}
	return PinnedSide::WhyNot(*table, plan.scan, needed, false);
}

shared_ptr<PinnedRight> PinnedRight::Find(ClientContext &context, const Plan &plan) {
	const auto mode = GetExecutionMode(context);
	if (mode == vibespatial::ExecutionMode::CPU) {
		return nullptr;
	}
	PinnedTables::Get(context)->FreeInvalid();
	shared_ptr<PinnedRight> right(new PinnedRight(plan));
	right->table = PinnedTables::Get(context)->Find(plan.scan.table, plan.scan.geometry);
	if (!right->table) {
		return nullptr;
	}
	HeldByQuery<PinnedRight>::Add(context, "vibespatial_pinned_neighbours", right);
	auto &table = *right->table;
	auto why = right->WhyNot(context);
	if (why.empty()) {
		const auto decision = vibespatial::Decide(mode, Operation::KNN_PINNED, table.rows, GetGpuMinRows(context));
		why = decision.IsGpu() ? string() : decision.reason;
		// A search passes over all points that the filter leaves out, which an index of the others does not have
		constexpr idx_t MOST_WITH_FILTER = 10000;
		if (why.empty() && mode == vibespatial::ExecutionMode::AUTO && GetGpuMinRows(context) < 0 &&
		    !right->filter.empty() && plan.left_rows > MOST_WITH_FILTER) {
			why = "many rows are searched for, and the filter may keep few of its own";
		}
	}
	right->device = table.OnDevice();
	if (why.empty() && right->device) {
		right->rows = right->device->Use();
	}
	if (right->rows && !vibespatial::PinnedNumbers::Fit(*right->rows, right->numbers)) {
		right->rows.reset();
		why = "it has too many rows";
	}
	if (right->rows) {
		right->note = "the points are pinned: " + table.table.text;
	} else {
		right->note = "pinned " + table.table.text +
		              " is not used: " + (why.empty() ? "it was evicted, since the device's memory was needed" : why);
	}
	return right;
}

string PinnedRight::Describe(ClientContext &context, const Plan &plan) {
	const auto found = Find(context, plan);
	return found && found->HasRows() ? found->table->table.text : string();
}

void PinnedRight::Release() {
	host.reset();
	rows.reset();
	device.reset();
	table.reset();
}

uint32_t PinnedRight::NumberOf(idx_t column) const {
	auto &name = plan.scan.columns[column];
	return name == plan.scan.geometry ? PinnedSearchInput::POINTS
	                                  : static_cast<uint32_t>(table->FindColumn(name).GetIndex());
}

idx_t PinnedRight::ColumnBytes() const {
	idx_t bytes = 0;
	for (auto column : plan.columns) {
		const auto number = NumberOf(column);
		bytes += number == PinnedSearchInput::POINTS ? sizeof(vibe::Vec2) : PinnedWidth(plan.types[column]) + 1;
	}
	return bytes;
}

std::unique_ptr<vibespatial::GpuSearch> PinnedRight::NewSearch(uint32_t k, double most) const {
	PinnedSearchInput input;
	input.rows = rows;
	input.filter = filter;
	input.order = static_cast<uint32_t>(table->OrderColumn());
	for (auto column : plan.columns) {
		input.columns.push_back(NumberOf(column));
	}
	input.k = k;
	input.most = most;
	return device->NewSearch(input);
}

const PinnedRight::HostPoints &PinnedRight::Host(ClientContext &context) {
	lock_guard<mutex> guard(host_lock);
	if (host) {
		return *host;
	}
	constexpr idx_t POINT_BYTES = vibe::WKB_HEADER_BYTES + sizeof(vibe::Vec2);
	//! A row that passes: its place in the table, and its number
	struct Row {
		uint32_t place;
		uint32_t number;
		vibe::Vec2 point;
	};
	auto made = make_uniq<HostPoints>(context);
	made->memory.Resize(vibespatial::KnnIndex::EstimateMemory(table->rows) +
	                    table->rows * (sizeof(Row) + POINT_BYTES + sizeof(uint32_t)));
	TaskThreads threads(context);
	vibespatial::GpuTimes times;
	vector<bool> needed(plan.types.size());
	for (auto column : plan.columns) {
		needed[column] = true;
	}
	shared_ptr<const HostColumn> places;
	threads.Run([&](vibespatial::Parallel &parallel) {
		made->side = make_uniq<PinnedSide>(context, *table, *device, plan.scan, plan.types, needed, rows, nullptr,
		                                   filter, parallel, times);
		places = table->host_rows->Bring(context, *device, rows, {table->OrderColumn()}, parallel, times)[0];
	});
	const auto poll = CancelPoll(context);
	vector<Row> found;
	vibe::Vec2 points[STANDARD_VECTOR_SIZE];
	DataChunk chunk;
	places->Initialize(chunk);
	for (idx_t segment = 0; segment < rows->Segments(); segment++) {
		const idx_t count = rows->Count(segment);
		for (idx_t begin = 0; begin < count; begin += STANDARD_VECTOR_SIZE) {
			poll();
			const auto size = MinValue<idx_t>(STANDARD_VECTOR_SIZE, count - begin);
			made->side->ReadPoints(segment, begin, size, points);
			places->Fetch(segment, begin / STANDARD_VECTOR_SIZE, chunk);
			auto place = FlatVector::GetData<uint32_t>(chunk.data[0]);
			for (idx_t i = 0; i < size; i++) {
				if (points[i].x == points[i].x) {
					const auto number = numbers.First(segment) + static_cast<uint32_t>(begin + i);
					found.push_back(Row {place[i], number, points[i]});
				}
			}
		}
	}
	std::sort(found.begin(), found.end(), [](const Row &a, const Row &b) { return a.place < b.place; });
	vector<uint8_t> wkb(found.size() * POINT_BYTES);
	vibespatial::JoinRows geometries;
	for (idx_t i = 0; i < found.size(); i++) {
		auto *at = wkb.data() + i * POINT_BYTES;
		at[0] = at[1] = 1; // a POINT, little-endian
		std::memcpy(at + vibe::WKB_HEADER_BYTES, &found[i].point, sizeof(vibe::Vec2));
		geometries.push_back(vibespatial::JoinRow {at, static_cast<uint32_t>(POINT_BYTES)});
		made->numbers.push_back(found[i].number);
	}
	made->index = make_uniq<vibespatial::KnnIndex>(std::move(geometries));
	threads.Run([&](vibespatial::Parallel &parallel) { made->index->Build(parallel); });
	vector<Row>().swap(found);
	vector<uint8_t>().swap(wkb);
	made->memory.Resize(made->index->MemoryUsage() + made->numbers.capacity() * sizeof(uint32_t));
	host = std::move(made);
	return *host;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//
PinnedValues::PinnedValues(const PinnedRight &right) : right(right) {
	for (auto column : right.plan.columns) {
		const auto number = right.NumberOf(column);
		const bool is_point = number == PinnedSearchInput::POINTS;
		const idx_t width = is_point ? sizeof(vibe::Vec2) : PinnedWidth(right.plan.types[column]);
		columns.push_back(Column {number, width, {}, {}, {}});
	}
}

void PinnedValues::Clear() {
	count = 0;
	on_host.clear();
	for (auto &column : columns) {
		column.values.clear();
		column.nulls.clear();
		column.points.clear();
	}
}

void PinnedValues::AddFound(const vibespatial::GpuNeighbours &found, idx_t row, idx_t n) {
	for (idx_t i = 0; i < columns.size(); i++) {
		auto &column = columns[i];
		const auto *value = found.Value(row, n, i, column.width);
		if (column.number == PinnedSearchInput::POINTS) {
			column.points.emplace_back();
			std::memcpy(&column.points.back(), value, sizeof(vibe::Vec2));
			continue;
		}
		column.nulls.push_back(value ? 0 : 1);
		const auto end = column.values.size();
		column.values.resize(end + column.width);
		if (value) {
			std::memcpy(column.values.data() + end, value, column.width);
		}
	}
	count++;
}

void PinnedValues::AddOnHost(uint32_t number) {
	on_host.emplace_back(count, number);
	AddEmpty();
}

void PinnedValues::AddNone() {
	AddEmpty();
}

void PinnedValues::AddEmpty() {
	for (auto &column : columns) {
		if (column.number == PinnedSearchInput::POINTS) {
			column.points.push_back(vibe::Vec2 {vibe::NoCoordinate(), vibe::NoCoordinate()});
		} else {
			column.nulls.push_back(1);
			column.values.resize(column.values.size() + column.width);
		}
	}
	count++;
}

void PinnedValues::Write(ClientContext &context, DataChunk &result, idx_t first) {
	for (idx_t i = 0; i < columns.size(); i++) {
		auto &column = columns[i];
		if (column.number == PinnedSearchInput::POINTS) {
			WritePinnedPoints(column.points.data(), count, result.data[first + i]);
		} else {
			ReadPinned(column.values.data(), column.nulls.data(), count, result.data[first + i]);
		}
	}
	if (on_host.empty() || columns.empty()) {
		return;
	}
	if (!reader) {
		reader = make_uniq<PinnedSideReader>(context, *right.host->side);
	}
	// Each chunk is read once
	std::sort(
	    on_host.begin(), on_host.end(),
	    [](const std::pair<idx_t, uint32_t> &a, const std::pair<idx_t, uint32_t> &b) { return a.second < b.second; });
	optional_ptr<DataChunk> values;
	std::pair<idx_t, idx_t> current;
	for (auto &row : on_host) {
		const idx_t segment = right.numbers.Segment(row.second), at = right.numbers.Row(row.second);
		const auto chunk = at / STANDARD_VECTOR_SIZE, in_chunk = at % STANDARD_VECTOR_SIZE;
		if (!values || current != std::make_pair(segment, chunk)) {
			current = {segment, chunk};
			const auto left = right.rows->Count(segment) - chunk * STANDARD_VECTOR_SIZE;
			values = reader->Read(segment, chunk, MinValue<idx_t>(STANDARD_VECTOR_SIZE, left), false);
		}
		for (idx_t i = 0; i < columns.size(); i++) {
			VectorOperations::Copy(values->data[right.plan.columns[i]], result.data[first + i], in_chunk + 1, in_chunk,
			                       row.first);
		}
	}
}

} // namespace duckdb
