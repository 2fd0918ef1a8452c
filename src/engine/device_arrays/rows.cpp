#include "engine/device_arrays/rows.hpp"

#include "engine/device_arrays/pieces.hpp"
#include "geometry/error.hpp"

#include <algorithm>
#include <limits>

namespace vibespatial {

namespace {

using Kind = ArrowLayout::Kind;

//! Sends one column after another
class Sender {
public:
	Sender(GpuSharedMemory &memory, bool is_native) : memory(memory), is_native(is_native) {
	}

	//! `layout` becomes that of the column as it is on the device; `path` is the name of the column
	DeviceColumn Send(ArrowLayout &layout, const ArrowPieces &pieces, const std::string &path) {
		DeviceColumn column;
		column.length = static_cast<int64_t>(pieces.Count());
		if (layout.kind == Kind::NOTHING) {
			column.null_count = column.length;
			return column;
		}
		column.buffers.push_back(SendValidity(pieces, column));
		if (is_native && layout.IsWkb()) {
			try {
				GeoArrowType type;
				if (ChooseNative(layout, pieces, path, type)) {
					return SendNative(layout, pieces, path, type, std::move(column));
				}
			} catch (const GeometryError &error) {
				throw DeviceArrayError("column \"" + path + "\": " + error.what());
			}
		}
		switch (layout.kind) {
		case Kind::BITS:
			column.buffers.push_back(SendAll(pieces.Bits(1)));
			break;
		case Kind::FIXED:
			column.buffers.push_back(SendPieces(pieces.Fixed(layout.width)));
			break;
		case Kind::BYTES:
			column.buffers.push_back(SendOffsets(pieces, layout, path));
			column.buffers.push_back(SendPieces(pieces.Bytes(layout.is_large)));
			break;
		case Kind::LIST:
			column.buffers.push_back(SendOffsets(pieces, layout, path));
			column.children.push_back(Send(layout.children[0], pieces.Elements(layout.is_large), path));
			break;
		default:
			for (size_t i = 0; i < layout.children.size(); i++) {
				const auto times = layout.kind == Kind::FIXED_LIST ? layout.width : 1;
				auto &child = layout.children[i];
				column.children.push_back(Send(child, pieces.Child(i, times), path.empty() ? child.name : path));
			}
		}
		return column;
	}

private:
	//! The buffers of an array are read in words by some, so that the last one is all there
	static constexpr size_t ALIGNMENT = 64;

	std::shared_ptr<void> New(size_t bytes) {
		return memory.New(std::max(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT));
	}
	template <class T>
	std::shared_ptr<void> SendAll(const std::vector<T> &values) {
		auto buffer = New(values.size() * sizeof(T));
		memory.Put(buffer.get(), values.data(), values.size() * sizeof(T));
		return buffer;
	}
	std::shared_ptr<void> SendPieces(const std::vector<ArrowPieces::Span> &spans) {
		size_t bytes = 0;
		for (auto &span : spans) {
			bytes += span.bytes;
		}
		auto buffer = New(bytes);
		auto *to = static_cast<uint8_t *>(buffer.get());
		for (auto &span : spans) {
			memory.Put(to, span.at, span.bytes);
			to += span.bytes;
		}
		return buffer;
	}
	std::shared_ptr<void> SendValidity(const ArrowPieces &pieces, DeviceColumn &column) {
		if (!pieces.MayHaveNulls()) {
			return nullptr;
		}
		const auto bits = pieces.Bits(0);
		column.null_count = column.length - CountBits(bits);
		return column.null_count > 0 ? SendAll(bits) : nullptr;
	}
	std::shared_ptr<void> SendOffsets(const ArrowPieces &pieces, const ArrowLayout &layout, const std::string &path) {
		const auto offsets = pieces.Offsets(layout.is_large);
		if (layout.is_large) {
			return SendAll(offsets);
		}
		return SendAll(Narrow(offsets, path));
	}
	//! Throws where 32 bits are too few
	static std::vector<int32_t> Narrow(const std::vector<int64_t> &offsets, const std::string &path) {
		if (offsets.back() > std::numeric_limits<int32_t>::max()) {
			throw DeviceArrayError(
			    "column \"" + path + "\" has " + std::to_string(offsets.back()) +
			    " bytes, elements or vertices, and the offsets of an Arrow array count 2147483647: ask for fewer "
			    "rows at a time");
		}
		return std::vector<int32_t>(offsets.begin(), offsets.end());
	}

	//===--------------------------------------------------------------------===//
	// Geometries
	//===--------------------------------------------------------------------===//
	//! False where there is no geometry to say it
	static bool ChooseNative(const ArrowLayout &layout, const ArrowPieces &pieces, const std::string &path,
	                         GeoArrowType &type) {
		uint8_t kinds = 0, dimensions = 0;
		pieces.ForEachValue(
		    layout.is_large,
		    [&](size_t, const uint8_t *wkb, size_t size) {
			    const auto header = ReadWkbHeader(wkb, size);
			    kinds |= static_cast<uint8_t>(1U << static_cast<uint8_t>(header.type));
			    dimensions |= static_cast<uint8_t>(1U << header.vertex_type);
		    },
		    [](size_t) {});
		if (kinds == 0) {
			return false;
		}
		for (uint8_t vertex_type = 0; vertex_type < 4; vertex_type++) {
			for (uint8_t single = 1; single <= 3; single++) {
				const uint8_t multi = single + 3;
				const auto both = static_cast<uint8_t>(1U << single | 1U << multi);
				if ((kinds & ~both) == 0 && dimensions == 1U << vertex_type) {
					type.kind = static_cast<GeometryType>((kinds & 1U << multi) != 0 ? multi : single);
					type.vertex_type = vertex_type;
					return true;
				}
			}
		}
		throw DeviceArrayError("column \"" + path + "\" has geometries of several kinds or dimensions (" +
		                       Names(kinds, dimensions) +
		                       "), and a native GeoArrow array has one: select those of one kind, or drop Z and M "
		                       "with ST_Force2D; encoding='wkb' takes any");
	}
	static std::string Names(uint8_t kinds, uint8_t dimensions) {
		static const char *const DIMENSIONS[] = {"XY", "XYZ", "XYM", "XYZM"};
		std::string names;
		for (uint8_t kind = 1; kind <= 7; kind++) {
			if ((kinds >> kind & 1) != 0) {
				names += (names.empty() ? "" : ", ") + std::string(TypeName(static_cast<GeometryType>(kind)));
			}
		}
		for (uint8_t dimension = 0; dimension < 4; dimension++) {
			names += (dimensions >> dimension & 1) != 0 ? std::string(" ") + DIMENSIONS[dimension] : "";
		}
		return names;
	}

	//! Some rows in the native encoding, in the memory of the host
	struct NativeRows {
		std::vector<GeoArrowSpan> spans[GEOARROW_LEVELS];
		std::vector<double> axis[4];
	};

	DeviceColumn SendNative(ArrowLayout &layout, const ArrowPieces &pieces, const std::string &path,
	                        const GeoArrowType &type, DeviceColumn column) {
		const bool is_large = layout.is_large;
		const auto levels = type.Levels();
		const auto parts = pieces.Cut(ROWS_AT_ONCE);
		// How many there are of each level: on the device they lie one behind the other
		std::vector<GeoArrowWriter> writers;
		uint64_t below[GEOARROW_LEVELS] = {0, 0, 0};
		for (auto &part : parts) {
			writers.emplace_back(type);
			auto &writer = writers.back();
			part.ForEachValue(
			    is_large, [&](size_t, const uint8_t *wkb, size_t size) { writer.Count(wkb, size); }, [](size_t) {});
			for (uint32_t level = 0; level < levels; level++) {
				below[level] += writer.Counts().below[level];
			}
		}
		const auto vertices = levels == 0 ? pieces.Count() : below[levels - 1];
		std::vector<std::shared_ptr<void>> axes;
		axes.reserve(type.Width());
		for (uint32_t axis = 0; axis < type.Width(); axis++) {
			axes.push_back(New(vertices * sizeof(double)));
		}
		std::vector<std::vector<int64_t>> offsets(levels, std::vector<int64_t> {0});
		uint64_t sent = 0;
		NativeRows rows;
		for (size_t i = 0; i < parts.size(); i++) {
			const auto count = Write(parts[i], is_large, writers[i], type, rows);
			for (uint32_t level = 0; level < levels; level++) {
				for (auto &span : rows.spans[level]) {
					offsets[level].push_back(offsets[level].back() + static_cast<int64_t>(span.length));
				}
			}
			for (uint32_t axis = 0; axis < type.Width(); axis++) {
				memory.Put(static_cast<double *>(axes[axis].get()) + sent, rows.axis[axis].data(),
				           count * sizeof(double));
			}
			sent += count;
		}
		layout = layout.Native(type);
		auto *at = &column;
		for (uint32_t level = 0; level < levels; level++) {
			at->buffers.push_back(SendAll(Narrow(offsets[level], path)));
			DeviceColumn next;
			next.length = static_cast<int64_t>(below[level]);
			next.buffers.emplace_back();
			at->children.push_back(std::move(next));
			at = &at->children.back();
		}
		for (auto &axis : axes) {
			DeviceColumn ordinates;
			ordinates.length = static_cast<int64_t>(vertices);
			ordinates.buffers = {nullptr, axis};
			at->children.push_back(std::move(ordinates));
		}
		return column;
	}
	//! The number of vertices
	static size_t Write(const ArrowPieces &part, bool is_large, GeoArrowWriter &writer, const GeoArrowType &type,
	                    NativeRows &rows) {
		const auto levels = type.Levels();
		const auto &counts = writer.Counts();
		GeoArrowTarget target;
		for (uint32_t level = 0; level < levels; level++) {
			rows.spans[level].resize(level == 0 ? part.Count() : counts.below[level - 1]);
			target.spans[level] = rows.spans[level].data();
		}
		const size_t vertices = levels == 0 ? part.Count() : counts.below[levels - 1];
		for (uint32_t axis = 0; axis < type.Width(); axis++) {
			rows.axis[axis].resize(vertices);
			target.axis[axis] = rows.axis[axis].data();
		}
		part.ForEachValue(
		    is_large, [&](size_t row, const uint8_t *wkb, size_t size) { writer.Write(row, wkb, size, target); },
		    [&](size_t row) { writer.WriteNull(row, target); });
		return vertices;
	}

	static constexpr size_t ROWS_AT_ONCE = 1 << 16;

	GpuSharedMemory &memory;
	const bool is_native;
};

} // namespace

DeviceRows::DeviceRows(const ArrowSchema &schema, bool is_native)
    : layout(ArrowLayout::Read(schema, "")), is_native(is_native) {
	if (layout.kind != Kind::STRUCT) {
		throw DeviceArrayError("a stream of rows is needed, not of " + layout.format);
	}
}

DeviceRows::~DeviceRows() {
	for (auto &batch : batches) {
		if (batch.release) {
			batch.release(&batch);
		}
	}
}

void DeviceRows::Add(ArrowArray &batch) {
	batches.push_back(batch);
	batch.release = nullptr;
}

std::shared_ptr<const DeviceResult> DeviceRows::Send(GpuSharedMemory &memory) const {
	auto result = std::make_shared<DeviceResult>();
	result->device = memory.Device();
	result->layout = layout;
	ArrowPieces pieces;
	for (auto &batch : batches) {
		pieces.Add(batch);
	}
	result->rows = Sender(memory, is_native).Send(result->layout, pieces, "");
	memory.Finish();
	return result;
}

} // namespace vibespatial
