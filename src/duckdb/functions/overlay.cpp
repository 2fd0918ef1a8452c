#include "duckdb/functions/functions.hpp"

#include "duckdb/function_builder.hpp"
#include "duckdb/operators/overlay_work.hpp"
#include "duckdb/wkb_output.hpp"
#include "engine/cpu/measure.hpp"

namespace duckdb {

namespace {

using vibespatial::Overlay;
using vibespatial::OverlayOp;
using VibeType = vibespatial::GeometryType;

//! What a thread keeps
struct OverlayLocalState : public FunctionLocalState {
	explicit OverlayLocalState(ClientContext &context) : overlay(context) {
	}
	OverlayWork overlay;

	static unique_ptr<FunctionLocalState> Init(ExpressionState &state, const BoundFunctionExpression &,
	                                           FunctionData *) {
		return make_uniq<OverlayLocalState>(state.GetContext());
	}
	static OverlayWork &Get(ExpressionState &state) {
		return ExecuteFunctionState::GetFunctionState(state)->Cast<OverlayLocalState>().overlay;
	}
	//! For SqlFunction::Overload
	static void Use(ScalarFunction &function) {
		function.init_local_state = Init;
	}
};

//! POINT, LINESTRING or POLYGON, as the members of a multi geometry are; not for collections
VibeType SimpleType(VibeType type) {
	return vibespatial::IsLeaf(type) ? type : VibeType(uint8_t(type) - 3);
}

//! Intersections without a point in common, by their boxes
class ApartBoxes {
public:
	//! Whether the boxes of two geometries are apart. Then Empty() is their intersection.
	bool Test(const string_t &left, const string_t &right) {
		const auto left_type = vibespatial::ReadWkbHeader(WkbData(left), left.GetSize()).type;
		const auto right_type = vibespatial::ReadWkbHeader(WkbData(right), right.GetSize()).type;
		if (left_type == VibeType::GEOMETRYCOLLECTION || right_type == VibeType::GEOMETRYCOLLECTION) {
			return false;
		}
		vibe::Box left_box;
		vibe::Box right_box;
		vibespatial::WkbBounds(WkbData(left), left.GetSize(), left_box);
		vibespatial::WkbBounds(WkbData(right), right.GetSize(), right_box);
		type = MinValue(SimpleType(left_type), SimpleType(right_type));
		return !left_box.Intersects(right_box);
	}
	const vibespatial::GeometryBatch &Empty() {
		empty.Clear();
		empty.BeginRow(type, vibespatial::VERTEX_XY);
		empty.BeginNode(type, 0);
		empty.BeginPart(vibespatial::FamilyOf(type));
		empty.EndRow();
		return empty;
	}

private:
	VibeType type = VibeType::INVALID;
	vibespatial::GeometryBatch empty;
};

//! ST_Union, ST_Intersection, ST_Difference, ST_SymDifference
template <OverlayOp OP>
struct ST_Overlay {
	static void Execute(DataChunk &args, ExpressionState &state, Vector &result) {
		auto &overlay = OverlayLocalState::Get(state);
		vibespatial::OverlayRule rule;
		rule.op = OP;
		ApartBoxes apart;
		BinaryExecutor::Execute<string_t, string_t, string_t>(
		    args.data[0], args.data[1], result, args.size(), [&](const string_t &left, const string_t &right) {
			    overlay.Begin();
			    overlay.Add(Overlay::LEFT, Slice(left));
			    overlay.Add(Overlay::RIGHT, Slice(right));
			    if (OP == OverlayOp::INTERSECTION && apart.Test(left, right)) {
				    return EmitRow(result, apart.Empty());
			    }
			    return EmitRow(result, overlay.Run(rule));
		    });
	}

	static void Register(ExtensionLoader &loader, const string &name, const string &description,
	                     const string &example) {
		SqlFunction(name, description)
		    .Category("overlay")
		    .Example(name + "('POLYGON ((0 0, 2 0, 2 1, 0 1, 0 0))'::GEOMETRY, 'POLYGON ((1 0, 3 0, 3 1, 1 1, 1 "
		                    "0))'::GEOMETRY)",
		             example)
		    .Overload({{"geom1", LogicalType::GEOMETRY()}, {"geom2", LogicalType::GEOMETRY()}}, LogicalType::GEOMETRY(),
		              Execute, OverlayLocalState::Use)
		    .Register(loader);
	}
};

//! ST_Area of an overlay, to the bit, from geometries that no string is made of
template <OverlayOp OP>
struct Vibe_OverlayArea {
	static void Execute(DataChunk &args, ExpressionState &state, Vector &result) {
		auto &overlay = OverlayLocalState::Get(state);
		vibespatial::OverlayRule rule;
		rule.op = OP;
		rule.areas_only = true;
		ApartBoxes apart;
		BinaryExecutor::Execute<string_t, string_t, double>(
		    args.data[0], args.data[1], result, args.size(), [&](const string_t &left, const string_t &right) {
			    overlay.Begin();
			    overlay.Add(Overlay::LEFT, Slice(left));
			    overlay.Add(Overlay::RIGHT, Slice(right));
			    if (OP == OverlayOp::INTERSECTION && apart.Test(left, right)) {
				    return 0.0;
			    }
			    return vibespatial::Area(overlay.Run(rule).View(0));
		    });
	}

	static void Register(ExtensionLoader &loader, const string &name, const string &expression, const string &example) {
		SqlFunction(name, "The same as ST_Area(" + expression + "(geom1, geom2)), without the geometry in between.")
		    .Category("overlay")
		    .Example(name + "('POLYGON ((0 0, 2 0, 2 1, 0 1, 0 0))'::GEOMETRY, 'POLYGON ((1 0, 3 0, 3 1, 1 1, 1 "
		                    "0))'::GEOMETRY)",
		             example)
		    .Overload({{"geom1", LogicalType::GEOMETRY()}, {"geom2", LogicalType::GEOMETRY()}}, LogicalType::DOUBLE,
		              Execute, OverlayLocalState::Use)
		    .Register(loader);
	}
};

struct ST_UnaryUnion {
	static void Execute(DataChunk &args, ExpressionState &state, Vector &result) {
		auto &overlay = OverlayLocalState::Get(state);
		UnaryExecutor::Execute<string_t, string_t>(args.data[0], result, args.size(), [&](const string_t &wkb) {
			overlay.Begin();
			overlay.AddMembers(Overlay::LEFT, Slice(wkb));
			return EmitRow(result, overlay.Run(vibespatial::OverlayRule {}));
		});
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction("ST_UnaryUnion",
		            "The union of the members of one geometry: overlaps and repeats are gone, lines are cut where they "
		            "meet.")
		    .Category("overlay")
		    .Example("ST_UnaryUnion('MULTILINESTRING ((0 0, 2 2), (0 2, 2 0))'::GEOMETRY)",
		             "MULTILINESTRING ((0 0, 1 1), (0 2, 1 1), (1 1, 2 0), (1 1, 2 2))")
		    .Overload({{"geom", LogicalType::GEOMETRY()}}, LogicalType::GEOMETRY(), Execute, OverlayLocalState::Use)
		    .Register(loader);
	}
};

} // namespace

void RegisterOverlay(ExtensionLoader &loader) {
	ST_Overlay<OverlayOp::UNION>::Register(loader, "ST_Union", "What lies in either of two geometries.",
	                                       "POLYGON ((0 0, 1 0, 2 0, 3 0, 3 1, 2 1, 1 1, 0 1, 0 0))");
	ST_Overlay<OverlayOp::INTERSECTION>::Register(loader, "ST_Intersection", "What lies in both of two geometries.",
	                                              "POLYGON ((1 0, 2 0, 2 1, 1 1, 1 0))");
	ST_Overlay<OverlayOp::DIFFERENCE>::Register(loader, "ST_Difference", "What lies in geom1 and not in geom2.",
	                                            "POLYGON ((0 0, 1 0, 1 1, 0 1, 0 0))");
	ST_Overlay<OverlayOp::SYM_DIFFERENCE>::Register(
	    loader, "ST_SymDifference", "What lies in one of two geometries and not in the other.",
	    "MULTIPOLYGON (((0 0, 1 0, 1 1, 0 1, 0 0)), ((2 0, 3 0, 3 1, 2 1, 2 0)))");
	ST_UnaryUnion::Register(loader);
	Vibe_OverlayArea<OverlayOp::UNION>::Register(loader, "vibe_union_area", "ST_Union", "3.0");
	Vibe_OverlayArea<OverlayOp::INTERSECTION>::Register(loader, "vibe_intersection_area", "ST_Intersection", "1.0");
	Vibe_OverlayArea<OverlayOp::DIFFERENCE>::Register(loader, "vibe_difference_area", "ST_Difference", "1.0");
	Vibe_OverlayArea<OverlayOp::SYM_DIFFERENCE>::Register(loader, "vibe_symdifference_area", "ST_SymDifference", "2.0");
}

} // namespace duckdb
