//===----------------------------------------------------------------------===//
// targets.hpp
//
// What libFuzzer is pointed at. A target takes any bytes and aborts where a promise does not hold; the sanitizers see the rest.
//===----------------------------------------------------------------------===//
#pragma once

#include <cstddef>
#include <cstdint>

namespace vibespatial {
namespace fuzz {

void FuzzWkb(const uint8_t *data, size_t size);
void FuzzGeoJson(const uint8_t *data, size_t size);
void FuzzRelate(const uint8_t *data, size_t size);
void FuzzOverlay(const uint8_t *data, size_t size);
void FuzzBuffer(const uint8_t *data, size_t size);
void FuzzValidity(const uint8_t *data, size_t size);

} // namespace fuzz
} // namespace vibespatial
