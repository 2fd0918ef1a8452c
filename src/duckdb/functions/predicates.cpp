#include "duckdb/support/function_builder.hpp"
#include "duckdb/support/prepared_argument.hpp"
#include "duckdb/support/wkb_output.hpp"
#include "duckdb/support/wkb_prefetch.hpp"
#include "engine/constructive/buffer.hpp"
#include "engine/constructive/buffer_reach.hpp"
#include "engine/measure/distance.hpp"
#include "engine/measure/polygon_contact.hpp"

namespace duckdb {

namespace {

using vibe::Predicate;
using vibespatial::PointInArea;

//===----------------------------------------------------------------------===//
// ST_Within and the other eleven
//===----------------------------------------------------------------------===//
template <Predicate PREDICATE>
struct ST_Predicate {
	using Question = PreparedLocalState::Question;

	//! What decides the predicate as soon as it is seen, and the answer then
	static constexpr bool HAS_QUESTION = PREDICATE != vibe::PREDICATE_CROSSES && PREDICATE != vibe::PREDICATE_OVERLAPS;
	static constexpr bool ANSWER = PREDICATE == vibe::PREDICATE_INTERSECTS;
	static constexpr Question Asked() {
		switch (PREDICATE) {
		case vibe::PREDICATE_INTERSECTS:
		case vibe::PREDICATE_DISJOINT:
			return Question::MEET;
		case vibe::PREDICATE_TOUCHES:
			return Question::INTERIORS;
		case vibe::PREDICATE_CONTAINS:
		case vibe::PREDICATE_COVERS:
		case vibe::PREDICATE_CONTAINS_PROPERLY:
			return Question::RIGHT_OUTSIDE;
		default:
			return Question::LEFT_OUTSIDE;
		}
	}

	static void Execute(DataChunk &args, ExpressionState &state, Vector &result) {
		static const PointInArea point_left(PREDICATE, true), point_right(PREDICATE, false);
		auto &local = PreparedLocalState::Begin(args, state);
		auto &left = local.left;
		auto &right = local.right;
		auto answer = [&](const string_t &geom1, const string_t &geom2) {
			vibe::Vec2 point;
			auto area = right.GetPrepared();
			if (area && area->IsArea() && left.GetPoint(geom1, point)) {
				return point_left.answer[area->Locate(point)];
			}
			area = left.GetPrepared();
			if (area && area->IsArea() && right.GetPoint(geom2, point)) {
				return point_right.answer[area->Locate(point)];
			}
			if constexpr (HAS_QUESTION) {
				const auto pair = local.FindPair(geom1, geom2, Asked());
				return pair ? vibespatial::Evaluate(PREDICATE, pair->left, pair->right, local.scratch) : ANSWER;
			} else {
				const auto pair = local.GetPair(geom1, geom2);
				return vibespatial::Evaluate(PREDICATE, pair.left, pair.right, local.scratch);
			}
		};
		BinaryExecutor::Execute<string_t, string_t, bool>(args.data[0], args.data[1], result, args.size(), answer);
	}

	static void Register(ExtensionLoader &loader, const string &name, const string &description, const string &geom1,
	                     const string &geom2) {
		SqlFunction(name, description)
		    .Category("predicate")
		    .Example(name + "('" + geom1 + "'::GEOMETRY, '" + geom2 + "'::GEOMETRY)", "true")
		    .Overload({{"geom1", LogicalType::GEOMETRY()}, {"geom2", LogicalType::GEOMETRY()}}, LogicalType::BOOLEAN,
		              Execute, PreparedArguments)
		    .Register(loader);
	}
};

//===----------------------------------------------------------------------===//
// ST_Relate
//===----------------------------------------------------------------------===//
struct ST_Relate {
	static vibe::Matrix Matrix(PreparedLocalState &local, const string_t &geom1, const string_t &geom2) {
		const auto pair = local.GetPair(geom1, geom2);
		return vibespatial::Relate(pair.left, pair.right, local.scratch);
	}

	static void ExecuteMatrix(DataChunk &args, ExpressionState &state, Vector &result) {
		auto &local = PreparedLocalState::Begin(args, state);
		auto answer = [&](const string_t &geom1, const string_t &geom2) {
			return StringVector::AddString(result, vibespatial::MatrixToString(Matrix(local, geom1, geom2)));
		};
		BinaryExecutor::Execute<string_t, string_t, string_t>(args.data[0], args.data[1], result, args.size(), answer);
	}

	static void CheckPattern(const string_t &pattern) {
		const string text = pattern.GetString();
		if (text.size() != 9 || text.find_first_not_of("TFtf*012") != string::npos) {
			throw vibespatial::GeometryError("'" + text +
			                                 "' is not a pattern: it takes nine characters out of T, F, *, 0, 1 and 2");
		}
	}

	static void ExecutePattern(DataChunk &args, ExpressionState &state, Vector &result) {
		auto &local = PreparedLocalState::Begin(args, state);
		auto answer = [&](const string_t &geom1, const string_t &geom2, const string_t &pattern) {
			CheckPattern(pattern);
			return vibe::MatchesPattern(Matrix(local, geom1, geom2), pattern.GetData());
		};
		TernaryExecutor::Execute<string_t, string_t, string_t, bool>(args.data[0], args.data[1], args.data[2], result,
		                                                             args.size(), answer);
	}

	static void Register(ExtensionLoader &loader) {
		const SqlFunction::Parameter geom1 {"geom1", LogicalType::GEOMETRY()}, geom2 {"geom2", LogicalType::GEOMETRY()};
		SqlFunction("ST_Relate",
		            "The DE-9IM matrix of two geometries: the dimensions of the intersections of their interiors, "
		            "boundaries and exteriors, as nine characters out of F, 0, 1 and 2. With a pattern of nine "
		            "characters out of T, F, *, 0, 1 and 2: whether the matrix matches it.")
		    .Category("predicate")
		    .Example("ST_Relate('POINT (1 1)'::GEOMETRY, 'LINESTRING (0 0, 2 2)'::GEOMETRY)", "0FFFFF102")
		    .Example("ST_Relate('POINT (1 1)'::GEOMETRY, 'LINESTRING (0 0, 2 2)'::GEOMETRY, 'T********')", "true")
		    .Overload({geom1, geom2}, LogicalType::VARCHAR, ExecuteMatrix, PreparedArguments)
		    .Overload({geom1, geom2, {"pattern", LogicalType::VARCHAR}}, LogicalType::BOOLEAN, ExecutePattern,
		              PreparedArguments)
		    .Register(loader);
	}
};

//===----------------------------------------------------------------------===//
// ST_Distance, ST_DWithin
//===----------------------------------------------------------------------===//
struct ST_Distance {
	//! The distance, or with a limit something at most the limit as soon as that is known; NaN when one is EMPTY
	static double Distance(PreparedLocalState &local, const string_t &geom1, const string_t &geom2, double limit) {
		auto &left = local.left;
		auto &right = local.right;
		vibe::Vec2 a, b;
		bool left_point = left.GetPoint(geom1, a), right_point = right.GetPoint(geom2, b);
		if (left_point && right_point) {
			return vibe::PointDistance(a, b);
		}
		double distance;
		if ((left_point && !right.IsConstant() &&
		     vibespatial::PointWkbDistance(a, WkbData(geom2), geom2.GetSize(), distance)) ||
		    (right_point && !left.IsConstant() &&
		     vibespatial::PointWkbDistance(b, WkbData(geom1), geom1.GetSize(), distance))) {
			return distance;
		}
		if (!left.IsConstant() && !right.IsConstant() &&
		    vibespatial::PolygonsMeet(WkbData(geom1), geom1.GetSize(), WkbData(geom2), geom2.GetSize())) {
			return 0.0;
		}
		const auto pair = local.FindNear(geom1, geom2, limit);
		if (!pair) {
			return 0.0;
		}
		if (pair->left.dimension < 0 || pair->right.dimension < 0) {
			return std::numeric_limits<double>::quiet_NaN();
		}
		return vibespatial::ShapeDistance(pair->left, pair->right, limit);
	}

	static void Execute(DataChunk &args, ExpressionState &state, Vector &result) {
		auto &local = PreparedLocalState::Begin(args, state);
		WkbPrefetch left_prefetch(args.data[0], args.size()), right_prefetch(args.data[1], args.size());
		auto answer = [&](const string_t &geom1, const string_t &geom2) {
			left_prefetch.Next();
			right_prefetch.Next();
			double distance = Distance(local, geom1, geom2, -1.0);
			return distance == distance ? distance : 0.0;
		};
		BinaryExecutor::Execute<string_t, string_t, double>(args.data[0], args.data[1], result, args.size(), answer);
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction("ST_Distance",
		            "The distance between two geometries in the plane, in the unit of their coordinates: 0 exactly "
		            "when they intersect. 0 when one is EMPTY.")
		    .Category("measure")
		    .Example("ST_Distance('POINT (0 0)'::GEOMETRY, 'LINESTRING (3 0, 3 9)'::GEOMETRY)", "3.0")
		    .Overload({{"geom1", LogicalType::GEOMETRY()}, {"geom2", LogicalType::GEOMETRY()}}, LogicalType::DOUBLE,
		              Execute, PreparedArguments)
		    .Register(loader);
	}
};

struct ST_DWithin {
	//! A point that is farther from the box of a constant than the limit, so that the distance need not be computed. Never true
	//! where ST_Distance would come to the limit or less:
	//!  1. A gap is one difference of doubles, rounded once: the true one is at least (1 - 2^-53) of it.
	//!  2. The constant lies in its box, so its true distance is at least the true gap, which is above 1e-101 by (1) and LEAST. With
	//!     coordinates up to FARTHEST it is below 3e100. vibe/distance.h promises a relative error of 1e-12 in that range.
	//!  3. So the computed distance is above (1 - 1e-12) (1 - 2^-53) reach, and reach is (1 + 1e-9) limit with two roundings.
	//! Outside of these ranges a distance may have lost digits, and the box says nothing. NaN compares false.
	static bool IsBeyond(GeometryArgument &points, const string_t &geom, GeometryArgument &constant, double limit) {
		constexpr double MARGIN = 1e-9;
		constexpr double LEAST = 1e-100;
		constexpr double FARTHEST = 1e100;
		vibe::Vec2 point;
		if (!constant.IsConstant() || points.IsConstant() || !points.GetPoint(geom, point)) {
			return false;
		}
		auto &box = constant.GetPrepared()->View().box;
		const double reach = MaxValue(limit + limit * MARGIN, LEAST);
		const auto is_beyond = point.x - box.max_x > reach || box.min_x - point.x > reach ||
		                       point.y - box.max_y > reach || box.min_y - point.y > reach;
		return is_beyond && box.min_x >= -FARTHEST && box.min_y >= -FARTHEST && box.max_x <= FARTHEST &&
		       box.max_y <= FARTHEST && std::fabs(point.x) <= FARTHEST && std::fabs(point.y) <= FARTHEST;
	}

	static void Execute(DataChunk &args, ExpressionState &state, Vector &result) {
		auto &local = PreparedLocalState::Begin(args, state);
		auto answer = [&](const string_t &geom1, const string_t &geom2, double limit) {
			// NaN compares false, so a NaN limit and EMPTY geometries are never within it
			return limit >= 0.0 && !IsBeyond(local.left, geom1, local.right, limit) &&
			       !IsBeyond(local.right, geom2, local.left, limit) &&
			       ST_Distance::Distance(local, geom1, geom2, limit) <= limit;
		};
		TernaryExecutor::Execute<string_t, string_t, double, bool>(args.data[0], args.data[1], args.data[2], result,
		                                                           args.size(), answer);
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction("ST_DWithin",
		            "Whether two geometries are at most `distance` apart: the same as ST_Distance(geom1, geom2) <= "
		            "distance, but it stops looking as soon as it knows. false when one is EMPTY.")
		    .Category("predicate")
		    .Example("ST_DWithin('POINT (0 0)'::GEOMETRY, 'LINESTRING (3 0, 3 9)'::GEOMETRY, 3)", "true")
		    .Overload({{"geom1", LogicalType::GEOMETRY()},
		               {"geom2", LogicalType::GEOMETRY()},
		               {"distance", LogicalType::DOUBLE}},
		              LogicalType::BOOLEAN, Execute, PreparedArguments)
		    .Register(loader);
	}
};

//===----------------------------------------------------------------------===//
// vibe_buffer_intersects, vibe_buffer_reach: what rewrites make of ST_Intersects(ST_Buffer(..), ..)
//===----------------------------------------------------------------------===//
struct Vibe_BufferIntersects {
	struct LocalState : public PreparedLocalState {
		vibespatial::Overlay overlay;
		vibespatial::Serial serial;
		vibespatial::GeometryBatch input;
		vibespatial::GeometryBatch output;
		vibespatial::Shape buffer;
		//! What the buffer is of; dictionaries and joins repeat it
		const char *built = nullptr;
		double built_distance = 0;

		const vibe::ShapeView &GetBuffer(const string_t &wkb, double distance) {
			if (built != wkb.GetData() || built_distance != distance || wkb.IsInlined()) {
				built = nullptr;
				input.Clear();
				output.Clear();
				vibespatial::ReadWkb(WkbData(wkb), wkb.GetSize(), input);
				vibespatial::Buffer(input, 0, distance, vibespatial::BufferStyle {}, overlay, serial, output);
				buffer.Build(output.View(0));
				built = wkb.GetData();
				built_distance = distance;
			}
			return buffer.View();
		}
	};

	static bool Answer(LocalState &local, const string_t &geom1, const string_t &geom2, double distance) {
		vibe::Vec2 point;
		auto box = vibe::Box::Empty();
		if (local.left.GetPoint(geom1, point)) {
			box.Add(point.x, point.y);
		} else {
			vibespatial::WkbBounds(WkbData(geom1), geom1.GetSize(), box);
		}
		const vibespatial::BufferReach reach(box, distance);
		// at most the limit as soon as that is known, so it need not be the distance
		const auto near = ST_Distance::Distance(local, geom1, geom2, reach.outer);
		if (!(near <= reach.outer)) {
			vibe::Box other;
			vibespatial::WkbBounds(WkbData(geom2), geom2.GetSize(), other);
			if (!box.Intersects(other) || !vibespatial::HidesAreas(WkbData(geom1), geom1.GetSize())) {
				return false;
			}
		} else if (near <= reach.inner ||
		           (reach.inner >= 0 && ST_Distance::Distance(local, geom1, geom2, reach.inner) <= reach.inner)) {
			return true;
		}
		return vibespatial::Evaluate(vibe::PREDICATE_INTERSECTS, local.GetBuffer(geom1, distance),
		                             local.right.GetShape(geom2), local.scratch);
	}

	static void Execute(DataChunk &args, ExpressionState &state, Vector &result) {
		auto &local = static_cast<LocalState &>(PreparedLocalState::Begin(args, state));
		local.built = nullptr;
		TernaryExecutor::Execute<string_t, string_t, double, bool>(
		    args.data[0], args.data[1], args.data[2], result, args.size(),
		    [&](const string_t &geom1, const string_t &geom2, double distance) {
			    return Answer(local, geom1, geom2, distance);
		    });
	}

	static unique_ptr<FunctionLocalState> Init(ExpressionState &, const BoundFunctionExpression &, FunctionData *) {
		return make_uniq<LocalState>();
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction(
		    "vibe_buffer_intersects",
		    "Whether ST_Buffer(geom1, distance) and geom2 share a point. The buffer is built only if their distance is "
		    "too close to that of the buffer's rim to decide.")
		    .Category("predicate")
		    .Example("vibe_buffer_intersects('POINT (0 0)'::GEOMETRY, 'LINESTRING (3 0, 3 9)'::GEOMETRY, 3)", "true")
		    .Overload({{"geom1", LogicalType::GEOMETRY()},
		               {"geom2", LogicalType::GEOMETRY()},
		               {"distance", LogicalType::DOUBLE}},
		              LogicalType::BOOLEAN, Execute,
		              [](ScalarFunction &function) {
			              PreparedArguments(function);
			              SetInitLocalState(function, Init);
		              })
		    .Register(loader);
	}
};

struct Vibe_BufferReach {
	static void ExecuteDistance(DataChunk &args, ExpressionState &, Vector &result) {
		UnaryExecutor::Execute<double, double>(args.data[0], result, args.size(), [](double distance) {
			return vibespatial::BufferReach(vibe::Box {0, 0, 0, 0}, distance).outer;
		});
	}

	static void ExecuteMargin(DataChunk &args, ExpressionState &, Vector &result) {
		UnaryExecutor::Execute<string_t, double>(args.data[0], result, args.size(), [](const string_t &wkb) {
			return vibespatial::BufferMargin(WkbData(wkb), wkb.GetSize());
		});
	}

	static void Register(ExtensionLoader &loader) {
		SqlFunction(
		    "vibe_buffer_reach",
		    "How far ST_Buffer(geom, distance) may reach, with all rounding: no point of it is farther from geom "
		    "than vibe_buffer_reach(distance) + vibe_buffer_reach(geom).")
		    .Category("measure")
		    .Example("vibe_buffer_reach('POINT (0 0)'::GEOMETRY)", "0.0")
		    .Overload({{"distance", LogicalType::DOUBLE}}, LogicalType::DOUBLE, ExecuteDistance)
		    .Overload({{"geom", LogicalType::GEOMETRY()}}, LogicalType::DOUBLE, ExecuteMargin)
		    .Register(loader);
	}
};

} // namespace

void RegisterPredicates(ExtensionLoader &loader) {
	const string square = "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))";
	ST_Predicate<vibe::PREDICATE_INTERSECTS>::Register(loader, "ST_Intersects", "Whether two geometries share a point.",
	                                                   square, "POINT (4 4)");
	ST_Predicate<vibe::PREDICATE_DISJOINT>::Register(loader, "ST_Disjoint", "Whether two geometries share no point.",
	                                                 square, "POINT (5 5)");
	ST_Predicate<vibe::PREDICATE_CONTAINS>::Register(loader, "ST_Contains",
	                                                 "Whether no point of geom2 lies outside geom1 and their interiors "
	                                                 "share a point: a boundary does not contain itself.",
	                                                 square, "POINT (1 1)");
	ST_Predicate<vibe::PREDICATE_WITHIN>::Register(loader, "ST_Within",
	                                               "Whether no point of geom1 lies outside geom2 and their interiors "
	                                               "share a point: ST_Contains with its arguments swapped.",
	                                               "POINT (1 1)", square);
	ST_Predicate<vibe::PREDICATE_COVERS>::Register(loader, "ST_Covers", "Whether no point of geom2 lies outside geom1.",
	                                               square, "POINT (4 4)");
	ST_Predicate<vibe::PREDICATE_COVERED_BY>::Register(
	    loader, "ST_CoveredBy", "Whether no point of geom1 lies outside geom2.", "POINT (4 4)", square);
	ST_Predicate<vibe::PREDICATE_CONTAINS_PROPERLY>::Register(
	    loader, "ST_ContainsProperly", "Whether all of geom2 lies in the interior of geom1.", square, "POINT (1 1)");
	ST_Predicate<vibe::PREDICATE_WITHIN_PROPERLY>::Register(
	    loader, "ST_WithinProperly", "Whether all of geom1 lies in the interior of geom2.", "POINT (1 1)", square);
	ST_Predicate<vibe::PREDICATE_TOUCHES>::Register(
	    loader, "ST_Touches", "Whether two geometries share a point and their interiors share none.", square,
	    "POINT (4 4)");
	ST_Predicate<vibe::PREDICATE_CROSSES>::Register(loader, "ST_Crosses",
	                                                "Whether the interiors of two geometries share some but not all "
	                                                "points, and what they share has a lower dimension than "
	                                                "the larger of the two.",
	                                                "LINESTRING (1 1, 9 1)", square);
	ST_Predicate<vibe::PREDICATE_OVERLAPS>::Register(
	    loader, "ST_Overlaps",
	    "Whether two geometries of one dimension share some but not all points, in a piece of that same dimension.",
	    square, "POLYGON ((2 2, 6 2, 6 6, 2 6, 2 2))");
	ST_Predicate<vibe::PREDICATE_EQUALS>::Register(
	    loader, "ST_Equals",
	    "Whether two geometries are the same set of points, however their vertices are ordered or repeated.",
	    "LINESTRING (0 0, 1 1, 2 2)", "LINESTRING (2 2, 0 0)");
	ST_Relate::Register(loader);
	ST_Distance::Register(loader);
	ST_DWithin::Register(loader);
	Vibe_BufferIntersects::Register(loader);
	Vibe_BufferReach::Register(loader);
}

} // namespace duckdb
