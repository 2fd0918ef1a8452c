// EXISTS and IN as DuckDB 2.0 plans them: the outer rows are a common table expression that is read twice. Its rows are one side of a SEMI,
// ANTI or MARK join. The distinct values of some of its columns, possibly filtered, and compressed and decompressed on the way, are
// joined to the inner table.
#include "duckdb/spatial_join/rewrites/plan_tools.hpp"
#include "duckdb/spatial_join/rewrites/rewrites.hpp"

namespace duckdb {

namespace join_rewrites {

namespace {

//! The distinct values of columns of a common table expression
class DistinctRows {
public:
	//! Whether `op` gives such values; projections and filters may stand above and below the aggregate
	bool Find(LogicalOperator &op) {
		reference<LogicalOperator> at = op;
		bool is_distinct = false;
		while (true) {
			auto &here = at.get();
			switch (here.type) {
			case LogicalOperatorType::LOGICAL_CTE_REF:
				rows = here.Cast<LogicalCTERef>();
				return is_distinct;
			case LogicalOperatorType::LOGICAL_AGGREGATE_AND_GROUP_BY: {
				auto &aggregate = here.Cast<LogicalAggregate>();
				if (is_distinct || !aggregate.expressions.empty() || aggregate.grouping_sets.size() > 1) {
					return false;
				}
				is_distinct = true;
				levels.push_back(Level {aggregate.group_index, aggregate.groups});
				break;
			}
			case LogicalOperatorType::LOGICAL_PROJECTION: {
				auto &projection = here.Cast<LogicalProjection>();
				levels.push_back(Level {projection.table_index, projection.expressions});
				break;
			}
			case LogicalOperatorType::LOGICAL_FILTER:
				if (!here.Cast<LogicalFilter>().projection_map.empty()) {
					return false;
				}
				filters.push_back(FoundFilter {here, levels.size()});
				break;
			default:
				return false;
			}
			at = *here.children[0];
		}
	}

	//! The column of the common table expression that a column above `first_level` has its values from; false if there is none
	bool ColumnOf(ColumnBinding binding, idx_t &column, idx_t first_level = 0) const {
		for (auto level = first_level; level < levels.size(); level++) {
			if (binding.table_index != levels[level].table_index) {
				return false;
			}
			reference<Expression> expr = *levels[level].expressions.get()[binding.column_index];
			while (IsCast(expr.get()) || IsCompression(expr.get())) {
				expr = IsCast(expr.get()) ? *CastChild(expr.get())
				                          : *ChildrenOf(expr.get().Cast<BoundFunctionExpression>())[0];
			}
			if (expr.get().GetExpressionType() != ExpressionType::BOUND_COLUMN_REF) {
				return false;
			}
			binding = BindingOf(expr.get().Cast<BoundColumnRefExpression>());
		}
		column = binding.column_index;
		return binding.table_index == rows->table_index;
	}

	//! The output of an operator between the join and the common table expression, from the top down
	struct Level {
		TableIndex table_index;
		reference<vector<unique_ptr<Expression>>> expressions;
	};
	struct FoundFilter {
		reference<LogicalOperator> filter;
		//! The level whose columns it reads
		idx_t level;
	};
	optional_ptr<LogicalCTERef> rows;
	vector<Level> levels;
	vector<FoundFilter> filters;

private:
	//! DuckDB compresses the columns of materialized rows, and decompresses them above
	static bool IsCompression(const Expression &expr) {
		if (expr.GetExpressionClass() != ExpressionClass::BOUND_FUNCTION) {
			return false;
		}
		auto &name = FunctionName(expr.Cast<BoundFunctionExpression>());
		return StringUtil::StartsWith(name, "__internal_compress_") ||
		       StringUtil::StartsWith(name, "__internal_decompress_");
	}
};

bool SameColumn(const Expression &left, const Expression &right) {
	return left.GetExpressionType() == ExpressionType::BOUND_COLUMN_REF &&
	       right.GetExpressionType() == ExpressionType::BOUND_COLUMN_REF &&
	       BindingOf(left.Cast<BoundColumnRefExpression>()) == BindingOf(right.Cast<BoundColumnRefExpression>());
}

vector<LogicalType> ColumnTypes(const Expression &expr) {
	vector<LogicalType> result;
	ExpressionIterator::VisitExpression<BoundColumnRefExpression>(
	    expr, [&](const BoundColumnRefExpression &column) { result.push_back(ReturnTypeOf(column)); });
	return result;
}

void FindReferences(unique_ptr<LogicalOperator> &op, TableIndex cte_index,
                    vector<reference<unique_ptr<LogicalOperator>>> &references) {
	if (op->type == LogicalOperatorType::LOGICAL_CTE_REF && op->Cast<LogicalCTERef>().cte_index == cte_index) {
		references.push_back(op);
	}
	for (auto &child : op->children) {
		FindReferences(child, cte_index, references);
	}
}

} // namespace

bool RewriteSharedRowsJoin(ClientContext &context, unique_ptr<LogicalOperator> &op) {
	auto &join = op->Cast<LogicalComparisonJoin>();
	if ((join.join_type != JoinType::SEMI && join.join_type != JoinType::ANTI && join.join_type != JoinType::MARK) ||
	    HasPredicate(join) || join.children[0]->type != LogicalOperatorType::LOGICAL_CTE_REF) {
		return false;
	}
	auto &outer = join.children[0]->Cast<LogicalCTERef>();
	vector<reference<LogicalProjection>> projections;
	auto inner_join = FindInnerJoin(join.children[1], projections);
	if (!inner_join) {
		return false;
	}
	auto &inner = *inner_join;
	idx_t side = 0;
	DistinctRows distinct;
	for (; side < 2; side++) {
		distinct = DistinctRows();
		if (distinct.Find(*inner.children[side]) && distinct.rows->cte_index == outer.cte_index) {
			break;
		}
	}
	if (side == 2) {
		return false;
	}
	// A column of the distinct values, as an expression above `level` sees it, becomes the column of the outer row
	auto outer_column = [&](const ColumnBinding &binding, idx_t level) -> unique_ptr<Expression> {
		idx_t column;
		if (!distinct.ColumnOf(binding, column, level)) {
			return nullptr;
		}
		return make_uniq<BoundColumnRefExpression>(outer.chunk_types[column],
		                                           ColumnBinding(outer.table_index, ProjectionIndex(column)));
	};
	auto outer_column_of_join = [&](const ColumnBinding &binding) { return outer_column(binding, 0); };
	// Every condition must match a value with the outer column that it comes from, and nothing else
	unordered_set<idx_t> matched;
	for (auto &condition : join.conditions) {
		if (!IsComparison(condition, ExpressionType::COMPARE_NOT_DISTINCT_FROM)) {
			return false;
		}
		auto expr = RightOf(condition).Copy();
		ReplaceThrough(expr, projections);
		if (expr->GetExpressionType() != ExpressionType::BOUND_COLUMN_REF ||
		    !ReplaceColumns(expr, outer_column_of_join) || ReturnTypeOf(*expr) != ReturnTypeOf(RightOf(condition)) ||
		    !SameColumn(*expr, LeftOf(condition))) {
			return false;
		}
		matched.insert(BindingOf(expr->Cast<BoundColumnRefExpression>()).column_index);
	}
	// Only a column that a condition matches is known to come from the outer row itself
	auto is_matched = [&](const Expression &expr, idx_t level) {
		bool all = true;
		ExpressionIterator::VisitExpression<BoundColumnRefExpression>(
		    expr, [&](const BoundColumnRefExpression &column) {
			    idx_t of_rows;
			    auto &binding = BindingOf(column);
			    if (distinct.ColumnOf(binding, of_rows, level)) {
				    all = all && matched.count(of_rows) > 0;
			    } else if (level < distinct.levels.size() &&
			               binding.table_index == distinct.levels[level].table_index) {
				    all = false;
			    }
		    });
		return all;
	};
	for (auto expr : {&inner.spatial.left, &inner.spatial.right, &inner.spatial.left_limit, &inner.spatial.right_limit,
	                  &inner.spatial.residual}) {
		if (*expr && !is_matched(**expr, 0)) {
			return false;
		}
	}
	// The filters of the distinct values become conditions on the outer row
	vector<unique_ptr<Expression>> residual;
	for (auto &found : distinct.filters) {
		for (auto &expr : found.filter.get().expressions) {
			if (!is_matched(*expr, found.level)) {
				return false;
			}
			auto copy = expr->Copy();
			auto types_before = ColumnTypes(*copy);
			auto replaced =
			    ReplaceColumns(copy, [&](const ColumnBinding &binding) { return outer_column(binding, found.level); });
			if (!replaced || ColumnTypes(*copy) != types_before) {
				return false;
			}
			residual.push_back(std::move(copy));
		}
	}
	if (side == 1) {
		inner.spatial.Flip();
	}
	auto spatial = std::move(inner.spatial);
	for (auto expr : {&spatial.left, &spatial.left_limit, &spatial.residual}) {
		if (*expr) {
			// Columns of the inner table stay
			ReplaceColumns(*expr, outer_column_of_join);
		}
	}
	for (auto &expr : residual) {
		spatial.residual = AndOf(std::move(spatial.residual), std::move(expr));
	}
	auto left_columns = MapColumns(join.left_projection_map, join.children[0]->GetColumnBindings().size());
	auto result = make_uniq<LogicalSpatialJoin>(join.join_type, std::move(spatial), std::move(join.children[0]),
	                                            std::move(inner.children[1 - side]));
	result->mark_index = join.mark_index;
	result->left_columns = std::move(left_columns);
	CopyCardinality(join, *result);
	ChooseBuildSide(context, *result);
	op = std::move(result);
	return true;
}

bool InlineSharedRows(unique_ptr<LogicalOperator> &op) {
	auto &cte = op->Cast<LogicalMaterializedCTE>();
	// Not those that a user wrote AS MATERIALIZED
	if (!StringUtil::StartsWith(NameOf(cte.ctename), "__duckdb_delim_")) {
		return false;
	}
	vector<reference<unique_ptr<LogicalOperator>>> references;
	FindReferences(cte.children[1], cte.table_index, references);
	if (references.size() != 1) {
		return false;
	}
	auto &slot = references[0].get();
	auto bindings = cte.children[0]->GetColumnBindings();
	cte.children[0]->ResolveOperatorTypes();
	auto &reference = slot->Cast<LogicalCTERef>();
	vector<unique_ptr<Expression>> columns;
	for (idx_t i = 0; i < reference.chunk_types.size(); i++) {
		columns.push_back(make_uniq<BoundColumnRefExpression>(cte.children[0]->types[i], bindings[i]));
	}
	auto projection = make_uniq<LogicalProjection>(reference.table_index, std::move(columns));
	CopyCardinality(*slot, *projection);
	projection->children.push_back(std::move(cte.children[0]));
	slot = std::move(projection);
	auto query = std::move(cte.children[1]);
	op = std::move(query);
	return true;
}

} // namespace join_rewrites

} // namespace duckdb
