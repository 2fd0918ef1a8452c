//===----------------------------------------------------------------------===//
// duckdb/functions/functions.hpp
//
// The scalar functions and aggregates by area; each area is one file of this folder
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/main/extension/extension_loader.hpp"

namespace duckdb {

//! ST_Point ST_MakePoint ST_MakeEnvelope ST_MakeLine ST_MakePolygon ST_Collect
void RegisterConstructors(ExtensionLoader &loader);
//! ST_GeomFromText ST_GeomFromGeoJSON ST_AsGeoJSON
void RegisterFormats(ExtensionLoader &loader);
//! ST_X .. ST_M, ST_NPoints, ST_GeometryType, ST_StartPoint, ST_Dump ..
void RegisterAccessors(ExtensionLoader &loader);
//! ST_Area ST_Length ST_Perimeter ST_Centroid, the box of a geometry
void RegisterMeasures(ExtensionLoader &loader);
//! ST_Intersects and the other predicates, ST_Relate, ST_Distance, ST_DWithin, vibe_buffer_intersects
void RegisterPredicates(ExtensionLoader &loader);
//! ST_IsValid ST_IsValidReason ST_IsSimple ST_IsRing
void RegisterValidity(ExtensionLoader &loader);
//! ST_Boundary ST_ConvexHull ST_Simplify ST_Reverse ST_FlipCoordinates ST_Force2D ST_Multi, ST_Buffer ST_MakeValid
//! ST_ReducePrecision ST_Node
void RegisterConstructive(ExtensionLoader &loader);
//! ST_Union ST_Intersection ST_Difference ST_SymDifference ST_UnaryUnion
void RegisterOverlay(ExtensionLoader &loader);
//! ST_Union_Agg ST_CoverageUnion_Agg ST_Intersection_Agg ST_Collect_Agg ST_Extent_Agg ST_Envelope_Agg
void RegisterAggregates(ExtensionLoader &loader);
//! vibe_from_native
void RegisterNative(ExtensionLoader &loader);
//! vibe_version
void RegisterVersion(ExtensionLoader &loader);

} // namespace duckdb
