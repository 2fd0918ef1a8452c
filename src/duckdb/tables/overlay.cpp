#include "duckdb/tables/tables.hpp"

#include "duckdb/tables/relation_argument.hpp"

namespace duckdb {

namespace {

//! The query of one overlay. In it l and r are the rows of the sides; every part gives the columns of both, and g.
class OverlayQuery {
public:
	OverlayQuery(const RelationArgument &left, const RelationArgument &right, bool keep_type)
	    : left(left), right(right), keep_type(keep_type) {
	}

	//! What every pair of rows has in common
	string Intersection() const {
		return Kept("SELECT " + Columns("l", left) + Columns("r", right) +
		                "vibe_intersection(l.g, r.g) AS g, vibe_dimension(l.g) AS d FROM l JOIN r ON "
		                "vibe_intersects(l.g, r.g)",
		            keep_type);
	}
	//! What the rows of the left side have that no row of the right has
	string LeftOnly(bool with_right) const {
		return Kept("SELECT " + Columns("l", left) + (with_right ? Nulls(right) : "") + Remains("l") +
		                "0 AS d FROM l " + Others("l", "r"),
		            false);
	}
	//! Likewise
	string RightOnly() const {
		return Kept("SELECT " + Nulls(left) + Columns("r", right) + Remains("r") +
		                "(SELECT coalesce(max(vibe_dimension(g)), 0) FROM l) AS d FROM r " + Others("r", "l"),
		            keep_type);
	}

private:
	const RelationArgument &left;
	const RelationArgument &right;
	const bool keep_type;

	static string Columns(const string &side, const RelationArgument &relation) {
		string result;
		for (idx_t i = 0; i < relation.columns.size(); i++) {
			result += side + ".c" + to_string(i) + ", ";
		}
		return result;
	}
	static string Nulls(const RelationArgument &relation) {
		string result;
		for (idx_t i = 0; i < relation.columns.size(); i++) {
			result += "NULL, ";
		}
		return result;
	}
	//! The geometry less the union of those of the other side that meet it
	static string Remains(const string &side) {
		return "CASE WHEN o.g IS NULL THEN " + side + ".g ELSE vibe_difference(" + side + ".g, o.g) END AS g, ";
	}
	static string Others(const string &side, const string &other) {
		return "LEFT JOIN (SELECT " + side + ".r, vibe_union_agg(" + other + ".g) AS g FROM " + side + " JOIN " +
		       other + " ON vibe_intersects(" + side + ".g, " + other + ".g) GROUP BY " + side +
		       ".r) AS o ON o.r = " + side + ".r";
	}
	//! Drops what is EMPTY and, unless told otherwise, what is of a lower dimension than d
	static string Kept(const string &part, bool by_dimension) {
		if (!by_dimension) {
			return "SELECT * EXCLUDE (d) FROM (" + part + ") WHERE NOT vibe_isempty(g)";
		}
		// The members of a mixed result are looked at one by one
		return "SELECT * EXCLUDE (d) REPLACE (CASE WHEN vibe_geometrytype(g) <> 'GEOMETRYCOLLECTION' THEN g ELSE "
		       "vibe_unaryunion(vibe_collect([x.geom FOR x IN vibe_dump(g) IF vibe_dimension(x.geom) >= d])) END AS g) "
		       "FROM (" +
		       part + ") WHERE NOT vibe_isempty(g) AND vibe_dimension(g) >= d";
	}
};

unique_ptr<TableRef> BindOverlay(ClientContext &context, TableFunctionBindInput &input) {
	auto &function = FunctionName(input);
	auto how = ChooseWord(input, "how", {"intersection", "union", "identity", "symdifference", "difference"});
	auto keep = NamedParameter(input, "keep_geom_type");
	RelationArgument left(context, input, "left", input.inputs[0]);
	RelationArgument right(context, input, "right", input.inputs[1]);
	RequireSameCrs(function, left, right);
	left.DefaultToAllColumns(input);
	const bool only_left = how == "difference";
	if (!only_left) {
		right.DefaultToAllColumns(input);
	} else if (!right.columns.empty()) {
		throw BinderException("%s: how := 'difference' gives no columns of the right relation: right_columns must be "
		                      "empty",
		                      function);
	}
	OverlayQuery query(left, right, !keep || BooleanValue::Get(*keep));
	vector<string> parts;
	if (how == "intersection" || how == "union" || how == "identity") {
		parts.push_back(query.Intersection());
	}
	if (how != "intersection") {
		parts.push_back(query.LeftOnly(!only_left));
	}
	if (how == "union" || how == "symdifference") {
		parts.push_back(query.RightOnly());
	}
	auto names = OutputNames(function, {left.names[left.geometry]}, left, right);
	// The geometry comes last
	std::rotate(names.begin(), names.begin() + 1, names.end());
	string columns;
	for (auto &name : names) {
		columns += (columns.empty() ? "" : ", ") + QuotedName(name);
	}
	// A row must have the same number wherever it is used
	const bool numbered = how != "intersection";
	const string as = numbered ? " AS MATERIALIZED " : " AS ";
	return ReplaceByQuery(context, function,
	                      "WITH l" + as + left.Rows(numbered) + ", r" + as + right.Rows(numbered) + " SELECT * FROM (" +
	                          StringUtil::Join(parts, " UNION ALL ") + ") AS t(" + columns + ")");
}

} // namespace

void RegisterOverlayTable(ExtensionLoader &loader) {
	TableFunction function("vibe_overlay", {LogicalType::VARCHAR, LogicalType::VARCHAR}, nullptr, nullptr);
	function.bind_replace = BindOverlay;
	AddNamedParameter(function, "how", LogicalType::VARCHAR);
	AddNamedParameter(function, "keep_geom_type", LogicalType::BOOLEAN);
	RelationArgument::AddSideParameters(function);
	RegisterRelationFunction(
	    loader, std::move(function), {"left", "right"},
	    "Two layers laid over each other, both names of tables or queries as text. `how` is 'intersection' (the "
	    "default: what each pair of rows has in common), 'difference' (the rows of `left` minus all of `right`), "
	    "'identity' (both of these), 'symdifference' (what only one side has) or 'union' (all of it). Columns: those "
	    "of both "
	    "sides, or left_columns and right_columns, NULL where a row has nothing of a side, then the geometry. Results "
	    "of a lower dimension than the left side's are dropped, unless keep_geom_type := false.",
	    {"* FROM vibe_overlay('SELECT i AS a, ST_MakeEnvelope(i, 0, i + 1, 2) AS g FROM range(2) t(i)', 'SELECT 7 AS "
	     "b, "
	     "ST_MakeEnvelope(0.5, 1, 1.5, 3) AS g', how := 'union')"});
}

} // namespace duckdb
