//===----------------------------------------------------------------------===//
// duckdb/operators/resolve_columns.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/execution/column_binding_resolver.hpp"
#include "duckdb/planner/operator/logical_extension_operator.hpp"

namespace duckdb {

//! Resolves an expression over other columns than those of one child: inside an extension operator the resolver does not hold the types of
//! one child against the bindings
inline void ResolveColumns(ColumnBindingResolver &resolver, vector<ColumnBinding> columns,
                           unique_ptr<Expression> &expr) {
	struct Columns : public LogicalExtensionOperator {
		Columns(vector<ColumnBinding> columns, unique_ptr<Expression> &expr) : columns(std::move(columns)), expr(expr) {
		}
		vector<ColumnBinding> columns;
		unique_ptr<Expression> &expr;

		void ResolveColumnBindings(ColumnBindingResolver &resolver, vector<ColumnBinding> &bindings) override {
			bindings = columns;
			resolver.VisitExpression(&expr);
		}
		PhysicalOperator &CreatePlan(ClientContext &, PhysicalPlanGenerator &) override {
			throw InternalException("ResolveColumns has no operator");
		}
		void ResolveTypes() override {
		}
	};
	Columns visited(std::move(columns), expr);
	resolver.VisitOperator(visited);
}

} // namespace duckdb
