//===----------------------------------------------------------------------===//
// duckdb/expressions/condition.hpp
//
// What of a join's condition an index can answer
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/support/compat.hpp"
#include "duckdb/planner/expression.hpp"
#include "engine/input/condition.hpp"

namespace duckdb {

//! The tables below the two children of a join
struct JoinTables {
	unordered_set<TableIndex> left;
	unordered_set<TableIndex> right;
	//! There is no right child: geometries that are constants stand for it
	bool constants_are_right = false;

	explicit JoinTables(LogicalOperator &join);
	//! Of a filter, whose rows are held against a constant
	static JoinTables OfFilter(LogicalOperator &input);

private:
	JoinTables() = default;
};

//! A spatial condition between the two sides, and what is left of the whole condition beside it
struct SpatialCondition {
	//! Read as term(left, right)
	vibespatial::JoinCondition condition;
	unique_ptr<Expression> left;
	unique_ptr<Expression> right;
	//! The limit of a distance, or the part that a side has in it, when it is no constant
	unique_ptr<Expression> left_limit;
	unique_ptr<Expression> right_limit;
	unique_ptr<Expression> residual;
	string text;

	//! Takes the best spatial conjunct out of a condition: false, with nothing changed, when there is none
	static bool Take(ClientContext &context, const JoinTables &tables, vector<unique_ptr<Expression>> &conjuncts,
	                 SpatialCondition &result);
	//! The other side probes
	void Flip();
};

//! Both conditions; the second one where there is no first
unique_ptr<Expression> AndOf(unique_ptr<Expression> first, unique_ptr<Expression> second);
//! The value where a condition is true, otherwise NULL
unique_ptr<Expression> NullUnless(unique_ptr<Expression> condition, unique_ptr<Expression> value);

//! "within" for ST_Within and vibe_within; empty for what is none of ours
string SpatialFunctionName(const string &function_name);
//! By such a name; ST_Disjoint is among them
bool FindSpatialPredicate(const string &name, vibe::Predicate &predicate);

//! Predicates between two tables are written `predicate = true` while the built-in rules and those of other extensions run:
//! `spatial` does not know that shape, and would take the joins that are ours to take. Restoring returns whether there
//! were any.
void HideSpatialPredicates(LogicalOperator &plan);
bool RestoreSpatialPredicates(LogicalOperator &plan);

} // namespace duckdb
