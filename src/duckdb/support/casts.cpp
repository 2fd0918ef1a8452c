#include "duckdb/support/casts.hpp"

#include "duckdb/support/types.hpp"
#include "duckdb/support/wkb_output.hpp"

#include "duckdb/common/types/geometry.hpp"
#include "duckdb/common/vector_operations/generic_executor.hpp"

namespace duckdb {

using Point2D = StructTypeBinary<double, double>;
using Point3D = StructTypeTernary<double, double, double>;
using Point4D = StructTypeQuaternary<double, double, double, double>;
using Text = PrimitiveType<string_t>;

static string_t EmitPoint(Vector &vector, uint8_t vertex_type, std::initializer_list<double> ordinates) {
	const auto size = ordinates.size() * sizeof(double);
	return EmitWkb(vector, WKB_HEADER_SIZE + size, [&](WkbOutput out) {
		out.Header(vibespatial::GeometryType::POINT, vertex_type);
		out.Bytes(ordinates.begin(), size);
	});
}

static string_t ToGeometry(const Point2D &point, Vector &vector) {
	return EmitPoint(vector, vibespatial::VERTEX_XY, {point.a_val, point.b_val});
}

static string_t ToGeometry(const Point3D &point, Vector &vector) {
	return EmitPoint(vector, vibespatial::VERTEX_Z, {point.a_val, point.b_val, point.c_val});
}

static string_t ToGeometry(const Point4D &point, Vector &vector) {
	return EmitPoint(vector, vibespatial::VERTEX_Z | vibespatial::VERTEX_M,
	                 {point.a_val, point.b_val, point.c_val, point.d_val});
}

template <class POINT>
static bool PointToGeometry(Vector &source, Vector &result, idx_t count, CastParameters &) {
	GenericExecutor::ExecuteUnary<POINT, Text>(source, result, count,
	                                           [&](POINT point) { return ToGeometry(point, result); });
	return true;
}

template <class POINT>
static bool PointToText(Vector &source, Vector &result, idx_t count, CastParameters &) {
	Vector scratch(LogicalType::GEOMETRY());
	GenericExecutor::ExecuteUnary<POINT, Text>(
	    source, result, count, [&](POINT point) { return GeometryText(result, ToGeometry(point, scratch)); });
	return true;
}

static bool BoxToGeometry(Vector &source, Vector &result, idx_t count, CastParameters &) {
	GenericExecutor::ExecuteUnary<Point4D, Text>(source, result, count, [&](Point4D box) {
		return EmitWkb(result, ENVELOPE_SIZE,
		               [&](WkbOutput out) { PutEnvelope(out, box.a_val, box.b_val, box.c_val, box.d_val); });
	});
	return true;
}

void BoxText(Vector &source, Vector &result, idx_t count) {
	Vector scratch(LogicalType::GEOMETRY());
	GenericExecutor::ExecuteUnary<Point4D, Text>(source, result, count, [&](Point4D box) {
		// The line from corner to corner has the numbers as GEOMETRY writes them: "LINESTRING (1 2, 3 4)"
		const double corners[] = {box.a_val, box.b_val, box.c_val, box.d_val};
		auto line = EmitWkb(scratch, WKB_HEADER_SIZE + WKB_COUNT_SIZE + sizeof(corners), [&](WkbOutput out) {
			out.Header(vibespatial::GeometryType::LINESTRING, vibespatial::VERTEX_XY);
			out.Count(2);
			out.Bytes(corners, sizeof(corners));
		});
		auto text = GeometryText(scratch, line).GetString();
		return Text(StringVector::AddString(result, "BOX" + text.substr(text.find('('))));
	});
}

static bool BoxToText(Vector &source, Vector &result, idx_t count, CastParameters &) {
	BoxText(source, result, count);
	return true;
}

void RegisterCasts(ExtensionLoader &loader) {
	const auto implicit_cost = 1;
	auto geometry = LogicalType::GEOMETRY();
	loader.RegisterCastFunction(PointType(2), geometry, BoundCastInfo(PointToGeometry<Point2D>), implicit_cost);
	loader.RegisterCastFunction(PointType(3), geometry, BoundCastInfo(PointToGeometry<Point3D>), implicit_cost);
	loader.RegisterCastFunction(PointType(4), geometry, BoundCastInfo(PointToGeometry<Point4D>), implicit_cost);
	loader.RegisterCastFunction(BoxType(), geometry, BoundCastInfo(BoxToGeometry), implicit_cost);

	auto text = LogicalType::VARCHAR;
	loader.RegisterCastFunction(PointType(2), text, BoundCastInfo(PointToText<Point2D>));
	loader.RegisterCastFunction(PointType(3), text, BoundCastInfo(PointToText<Point3D>));
	loader.RegisterCastFunction(PointType(4), text, BoundCastInfo(PointToText<Point4D>));
	loader.RegisterCastFunction(BoxType(), text, BoundCastInfo(BoxToText));
}

} // namespace duckdb
