//===----------------------------------------------------------------------===//
// engine/device_arrays/layout.hpp
//
// What an Arrow schema says of the buffers of a column
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/device_arrays/arrow_c.hpp"
#include "geometry/geoarrow.hpp"

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace vibespatial {

//! Rows that cannot be on a device as they are. The message names the column and says what to do.
class DeviceArrayError : public std::runtime_error {
public:
	using std::runtime_error::runtime_error;
};

//! A column, or a part of one
struct ArrowLayout {
	enum class Kind : uint8_t {
		//! All are NULL, without buffers
		NOTHING,
		//! One bit a value
		BITS,
		//! `width` bytes a value
		FIXED,
		//! Offsets and bytes
		BYTES,
		//! Offsets into the child
		LIST,
		//! `width` values of the child for each
		FIXED_LIST,
		STRUCT
	};

	Kind kind = Kind::NOTHING;
	std::string format;
	std::string name;
	int64_t flags = 0;
	//! Keys and values, as ArrowSchema::metadata has them
	std::vector<std::pair<std::string, std::string>> metadata;
	uint64_t width = 0;
	//! Offsets have 64 bits
	bool is_large = false;
	std::vector<ArrowLayout> children;

	//! Throws DeviceArrayError for types that have no such buffers; `path` is the name of the column
	static ArrowLayout Read(const ArrowSchema &schema, const std::string &path);
	//! Geometries as bytes of geoarrow.wkb
	bool IsWkb() const;
	//! The same column in a native encoding: coordinates in structs
	ArrowLayout Native(const GeoArrowType &type) const;
	//! ArrowSchema::metadata, empty where there is none
	std::string MetadataBytes() const;
};

} // namespace vibespatial
