//===----------------------------------------------------------------------===//
// geometry/error.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include <stdexcept>
#include <string>

namespace vibespatial {

//! A geometry that cannot be read or used. The message says what is wrong with it, in words for the user;
//! the caller puts the name of the SQL function in front.
class GeometryError : public std::runtime_error {
public:
	explicit GeometryError(const std::string &message) : std::runtime_error(message) {
	}
};

} // namespace vibespatial
