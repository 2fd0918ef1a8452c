#include "engine/cpu/overlay.hpp"

#include "geometry/error.hpp"

namespace vibespatial {

struct Overlay::Work {};

Overlay::Overlay() : work(new Work()) {
}
Overlay::~Overlay() = default;
void Overlay::Add(Side, const GeometryBatch &, size_t) {
}
void Overlay::AddWkb(Side, const uint8_t *, size_t) {
}
void Overlay::AddRing(Side, const vibe::Vec2 *, size_t) {
}
void Overlay::AddLine(Side, const vibe::Vec2 *, size_t) {
}
void Overlay::AddPoint(Side, const vibe::Vec2 &) {
}
void Overlay::Run(const OverlayRule &, Parallel &, GeometryBatch &) {
	throw GeometryError("overlay: not there yet");
}
double Overlay::RunArea(const OverlayRule &, Parallel &) {
	throw GeometryError("overlay: not there yet");
}
void Overlay::Clear() {
}
size_t Overlay::Memory() const {
	return 0;
}

} // namespace vibespatial
