#include "geometry/geoarrow.hpp"

#include "geometry/error.hpp"
#include "geometry/wkb_visit.hpp"

#include <cmath>
#include <cstring>
#include <limits>

namespace vibespatial {

namespace {

constexpr uint64_t HEADER_SIZE = 5;
constexpr uint64_t COUNT_SIZE = 4;
constexpr uint64_t MAX_COUNT = std::numeric_limits<uint32_t>::max();

const char *const LEVEL_NAMES[] = {"lists", "lists of the second level", "lists of the third level"};

[[noreturn]] void Refuse(const std::string &what) {
	throw GeometryError("malformed GeoArrow array: " + what);
}

//! Elements [from, to) of an array below the rows: there, and none of them NULL
void RequireElements(const GeoArrowArray &array, int64_t from, int64_t to, const char *name) {
	if (from < 0 || to < from || to > array.length) {
		Refuse("elements " + std::to_string(from) + " to " + std::to_string(to) + " of " +
		       std::to_string(array.length) + " " + name + " are asked for");
	}
	if (!array.validity) {
		return;
	}
	for (auto bit = array.offset + from; bit < array.offset + to; bit++) {
		if ((array.validity[bit >> 3] >> (bit & 7) & 1) == 0) {
			Refuse(std::string("NULL among the ") + name + " of a geometry");
		}
	}
}

void RequireArray(const GeoArrowArray &array, const char *name) {
	// Far above any memory, and far enough below the end of the type
	constexpr int64_t MOST = int64_t(1) << 56;
	if (array.length < 0 || array.offset < 0 || array.length > MOST || array.offset > MOST) {
		Refuse(std::string("impossible length or offset of its ") + name);
	}
}

//! The ordinates of vertices [from, to), whose places are known to be there
void RequireOrdinates(const GeoArrowColumn &column, int64_t from, int64_t to) {
	if (from == to) {
		return;
	}
	const auto &vertices = column.vertices;
	if (column.type.interleaved) {
		const auto width = int64_t(column.type.Width());
		RequireElements(column.leaf[0], (vertices.offset + from) * width, (vertices.offset + to) * width, "ordinates");
		if (!column.leaf[0].data) {
			Refuse("its ordinates have no buffer");
		}
		return;
	}
	for (uint32_t axis = 0; axis < column.type.Width(); axis++) {
		RequireElements(column.leaf[axis], vertices.offset + from, vertices.offset + to, "ordinates");
		if (!column.leaf[axis].data) {
			Refuse("its ordinates have no buffer");
		}
	}
}

//! The elements of list number `at` of a level, without a look at what is below
template <class OFFSET>
void ListRange(const GeoArrowArray &list, int64_t at, int64_t &from, int64_t &to) {
	const auto offsets = static_cast<const uint8_t *>(list.data) + (list.offset + at) * int64_t(sizeof(OFFSET));
	// Buffers of a foreign producer need not be aligned
	OFFSET pair[2];
	std::memcpy(pair, offsets, sizeof(pair));
	from = pair[0];
	to = pair[1];
}

void ListRange(const GeoArrowColumn &column, uint32_t level, int64_t at, int64_t &from, int64_t &to) {
	if (column.type.large) {
		ListRange<int64_t>(column.list[level], at, from, to);
	} else {
		ListRange<int32_t>(column.list[level], at, from, to);
	}
}

//! The elements of a list, checked
void CheckedRange(const GeoArrowColumn &column, uint32_t level, int64_t at, int64_t &from, int64_t &to) {
	if (!column.list[level].data) {
		Refuse(std::string("its ") + LEVEL_NAMES[level] + " have no offsets");
	}
	ListRange(column, level, at, from, to);
	const bool last = level + 1 == column.type.Levels();
	RequireElements(last ? column.vertices : column.list[level + 1], from, to,
	                last ? "vertices" : LEVEL_NAMES[level + 1]);
	if (uint64_t(to - from) > MAX_COUNT) {
		Refuse("a geometry has more than 4,294,967,295 parts or vertices");
	}
	if (last) {
		RequireOrdinates(column, from, to);
	}
}

//! Writes WKB front to back
class Output {
public:
	Output(const GeoArrowColumn &column, uint8_t *out) : column(column), width(column.type.Width()), out(out) {
		const auto step = column.type.interleaved ? width : 1;
		for (uint32_t axis = 0; axis < width; axis++) {
			const auto &leaf = column.leaf[column.type.interleaved ? 0 : axis];
			const auto first =
			    leaf.offset + column.vertices.offset * int64_t(step) + (column.type.interleaved ? axis : 0);
			axes[axis] = static_cast<const uint8_t *>(leaf.data) + first * 8;
		}
		stride = int64_t(step) * 8;
	}
	uint8_t *End() const {
		return out;
	}
	void Header(GeometryType type) {
		*out++ = 1;
		Put(uint32_t(type) + 1000u * column.type.vertex_type);
	}
	void Count(int64_t count) {
		Put(uint32_t(count));
	}
	void Vertices(int64_t from, int64_t to) {
		if (column.type.interleaved) {
			const auto bytes = size_t(to - from) * width * 8;
			if (bytes > 0) {
				std::memcpy(out, axes[0] + from * stride, bytes);
				out += bytes;
			}
		} else if (width == 2) {
			for (auto i = from; i < to; i++) {
				std::memcpy(out, axes[0] + i * 8, 8);
				std::memcpy(out + 8, axes[1] + i * 8, 8);
				out += 16;
			}
		} else {
			for (auto i = from; i < to; i++) {
				for (uint32_t axis = 0; axis < width; axis++) {
					std::memcpy(out, axes[axis] + i * 8, 8);
					out += 8;
				}
			}
		}
	}
	double Ordinate(int64_t vertex, uint32_t axis) const {
		double value;
		std::memcpy(&value, axes[axis] + vertex * stride, 8);
		return value;
	}
	//! A POINT. All NaN spell EMPTY, and DuckDB has one NaN for that.
	void Point(int64_t vertex) {
		Header(GeometryType::POINT);
		bool empty = true;
		for (uint32_t axis = 0; axis < width && empty; axis++) {
			empty = std::isnan(Ordinate(vertex, axis));
		}
		if (!empty) {
			return Vertices(vertex, vertex + 1);
		}
		for (uint32_t axis = 0; axis < width; axis++) {
			Put(std::numeric_limits<double>::quiet_NaN());
		}
	}
	void Lines(int64_t from, int64_t to, uint32_t level, bool with_header) {
		for (auto at = from; at < to; at++) {
			int64_t first, last;
			ListRange(column, level, at, first, last);
			if (with_header) {
				Header(GeometryType::LINESTRING);
			}
			Count(last - first);
			Vertices(first, last);
		}
	}
	void Box(int64_t row);

private:
	template <class T>
	void Put(T value) {
		std::memcpy(out, &value, sizeof(value));
		out += sizeof(value);
	}

	const GeoArrowColumn &column;
	uint32_t width;
	uint8_t *out;
	const uint8_t *axes[GEOARROW_AXES];
	int64_t stride;
};

//! A box without extent is an EMPTY polygon
bool IsEmptyBox(const Output &output, int64_t row, uint32_t dimensions) {
	for (uint32_t axis = 0; axis < 2; axis++) {
		if (!(output.Ordinate(row, axis) <= output.Ordinate(row, axis + dimensions))) {
			return true;
		}
	}
	return false;
}

void Output::Box(int64_t row) {
	const auto dimensions = width / 2;
	Header(GeometryType::POLYGON);
	if (IsEmptyBox(*this, row, dimensions)) {
		return Count(0);
	}
	Count(1);
	Count(5);
	// From the lower left corner, clockwise, as ST_MakeEnvelope; Z and M are those of the lower corner
	const uint32_t corner[5][2] = {{0, 0}, {0, 1}, {1, 1}, {1, 0}, {0, 0}};
	for (auto &at : corner) {
		Put(Ordinate(row, at[0] * dimensions));
		Put(Ordinate(row, at[1] * dimensions + 1));
		for (uint32_t axis = 2; axis < dimensions; axis++) {
			Put(Ordinate(row, axis));
		}
	}
}

} // namespace

uint32_t GeoArrowType::GeoArrowLevels(GeometryType kind) {
	switch (kind) {
	case GeometryType::LINESTRING:
	case GeometryType::MULTIPOINT:
		return 1;
	case GeometryType::POLYGON:
	case GeometryType::MULTILINESTRING:
		return 2;
	case GeometryType::MULTIPOLYGON:
		return 3;
	default:
		return 0;
	}
}

std::string GeoArrowKindName(GeometryType kind, uint8_t vertex_type) {
	const char *const dimensions[] = {"", " Z", " M", " ZM"};
	return std::string(TypeName(kind)) + dimensions[vertex_type & 3];
}

//===----------------------------------------------------------------------===//
// Native encodings into WKB
//===----------------------------------------------------------------------===//

GeoArrowMeasure::GeoArrowMeasure(const GeoArrowColumn &column, int64_t first, size_t count) : column(column) {
	for (uint32_t level = 0; level < column.type.Levels(); level++) {
		RequireArray(column.list[level], LEVEL_NAMES[level]);
	}
	RequireArray(column.vertices, "vertices");
	for (uint32_t axis = 0; axis < (column.type.interleaved ? 1 : column.type.Width()); axis++) {
		RequireArray(column.leaf[axis], "ordinates");
	}
	const auto &rows = column.Rows();
	if (first < 0 || first > rows.length || int64_t(count) > rows.length - first) {
		Refuse("rows " + std::to_string(first) + " to " + std::to_string(first + int64_t(count)) + " of " +
		       std::to_string(rows.length) + " are asked for");
	}
	if (column.type.Levels() == 0 && count > 0) {
		// NULL rows have ordinates as well, though any
		const auto width = int64_t(column.type.Width());
		const auto from = column.vertices.offset + first;
		const auto to = from + int64_t(count);
		for (uint32_t axis = 0; axis < (column.type.interleaved ? 1 : column.type.Width()); axis++) {
			const auto &leaf = column.leaf[axis];
			if (!leaf.data || leaf.length < (column.type.interleaved ? to * width : to)) {
				Refuse("its ordinates end before its rows");
			}
		}
	}
}

uint64_t GeoArrowMeasure::Row(int64_t row) {
	const auto vertex_size = 8 * uint64_t(column.type.Width());
	if (column.type.box) {
		RequireOrdinates(column, row, row + 1);
		const auto dimensions = column.type.Width() / 2;
		const bool empty = IsEmptyBox(Output(column, nullptr), row, dimensions);
		return HEADER_SIZE + COUNT_SIZE + (empty ? 0 : COUNT_SIZE + 5 * dimensions * 8);
	}
	int64_t from, to;
	switch (column.type.kind) {
	case GeometryType::POINT:
		RequireOrdinates(column, row, row + 1);
		return HEADER_SIZE + vertex_size;
	case GeometryType::LINESTRING:
		CheckedRange(column, 0, row, from, to);
		return HEADER_SIZE + COUNT_SIZE + uint64_t(to - from) * vertex_size;
	case GeometryType::MULTIPOINT:
		CheckedRange(column, 0, row, from, to);
		return HEADER_SIZE + COUNT_SIZE + uint64_t(to - from) * (HEADER_SIZE + vertex_size);
	default: {
		const auto levels = column.type.Levels();
		CheckedRange(column, 0, row, from, to);
		// Headers and counts of the parts: a line of a MULTILINESTRING and a polygon have both, a ring has a count
		uint64_t size = HEADER_SIZE + COUNT_SIZE;
		const auto lists = [&](uint32_t level, int64_t first, int64_t last, uint64_t each) {
			for (auto at = first; at < last; at++) {
				int64_t begin, end;
				CheckedRange(column, level, at, begin, end);
				size += each + uint64_t(end - begin) * vertex_size;
			}
		};
		if (levels == 2) {
			lists(1, from, to, column.type.kind == GeometryType::POLYGON ? COUNT_SIZE : HEADER_SIZE + COUNT_SIZE);
			return size;
		}
		for (auto polygon = from; polygon < to; polygon++) {
			int64_t begin, end;
			CheckedRange(column, 1, polygon, begin, end);
			size += HEADER_SIZE + COUNT_SIZE;
			lists(2, begin, end, COUNT_SIZE);
		}
		return size;
	}
	}
}

uint64_t MeasureGeoArrow(const GeoArrowColumn &column, int64_t first, size_t count, uint64_t *sizes) {
	return MeasureGeoArrow(column, first, count, sizes, [&](size_t i) { return column.IsValid(first + int64_t(i)); });
}

uint8_t *WriteGeoArrowWkb(const GeoArrowColumn &column, int64_t row, uint8_t *to) {
	Output out(column, to);
	if (column.type.box) {
		out.Box(row);
		return out.End();
	}
	const auto kind = column.type.kind;
	if (kind == GeometryType::POINT) {
		out.Point(row);
		return out.End();
	}
	int64_t first, last;
	ListRange(column, 0, row, first, last);
	out.Header(kind);
	out.Count(last - first);
	switch (kind) {
	case GeometryType::LINESTRING:
		out.Vertices(first, last);
		break;
	case GeometryType::MULTIPOINT:
		for (auto at = first; at < last; at++) {
			out.Point(at);
		}
		break;
	case GeometryType::POLYGON:
	case GeometryType::MULTILINESTRING:
		out.Lines(first, last, 1, kind == GeometryType::MULTILINESTRING);
		break;
	default:
		for (auto polygon = first; polygon < last; polygon++) {
			int64_t begin, end;
			ListRange(column, 1, polygon, begin, end);
			out.Header(GeometryType::POLYGON);
			out.Count(end - begin);
			out.Lines(begin, end, 2, false);
		}
		break;
	}
	return out.End();
}

void WriteGeoArrowPoints(const GeoArrowColumn &column, int64_t first, size_t count, uint8_t *out) {
	if (column.type.vertex_type != VERTEX_XY) {
		Output output(column, out);
		for (size_t i = 0; i < count; i++) {
			output.Point(first + int64_t(i));
		}
		return;
	}
	const bool interleaved = column.type.interleaved;
	const auto at = (column.vertices.offset + first) * (interleaved ? 2 : 1);
	const auto x = static_cast<const uint8_t *>(column.leaf[0].data) + (column.leaf[0].offset + at) * 8;
	const auto y =
	    interleaved ? x + 8 : static_cast<const uint8_t *>(column.leaf[1].data) + (column.leaf[1].offset + at) * 8;
	const size_t step = interleaved ? 16 : 8;
	for (size_t i = 0; i < count; i++, out += 21) {
		double px, py;
		std::memcpy(&px, x + i * step, 8);
		std::memcpy(&py, y + i * step, 8);
		if (std::isnan(px) && std::isnan(py)) {
			px = py = std::numeric_limits<double>::quiet_NaN();
		}
		// Byte order 1 and code 1 in one store, whose last three bytes the next one overwrites
		const uint64_t header = 0x0101;
		std::memcpy(out, &header, 8);
		std::memcpy(out + 5, &px, 8);
		std::memcpy(out + 13, &py, 8);
	}
}

//===----------------------------------------------------------------------===//
// WKB into native encodings
//===----------------------------------------------------------------------===//

namespace {

//! The kind that a multi kind is made of; others are made of themselves
GeometryType MemberKind(GeometryType kind) {
	return kind >= GeometryType::MULTIPOINT ? static_cast<GeometryType>(static_cast<uint8_t>(kind) - 3) : kind;
}

} // namespace

//! Calls sink.Open(level, elements) for the list of every level in order, and sink.Vertices(coords, count) for what the
//! last level holds; coords == nullptr: NaN.
template <class SINK>
void GeoArrowWriter::Walk(const uint8_t *wkb, size_t size, SINK &sink) const {
	WkbCursor cursor(wkb, size);
	const auto header = cursor.TakeHeader();
	const bool multi = type.kind >= GeometryType::MULTIPOINT;
	const bool widened = multi && header.type == MemberKind(type.kind);
	if ((header.type != type.kind && !widened) || header.vertex_type != type.vertex_type) {
		throw GeometryError("a " + GeoArrowKindName(header.type, header.vertex_type) + " in a column of " +
		                    GeoArrowKindName(type.kind, type.vertex_type));
	}
	const auto stride = vibe::WkbStride(header.vertex_type);
	const auto point = [&] {
		const auto coords = cursor.Take(stride);
		return IsEmptyPoint(coords, stride) ? nullptr : coords;
	};
	// A line or a ring, after its header
	const auto line = [&](uint32_t level) {
		const auto count = cursor.TakeCount();
		const auto coords = cursor.Take(uint64_t(count) * stride);
		sink.Open(level, count);
		sink.Vertices(coords, count);
	};
	const auto polygon = [&](uint32_t level) {
		const auto rings = cursor.TakeCount(sizeof(uint32_t));
		sink.Open(level, rings);
		for (uint32_t ring = 0; ring < rings; ring++) {
			line(level + 1);
		}
	};
	// A part after its header
	const auto part = [&](uint32_t level) {
		switch (MemberKind(type.kind)) {
		case GeometryType::POINT:
			sink.Vertices(point(), 1);
			break;
		case GeometryType::LINESTRING:
			line(level);
			break;
		default:
			polygon(level);
			break;
		}
	};
	if (!multi) {
		part(0);
	} else if (widened) {
		// An EMPTY part is an EMPTY multi geometry
		auto ahead = cursor;
		const bool empty =
		    header.type == GeometryType::POINT ? IsEmptyPoint(ahead.Take(stride), stride) : ahead.TakeCount() == 0;
		sink.Open(0, empty ? 0 : 1);
		if (empty) {
			cursor = ahead;
		} else {
			part(1);
		}
	} else {
		const auto members = cursor.TakeCount(vibe::WKB_LEAST_MEMBER);
		sink.Open(0, members);
		for (uint32_t member = 0; member < members; member++) {
			const auto offset = cursor.Offset();
			const auto found = cursor.TakeHeader();
			if (found.vertex_type != header.vertex_type) {
				cursor.RefuseDimensions(offset, header.vertex_type, found.vertex_type);
			}
			if (found.type != MemberKind(type.kind)) {
				cursor.RefuseMember(offset, header.type, found.type);
			}
			part(1);
		}
	}
	cursor.RequireEnd();
}

void GeoArrowWriter::Count(const uint8_t *wkb, size_t size) {
	struct Counter {
		GeoArrowCounts counts;

		void Open(uint32_t level, uint32_t elements) {
			counts.below[level] += elements;
		}
		void Vertices(const uint8_t *, uint32_t) {
		}
	};
	// A row that is refused counts nothing
	Counter counter {counts};
	Walk(wkb, size, counter);
	counts = counter.counts;
}

void GeoArrowWriter::Write(uint64_t row, const uint8_t *wkb, size_t size, const GeoArrowTarget &target) {
	struct Filler {
		const GeoArrowTarget &target;
		GeoArrowCounts &written;
		//! The next vertex
		uint64_t vertex;
		//! The next list of each level
		uint64_t next[GEOARROW_LEVELS];
		uint32_t width;

		void Open(uint32_t level, uint32_t elements) {
			target.spans[level][next[level]++] = GeoArrowSpan {written.below[level], elements};
			written.below[level] += elements;
		}
		void Vertices(const uint8_t *coords, uint32_t count) {
			for (uint32_t i = 0; i < count; i++, vertex++) {
				for (uint32_t axis = 0; axis < width; axis++) {
					target.axis[axis][vertex * target.step] =
					    coords ? LoadDouble(coords + (uint64_t(i) * width + axis) * 8)
					           : std::numeric_limits<double>::quiet_NaN();
				}
			}
		}
	};
	const auto levels = type.Levels();
	Filler filler {target,
	               written,
	               levels == 0 ? row : written.below[levels - 1],
	               {row, written.below[0], written.below[1]},
	               type.Width()};
	Walk(wkb, size, filler);
}

void GeoArrowWriter::WriteNull(uint64_t row, const GeoArrowTarget &target) {
	if (type.Levels() > 0) {
		target.spans[0][row] = GeoArrowSpan {written.below[0], 0};
		return;
	}
	for (uint32_t axis = 0; axis < type.Width(); axis++) {
		target.axis[axis][row * target.step] = std::numeric_limits<double>::quiet_NaN();
	}
}

} // namespace vibespatial
