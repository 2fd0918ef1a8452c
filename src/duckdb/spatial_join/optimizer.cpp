#include "duckdb/operators/operators.hpp"

#include "duckdb/scalar_batch/logical.hpp"
#include "duckdb/spatial_join/index_dispatch.hpp"
#include "duckdb/expressions/rewrites.hpp"
#include "duckdb/spatial_join/logical.hpp"
#include "duckdb/support/settings.hpp"
#include "duckdb/optimizer/optimizer.hpp"
#include "duckdb/optimizer/optimizer_extension.hpp"
#include "duckdb/planner/expression/list.hpp"
#include "duckdb/planner/expression_iterator.hpp"
#include "duckdb/planner/filter/conjunction_filter.hpp"
#include "duckdb/planner/filter/expression_filter.hpp"
#include "duckdb/planner/joinside.hpp"
#include "duckdb/planner/logical_operator_visitor.hpp"
#include "duckdb/planner/operator/list.hpp"
#include "engine/gpu/runtime/runtime.hpp"

namespace duckdb {

namespace {

//! Equalities that leave at most this many pairs per row are better than a spatial index
constexpr double PAIRS_PER_ROW_OF_EQUALITY = 4;
//! Groups of probed columns that each thread keeps
constexpr idx_t MAX_PROBED_GROUPS = 100000;

//===----------------------------------------------------------------------===//
// Small things about plans
//===----------------------------------------------------------------------===//
bool IsSpatialJoin(const LogicalOperator &op) {
	return op.type == LogicalOperatorType::LOGICAL_EXTENSION_OPERATOR && op.GetName() == "VIBE_SPATIAL_JOIN";
}

LogicalSpatialJoin &AsSpatialJoin(LogicalOperator &op) {
	return static_cast<LogicalSpatialJoin &>(op);
}

idx_t Cardinality(ClientContext &context, LogicalOperator &op) {
	return op.has_estimated_cardinality ? op.estimated_cardinality : op.EstimateCardinality(context);
}

void CopyCardinality(const LogicalOperator &from, LogicalOperator &to) {
	to.estimated_cardinality = from.estimated_cardinality;
	to.has_estimated_cardinality = from.has_estimated_cardinality;
}

//! The columns of a projection map, all named
vector<idx_t> MapColumns(const vector<ProjectionIndex> &map, idx_t count) {
	vector<idx_t> result(map.begin(), map.end());
	for (idx_t i = 0; map.empty() && i < count; i++) {
		result.push_back(i);
	}
	return result;
}

bool HasSpatialJoin(const LogicalOperator &op) {
	bool found = IsSpatialJoin(op);
	for (auto &child : op.children) {
		found = found || HasSpatialJoin(*child);
	}
	return found;
}

bool HasOperator(LogicalOperator &op, LogicalOperatorType type) {
	if (op.type == type) {
		return true;
	}
	for (auto &child : op.children) {
		if (HasOperator(*child, type)) {
			return true;
		}
	}
	return false;
}

//! Replaces every column reference by what `find` gives for it; false when it gives nothing for one
template <class F>
bool ReplaceColumns(unique_ptr<Expression> &expr, const F &find) {
	bool all = true;
	ExpressionIterator::VisitExpressionMutable<BoundColumnRefExpression>(
	    expr, [&](BoundColumnRefExpression &column, unique_ptr<Expression> &slot) {
		    auto found = find(BindingOf(column));
		    if (found) {
			    slot = std::move(found);
		    } else {
			    all = false;
		    }
	    });
	return all;
}

class SpatialJoinRewriter {
public:
	SpatialJoinRewriter(ClientContext &context, Binder &binder) : context(context), binder(binder) {
	}

	//! `ordered`: what is above keeps the rows in the order that `op` gives them
	void Rewrite(unique_ptr<LogicalOperator> &op, bool ordered) {
		for (idx_t i = 0; i < op->children.size(); i++) {
			Rewrite(op->children[i], ordered && PassesOrder(op->type, i));
		}
		switch (op->type) {
		case LogicalOperatorType::LOGICAL_ANY_JOIN:
			AnyJoin(op);
			break;
		case LogicalOperatorType::LOGICAL_COMPARISON_JOIN:
			MixedJoin(op);
			if (op->type == LogicalOperatorType::LOGICAL_COMPARISON_JOIN) {
				SharedRowsJoin(op);
			}
			break;
		case LogicalOperatorType::LOGICAL_MATERIALIZED_CTE:
			InlineRows(op);
			break;
		case LogicalOperatorType::LOGICAL_FILTER:
			Filter(op);
			if (op->type == LogicalOperatorType::LOGICAL_FILTER) {
				ConstantFilter(op, ordered);
			}
			break;
		case LogicalOperatorType::LOGICAL_GET:
			ScanFilters(op, ordered);
			break;
		case LogicalOperatorType::LOGICAL_DELIM_JOIN:
			DelimJoin(op);
			break;
		case LogicalOperatorType::LOGICAL_AGGREGATE_AND_GROUP_BY:
			if (!Aggregate(op)) {
				Prune(*op);
			}
			break;
		case LogicalOperatorType::LOGICAL_PROJECTION:
			Prune(*op);
			break;
		default:
			break;
		}
	}

private:
	//===------------------------------------------------------------------===//
	// Joins
	//===------------------------------------------------------------------===//
	static bool IsSupported(JoinType type) {
		switch (type) {
		case JoinType::INNER:
		case JoinType::LEFT:
		case JoinType::RIGHT:
		case JoinType::OUTER:
		case JoinType::SEMI:
		case JoinType::ANTI:
			return true;
		default:
			return false;
		}
	}

	//! The operator in place of a join; `conjuncts` is its whole condition
	unique_ptr<LogicalSpatialJoin> MakeJoin(LogicalOperator &join, JoinType type,
	                                        vector<unique_ptr<Expression>> &conjuncts) {
		JoinTables tables(join);
		SpatialCondition spatial;
		if (!SpatialCondition::Take(context, tables, conjuncts, spatial)) {
			return nullptr;
		}
		auto result = make_uniq<LogicalSpatialJoin>(type, std::move(spatial), std::move(join.children[0]),
		                                            std::move(join.children[1]));
		CopyCardinality(join, *result);
		return result;
	}

	//! What can be done once a join stands as it will be executed
	void Finish(LogicalSpatialJoin &join) {
		// The built-in rules do not swap SEMI and ANTI: no operator of theirs could run them
		if ((join.join_type == JoinType::SEMI || join.join_type == JoinType::ANTI) &&
		    Cardinality(context, *join.children[0]) < Cardinality(context, *join.children[1])) {
			join.join_type = join.join_type == JoinType::SEMI ? JoinType::RIGHT_SEMI : JoinType::RIGHT_ANTI;
			std::swap(join.children[0], join.children[1]);
			std::swap(join.left_columns, join.right_columns);
			join.spatial.Flip();
		}
	}

	void AnyJoin(unique_ptr<LogicalOperator> &op) {
		auto &join = op->Cast<LogicalAnyJoin>();
		vector<unique_ptr<Expression>> conjuncts;
		conjuncts.push_back(join.condition->Copy());
		TakeJoin(op, join, conjuncts);
	}

	//! A join that compares and has other conditions, too
	void MixedJoin(unique_ptr<LogicalOperator> &op) {
		auto &join = op->Cast<LogicalComparisonJoin>();
		// How many pairs are equal is known of INNER joins alone
		if (!HasMixedConditions(join) || (join.join_type == JoinType::INNER && PrefersEquality(join))) {
			return;
		}
		auto conjuncts = CopyConditions(join);
		TakeJoin(op, join, conjuncts);
	}

	void TakeJoin(unique_ptr<LogicalOperator> &op, LogicalJoin &join, vector<unique_ptr<Expression>> &conjuncts) {
		if (!IsSupported(join.join_type)) {
			return;
		}
		auto left_columns = MapColumns(join.left_projection_map, join.children[0]->GetColumnBindings().size());
		auto right_columns = MapColumns(join.right_projection_map, join.children[1]->GetColumnBindings().size());
		auto result = MakeJoin(join, join.join_type, conjuncts);
		if (!result) {
			return;
		}
		result->left_columns = std::move(left_columns);
		if (result->EmitsRight()) {
			result->right_columns = std::move(right_columns);
		}
		Finish(*result);
		op = std::move(result);
	}

	void Filter(unique_ptr<LogicalOperator> &op) {
		auto &filter = op->Cast<LogicalFilter>();
		FilterMark(filter);
		if (IsSpatialJoin(*filter.children[0])) {
			if (filter.expressions.empty() && !AsSpatialJoin(*filter.children[0]).aggregate) {
				op = Project(std::move(filter.children[0]), filter.projection_map);
			}
			return;
		}
		// The join may be below projections: the columns of the filter are then expressions over its columns
		reference<unique_ptr<LogicalOperator>> slot = filter.children[0];
		vector<reference<LogicalProjection>> projections;
		FollowProjections(slot, projections);
		auto &child = *slot.get();
		vector<unique_ptr<Expression>> conjuncts;
		vector<idx_t> left_columns, right_columns;
		auto columns_of = [&](const vector<ProjectionIndex> &left_map, const vector<ProjectionIndex> &right_map) {
			left_columns = MapColumns(left_map, child.children[0]->GetColumnBindings().size());
			right_columns = MapColumns(right_map, child.children[1]->GetColumnBindings().size());
		};
		if (child.type == LogicalOperatorType::LOGICAL_COMPARISON_JOIN) {
			auto &join = child.Cast<LogicalComparisonJoin>();
			if (join.join_type != JoinType::INNER || HasPredicate(join) || PrefersEquality(join)) {
				return;
			}
			columns_of(join.left_projection_map, join.right_projection_map);
			conjuncts = CopyConditions(join);
		} else if (child.type == LogicalOperatorType::LOGICAL_CROSS_PRODUCT) {
			columns_of({}, {});
		} else {
			return;
		}
		for (auto &expr : filter.expressions) {
			auto copy = expr->Copy();
			ReplaceThrough(copy, projections);
			if (!projections.empty() && copy->IsVolatile()) {
				return;
			}
			conjuncts.push_back(std::move(copy));
		}
		auto projection_map = filter.projection_map;
		auto result = MakeJoin(child, JoinType::INNER, conjuncts);
		if (!result) {
			return;
		}
		CopyCardinality(filter, *result);
		result->left_columns = std::move(left_columns);
		result->right_columns = std::move(right_columns);
		if (projections.empty()) {
			op = Project(std::move(result), projection_map);
			return;
		}
		slot.get() = std::move(result);
		Prune(projections.back().get());
		filter.expressions.clear(); // it may still drop columns
		if (projection_map.empty()) {
			op = std::move(filter.children[0]);
		}
	}

	//! Rows whose mark is true are those of a SEMI join, the others those of an ANTI join
	void FilterMark(LogicalFilter &filter) {
		if (!IsSpatialJoin(*filter.children[0]) || filter.projection_map.empty()) {
			return;
		}
		auto &join = AsSpatialJoin(*filter.children[0]);
		if (join.join_type != JoinType::MARK ||
		    std::find(filter.projection_map.begin(), filter.projection_map.end(),
		              ProjectionIndex(join.left_columns.size())) != filter.projection_map.end()) {
			return;
		}
		auto is_mark = [&](const Expression &expr) {
			return expr.GetExpressionType() == ExpressionType::BOUND_COLUMN_REF &&
			       BindingOf(expr.Cast<BoundColumnRefExpression>()).table_index == join.mark_index;
		};
		auto found = JoinType::MARK;
		idx_t position = 0;
		for (idx_t i = 0; i < filter.expressions.size(); i++) {
			auto &expr = *filter.expressions[i];
			bool is_not = expr.GetExpressionType() == ExpressionType::OPERATOR_NOT;
			if (is_mark(is_not ? *ChildrenOf(expr.Cast<BoundOperatorExpression>())[0] : expr)) {
				found = is_not ? JoinType::ANTI : JoinType::SEMI;
				position = i;
				continue;
			}
			bool reads_mark = false;
			ExpressionIterator::VisitExpression<BoundColumnRefExpression>(
			    expr, [&](const BoundColumnRefExpression &column) { reads_mark |= is_mark(column); });
			if (reads_mark) {
				return;
			}
		}
		if (found != JoinType::MARK) {
			filter.expressions.erase_at(position);
			join.join_type = found;
			Finish(join);
		}
	}

	//! Down to what is no projection, passing the slots on the way
	static void FollowProjections(reference<unique_ptr<LogicalOperator>> &slot,
	                              vector<reference<LogicalProjection>> &projections) {
		while (slot.get()->type == LogicalOperatorType::LOGICAL_PROJECTION) {
			projections.push_back(slot.get()->Cast<LogicalProjection>());
			slot = slot.get()->children[0];
		}
	}

	//! The INNER spatial join that the rows of a subquery come from, through what only passes columns on
	static optional_ptr<LogicalSpatialJoin> FindInnerJoin(unique_ptr<LogicalOperator> &subquery,
	                                                      vector<reference<LogicalProjection>> &projections) {
		reference<unique_ptr<LogicalOperator>> slot = subquery;
		FollowProjections(slot, projections);
		if (!IsSpatialJoin(*slot.get())) {
			return nullptr;
		}
		auto &join = AsSpatialJoin(*slot.get());
		return join.join_type == JoinType::INNER && !join.aggregate ? &join : nullptr;
	}

	//! An expression above projections as one below them
	static void ReplaceThrough(unique_ptr<Expression> &expr, const vector<reference<LogicalProjection>> &projections) {
		for (auto &projection : projections) {
			ReplaceColumns(expr, [&](const ColumnBinding &binding) -> unique_ptr<Expression> {
				auto &expressions = projection.get().expressions;
				return binding.table_index == projection.get().table_index ? expressions[binding.column_index]->Copy()
				                                                           : nullptr;
			});
		}
	}

	//! Few pairs are equal: the hash join is the better way to find them
	bool PrefersEquality(LogicalComparisonJoin &join) {
		idx_t ranges = 0;
		if (!join.HasEquality(ranges)) {
			return false;
		}
		for (auto &child : join.children) {
			// The rest of such a join, with the distinct values of an outer query, goes with the spatial one
			if (child->type == LogicalOperatorType::LOGICAL_DELIM_GET) {
				return false;
			}
		}
		auto rows = MaxValue(Cardinality(context, *join.children[0]), Cardinality(context, *join.children[1]));
		return double(Cardinality(context, join)) <= PAIRS_PER_ROW_OF_EQUALITY * double(rows);
	}

	//! Takes the projection map of an operator above into the join
	static unique_ptr<LogicalOperator> Project(unique_ptr<LogicalOperator> op, const vector<ProjectionIndex> &map) {
		auto &join = AsSpatialJoin(*op);
		if (map.empty()) {
			return op;
		}
		idx_t left_count = join.left_columns.size();
		idx_t mark = join.join_type == JoinType::MARK;
		vector<idx_t> left_columns, right_columns;
		bool has_mark = !mark;
		for (idx_t i = 0; i < map.size(); i++) {
			if (map[i] < left_count) {
				left_columns.push_back(join.left_columns[map[i]]);
			} else if (mark && map[i] == left_count) {
				has_mark = true;
			} else {
				right_columns.push_back(join.right_columns[map[i] - left_count - mark]);
			}
		}
		if (!has_mark || !std::is_sorted(map.begin(), map.end())) {
			throw InternalException("vibespatial: a projection map that is not in order");
		}
		join.left_columns = std::move(left_columns);
		join.right_columns = std::move(right_columns);
		return op;
	}

	//===------------------------------------------------------------------===//
	// EXISTS
	//===------------------------------------------------------------------===//
	//! EXISTS (.. WHERE pred(outer, inner)) comes as a join with the distinct values of the outer columns that are
	//! joined to the inner table: nothing but a SEMI, ANTI or MARK join of the two
	void DelimJoin(unique_ptr<LogicalOperator> &op) {
		auto &delim = op->Cast<LogicalComparisonJoin>();
		if ((delim.join_type != JoinType::SEMI && delim.join_type != JoinType::ANTI &&
		     delim.join_type != JoinType::MARK) ||
		    delim.delim_flipped || HasPredicate(delim)) {
			return;
		}
		vector<reference<LogicalProjection>> projections;
		auto found = FindInnerJoin(delim.children[1], projections);
		if (!found) {
			return;
		}
		auto &inner = *found;
		auto get_side = inner.children[0]->type == LogicalOperatorType::LOGICAL_DELIM_GET   ? 0
		                : inner.children[1]->type == LogicalOperatorType::LOGICAL_DELIM_GET ? 1
		                                                                                    : 2;
		if (get_side == 2 || HasOperator(*inner.children[1 - get_side], LogicalOperatorType::LOGICAL_DELIM_GET)) {
			return;
		}
		auto get_index = inner.children[get_side]->Cast<LogicalDelimGet>().table_index;
		auto outer_column = [&](const ColumnBinding &binding) -> unique_ptr<Expression> {
			if (binding.table_index == get_index) {
				return delim.duplicate_eliminated_columns[binding.column_index]->Copy();
			}
			return nullptr;
		};
		// Each condition must say no more than that the outer row is one of those that the values came from
		for (auto &condition : delim.conditions) {
			if (!IsComparison(condition, ExpressionType::COMPARE_NOT_DISTINCT_FROM)) {
				return;
			}
			auto expr = RightOf(condition).Copy();
			ReplaceThrough(expr, projections);
			if (!ReplaceColumns(expr, outer_column) || !expr->Equals(LeftOf(condition))) {
				return;
			}
		}

		if (get_side == 1) {
			inner.spatial.Flip();
		}
		auto &spatial = inner.spatial;
		for (auto expr : {&spatial.left, &spatial.left_limit, &spatial.residual}) {
			if (*expr) {
				ReplaceColumns(*expr, outer_column);
			}
		}
		auto left_columns = MapColumns(delim.left_projection_map, delim.children[0]->GetColumnBindings().size());
		auto result = make_uniq<LogicalSpatialJoin>(delim.join_type, std::move(spatial), std::move(delim.children[0]),
		                                            std::move(inner.children[1 - get_side]));
		result->mark_index = delim.mark_index;
		result->left_columns = std::move(left_columns);
		CopyCardinality(delim, *result);
		Finish(*result);
		op = std::move(result);
	}

	//===------------------------------------------------------------------===//
	// EXISTS since DuckDB 2.0
	//===------------------------------------------------------------------===//
	//! There the outer rows are a common table expression. Its rows are one side of a SEMI, ANTI or MARK join, and the
	//! distinct values of its columns, maybe filtered and stored in narrower types for a while, are joined to the inner table.
	class DistinctRows {
	public:
		//! Whether `op` is that; it may have been projected on the way
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

		//! The column of the rows that a column here has its values from; false where it is none
		bool ColumnOf(ColumnBinding binding, idx_t &column, idx_t first_level = 0) const {
			for (auto level = first_level; level < levels.size(); level++) {
				if (binding.table_index != levels[level].table_index) {
					return false;
				}
				reference<Expression> expr = *levels[level].expressions.get()[binding.column_index];
				while (IsCast(expr.get()) || IsStored(expr.get())) {
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

		struct Level {
			TableIndex table_index;
			reference<vector<unique_ptr<Expression>>> expressions;
		};
		struct FoundFilter {
			reference<LogicalOperator> filter;
			//! Its columns are those of this level
			idx_t level;
		};
		optional_ptr<LogicalCTERef> rows;
		vector<Level> levels;
		vector<FoundFilter> filters;

	private:
		//! Made and undone by DuckDB where values are kept
		static bool IsStored(const Expression &expr) {
			if (expr.GetExpressionClass() != ExpressionClass::BOUND_FUNCTION) {
				return false;
			}
			auto &name = FunctionName(expr.Cast<BoundFunctionExpression>());
			return StringUtil::StartsWith(name, "__internal_compress_") ||
			       StringUtil::StartsWith(name, "__internal_decompress_");
		}
	};

	void SharedRowsJoin(unique_ptr<LogicalOperator> &op) {
		auto &join = op->Cast<LogicalComparisonJoin>();
		if ((join.join_type != JoinType::SEMI && join.join_type != JoinType::ANTI &&
		     join.join_type != JoinType::MARK) ||
		    HasPredicate(join) || join.children[0]->type != LogicalOperatorType::LOGICAL_CTE_REF) {
			return;
		}
		auto &outer = join.children[0]->Cast<LogicalCTERef>();
		vector<reference<LogicalProjection>> projections;
		auto inner_join = FindInnerJoin(join.children[1], projections);
		if (!inner_join) {
			return;
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
			return;
		}
		// Columns of the distinct values as those of the outer rows, for what is `level` levels below the join
		auto outer_column = [&](const ColumnBinding &binding, idx_t level) -> unique_ptr<Expression> {
			idx_t column;
			if (!distinct.ColumnOf(binding, column, level)) {
				return nullptr;
			}
			return make_uniq<BoundColumnRefExpression>(outer.chunk_types[column],
			                                           ColumnBinding(outer.table_index, ProjectionIndex(column)));
		};
		auto of_join = [&](const ColumnBinding &binding) { return outer_column(binding, 0); };
		// Each condition must say no more than that the outer row is one of those that the values came from
		unordered_set<idx_t> matched;
		for (auto &condition : join.conditions) {
			if (!IsComparison(condition, ExpressionType::COMPARE_NOT_DISTINCT_FROM)) {
				return;
			}
			auto expr = RightOf(condition).Copy();
			ReplaceThrough(expr, projections);
			if (expr->GetExpressionType() != ExpressionType::BOUND_COLUMN_REF || !ReplaceColumns(expr, of_join) ||
			    ReturnTypeOf(*expr) != ReturnTypeOf(RightOf(condition)) || !SameColumn(*expr, LeftOf(condition))) {
				return;
			}
			matched.insert(BindingOf(expr->Cast<BoundColumnRefExpression>()).column_index);
		}
		// A column that no condition holds against the outer row may come from another row
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
		for (auto expr : {&inner.spatial.left, &inner.spatial.right, &inner.spatial.left_limit,
		                  &inner.spatial.right_limit, &inner.spatial.residual}) {
			if (*expr && !is_matched(**expr, 0)) {
				return;
			}
		}
		// What the values were filtered by, the outer rows are
		vector<unique_ptr<Expression>> residual;
		for (auto &found : distinct.filters) {
			for (auto &expr : found.filter.get().expressions) {
				if (!is_matched(*expr, found.level)) {
					return;
				}
				auto copy = expr->Copy();
				auto of_filter = [&](const ColumnBinding &binding) { return outer_column(binding, found.level); };
				auto types_before = ColumnTypes(*copy);
				if (!ReplaceColumns(copy, of_filter) || ColumnTypes(*copy) != types_before) {
					return;
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
				ReplaceColumns(*expr, of_join);
			}
		}
		for (auto &expr : residual) {
			spatial.residual = spatial.residual
			                       ? make_uniq_base<Expression, BoundConjunctionExpression>(
			                             ExpressionType::CONJUNCTION_AND, std::move(spatial.residual), std::move(expr))
			                       : std::move(expr);
		}
		auto left_columns = MapColumns(join.left_projection_map, join.children[0]->GetColumnBindings().size());
		auto result = make_uniq<LogicalSpatialJoin>(join.join_type, std::move(spatial), std::move(join.children[0]),
		                                            std::move(inner.children[1 - side]));
		result->mark_index = join.mark_index;
		result->left_columns = std::move(left_columns);
		CopyCardinality(join, *result);
		Finish(*result);
		op = std::move(result);
	}

	static bool SameColumn(const Expression &left, const Expression &right) {
		return left.GetExpressionType() == ExpressionType::BOUND_COLUMN_REF &&
		       right.GetExpressionType() == ExpressionType::BOUND_COLUMN_REF &&
		       BindingOf(left.Cast<BoundColumnRefExpression>()) == BindingOf(right.Cast<BoundColumnRefExpression>());
	}

	static vector<LogicalType> ColumnTypes(const Expression &expr) {
		vector<LogicalType> result;
		ExpressionIterator::VisitExpression<BoundColumnRefExpression>(
		    expr, [&](const BoundColumnRefExpression &column) { result.push_back(ReturnTypeOf(column)); });
		return result;
	}

	//! Puts the rows of a common table expression that DuckDB made for a subquery, and that are now read once, in the place where
	//! they are read: nothing has to be kept
	void InlineRows(unique_ptr<LogicalOperator> &op) {
		auto &cte = op->Cast<LogicalMaterializedCTE>();
		if (!StringUtil::StartsWith(NameOf(cte.ctename), "__duckdb_delim_")) {
			return;
		}
		vector<reference<unique_ptr<LogicalOperator>>> references;
		FindReferences(cte.children[1], cte.table_index, references);
		if (references.size() != 1) {
			return;
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
	}

	static void FindReferences(unique_ptr<LogicalOperator> &op, TableIndex cte_index,
	                           vector<reference<unique_ptr<LogicalOperator>>> &references) {
		if (op->type == LogicalOperatorType::LOGICAL_CTE_REF && op->Cast<LogicalCTERef>().cte_index == cte_index) {
			references.push_back(op);
		}
		for (auto &child : op->children) {
			FindReferences(child, cte_index, references);
		}
	}

	//===------------------------------------------------------------------===//
	// Aggregates
	//===------------------------------------------------------------------===//
	static bool IsSupported(const Expression &expr) {
		auto &aggregate = expr.Cast<BoundAggregateExpression>();
		static const unordered_set<string> NAMES {"count", "count_star", "sum", "sum_no_overflow", "min", "max", "avg"};
		return NAMES.count(FunctionName(aggregate)) && !aggregate.IsDistinct() && !HasFilter(aggregate) &&
		       !HasOrder(aggregate) && ChildrenOf(aggregate).size() <= 1;
	}

	//! Counts and sums, by columns of one side: the pairs need not be made
	bool Aggregate(unique_ptr<LogicalOperator> &op) {
		auto &aggregate = op->Cast<LogicalAggregate>();
		if (aggregate.grouping_sets.size() > 1 || !aggregate.grouping_functions.empty()) {
			return false;
		}
		for (auto &expr : aggregate.expressions) {
			if (!IsSupported(*expr)) {
				return false;
			}
		}
		reference<unique_ptr<LogicalOperator>> slot = aggregate.children[0];
		vector<reference<LogicalProjection>> projections;
		FollowProjections(slot, projections);
		if (!IsSpatialJoin(*slot.get())) {
			return false;
		}
		auto &join = AsSpatialJoin(*slot.get());
		if (join.aggregate || !(join.join_type == JoinType::INNER || join.join_type == JoinType::RIGHT ||
		                        join.join_type == JoinType::LEFT)) {
			return false;
		}

		JoinTables tables(join);
		auto spec = make_uniq<SpatialAggregate>();
		spec->group_index = aggregate.group_index;
		spec->aggregate_index = aggregate.aggregate_index;
		auto side = JoinSide(JoinSide::NONE);
		for (auto &group : aggregate.groups) {
			auto expr = group->Copy();
			ReplaceThrough(expr, projections);
			side = JoinSide::CombineJoinSide(side, JoinSide::GetJoinSide(*expr, tables.left, tables.right));
			if (expr->IsVolatile() || side == JoinSide::BOTH) {
				return false;
			}
			spec->groups.push_back(std::move(expr));
		}
		spec->groups_from_left = side == JoinSide::LEFT;
		// Rows that match nothing have a group, but for their own side's columns
		if ((side == JoinSide::LEFT && join.join_type == JoinType::RIGHT) ||
		    (side == JoinSide::RIGHT && join.join_type == JoinType::LEFT)) {
			return false;
		}
		if (side == JoinSide::NONE && !aggregate.groups.empty()) {
			return false;
		}
		// DuckDB's own tables of groups spill
		if (side == JoinSide::LEFT && Cardinality(context, aggregate) > MAX_PROBED_GROUPS) {
			return false;
		}
		for (auto &expr : aggregate.expressions) {
			auto copy = expr->Copy();
			for (auto &argument : ChildrenOf(copy->Cast<BoundAggregateExpression>())) {
				ReplaceThrough(argument, projections);
				auto argument_side = JoinSide::GetJoinSide(*argument, tables.left, tables.right);
				if (argument->IsVolatile() || argument_side == JoinSide::BOTH) {
					return false;
				}
				spec->argument_from_left.push_back(argument_side != JoinSide::RIGHT);
			}
			spec->aggregates.push_back(std::move(copy));
		}
		join.aggregate = std::move(spec);
		join.left_columns.clear();
		join.right_columns.clear();
		CopyCardinality(aggregate, join);
		auto result = std::move(slot.get());
		op = std::move(result);
		return true;
	}

	//===------------------------------------------------------------------===//
	// Filters by a constant
	//===------------------------------------------------------------------===//
	//! predicate(column, constant), which many rows may bring to the GPU
	bool IsConstantTerm(const JoinTables &tables, const Expression &conjunct, SpatialCondition &spatial) {
		vector<unique_ptr<Expression>> alone;
		alone.push_back(conjunct.Copy());
		if (conjunct.IsVolatile() || !SpatialCondition::Take(context, tables, alone, spatial) || spatial.residual) {
			return false;
		}
		for (auto &term : spatial.condition.any_of) {
			if (term.kind == vibespatial::JoinTerm::BOXES) {
				return false; // the scan knows boxes itself, and they are no work
			}
		}
		return true;
	}

	//! Whether the order of a child's rows can be seen above
	static bool PassesOrder(LogicalOperatorType type, idx_t child) {
		switch (type) {
		case LogicalOperatorType::LOGICAL_AGGREGATE_AND_GROUP_BY:
		case LogicalOperatorType::LOGICAL_DISTINCT:
		case LogicalOperatorType::LOGICAL_ORDER_BY:
		case LogicalOperatorType::LOGICAL_TOP_N:
		case LogicalOperatorType::LOGICAL_EXCEPT:
		case LogicalOperatorType::LOGICAL_INTERSECT:
			return false;
		case LogicalOperatorType::LOGICAL_COMPARISON_JOIN:
		case LogicalOperatorType::LOGICAL_DELIM_JOIN:
		case LogicalOperatorType::LOGICAL_ANY_JOIN:
			return child == 0;
		default:
			return true;
		}
	}

	//! One choice for all terms of a filter. Mode gpu takes rows out of their order, mode auto does not.
	bool GoesToDevice(idx_t rows, bool ordered) {
		OperatorDispatch dispatch(context, "FILTER");
		auto decision =
		    vibespatial::Decide(dispatch.Mode(), vibespatial::Operation::SCALAR_FILTER, rows, GetGpuMinRows(context));
		if (decision.selected == vibespatial::ExecutionMode::GPU && ordered &&
		    dispatch.Mode() == vibespatial::ExecutionMode::AUTO) {
			decision.reason = "rows stay in their order; with preserve_insertion_order = false the GPU could have them";
		} else if (decision.selected == vibespatial::ExecutionMode::GPU) {
			return true; // the join tells
		}
		dispatch.LogCpu("scalar_filter", decision, rows);
		return false;
	}

	//! The rows of `op` for which a term is true: a SEMI join with the constant as its one build row
	unique_ptr<LogicalOperator> JoinWithConstant(unique_ptr<LogicalOperator> op, SpatialCondition spatial) {
		auto constant = make_uniq<LogicalDummyScan>(binder.GenerateTableIndex());
		constant->SetEstimatedCardinality(1);
		auto result =
		    make_uniq<LogicalSpatialJoin>(JoinType::SEMI, std::move(spatial), std::move(op), std::move(constant));
		result->kernel = "scalar_filter";
		return std::move(result);
	}

	void ConstantFilter(unique_ptr<LogicalOperator> &op, bool ordered) {
		auto &filter = op->Cast<LogicalFilter>();
		auto tables = JoinTables::OfFilter(*filter.children[0]);
		vector<unique_ptr<Expression>> conjuncts, rest;
		for (auto &expr : filter.expressions) {
			conjuncts.push_back(expr->Copy());
		}
		LogicalFilter::SplitPredicates(conjuncts);
		vector<SpatialCondition> taken;
		for (auto &conjunct : conjuncts) {
			SpatialCondition spatial;
			if (IsConstantTerm(tables, *conjunct, spatial)) {
				taken.push_back(std::move(spatial));
			} else {
				rest.push_back(std::move(conjunct));
			}
		}
		if (taken.empty() || !GoesToDevice(Cardinality(context, *filter.children[0]), ordered)) {
			return;
		}
		auto left_columns = MapColumns(filter.projection_map, filter.children[0]->GetColumnBindings().size());
		auto result = std::move(filter.children[0]);
		if (!rest.empty()) {
			// What costs little comes first
			auto below = make_uniq<LogicalFilter>();
			below->expressions = std::move(rest);
			CopyCardinality(*result, *below);
			below->children.push_back(std::move(result));
			result = std::move(below);
		}
		for (auto &spatial : taken) {
			auto &input = *result;
			result = JoinWithConstant(std::move(result), std::move(spatial));
			CopyCardinality(input, *result);
		}
		CopyCardinality(filter, *result);
		AsSpatialJoin(*result).left_columns = std::move(left_columns);
		op = std::move(result);
	}

	//! Filters of one column that DuckDB has put into a scan
	void ScanFilters(unique_ptr<LogicalOperator> &op, bool ordered) {
		auto &get = op->Cast<LogicalGet>();
		if (!HasFilters(get.table_filters) || !get.children.empty()) {
			return;
		}
		auto tables = JoinTables::OfFilter(get);
		auto &column_ids = get.GetColumnIds();
		vector<SpatialCondition> taken;
		vector<idx_t> positions;
		auto rest = TakeFilters(get, [&](idx_t position, const Expression &term) {
			SpatialCondition spatial;
			if (!IsConstantTerm(tables, term, spatial)) {
				return false;
			}
			taken.push_back(std::move(spatial));
			positions.push_back(position);
			return true;
		});
		if (taken.empty()) {
			return;
		}
		auto estimated = Cardinality(context, get);
		auto rows = estimated;
		if (!HasFilters(rest)) {
			get.has_estimated_cardinality = false;
			rows = get.EstimateCardinality(context);
			get.SetEstimatedCardinality(estimated);
		}
		if (!GoesToDevice(rows, ordered)) {
			return;
		}
		get.table_filters = std::move(rest);
		get.SetEstimatedCardinality(rows);
		// The columns must come out of the scan, but not of the join
		auto &ids = get.projection_ids;
		auto left_columns = MapColumns({}, get.GetColumnBindings().size());
		auto before = ids;
		for (auto position : positions) {
			if (!ids.empty() && std::find(ids.begin(), ids.end(), ProjectionIndex(position)) == ids.end()) {
				ids.push_back(ProjectionIndex(position));
			}
		}
		if (ids.size() > before.size() && ids.size() == column_ids.size()) {
			// A scan of all columns has them in their own order
			left_columns.assign(before.begin(), before.end());
			ids.clear();
		}
		for (auto &spatial : taken) {
			op = JoinWithConstant(std::move(op), std::move(spatial));
			op->SetEstimatedCardinality(estimated);
		}
		AsSpatialJoin(*op).left_columns = std::move(left_columns);
	}

	//===------------------------------------------------------------------===//
	// Columns
	//===------------------------------------------------------------------===//
	//! Columns that the operator above does not use stay below: the geometries, mostly
	static void Prune(LogicalOperator &op) {
		if (!IsSpatialJoin(*op.children[0]) || AsSpatialJoin(*op.children[0]).aggregate) {
			return;
		}
		auto &join = AsSpatialJoin(*op.children[0]);
		column_binding_set_t used;
		LogicalOperatorVisitor::EnumerateExpressions(op, [&](unique_ptr<Expression> *expr) {
			ExpressionIterator::VisitExpression<BoundColumnRefExpression>(
			    **expr, [&](const BoundColumnRefExpression &column) { used.insert(BindingOf(column)); });
		});
		auto prune = [&](LogicalOperator &child, vector<idx_t> &columns) {
			auto bindings = child.GetColumnBindings();
			vector<idx_t> kept;
			for (auto column : columns) {
				if (used.count(bindings[column])) {
					kept.push_back(column);
				}
			}
			return kept;
		};
		auto left_columns = prune(*join.children[0], join.left_columns);
		auto right_columns = prune(*join.children[1], join.right_columns);
		if (left_columns.empty() && right_columns.empty() && join.join_type != JoinType::MARK) {
			// A chunk has columns, or no place for its rows
			join.left_is_unread = !join.left_columns.empty();
			(join.left_is_unread ? left_columns : right_columns)
			    .push_back(join.left_is_unread ? join.left_columns[0] : join.right_columns[0]);
		}
		join.left_columns = std::move(left_columns);
		join.right_columns = std::move(right_columns);
	}

	ClientContext &context;
	Binder &binder;
};

//===----------------------------------------------------------------------===//
// Pushing the box of the build side
//===----------------------------------------------------------------------===//
//! Calls `found(get, position)` for the scans that a column of geometries comes from as it is, where a row whose geometry is
//! out of question may be left out
template <class F>
void FindScans(LogicalOperator &op, ColumnBinding column, const F &found) {
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
			// Rows of the probe that this join drops or keeps, it would have dropped or kept without their neighbours
			if (!join.aggregate && (join.join_type == JoinType::INNER || join.join_type == JoinType::LEFT ||
			                        join.join_type == JoinType::SEMI || join.join_type == JoinType::ANTI)) {
				FindScans(*op.children[0], column, found);
			}
		}
		break;
	case LogicalOperatorType::LOGICAL_GET: {
		auto &get = op.Cast<LogicalGet>();
		// A scan that knows no expressions, that of an Arrow table for one, fails on them even where they are optional
		if (column.table_index != get.table_index || !get.function.filter_pushdown ||
		    !get.function.pushdown_expression) {
			return;
		}
		auto &column_ids = get.GetColumnIds();
		if (column.column_index >= column_ids.size() || column_ids[column.column_index].IsVirtualColumn()) {
			return;
		}
		// A scan of Arrow data hands its filters on to a library that knows no geometries
		if (get.function.supports_pushdown_type &&
		    !get.function.supports_pushdown_type(*get.bind_data, column_ids[column.column_index].GetPrimaryIndex())) {
			return;
		}
		get.ResolveOperatorTypes();
		auto bindings = get.GetColumnBindings();
		for (idx_t i = 0; i < bindings.size(); i++) {
			if (bindings[i].column_index == column.column_index) {
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

void PushBoxes(ClientContext &context, LogicalOperator &op) {
	for (auto &child : op.children) {
		PushBoxes(context, *child);
	}
	if (!IsSpatialJoin(op)) {
		return;
	}
	auto &join = AsSpatialJoin(op);
	switch (join.join_type) {
	case JoinType::INNER:
	case JoinType::RIGHT:
	case JoinType::SEMI:
	case JoinType::RIGHT_SEMI:
	case JoinType::RIGHT_ANTI:
		break;
	default:
		return; // rows of the probe that match nothing come out too
	}
	ColumnBinding key;
	if (join.spatial.left_limit || !IsGeometryColumn(*join.spatial.left, key)) {
		return;
	}
	for (auto &term : join.spatial.condition.any_of) {
		// EMPTY geometries have no box, but may be equal or near
		if (term.empty_is_near ||
		    (term.kind == vibespatial::JoinTerm::RELATE && term.predicate == vibe::PREDICATE_EQUALS)) {
			return;
		}
	}
	FindScans(*join.children[0], key, [&](LogicalGet &get, idx_t position) {
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

//! The boxes of constants in filters, for scans of files that have boxes, too
void PushConstantBoxes(ClientContext &context, LogicalOperator &op) {
	for (auto &child : op.children) {
		PushConstantBoxes(context, *child);
	}
	auto push = [&](LogicalGet &get, idx_t position, const vibe::Box &box) {
		Covering covering;
		if (Covering::Find(context, get, position, covering)) {
			auto position_of_boxes = covering.Read(get);
			PushFilter(get, position_of_boxes, covering.Filter(context, box));
		}
	};
	if (op.type == LogicalOperatorType::LOGICAL_FILTER) {
		auto &input = *op.children[0];
		for (auto &entry : BoxesOfFilter(context, input, op.expressions)) {
			FindScans(input, entry.column, [&](LogicalGet &get, idx_t position) { push(get, position, entry.box); });
		}
	} else if (op.type == LogicalOperatorType::LOGICAL_GET) {
		auto &get = op.Cast<LogicalGet>();
		vector<unique_ptr<Expression>> conditions;
		TakeFilters(get, [&](idx_t, const Expression &condition) {
			conditions.push_back(condition.Copy());
			return false;
		});
		for (auto &entry : BoxesOfFilter(context, get, conditions)) {
			push(get, entry.column.column_index, entry.box);
		}
	}
}

//===----------------------------------------------------------------------===//
// The hooks
//===----------------------------------------------------------------------===//
void OptimizeSpatialJoins(OptimizerExtensionInput &input, unique_ptr<LogicalOperator> &plan);

bool HasOtherExtensions(ClientContext &context) {
	for (auto &extension : OptimizerExtension::Iterate(context)) {
		if (extension.optimize_function && extension.optimize_function != OptimizeSpatialJoins) {
			return true;
		}
	}
	return false;
}

void RewriteAndHide(OptimizerExtensionInput &input, unique_ptr<LogicalOperator> &plan) {
	if (GetRewrites(input.context)) {
		RewriteExpressions(input.context, *plan);
	}
	if (HasOtherExtensions(input.context)) {
		HideSpatialPredicates(*plan);
	}
}

void OptimizeSpatialJoins(OptimizerExtensionInput &input, unique_ptr<LogicalOperator> &plan) {
	bool hidden = RestoreSpatialPredicates(*plan);
	// A recursive CTE runs its plan again and again: DuckDB's own joins are made for that
	if (!HasOperator(*plan, LogicalOperatorType::LOGICAL_RECURSIVE_CTE)) {
		Value ordered;
		input.context.TryGetCurrentSetting("preserve_insertion_order", ordered);
		SpatialJoinRewriter(input.context, input.optimizer.binder)
		    .Rewrite(plan, ordered.IsNull() || BooleanValue::Get(ordered));
		PushBoxes(input.context, *plan);
		if (GetRewrites(input.context)) {
			PushConstantBoxes(input.context, *plan);
		}
		if (HasSpatialJoin(*plan)) {
			OperatorDispatch::RequestKernels(input.context, "spatial_join", "VIBE_SPATIAL_JOIN");
		}
		PutBulk(input.context, input.optimizer.binder, plan);
	}
	if (!hidden) {
		return;
	}
	// Those that ran before us saw nothing: let them see what is left
	for (auto &extension : OptimizerExtension::Iterate(input.context)) {
		if (extension.optimize_function == OptimizeSpatialJoins) {
			break;
		}
		if (extension.optimize_function) {
			OptimizerExtensionInput other {input.context, input.optimizer, extension.optimizer_info.get()};
			extension.optimize_function(other, plan);
		}
	}
}

//! Lives as long as the database. When that closes the process may end soon, and CUDA must not be caught while it starts.
struct GpuGuard : public OptimizerExtensionInfo {
	~GpuGuard() override {
		constexpr double PATIENCE_SECONDS = 2;
		vibespatial::GpuRuntime::Get().Quiesce(PATIENCE_SECONDS);
	}
};

} // namespace

void RegisterSpatialJoin(ExtensionLoader &loader) {
	OptimizerExtension extension;
	extension.optimizer_info = make_shared_ptr<GpuGuard>();
	extension.pre_optimize_function = RewriteAndHide;
	extension.optimize_function = OptimizeSpatialJoins;
	OptimizerExtension::Register(DBConfig::GetConfig(loader.GetDatabaseInstance()), std::move(extension));
}

} // namespace duckdb
