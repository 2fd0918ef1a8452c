//===----------------------------------------------------------------------===//
// duckdb/knn/rewrites/distance.hpp
//
// The distance by which neighbours are ordered, as the rewrites find it in conditions and results
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/knn/physical.hpp"
#include "duckdb/planner/expression/bound_function_expression.hpp"
#include "duckdb/planner/logical_operator.hpp"

namespace duckdb {

namespace knn_rewrites {

//! ST_Distance, or another function of ours by its name without the prefix
optional_ptr<BoundFunctionExpression> OurFunction(Expression &expr, const char *name, idx_t arguments);

//! The value of a constant; false where it is none, or NULL
bool ConstantOf(ClientContext &context, const Expression &expr, Value &value);

//! ST_Distance of two geometries, which is the same the other way round
class DistanceBetween {
public:
	DistanceBetween(const Expression &first, const Expression &second) : first(first.Copy()), second(second.Copy()) {
	}
	bool Is(Expression &expr) const;
	bool IsOf(const Expression &geometry, const Expression &other) const;

private:
	unique_ptr<Expression> first;
	unique_ptr<Expression> second;
};

//! Takes a condition on the distance that the search itself can answer
bool TakeLimit(ClientContext &context, Expression &conjunct, const DistanceBetween &distance, KnnRequest &request);

//! Puts a column that has the distance in the place of the expressions that compute it
void UseDistance(unique_ptr<Expression> &expr, const DistanceBetween &distance, const Expression &column);

//! `child` where there are no conditions
unique_ptr<LogicalOperator> WithFilter(unique_ptr<LogicalOperator> child, vector<unique_ptr<Expression>> conditions);

} // namespace knn_rewrites

} // namespace duckdb
