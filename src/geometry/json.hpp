//===----------------------------------------------------------------------===//
// geometry/json.hpp
//
// JSON (RFC 8259) as a tree in one array, for GeoJSON and metadata
//===----------------------------------------------------------------------===//
#pragma once

#include "geometry/work_scope.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace vibespatial {

enum class JsonKind : uint8_t { NULL_VALUE, BOOLEAN, NUMBER, STRING, ARRAY, OBJECT };

struct JsonValue {
	JsonKind kind;
	//! Elements of an array; keys and values of an object, so twice its members
	uint32_t count;
	//! The sibling after this one; 0 = none. The first child of a value is the value after it.
	uint32_t next;
	//! Of a string: the bytes between the quotes; of an object or array: all of it
	uint32_t length;
	union {
		//! Of a number
		double number;
		//! Where `length` begins in the text
		const char *text;
	};
};

//! The values in the order they are written, the root first. Strings point into the text, which must outlive it.
class JsonTree {
public:
	//! Throws GeometryError, with the place, for anything that is not exactly one JSON value; also for a number
	//! beyond the range of double and for nesting deeper than MAX_DEPTH.
	JsonTree(const char *text, size_t size);

	static constexpr uint32_t MAX_DEPTH = 256;

	const JsonValue &Root() const {
		return values[0];
	}
	//! For loops over children: for (auto child = tree.First(value); child; child = tree.Next(*child))
	const JsonValue *First(const JsonValue &parent) const {
		return parent.count == 0 ? nullptr : &parent + 1;
	}
	const JsonValue *Next(const JsonValue &value) const {
		return value.next == 0 ? nullptr : &values[value.next];
	}
	//! The value of the first member of that name; nullptr when there is none
	const JsonValue *Find(const JsonValue &object, const char *name) const;
	//! Whether a string equals an ASCII name, escapes understood
	static bool Equals(const JsonValue &string, const char *name);
	//! A string in UTF-8, escapes understood
	static std::string Text(const JsonValue &string);

private:
	CountedVector<JsonValue> values;
};

} // namespace vibespatial
