#include "duckdb/support/function_builder.hpp"
#include "duckdb/overlay/work.hpp"
#include "duckdb/support/wkb_output.hpp"
#include "engine/measure/measure.hpp"

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
		SetInitLocalState(function, Init);
	}
};

//! POINT, LINESTRING or POLYGON, as the members of a multi geometry are; not for collections
VibeType SimpleType(VibeType type) {
	return vibespatial::IsLeaf(type) ? type : VibeType(uint8_t(type) - 3);
}

VibeType TypeOf(const string_t &wkb) {
	return vibespatial::ReadWkbHeader(WkbData(wkb), wkb.GetSize()).type;
}

//! Whether two geometries, of which none is a collection, have no point in common, by their boxes
bool BoxesApart(const string_t &left, const string_t &right) {
	if (TypeOf(left) == VibeType::GEOMETRYCOLLECTION || TypeOf(right) == VibeType::GEOMETRYCOLLECTION) {
		return false;
	}
	vibe::Box left_box;
	vibe::Box right_box;
	vibespatial::WkbBounds(WkbData(left), left.GetSize(), left_box);
	vibespatial::WkbBounds(WkbData(right), right.GetSize(), right_box);
	return !left_box.Intersects(right_box);
}

//! The rows of a chunk with two geometries
class OverlayPairs {
public:
	OverlayPairs(DataChunk &args, ExpressionState &state, OverlayOp op, bool areas_only)
	    : context(state.GetContext()), own(OverlayLocalState::Get(state)), count(args.AllConstant() ? 1 : args.size()) {
		rule.op = op;
		rule.areas_only = areas_only;
		for (auto side : {Overlay::LEFT, Overlay::RIGHT}) {
			args.data[side].ToUnifiedFormat(count, formats[side]);
		}
	}

	//! result[row] = emit(make(overlay of row)). Rows that are many and large are made by all threads; what is emitted is
	//! emitted by this one.
	template <class VALUE, class MAKE, class EMIT>
	void Execute(Vector &result, bool is_constant, MAKE &&make, EMIT &&emit) {
		result.SetVectorType(is_constant ? VectorType::CONSTANT_VECTOR : VectorType::FLAT_VECTOR);
		vector<idx_t> small;
		vector<idx_t> large;
		idx_t bytes = 0;
		for (idx_t row = 0; row < count; row++) {
			if (!IsValid(Overlay::LEFT, row) || !IsValid(Overlay::RIGHT, row)) {
				is_constant ? ConstantVector::SetNull(result, true) : FlatVector::SetNull(result, row, true);
				continue;
			}
			const auto size = Geometry(Overlay::LEFT, row).GetSize() + Geometry(Overlay::RIGHT, row).GetSize();
			bytes += size;
			(size >= OverlayWork::LARGE ? large : small).push_back(row);
		}
		auto values = result_data<decltype(emit(std::declval<VALUE>()))>(result, is_constant);
		TaskThreads threads(context);
		if (bytes < OverlayWork::LARGE || small.size() < 2 || threads.Count() < 2) {
			for (auto row : small) {
				values[row] = emit(make(Run(own, row)));
			}
		} else {
			vector<VALUE> made(small.size());
			const idx_t steps = MinValue<idx_t>(small.size(), threads.Count() * 8);
			threads.Run([&](vibespatial::Parallel &parallel) {
				parallel.For(steps, [&](size_t step) {
					OverlayWork work(context);
					for (auto i = small.size() * step / steps; i < small.size() * (step + 1) / steps; i++) {
						made[i] = make(Run(work, small[i]));
					}
				});
			});
			for (idx_t i = 0; i < small.size(); i++) {
				values[small[i]] = emit(made[i]);
			}
		}
		for (auto row : large) {
			values[row] = emit(make(Run(own, row)));
		}
	}

private:
	template <class T>
	static T *result_data(Vector &result, bool is_constant) {
		return is_constant ? ConstantVector::GetData<T>(result) : MutableData<T>(result);
	}
	bool IsValid(Overlay::Side side, idx_t row) const {
		return formats[side].validity.RowIsValid(formats[side].sel->get_index(row));
	}
	const string_t &Geometry(Overlay::Side side, idx_t row) const {
		return UnifiedVectorFormat::GetData<string_t>(formats[side])[formats[side].sel->get_index(row)];
	}
	const vibespatial::GeometryBatch &Run(OverlayWork &work, idx_t row) const {
		auto &left = Geometry(Overlay::LEFT, row);
		auto &right = Geometry(Overlay::RIGHT, row);
		work.Begin();
		work.Add(Overlay::LEFT, Slice(left));
		work.Add(Overlay::RIGHT, Slice(right));
		if (rule.op == OverlayOp::INTERSECTION && BoxesApart(left, right)) {
			return work.Empty(MinValue(SimpleType(TypeOf(left)), SimpleType(TypeOf(right))));
		}
		return work.Run(rule);
	}

	ClientContext &context;
	OverlayWork &own;
	const idx_t count;
	vibespatial::OverlayRule rule;
	UnifiedVectorFormat formats[2];
};

//! ST_Union, ST_Intersection, ST_Difference, ST_SymDifference
template <OverlayOp OP>
struct ST_Overlay {
	static void Execute(DataChunk &args, ExpressionState &state, Vector &result) {
		OverlayPairs(args, state, OP, false)
		    .Execute<std::string>(
		        result, args.AllConstant(),
		        [](const vibespatial::GeometryBatch &made) { return vibespatial::WriteWkb(made, 0); },
		        [&](const std::string &wkb) { return EmitWkb(result, wkb); });
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
		OverlayPairs(args, state, OP, true)
		    .Execute<double>(
		        result, args.AllConstant(),
		        [](const vibespatial::GeometryBatch &made) { return vibespatial::Area(made.View(0)); },
		        [](double area) { return area; });
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
