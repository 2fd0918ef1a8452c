#include "duckdb/pinned/host_rows.hpp"

#include "duckdb/pinned/values.hpp"
#include "duckdb/storage/buffer_manager.hpp"

#include <chrono>
#include <thread>

namespace duckdb {

namespace {

//! Rows that are copied at once
constexpr idx_t ROWS_AT_ONCE = 64 * STANDARD_VECTOR_SIZE;

//! Rows on their way from the device to a segment of a column
class ColumnCopy {
public:
	explicit ColumnCopy(ColumnDataCollection &to) : to(to) {
		chunk.Initialize(Allocator::DefaultAllocator(), to.Types());
		to.InitializeAppend(append);
	}
	virtual ~ColumnCopy() = default;

	//! Where the next rows go
	virtual void Prepare(vibespatial::PinnedOutput &output) = 0;
	void Append(idx_t count) {
		for (idx_t begin = 0; begin < count; begin += STANDARD_VECTOR_SIZE) {
			const auto size = MinValue<idx_t>(STANDARD_VECTOR_SIZE, count - begin);
			chunk.Reset();
			Write(begin, size, chunk);
			SetRowCount(chunk, size);
			to.Append(append, chunk);
		}
	}

protected:
	virtual void Write(idx_t begin, idx_t count, DataChunk &result) = 0;

private:
	ColumnDataCollection &to;
	ColumnDataAppendState append;
	DataChunk chunk;
};

class PointsCopy : public ColumnCopy {
public:
	explicit PointsCopy(ColumnDataCollection &to) : ColumnCopy(to), points(ROWS_AT_ONCE) {
	}
	void Prepare(vibespatial::PinnedOutput &output) override {
		output.points = points.data();
	}

protected:
	void Write(idx_t begin, idx_t count, DataChunk &result) override {
		auto x = MutableData<double>(result.data[0]), y = MutableData<double>(result.data[1]);
		for (idx_t i = 0; i < count; i++) {
			x[i] = points[begin + i].x;
			y[i] = points[begin + i].y;
		}
	}

private:
	vector<vibe::Vec2> points;
};

class ValuesCopy : public ColumnCopy {
public:
	ValuesCopy(ColumnDataCollection &to, idx_t number)
	    : ColumnCopy(to), number(number), width(PinnedWidth(to.Types()[0])), values(ROWS_AT_ONCE * width),
	      nulls(ROWS_AT_ONCE) {
	}
	void Prepare(vibespatial::PinnedOutput &output) override {
		output.columns.push_back({static_cast<uint32_t>(number), values.data(), nulls.data()});
	}

protected:
	void Write(idx_t begin, idx_t count, DataChunk &result) override {
		ReadPinned(values.data() + begin * width, nulls.data() + begin, count, result.data[0]);
	}

private:
	const idx_t number;
	const idx_t width;
	vector<uint8_t> values;
	vector<uint8_t> nulls;
};

} // namespace

void HostRows::BringSegment(vibespatial::GpuPinned &device, const std::shared_ptr<const vibespatial::PinnedRows> &rows,
                            idx_t segment, const vector<idx_t> &numbers, const vector<shared_ptr<HostColumn>> &columns,
                            const std::function<void()> &poll, vibespatial::GpuTimes &times) const {
	vibespatial::PinnedOutput output;
	vector<unique_ptr<ColumnCopy>> copies;
	for (idx_t i = 0; i < numbers.size(); i++) {
		auto &to = *columns[i]->segments[segment];
		if (numbers[i] != POINTS) {
			copies.push_back(make_uniq<ValuesCopy>(to, numbers[i]));
		} else if (rows->Kind(segment).are_shapes) {
			continue;
		} else {
			copies.push_back(make_uniq<PointsCopy>(to));
		}
		copies.back()->Prepare(output);
	}
	if (copies.empty()) {
		return;
	}
	auto reader = device.NewReader(rows);
	const idx_t count = rows->Count(segment);
	output.segment = segment;
	for (idx_t begin = 0; begin < count; begin += ROWS_AT_ONCE) {
		poll();
		output.begin = begin;
		output.count = MinValue<idx_t>(ROWS_AT_ONCE, count - begin);
		reader->Read(output);
		for (auto &copy : copies) {
			copy->Append(output.count);
		}
	}
	reader->AddBytes(times);
}

//! A wait that ends where the query is cancelled
unique_lock<mutex> HostRows::Turn(ClientContext &context) {
	const auto poll = CancelPoll(context);
	unique_lock<mutex> turn(copying, std::defer_lock);
	while (!turn.try_lock()) {
		poll();
		std::this_thread::sleep_for(std::chrono::milliseconds(1));
	}
	return turn;
}

vector<shared_ptr<const HostColumn>> HostRows::Bring(ClientContext &context, vibespatial::GpuPinned &device,
                                                     const std::shared_ptr<const vibespatial::PinnedRows> &rows,
                                                     const vector<idx_t> &columns, vibespatial::Parallel &parallel,
                                                     vibespatial::GpuTimes &times) {
	const auto poll = CancelPoll(context);
	const auto turn = Turn(context);
	unordered_map<idx_t, shared_ptr<HostColumn>> here;
	{
		lock_guard<mutex> guard(lock);
		here = brought;
	}
	vector<idx_t> missing;
	vector<shared_ptr<HostColumn>> made;
	for (auto column : columns) {
		if (here.count(column) > 0 || std::find(missing.begin(), missing.end(), column) != missing.end()) {
			continue;
		}
		missing.push_back(column);
		auto host = make_shared_ptr<HostColumn>();
		if (column == POINTS) {
			host->types = {LogicalType::DOUBLE, LogicalType::DOUBLE};
		} else {
			host->types = {types[column]};
		}
		for (idx_t segment = 0; segment < rows->Segments(); segment++) {
			host->segments.push_back(NewRows(context, host->types));
		}
		made.push_back(std::move(host));
	}
	if (!missing.empty()) {
		mutex times_lock;
		parallel.For(rows->Segments(), [&](size_t segment) {
			vibespatial::GpuTimes some;
			BringSegment(device, rows, segment, missing, made, poll, some);
			lock_guard<mutex> times_guard(times_lock);
			times.bytes_from_device += some.bytes_from_device;
		});
	}
	for (idx_t i = 0; i < missing.size(); i++) {
		here[missing[i]] = std::move(made[i]);
	}
	vector<shared_ptr<const HostColumn>> result;
	for (auto column : columns) {
		result.push_back(here[column]);
	}
	lock_guard<mutex> guard(lock);
	for (auto column : missing) {
		brought[column] = here[column];
	}
	return result;
}

//! The buffer manager of a connection ends with it
unique_ptr<ColumnDataCollection> HostRows::NewRows(ClientContext &context, const vector<LogicalType> &types) {
	return make_uniq<ColumnDataCollection>(BufferManager::GetBufferManager(DatabaseInstance::GetDatabase(context)),
	                                       types);
}

void HostRows::AddShapes(idx_t segment, unique_ptr<ColumnDataCollection> rows) {
	lock_guard<mutex> guard(lock);
	if (!shapes) {
		shapes = make_shared_ptr<HostColumn>();
		shapes->types = rows->Types();
	}
	if (shapes->segments.size() <= segment) {
		shapes->segments.resize(segment + 1);
	}
	shapes->segments[segment] = std::move(rows);
}

shared_ptr<const HostColumn> HostRows::Shapes() {
	lock_guard<mutex> guard(lock);
	return shapes;
}

shared_ptr<const vibespatial::KnownPolygons> HostRows::Polygons() {
	lock_guard<mutex> guard(lock);
	return polygons;
}

shared_ptr<const vibespatial::KnownPolygons>
HostRows::MakePolygons(ClientContext &context, const vibespatial::PagesVector<vibespatial::WkbSlice> &wkb,
                       vibespatial::Parallel &parallel) {
	const auto turn = Turn(context);
	if (auto here = Polygons()) {
		return here;
	}
	const auto made = make_shared_ptr<const vibespatial::KnownPolygons>(wkb.data(), wkb.size(), parallel);
	lock_guard<mutex> guard(lock);
	polygons = made;
	return made;
}

void HostRows::Clear() {
	unordered_map<idx_t, shared_ptr<HostColumn>> gone; // freed without the lock
	shared_ptr<HostColumn> gone_shapes;
	shared_ptr<const vibespatial::KnownPolygons> gone_polygons;
	lock_guard<mutex> guard(lock);
	gone.swap(brought);
	gone_shapes.swap(shapes);
	gone_polygons.swap(polygons);
}

idx_t HostRows::Bytes() {
	lock_guard<mutex> guard(lock);
	idx_t bytes = 0;
	auto add = [&](const HostColumn &column) {
		for (auto &segment : column.segments) {
			bytes += segment ? segment->SizeInBytes() : 0;
		}
	};
	for (auto &column : brought) {
		add(*column.second);
	}
	if (shapes) {
		add(*shapes);
	}
	return bytes + (polygons ? polygons->Bytes() : 0);
}

} // namespace duckdb
