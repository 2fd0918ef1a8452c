// The plan of a spatial join: which columns of the build side are stored, and where each expression finds its columns
#include "duckdb/planner/expression/bound_reference_expression.hpp"
#include "duckdb/planner/expression_iterator.hpp"
#include "duckdb/spatial_join/pairs_dispatch.hpp"
#include "duckdb/operators/row_geometry.hpp"
#include "duckdb/spatial_join/physical.hpp"
#include "duckdb/support/settings.hpp"

namespace duckdb {

namespace {

//! The columns of the layout: columns of the right child, each stored once, then computed keys
class LayoutColumns {
public:
	LayoutColumns(PhysicalSpatialJoin &op, const PhysicalOperator &right) : op(op), right(right) {
	}

	//! Stores a column of the right child; returns its position in the layout
	column_t Keep(idx_t column) {
		auto entry = kept.find(column);
		if (entry != kept.end()) {
			return entry->second;
		}
		column_t position = op.kept_columns.size();
		op.kept_columns.push_back(column);
		types.push_back(right.types[column]);
		kept.emplace(column, position);
		return position;
	}
	//! Stores the value of an expression. After the first key no column can be kept.
	column_t KeepKey(unique_ptr<Expression> key) {
		column_t position = types.size();
		types.push_back(ReturnTypeOf(*key));
		op.build_keys.push_back(std::move(key));
		return position;
	}
	column_t KeepNumber() {
		types.push_back(LogicalType::UBIGINT);
		return types.size() - 1;
	}
	const vector<LogicalType> &Types() const {
		return types;
	}

private:
	PhysicalSpatialJoin &op;
	const PhysicalOperator &right;
	unordered_map<idx_t, column_t> kept;
	vector<LogicalType> types;
};

//! Lets the residual read a chunk of only the columns that it needs: those of the left child, then those of the layout
void PlanResidual(PhysicalSpatialJoin &op, LayoutColumns &columns, idx_t left_count) {
	vector<idx_t> lefts, rights;
	ExpressionIterator::VisitExpressionMutable<BoundReferenceExpression>(
	    op.residual, [&](BoundReferenceExpression &reference, unique_ptr<Expression> &) {
		    auto &list = IndexOf(reference) < left_count ? lefts : rights;
		    auto column = IndexOf(reference) < left_count ? IndexOf(reference) : IndexOf(reference) - left_count;
		    if (std::find(list.begin(), list.end(), column) == list.end()) {
			    list.push_back(column);
		    }
	    });
	op.residual_left = lefts;
	for (auto column : rights) {
		op.residual_right.push_back(columns.Keep(column));
	}
	ExpressionIterator::VisitExpressionMutable<BoundReferenceExpression>(
	    op.residual, [&](BoundReferenceExpression &reference, unique_ptr<Expression> &) {
		    bool is_left = IndexOf(reference) < left_count;
		    auto &list = is_left ? lefts : rights;
		    auto column = is_left ? IndexOf(reference) : IndexOf(reference) - left_count;
		    auto position = std::find(list.begin(), list.end(), column) - list.begin();
		    IndexOf(reference) = NumericCast<idx_t>(position) + (is_left ? 0 : lefts.size());
	    });
}

void PlanAggregate(PhysicalSpatialJoin &op, LayoutColumns &columns, SpatialAggregate &aggregate) {
	for (auto &group : aggregate.groups) {
		op.group_types.push_back(ReturnTypeOf(*group));
		if (aggregate.groups_from_left) {
			op.probe_groups.push_back(std::move(group));
		} else {
			op.build_groups.push_back(columns.KeepKey(std::move(group)));
		}
	}
	for (auto &expr : aggregate.aggregates) {
		for (auto &argument : ChildrenOf(expr->Cast<BoundAggregateExpression>())) {
			bool from_probe = aggregate.argument_from_left[op.arguments.size()];
			op.argument_types.push_back(ReturnTypeOf(*argument));
			op.arguments.push_back(PhysicalSpatialJoin::Argument {from_probe, from_probe ? op.probe_arguments.size()
			                                                                             : op.build_arguments.size()});
			if (from_probe) {
				op.probe_arguments.push_back(argument->Copy());
			} else {
				op.build_arguments.push_back(columns.KeepKey(argument->Copy()));
				op.build_argument_expressions.push_back(argument->Copy());
			}
		}
	}
	op.aggregates = std::move(aggregate.aggregates);
}

//! Which columns of the left child are read after the pairs of its rows are known
void PlanBufferedColumns(PhysicalSpatialJoin &op, const PhysicalOperator &left) {
	auto &buffered = op.buffered_columns;
	buffered.resize(left.types.size());
	if (!op.has_aggregate && !op.left_is_unread) {
		for (auto column : op.left_columns) {
			buffered[column] = true;
		}
	}
	for (auto column : op.residual_left) {
		buffered[column] = true;
	}
	for (auto expressions : {&op.probe_arguments, &op.probe_groups}) {
		for (auto &expr : *expressions) {
			ExpressionIterator::VisitExpression<BoundReferenceExpression>(
			    *expr, [&](const BoundReferenceExpression &reference) { buffered[IndexOf(reference)] = true; });
		}
	}
}

//! The first function of ours in a predicate, as the query spells it
string FunctionOf(const string &predicate) {
	const auto begin = MinValue(StringUtil::Lower(predicate).find("st_"), StringUtil::Lower(predicate).find("vibe_"));
	if (begin == string::npos) {
		return "spatial join";
	}
	auto end = begin;
	while (end < predicate.size() && (StringUtil::CharacterIsAlphaNumeric(predicate[end]) || predicate[end] == '_')) {
		end++;
	}
	return predicate.substr(begin, end - begin);
}

} // namespace

PhysicalSpatialJoin::PhysicalSpatialJoin(PhysicalPlan &plan, ClientContext &context, LogicalSpatialJoin &join,
                                         PhysicalOperator &left, PhysicalOperator &right)
    : ReportingOperator(plan, join, PhysicalOperatorType::EXTENSION, join.join_type, join.estimated_cardinality),
      condition(join.spatial.condition), predicate_text(join.spatial.text), function(FunctionOf(predicate_text)),
      layout(make_shared_ptr<TupleDataLayout>()), limit_column(DConstants::INVALID_INDEX),
      number_column(DConstants::INVALID_INDEX), left_columns(join.left_columns), left_is_unread(join.left_is_unread),
      points_operation(join.points_operation), shapes_operation(join.shapes_operation), probe_kinds(join.probe_kinds),
      build_kinds(join.build_kinds), has_aggregate(join.aggregate != nullptr), probe_scans(std::move(join.probe_scans)),
      pinned_scan(std::move(join.pinned_scan)), pinned_build(std::move(join.pinned_build)),
      deterministic(GetDeterministic(context)),
      planned_engine(PairsDispatch::DescribePlan(context, points_operation, left.estimated_cardinality,
                                                 right.estimated_cardinality)) {
	children.push_back(left);
	children.push_back(right);

	LayoutColumns columns(*this, right);
	for (auto column : join.right_columns) {
		right_columns.push_back(columns.Keep(column));
	}
	if (join.spatial.residual) {
		residual = std::move(join.spatial.residual);
		residual_text = residual->ToString();
		PlanResidual(*this, columns, left.types.size());
	}
	probe_keys.push_back(std::move(join.spatial.left));
	// A geometry that is a column of the right child is stored once, even if it is also an output column
	auto &geometry = *join.spatial.right;
	geometry_column = geometry.GetExpressionClass() == ExpressionClass::BOUND_REF
	                      ? columns.Keep(IndexOf(geometry.Cast<BoundReferenceExpression>()))
	                      : columns.KeepKey(std::move(join.spatial.right));
	if (join.spatial.left_limit) {
		probe_keys.push_back(std::move(join.spatial.left_limit));
	}
	if (join.spatial.right_limit) {
		limit_column = columns.KeepKey(std::move(join.spatial.right_limit));
	}
	if (has_aggregate) {
		PlanAggregate(*this, columns, *join.aggregate);
	}
	if (MarksBuild()) {
		number_column = columns.KeepNumber();
	}
	layout->Initialize(columns.Types(), TupleDataValidityType::CAN_HAVE_NULL_VALUES);
	PlanBufferedColumns(*this, left);
	planned_pin = PairsDispatch::DescribePin(context, *this);
	has_batches =
	    (!planned_pin.empty() || PairsDispatch::IsPlanned(context, points_operation, left.estimated_cardinality)) &&
	    right.AllSourcesSupportBatchIndex();
}

//===----------------------------------------------------------------------===//
// What the plan says about rows and sides
//===----------------------------------------------------------------------===//
vibespatial::JoinRow PhysicalSpatialJoin::GeometryOf(data_ptr_t row) const {
	return RowGeometry(*layout, geometry_column, row);
}

double PhysicalSpatialJoin::LimitOf(data_ptr_t row) const {
	if (!TupleDataLayout::ValidityBytes(row, layout->ColumnCount()).RowIsValidUnsafe(limit_column)) {
		return vibespatial::JoinCondition::NO_LIMIT;
	}
	return Load<double>(row + layout->GetOffsets()[limit_column]);
}

bool PhysicalSpatialJoin::MarksBuild() const {
	switch (join_type) {
	case JoinType::RIGHT:
	case JoinType::OUTER:
	case JoinType::RIGHT_SEMI:
	case JoinType::RIGHT_ANTI:
		return true;
	default:
		return false;
	}
}

bool PhysicalSpatialJoin::KeepsProbe() const {
	switch (join_type) {
	case JoinType::LEFT:
	case JoinType::OUTER:
	case JoinType::ANTI:
	case JoinType::MARK:
		return true;
	default:
		return false;
	}
}

bool PhysicalSpatialJoin::OnlyCounts() const {
	bool counts = has_aggregate && !residual && join_type == JoinType::INNER && probe_groups.empty();
	for (auto &argument : arguments) {
		counts &= !argument.from_probe;
	}
	return counts;
}

} // namespace duckdb
