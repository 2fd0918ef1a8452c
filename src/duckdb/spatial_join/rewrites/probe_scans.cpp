// Boxes for scans, which skip row groups by them: the box of a join's build side, known when the query runs, and the boxes of constants in
// filters
#include "duckdb/spatial_join/rewrites/plan_tools.hpp"
#include "duckdb/spatial_join/rewrites/rewrites.hpp"
#include "duckdb/support/settings.hpp"

namespace duckdb {

namespace join_rewrites {

namespace {

bool CanFilter(LogicalGet &get, ColumnBinding column) {
	// A scan without support for expressions, such as that of an Arrow table, fails even on optional ones
	if (column.table_index != get.table_index || !get.function.filter_pushdown || !get.function.pushdown_expression) {
		return false;
	}
	auto &column_ids = get.GetColumnIds();
	if (column.column_index >= column_ids.size() || column_ids[column.column_index].IsVirtualColumn()) {
		return false;
	}
	// Scans of Arrow data pass their filters to a library that does not know geometries
	return !get.function.supports_pushdown_type ||
	       get.function.supports_pushdown_type(*get.bind_data, column_ids[column.column_index].GetPrimaryIndex());
}

//! Calls `found(get, position)` for the scans that emit a geometry column unchanged, if rows may be dropped there by their geometry
template <class FOUND>
void FindScans(LogicalOperator &op, ColumnBinding column, const FOUND &found) {
	switch (op.type) {
	case LogicalOperatorType::LOGICAL_FILTER:
		FindScans(*op.children[0], column, found);
		break;
	case LogicalOperatorType::LOGICAL_PROJECTION: {
		auto &projection = op.Cast<LogicalProjection>();
		if (column.table_index != projection.table_index) {
			return;
		}
		ColumnBinding below;
		if (IsGeometryColumn(*projection.expressions[column.column_index], below)) {
			FindScans(*op.children[0], below, found);
		}
		break;
	}
	case LogicalOperatorType::LOGICAL_UNION: {
		auto &set = op.Cast<LogicalSetOperation>();
		if (column.table_index != set.table_index) {
			return;
		}
		for (auto &child : op.children) {
			FindScans(*child, child->GetColumnBindings()[column.column_index], found);
		}
		break;
	}
	case LogicalOperatorType::LOGICAL_EXTENSION_OPERATOR:
		if (IsSpatialJoin(op)) {
			auto &join = AsSpatialJoin(op);
			// These joins decide about each probe row on its own
			if (!join.aggregate && (join.join_type == JoinType::INNER || join.join_type == JoinType::LEFT ||
			                        join.join_type == JoinType::SEMI || join.join_type == JoinType::ANTI)) {
				FindScans(*op.children[0], column, found);
			}
		}
		break;
	case LogicalOperatorType::LOGICAL_GET: {
		auto &get = op.Cast<LogicalGet>();
		if (!CanFilter(get, column)) {
			return;
		}
		get.ResolveOperatorTypes();
		for (auto &binding : get.GetColumnBindings()) {
			if (binding.column_index == column.column_index) {
				found(get, column.column_index);
				break;
			}
		}
		break;
	}
	default:
		break;
	}
}

//! Whether probe rows outside the box of the build side may be dropped, and which column has their geometry
bool DropsOutsideBox(LogicalSpatialJoin &join, ColumnBinding &geometry) {
	switch (join.join_type) {
	case JoinType::INNER:
	case JoinType::RIGHT:
	case JoinType::SEMI:
	case JoinType::RIGHT_SEMI:
	case JoinType::RIGHT_ANTI:
		break;
	default:
		return false; // probe rows without a match come out, too
	}
	if (join.spatial.left_limit || !IsGeometryColumn(*join.spatial.left, geometry)) {
		return false;
	}
	for (auto &term : join.spatial.condition.any_of) {
		// EMPTY geometries have no box, but may be equal or near
		if (term.empty_is_near ||
		    (term.kind == vibespatial::JoinTerm::RELATE && term.predicate == vibe::PREDICATE_EQUALS)) {
			return false;
		}
	}
	return true;
}

void PushBox(ClientContext &context, LogicalGet &get, idx_t position, const vibe::Box &box) {
	Covering covering;
	if (Covering::Find(context, get, position, covering)) {
		auto position_of_boxes = covering.Read(get);
		PushFilter(get, position_of_boxes, covering.Filter(context, box));
	}
}

} // namespace

void FindProbeScans(ClientContext &context, LogicalOperator &op) {
	for (auto &child : op.children) {
		FindProbeScans(context, *child);
	}
	ColumnBinding geometry;
	if (!IsSpatialJoin(op) || !DropsOutsideBox(AsSpatialJoin(op), geometry)) {
		return;
	}
	auto &join = AsSpatialJoin(op);
	FindScans(*join.children[0], geometry, [&](LogicalGet &get, idx_t position) {
		if (!get.dynamic_filters) {
			get.dynamic_filters = make_shared_ptr<DynamicTableFilterSet>();
		}
		ProbeScan scan {
		    get.dynamic_filters, ProjectionIndex(position), get.GetColumnType(get.GetColumnIds()[position]), {}, {}};
		if (GetRewrites(context) && Covering::Find(context, get, position, scan.covering)) {
			scan.covering_index = scan.covering.Read(get);
		}
		if (scan.type.id() == LogicalTypeId::GEOMETRY || scan.covering_index.IsValid()) {
			join.probe_scans.push_back(std::move(scan));
		}
	});
}

void PushConstantBoxes(ClientContext &context, LogicalOperator &op) {
	for (auto &child : op.children) {
		PushConstantBoxes(context, *child);
	}
	if (op.type == LogicalOperatorType::LOGICAL_FILTER) {
		auto &input = *op.children[0];
		for (auto &entry : BoxesOfFilter(context, input, op.expressions)) {
			FindScans(input, entry.column,
			          [&](LogicalGet &get, idx_t position) { PushBox(context, get, position, entry.box); });
		}
	} else if (op.type == LogicalOperatorType::LOGICAL_GET) {
		auto &get = op.Cast<LogicalGet>();
		vector<unique_ptr<Expression>> conditions;
		TakeFilters(get, [&](idx_t, const Expression &condition) {
			conditions.push_back(condition.Copy());
			return false;
		});
		for (auto &entry : BoxesOfFilter(context, get, conditions)) {
			PushBox(context, get, entry.column.column_index, entry.box);
		}
	}
}

} // namespace join_rewrites

} // namespace duckdb
