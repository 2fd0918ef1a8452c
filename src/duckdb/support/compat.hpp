//===----------------------------------------------------------------------===//
// duckdb/support/compat.hpp
//
// The differences between DuckDB 1.5 and 2.0, which the extension is built for. The rest of src/duckdb uses the functions and
// names of this header and never asks for a version. Its sections:
//
//   Names                     identifiers and indexes, which 2.0 gives types of their own
//   Expressions               members that 2.0 hides behind accessors; comparisons and casts, which 2.0 makes functions
//   Conditions of joins       comparisons beside other conditions
//   Functions                 bind callbacks, callbacks of execution, signatures
//   States of aggregates      the callbacks that update, combine and finalize them
//   Vectors and chunks        mutable access, row counts, executors
//   Types and values          aliases, casts, geometries
//   Filters of scans          table filters, which 2.0 makes expressions
//   Operators                 reports for EXPLAIN ANALYZE, blocking of sources
//   Table functions           named parameters, the parser
//===----------------------------------------------------------------------===//
// The header is precompiled. If it has been written again since, "#pragma once" takes it for another file; a guard does not.
#ifndef VIBESPATIAL_COMPAT_HPP
#define VIBESPATIAL_COMPAT_HPP

#include "duckdb.hpp"
#include "duckdb/common/extension_type_info.hpp"
#include "duckdb/common/types/arrow_aux_data.hpp"
#include "duckdb/common/types/column/column_data_collection.hpp"
#include "duckdb/common/types/geometry.hpp"
#include "duckdb/common/vector_operations/binary_executor.hpp"
#include "duckdb/common/vector_operations/unary_executor.hpp"
#include "duckdb/execution/execution_context.hpp"
#include "duckdb/execution/operator/aggregate/aggregate_object.hpp"
#include "duckdb/function/aggregate_function.hpp"
#include "duckdb/function/scalar_function.hpp"
#include "duckdb/function/table_function.hpp"
#include "duckdb/main/config.hpp"
#include "duckdb/parallel/interrupt.hpp"
#include "duckdb/parallel/thread_context.hpp"
#include "duckdb/parser/parsed_data/create_function_info.hpp"
#include "duckdb/parser/parser.hpp"
#include "duckdb/parser/qualified_name.hpp"
#include "duckdb/parser/tableref/basetableref.hpp"
#include "duckdb/planner/expression/list.hpp"
#include "duckdb/planner/joinside.hpp"
#include "duckdb/planner/operator/logical_comparison_join.hpp"
#include "duckdb/planner/operator/logical_filter.hpp"
#include "duckdb/planner/operator/logical_get.hpp"
#include "duckdb/planner/table_filter.hpp"
#include "duckdb/storage/buffer_manager.hpp"

#include <optional>
#include <type_traits>

#if __has_include("duckdb/common/typed_index.hpp")
#define VIBESPATIAL_DUCKDB_2
#endif

#ifdef VIBESPATIAL_DUCKDB_2
#include "duckdb/common/clustered_aggregate.hpp"
#include "duckdb/common/vector/array_vector.hpp"
#include "duckdb/common/vector/constant_vector.hpp"
#include "duckdb/common/vector/flat_vector.hpp"
#include "duckdb/common/vector/list_vector.hpp"
#include "duckdb/common/vector/string_vector.hpp"
#include "duckdb/common/vector/struct_vector.hpp"
#include "duckdb/common/vector_operations/variadic_executor.hpp"
#include "duckdb/function/function_binder.hpp"
#include "duckdb/planner/column_binding_map.hpp"
#include "duckdb/planner/filter/expression_filter.hpp"
#include "duckdb/planner/filter/table_filter_functions.hpp"
#include "duckdb/planner/table_filter_set.hpp"
#else
#include "duckdb/common/vector_operations/senary_executor.hpp"
#include "duckdb/planner/filter/conjunction_filter.hpp"
#include "duckdb/planner/filter/constant_filter.hpp"
#include "duckdb/planner/filter/expression_filter.hpp"
#include "duckdb/planner/filter/optional_filter.hpp"
#include "duckdb/planner/filter/struct_filter.hpp"
#endif

namespace duckdb {

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//
#ifndef VIBESPATIAL_DUCKDB_2
using Identifier = string;
using TableIndex = idx_t;
using ProjectionIndex = idx_t;
using BoundScalarFunction = ScalarFunction;
using BoundAggregateFunction = AggregateFunction;
using identifier_set_t = case_insensitive_set_t;
#endif

inline const string &NameOf(const string &name) {
	return name;
}
#ifdef VIBESPATIAL_DUCKDB_2
inline const string &NameOf(const Identifier &name) {
	return name.GetIdentifierName();
}
#endif

inline vector<string> NamesOf(const vector<Identifier> &names) {
	vector<string> result;
	for (auto &name : names) {
		result.push_back(NameOf(name));
	}
	return result;
}

//===----------------------------------------------------------------------===//
// Expressions
//===----------------------------------------------------------------------===//
#ifdef VIBESPATIAL_DUCKDB_2
inline const LogicalType &ReturnTypeOf(const Expression &expr) {
	return expr.GetReturnType();
}
template <class EXPRESSION>
auto &ChildrenOf(EXPRESSION &expr) {
	if constexpr (std::is_const<EXPRESSION>::value) {
		return expr.GetChildren();
	} else {
		return expr.GetChildrenMutable();
	}
}
template <class EXPRESSION>
const auto &FunctionOf(const EXPRESSION &expr) {
	return expr.Function();
}
inline BoundScalarFunction &MutableFunctionOf(BoundFunctionExpression &expr) {
	return expr.FunctionMutable();
}
inline const string &FunctionName(const BoundFunctionExpression &expr) {
	return NameOf(expr.Function().GetName());
}
inline const string &FunctionName(const BoundAggregateExpression &expr) {
	return NameOf(expr.Function().GetName());
}
inline const unique_ptr<FunctionData> &BindDataOf(const BoundFunctionExpression &expr) {
	return expr.BindInfo();
}
inline const unique_ptr<FunctionData> &BindDataOf(const BoundAggregateExpression &expr) {
	return expr.BindInfo();
}
inline const ColumnBinding &BindingOf(const BoundColumnRefExpression &expr) {
	return expr.Binding();
}
inline ColumnBinding &BindingOf(BoundColumnRefExpression &expr) {
	return expr.BindingMutable();
}
inline idx_t IndexOf(const BoundReferenceExpression &expr) {
	return expr.Index();
}
inline idx_t &IndexOf(BoundReferenceExpression &expr) {
	return expr.IndexMutable();
}
inline const Value &ValueOf(const BoundConstantExpression &expr) {
	return expr.GetValue();
}
inline bool HasFilter(const BoundAggregateExpression &expr) {
	return expr.GetFilter() != nullptr;
}
inline bool HasOrder(const BoundAggregateExpression &expr) {
	return expr.GetOrderBys() != nullptr;
}
inline bool IsRowNumber(const BoundWindowExpression &expr) {
	return expr.WindowFunction() && NameOf(expr.WindowFunction()->GetName()) == "row_number";
}
inline const vector<unique_ptr<Expression>> &PartitionsOf(const BoundWindowExpression &expr) {
	return expr.Partitions();
}
inline vector<BoundOrderByNode> &OrdersOf(BoundWindowExpression &expr) {
	return expr.OrderByMutable();
}
inline bool IsComparison(const Expression &expr) {
	return BoundComparisonExpression::IsComparison(expr);
}
inline unique_ptr<Expression> &LeftOf(Expression &comparison) {
	return BoundComparisonExpression::LeftMutable(comparison.Cast<BoundFunctionExpression>());
}
inline unique_ptr<Expression> &RightOf(Expression &comparison) {
	return BoundComparisonExpression::RightMutable(comparison.Cast<BoundFunctionExpression>());
}
inline unique_ptr<Expression> MakeComparison(ExpressionType type, unique_ptr<Expression> left,
                                             unique_ptr<Expression> right) {
	return BoundComparisonExpression::Create(type, std::move(left), std::move(right));
}
inline bool IsCast(const Expression &expr) {
	return BoundCastExpression::IsCast(expr);
}
inline unique_ptr<Expression> &CastChild(Expression &cast) {
	return BoundCastExpression::ChildMutable(cast.Cast<BoundFunctionExpression>());
}
#else
inline const LogicalType &ReturnTypeOf(const Expression &expr) {
	return expr.return_type;
}
template <class EXPRESSION>
auto &ChildrenOf(EXPRESSION &expr) {
	return expr.children;
}
template <class EXPRESSION>
const auto &FunctionOf(const EXPRESSION &expr) {
	return expr.function;
}
inline ScalarFunction &MutableFunctionOf(BoundFunctionExpression &expr) {
	return expr.function;
}
inline const string &FunctionName(const BoundFunctionExpression &expr) {
	return expr.function.name;
}
inline const string &FunctionName(const BoundAggregateExpression &expr) {
	return expr.function.name;
}
inline const unique_ptr<FunctionData> &BindDataOf(const BoundFunctionExpression &expr) {
	return expr.bind_info;
}
inline const unique_ptr<FunctionData> &BindDataOf(const BoundAggregateExpression &expr) {
	return expr.bind_info;
}
inline const ColumnBinding &BindingOf(const BoundColumnRefExpression &expr) {
	return expr.binding;
}
inline ColumnBinding &BindingOf(BoundColumnRefExpression &expr) {
	return expr.binding;
}
inline idx_t IndexOf(const BoundReferenceExpression &expr) {
	return expr.index;
}
inline storage_t &IndexOf(BoundReferenceExpression &expr) {
	return expr.index;
}
inline const Value &ValueOf(const BoundConstantExpression &expr) {
	return expr.value;
}
inline bool HasFilter(const BoundAggregateExpression &expr) {
	return expr.filter != nullptr;
}
inline bool HasOrder(const BoundAggregateExpression &expr) {
	return expr.order_bys != nullptr;
}
inline bool IsRowNumber(const BoundWindowExpression &expr) {
	return expr.GetExpressionType() == ExpressionType::WINDOW_ROW_NUMBER && expr.arg_orders.empty();
}
inline const vector<unique_ptr<Expression>> &PartitionsOf(const BoundWindowExpression &expr) {
	return expr.partitions;
}
inline vector<BoundOrderByNode> &OrdersOf(BoundWindowExpression &expr) {
	return expr.orders;
}
inline bool IsComparison(const Expression &expr) {
	return expr.GetExpressionClass() == ExpressionClass::BOUND_COMPARISON;
}
inline unique_ptr<Expression> &LeftOf(Expression &comparison) {
	return comparison.Cast<BoundComparisonExpression>().left;
}
inline unique_ptr<Expression> &RightOf(Expression &comparison) {
	return comparison.Cast<BoundComparisonExpression>().right;
}
inline unique_ptr<Expression> MakeComparison(ExpressionType type, unique_ptr<Expression> left,
                                             unique_ptr<Expression> right) {
	return make_uniq<BoundComparisonExpression>(type, std::move(left), std::move(right));
}
inline bool IsCast(const Expression &expr) {
	return expr.GetExpressionClass() == ExpressionClass::BOUND_CAST;
}
inline unique_ptr<Expression> &CastChild(Expression &cast) {
	return cast.Cast<BoundCastExpression>().child;
}
#endif

//===----------------------------------------------------------------------===//
// Conditions of joins
//===----------------------------------------------------------------------===//
//! The conditions of a comparison join as expressions. Since 2.0 they may include conditions that are no comparisons.
inline vector<unique_ptr<Expression>> CopyConditions(const LogicalComparisonJoin &join) {
	vector<unique_ptr<Expression>> result;
	for (auto &condition : join.conditions) {
#ifdef VIBESPATIAL_DUCKDB_2
		result.push_back(JoinCondition::CreateExpression(condition.Copy()));
#else
		result.push_back(MakeComparison(condition.comparison, condition.left->Copy(), condition.right->Copy()));
#endif
	}
	return result;
}

//! Whether one of the conditions of a comparison join is no comparison (2.0)
inline bool HasMixedConditions([[maybe_unused]] const LogicalComparisonJoin &join) {
#ifdef VIBESPATIAL_DUCKDB_2
	for (auto &condition : join.conditions) {
		if (!condition.IsComparison()) {
			return true;
		}
	}
#endif
	return false;
}

//! Calls `visit(expression, is_condition)` for the conditions of a comparison join: for both sides of a comparison, and for a condition
//! that is none as a whole
template <class VISIT>
void VisitConditions(LogicalComparisonJoin &join, VISIT &&visit) {
	for (auto &condition : join.conditions) {
#ifdef VIBESPATIAL_DUCKDB_2
		if (!condition.IsComparison()) {
			visit(condition.JoinExpressionReference(), true);
			continue;
		}
		visit(condition.LeftReference(), false);
		visit(condition.RightReference(), false);
#else
		visit(condition.left, false);
		visit(condition.right, false);
#endif
	}
}

//! Whether a comparison join has a predicate beside its conditions (1.5)
inline bool HasPredicate([[maybe_unused]] const LogicalComparisonJoin &join) {
#ifdef VIBESPATIAL_DUCKDB_2
	return false;
#else
	return join.predicate != nullptr;
#endif
}

//! Whether a condition is a comparison of this type, which has a left and a right side
inline bool IsComparison(const JoinCondition &condition, ExpressionType type) {
#ifdef VIBESPATIAL_DUCKDB_2
	return condition.IsComparison() && condition.GetComparisonType() == type;
#else
	return condition.comparison == type;
#endif
}
inline const Expression &LeftOf(const JoinCondition &condition) {
#ifdef VIBESPATIAL_DUCKDB_2
	return condition.GetLHS();
#else
	return *condition.left;
#endif
}
inline const Expression &RightOf(const JoinCondition &condition) {
#ifdef VIBESPATIAL_DUCKDB_2
	return condition.GetRHS();
#else
	return *condition.right;
#endif
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//
#ifdef VIBESPATIAL_DUCKDB_2
//! A scalar or aggregate function while a call of it is bound
using BoundFunction = BoundSimpleFunction;

inline const string &NameOf(const BoundFunction &function) {
	return NameOf(function.GetName());
}
inline vector<LogicalType> &ArgumentTypesOf(BoundFunction &function) {
	return function.GetArguments();
}
inline LogicalType &ResultTypeOf(BoundFunction &function) {
	return function.GetReturnType();
}
#else
using BoundFunction = BaseScalarFunction;

inline const string &NameOf(const BoundFunction &function) {
	return function.name;
}
inline vector<LogicalType> &ArgumentTypesOf(BoundFunction &function) {
	return function.arguments;
}
inline LogicalType &ResultTypeOf(BoundFunction &function) {
	return function.return_type;
}
#endif

//! Sets the argument and return types of a call
using settle_types_t = void (*)(BoundFunction &function, const vector<unique_ptr<Expression>> &arguments);
//! Makes the bind data of a call
using make_bind_data_t = unique_ptr<FunctionData> (*)(ClientContext &context);

inline unique_ptr<FunctionData> NoBindData(ClientContext &) {
	return nullptr;
}

template <settle_types_t SETTLE, make_bind_data_t MAKE = NoBindData>
void SetBind(ScalarFunction &function) {
#ifdef VIBESPATIAL_DUCKDB_2
	function.SetResolveTypesCallback(
	    [](ResolveScalarFunctionTypesInput &input) { SETTLE(input.GetBoundFunction(), input.GetArguments()); });
	function.SetBindCallback([](BindScalarFunctionInput &input) { return MAKE(input.GetClientContext()); });
#else
	function.bind = [](ClientContext &context, ScalarFunction &bound, vector<unique_ptr<Expression>> &arguments) {
		SETTLE(bound, arguments);
		return MAKE(context);
	};
#endif
}

//! The same if the types depend on the values of arguments
using settle_types_by_values_t = void (*)(ClientContext &context, BoundFunction &function,
                                          const vector<unique_ptr<Expression>> &arguments);

template <settle_types_by_values_t SETTLE>
void SetBindByValues(ScalarFunction &function) {
#ifdef VIBESPATIAL_DUCKDB_2
	function.SetResolveTypesCallback([](ResolveScalarFunctionTypesInput &input) {
		SETTLE(input.GetClientContext(), input.GetBoundFunction(), input.GetArguments());
	});
	function.SetBindCallback(nullptr);
#else
	function.bind = [](ClientContext &context, ScalarFunction &bound, vector<unique_ptr<Expression>> &arguments) {
		SETTLE(context, bound, arguments);
		return unique_ptr<FunctionData>();
	};
#endif
}

inline void SetInitLocalState(ScalarFunction &function, init_local_state_t init) {
#ifdef VIBESPATIAL_DUCKDB_2
	function.SetInitStateCallback(init);
#else
	function.init_local_state = init;
#endif
}

inline scalar_function_t ExecuteOf(const ScalarFunction &function) {
#ifdef VIBESPATIAL_DUCKDB_2
	return function.GetFunctionCallback();
#else
	return function.function;
#endif
}

template <class FUNCTION>
void SetExecute(FUNCTION &function, scalar_function_t execute) {
#ifdef VIBESPATIAL_DUCKDB_2
	function.SetFunctionCallback(std::move(execute));
#else
	function.function = std::move(execute);
#endif
}

template <class FUNCTION>
void SetName(FUNCTION &function, const string &name) {
#ifdef VIBESPATIAL_DUCKDB_2
	function.SetName(Identifier(name));
#else
	function.name = name;
#endif
}

//! Sets the names of parameters, which are part of a function since 2.0 and of its description before
template <class FUNCTION>
void NameParameters([[maybe_unused]] FUNCTION &function, [[maybe_unused]] const vector<string> &names) {
#ifdef VIBESPATIAL_DUCKDB_2
	auto &signature = function.GetSignature();
	for (idx_t i = 0; i < names.size() && i < signature.GetParameterCount(); i++) {
		if (!signature.GetParameter(i).IsVariadic()) {
			signature.GetParameter(i).SetName(Identifier(names[i]));
		}
	}
#endif
}

//! Whether the set has a function with the same argument types
inline bool HasOverload(const ScalarFunctionSet &set, const ScalarFunction &function) {
	for (auto &existing : set.functions) {
#ifdef VIBESPATIAL_DUCKDB_2
		if (existing->GetSignature().IsSameOverload(function.GetSignature())) {
#else
		if (existing.arguments == function.arguments && existing.varargs == function.varargs) {
#endif
			return true;
		}
	}
	return false;
}

//! Makes a bind callback of an aggregate from a function that has the same signature in all versions
using bind_aggregate_t = unique_ptr<FunctionData> (*)(ClientContext &context, BoundFunction &function,
                                                      const vector<unique_ptr<Expression>> &arguments);
#ifdef VIBESPATIAL_DUCKDB_2
template <bind_aggregate_t BIND>
unique_ptr<FunctionData> AggregateBind(BindAggregateFunctionInput &input) {
	return BIND(input.GetClientContext(), input.GetBoundFunction(), input.GetArguments());
}
#else
template <bind_aggregate_t BIND>
unique_ptr<FunctionData> AggregateBind(ClientContext &context, AggregateFunction &function,
                                       vector<unique_ptr<Expression>> &arguments) {
	return BIND(context, function, arguments);
}
#endif

inline bind_aggregate_function_t BindCallbackOf(const AggregateFunctionSet &set) {
#ifdef VIBESPATIAL_DUCKDB_2
	return set.functions[0]->GetCallbacks().GetBindCallback();
#else
	return set.functions[0].GetBindCallback();
#endif
}

//===----------------------------------------------------------------------===//
// States of aggregates
//===----------------------------------------------------------------------===//
//! An aggregate without arguments whose state is a number
inline AggregateObject NumberState() {
#ifdef VIBESPATIAL_DUCKDB_2
	AggregateFunction function(
	    {}, LogicalType::UINTEGER, [](AggregateStateInput &) -> idx_t { return sizeof(uint32_t); },
	    [](AggregateStateInput &, data_ptr_t *states, idx_t count) {
		    for (idx_t i = 0; i < count; i++) {
			    Store<uint32_t>(0, states[i]);
		    }
	    },
	    nullptr, nullptr, nullptr, FunctionNullHandling::DEFAULT_NULL_HANDLING);
#else
	AggregateFunction function(
	    {}, LogicalType::UINTEGER, [](const AggregateFunction &) -> idx_t { return sizeof(uint32_t); },
	    [](const AggregateFunction &, data_ptr_t state) { Store<uint32_t>(0, state); }, nullptr, nullptr, nullptr,
	    FunctionNullHandling::DEFAULT_NULL_HANDLING);
#endif
	return AggregateObject(BoundAggregateFunction(function), nullptr, 0, AlignValue(sizeof(uint32_t)),
	                       AggregateType::NON_DISTINCT, PhysicalType::UINT32);
}

inline AggregateInputData InputOf(const AggregateObject &object, ArenaAllocator &arena) {
#ifdef VIBESPATIAL_DUCKDB_2
	return AggregateInputData(object, arena);
#else
	return AggregateInputData(object.GetFunctionData(), arena);
#endif
}

inline void InitializeState(const AggregateObject &object, data_ptr_t state) {
#ifdef VIBESPATIAL_DUCKDB_2
	AggregateStateInput input(object.function, object.GetFunctionData());
	object.function.GetCallbacks().initialize(input, &state, 1);
#else
	object.function.initialize(object.function, state);
#endif
}

inline bool HasDestructor(const AggregateObject &object) {
#ifdef VIBESPATIAL_DUCKDB_2
	return object.function.GetCallbacks().destructor != nullptr;
#else
	return object.function.destructor != nullptr;
#endif
}

inline void DestroyStates(const AggregateObject &object, Vector &states, AggregateInputData &input, idx_t count) {
#ifdef VIBESPATIAL_DUCKDB_2
	FlatVector::SetSize(states, count);
	object.function.GetCallbacks().destructor(states, input, count);
#else
	object.function.destructor(states, input, count);
#endif
}

//! The most rows of one UpdateState()
#ifdef VIBESPATIAL_DUCKDB_2
constexpr idx_t ROWS_OF_ONE_UPDATE = STANDARD_VECTOR_SIZE;
#else
//! Some functions allocate a selection of all rows
constexpr idx_t ROWS_OF_ONE_UPDATE = 32 * STANDARD_VECTOR_SIZE;
#endif

//! Adds all rows to one state; false if the function has no callback for that
inline bool UpdateState(const AggregateObject &object, Vector *inputs, AggregateInputData &input, data_ptr_t state,
                        idx_t count) {
#ifdef VIBESPATIAL_DUCKDB_2
	auto update = object.function.GetCallbacks().cluster_update;
	if (!update) {
		return false;
	}
	ClusteredAggr clustered;
	clustered.SetSingleRun(state, count);
	input.clustered = &clustered;
	update(inputs, input, object.child_count, clustered, count);
	input.clustered = nullptr;
#else
	if (!object.function.simple_update) {
		return false;
	}
	object.function.simple_update(inputs, input, object.child_count, state, count);
#endif
	return true;
}

//! Adds row i to states[i]
inline void UpdateStates(const AggregateObject &object, Vector *inputs, AggregateInputData &input, Vector &states,
                         idx_t count) {
#ifdef VIBESPATIAL_DUCKDB_2
	FlatVector::SetSize(states, count);
	object.function.GetCallbacks().update(inputs, input, object.child_count, states, count);
#else
	object.function.update(inputs, input, object.child_count, states, count);
#endif
}

inline void CombineStates(const AggregateObject &object, Vector &from, Vector &to, AggregateInputData &input,
                          idx_t count) {
#ifdef VIBESPATIAL_DUCKDB_2
	FlatVector::SetSize(from, count);
	FlatVector::SetSize(to, count);
	object.function.GetCallbacks().combine(from, to, input, count);
#else
	object.function.combine(from, to, input, count);
#endif
}

inline void FinalizeStates(const AggregateObject &object, Vector &states, ArenaAllocator &arena, Vector &result,
                           idx_t count) {
#ifdef VIBESPATIAL_DUCKDB_2
	FlatVector::SetSize(states, count);
	AggregateFinalizeInputData input(object, arena);
	object.function.GetCallbacks().finalize(states, input, result, count, 0);
#else
	auto input = InputOf(object, arena);
	object.function.finalize(states, input, result, count, 0);
#endif
}

//===----------------------------------------------------------------------===//
// Vectors and chunks
//===----------------------------------------------------------------------===//
template <class T>
T *MutableData(Vector &vector) {
#ifdef VIBESPATIAL_DUCKDB_2
	return FlatVector::GetDataMutable<T>(vector);
#else
	return FlatVector::GetData<T>(vector);
#endif
}

inline Vector &ListChild(Vector &lists) {
#ifdef VIBESPATIAL_DUCKDB_2
	return ListVector::GetChildMutable(lists);
#else
	return ListVector::GetEntry(lists);
#endif
}

inline Vector &StructField(Vector &structs, idx_t field) {
#ifdef VIBESPATIAL_DUCKDB_2
	return StructVector::GetEntries(structs)[field];
#else
	return *StructVector::GetEntries(structs)[field];
#endif
}

inline Vector &ArrayChild(Vector &arrays) {
#ifdef VIBESPATIAL_DUCKDB_2
	return ArrayVector::GetChildMutable(arrays);
#else
	return ArrayVector::GetEntry(arrays);
#endif
}

inline ValidityMask &MutableValidity(Vector &vector) {
#ifdef VIBESPATIAL_DUCKDB_2
	return FlatVector::ValidityMutable(vector);
#else
	return FlatVector::Validity(vector);
#endif
}

inline void ToUnified(Vector &vector, idx_t count, UnifiedVectorFormat &format) {
#ifdef VIBESPATIAL_DUCKDB_2
	vector.ToUnifiedFormat(format);
#else
	vector.ToUnifiedFormat(count, format);
#endif
}

//! The Arrow record batch that a vector points into; nullptr if the vector does not come from an Arrow scan
inline const ArrowArray *BatchOf(Vector &vector) {
#ifdef VIBESPATIAL_DUCKDB_2
	auto &buffer = vector.GetBufferRef();
	if (buffer && buffer->GetAuxiliaryData()) {
		for (auto &holder : buffer->GetAuxiliaryData()->data) {
			auto arrow = dynamic_cast<ArrowAuxiliaryData *>(holder.get());
			if (arrow && arrow->arrow_array) {
				return &arrow->arrow_array->arrow_array;
			}
		}
	}
#else
	auto buffer = vector.GetBuffer();
	auto holder = buffer ? buffer->GetAuxiliaryData() : nullptr;
	if (holder && holder->type == VectorAuxiliaryDataType::ARROW_AUXILIARY) {
		auto &arrow = holder->Cast<ArrowAuxiliaryData>().arrow_array;
		return arrow ? &arrow->arrow_array : nullptr;
	}
#endif
	return nullptr;
}

//! Sets the number of rows of a chunk, and since 2.0 of its vectors
inline void SetRowCount(DataChunk &chunk, idx_t count) {
#ifdef VIBESPATIAL_DUCKDB_2
	chunk.SetChildCardinality(count);
#else
	chunk.SetCardinality(count);
#endif
}

//! The same for a vector outside of a chunk
inline void SetRowCount([[maybe_unused]] Vector &vector, [[maybe_unused]] idx_t count) {
#ifdef VIBESPATIAL_DUCKDB_2
	FlatVector::SetSize(vector, count);
#endif
}

//! Makes a vector constant
inline void ReferenceValue(Vector &vector, const Value &value, [[maybe_unused]] idx_t count) {
#ifdef VIBESPATIAL_DUCKDB_2
	vector.Reference(value, count_t(count));
#else
	vector.Reference(value);
#endif
}

//! Makes a vector constant: `count` times a row of another vector
inline void ReferenceRow(Vector &vector, Vector &source, idx_t row, idx_t source_count, [[maybe_unused]] idx_t count) {
#ifdef VIBESPATIAL_DUCKDB_2
	ConstantVector::Reference(vector, count_t(count), source, row, source_count);
#else
	ConstantVector::Reference(vector, source, row, source_count);
#endif
}

//! Runs a function on the rows that are not NULL. It returns std::optional<RESULT>; no value stands for NULL.
template <class INPUT, class RESULT, class FUNCTION>
void ExecuteOrNull(Vector &input, Vector &result, idx_t count, FUNCTION &&function) {
#ifdef VIBESPATIAL_DUCKDB_2
	UnaryExecutor::Execute<INPUT, RESULT>(input, result, count,
	                                      [&](INPUT value) -> std::optional<RESULT> { return function(value); });
#else
	UnaryExecutor::ExecuteWithNulls<INPUT, RESULT>(input, result, count,
	                                               [&](INPUT value, ValidityMask &mask, idx_t row) {
		                                               std::optional<RESULT> made = function(value);
		                                               if (!made) {
			                                               mask.SetInvalid(row);
		                                               }
		                                               return made.value_or(RESULT());
	                                               });
#endif
}

template <class LEFT, class RIGHT, class RESULT, class FUNCTION>
void ExecuteOrNull(Vector &left, Vector &right, Vector &result, idx_t count, FUNCTION &&function) {
#ifdef VIBESPATIAL_DUCKDB_2
	BinaryExecutor::Execute<LEFT, RIGHT, RESULT>(
	    left, right, result, count, [&](LEFT a, RIGHT b) -> std::optional<RESULT> { return function(a, b); });
#else
	BinaryExecutor::ExecuteWithNulls<LEFT, RIGHT, RESULT>(left, right, result, count,
	                                                      [&](LEFT a, RIGHT b, ValidityMask &mask, idx_t row) {
		                                                      std::optional<RESULT> made = function(a, b);
		                                                      if (!made) {
			                                                      mask.SetInvalid(row);
		                                                      }
		                                                      return made.value_or(RESULT());
	                                                      });
#endif
}

template <class A, class B, class C, class D, class E, class F, class RESULT, class FUNCTION>
void ExecuteSix(DataChunk &input, Vector &result, FUNCTION &&function) {
#ifdef VIBESPATIAL_DUCKDB_2
	VariadicExecutor::Execute<RESULT, A, B, C, D, E, F>(input, result, function);
#else
	SenaryExecutor::Execute<A, B, C, D, E, F, RESULT>(input, result, function);
#endif
}

//===----------------------------------------------------------------------===//
// Types and values
//===----------------------------------------------------------------------===//
inline LogicalType WithAlias(LogicalType type, const string &alias) {
#ifdef VIBESPATIAL_DUCKDB_2
	return type.WithAlias(alias);
#else
	type.SetAlias(alias);
	return type;
#endif
}

inline LogicalType WithExtensionInfo(LogicalType type, unique_ptr<ExtensionTypeInfo> info) {
#ifdef VIBESPATIAL_DUCKDB_2
	return type.WithExtensionInfo(std::move(info));
#else
	type.SetExtensionInfo(std::move(info));
	return type;
#endif
}

//! The WKT of a geometry, in the string heap of `vector`
inline string_t GeometryText(Vector &vector, const string_t &geometry) {
#ifdef VIBESPATIAL_DUCKDB_2
	return Geometry::ToString(StringVector::GetStringHeap(vector), geometry);
#else
	return Geometry::ToString(vector, geometry);
#endif
}

//! A geometry of this type, which may have a CRS
inline Value GeometryValue(const_data_ptr_t wkb, idx_t size, const LogicalType &type) {
#ifdef VIBESPATIAL_DUCKDB_2
	return GeoType::HasCRS(type) ? Value::GEOMETRY(wkb, size, GeoType::GetCRS(type)) : Value::GEOMETRY(wkb, size);
#else
	auto result = Value::GEOMETRY(wkb, size);
	result.Reinterpret(type);
	return result;
#endif
}

//! Casts a value in place; false if that fails
inline bool TryCast(Value &value, const LogicalType &type) {
#ifdef VIBESPATIAL_DUCKDB_2
	auto result = value.DefaultTryCastAs(type);
	if (!result) {
		return false;
	}
	value = std::move(*result);
	return true;
#else
	return value.DefaultTryCastAs(type);
#endif
}

//! Parses a size such as "8GB"; throws if it is none
inline idx_t ParseBytes(const string &text) {
#ifdef VIBESPATIAL_DUCKDB_2
	return DBConfig::ParseMemoryLimitOrMaximum(text);
#else
	return DBConfig::ParseMemoryLimit(text);
#endif
}

//===----------------------------------------------------------------------===//
// Filters of scans
//===----------------------------------------------------------------------===//
inline bool HasFilters(const TableFilterSet &filters) {
#ifdef VIBESPATIAL_DUCKDB_2
	return filters.HasFilters();
#else
	return !filters.filters.empty();
#endif
}

//! A filter that a scan may skip, on a column that is column 0 in the expression
inline unique_ptr<TableFilter> MakeOptionalFilter(unique_ptr<Expression> expr,
                                                  [[maybe_unused]] const LogicalType &type) {
#ifdef VIBESPATIAL_DUCKDB_2
	return make_uniq<ExpressionFilter>(CreateOptionalFilterExpression(std::move(expr), type));
#else
	return make_uniq<OptionalFilter>(make_uniq<ExpressionFilter>(std::move(expr)));
#endif
}

//! A comparison of a field of a struct with a number
struct FieldLimit {
	idx_t field;
	ExpressionType comparison;
	Value value;
};

//! A filter that a scan may skip, on a struct column: all limits hold
inline unique_ptr<TableFilter> MakeOptionalFilter([[maybe_unused]] ClientContext &context,
                                                  const vector<FieldLimit> &limits, const LogicalType &type) {
#ifdef VIBESPATIAL_DUCKDB_2
	unique_ptr<Expression> all;
	for (auto &limit : limits) {
		vector<unique_ptr<Expression>> arguments;
		arguments.push_back(make_uniq<BoundReferenceExpression>(type, 0ULL));
		arguments.push_back(
		    make_uniq<BoundConstantExpression>(Value(NameOf(StructType::GetChildName(type, limit.field)))));
		ErrorData error;
		auto field = FunctionBinder(context).BindScalarFunction(Identifier(DEFAULT_SCHEMA), "struct_extract",
		                                                        std::move(arguments), error);
		if (!field) {
			error.Throw();
		}
		auto term = MakeComparison(limit.comparison, std::move(field), make_uniq<BoundConstantExpression>(limit.value));
		all = all ? make_uniq_base<Expression, BoundConjunctionExpression>(ExpressionType::CONJUNCTION_AND,
		                                                                   std::move(all), std::move(term))
		          : std::move(term);
	}
	return MakeOptionalFilter(std::move(all), type);
#else
	auto all = make_uniq<ConjunctionAndFilter>();
	for (auto &limit : limits) {
		all->child_filters.push_back(make_uniq<StructFilter>(limit.field, StructType::GetChildName(type, limit.field),
		                                                     make_uniq<ConstantFilter>(limit.comparison, limit.value)));
	}
	return make_uniq<OptionalFilter>(std::move(all));
#endif
}

//! Adds a filter on the column at this position of a scan
inline void PushFilter(LogicalGet &get, idx_t position, unique_ptr<TableFilter> filter) {
#ifdef VIBESPATIAL_DUCKDB_2
	get.table_filters.PushFilter(ProjectionIndex(position), std::move(filter));
#else
	get.table_filters.PushFilter(ColumnIndex(get.GetColumnIds()[position].GetPrimaryIndex()), std::move(filter));
#endif
}

inline const string &FunctionName(const LogicalGet &get) {
#ifdef VIBESPATIAL_DUCKDB_2
	return NameOf(get.function.GetName());
#else
	return get.function.name;
#endif
}

//! Calls `take(position, term)` for each term of the filters of a scan; returns the filters without the terms for which it returned true
template <class TAKE>
TableFilterSet TakeFilters(LogicalGet &get, TAKE &&take) {
	auto &column_ids = get.GetColumnIds();
	TableFilterSet rest;
	auto column_at = [&](idx_t position) {
		auto &id = column_ids[position];
		return BoundColumnRefExpression(get.GetColumnName(id), get.GetColumnType(id),
		                                ColumnBinding(get.table_index, ProjectionIndex(position)));
	};
#ifdef VIBESPATIAL_DUCKDB_2
	for (auto &entry : get.table_filters) {
		auto position = entry.GetIndex();
		auto &filter = entry.Filter().template Cast<ExpressionFilter>();
		if (column_ids[position].IsVirtualColumn()) {
			rest.PushFilter(position, filter.Copy());
			continue;
		}
		auto column = column_at(position);
		vector<unique_ptr<Expression>> terms;
		terms.push_back(filter.expr->Copy());
		LogicalFilter::SplitPredicates(terms);
		for (auto &term : terms) {
			auto part = make_uniq<ExpressionFilter>(std::move(term));
			if (!take(position, *part->ToExpression(column))) {
				rest.PushFilter(position, std::move(part));
			}
		}
	}
	for (auto &filter : get.table_filters.GetMultiColumnFilters()) {
		rest.PushMultiColumnFilter(filter->Cast<ExpressionFilter>().Copy());
	}
#else
	for (auto &entry : get.table_filters.filters) {
		idx_t position = 0;
		while (position < column_ids.size() && column_ids[position].GetPrimaryIndex() != entry.first) {
			position++;
		}
		if (position == column_ids.size() || column_ids[position].IsVirtualColumn()) {
			rest.filters.emplace(entry.first, entry.second->Copy());
			continue;
		}
		auto column = column_at(position);
		vector<reference<TableFilter>> parts {*entry.second};
		if (entry.second->filter_type == TableFilterType::CONJUNCTION_AND) {
			parts.clear();
			for (auto &part : entry.second->template Cast<ConjunctionAndFilter>().child_filters) {
				parts.push_back(*part);
			}
		}
		for (auto &part : parts) {
			if (part.get().filter_type != TableFilterType::EXPRESSION_FILTER ||
			    !take(position, *part.get().ToExpression(column))) {
				rest.PushFilter(column_ids[position], part.get().Copy());
			}
		}
	}
#endif
	return rest;
}

//! Whether a scan reads all rows of its table that its filters keep: no sample, no part, no past
inline bool ReadsAllRows(const LogicalGet &get) {
	bool all = !get.extra_info.sample_options && !get.ordinality_idx.IsValid() && !get.row_group_order_options;
#ifdef VIBESPATIAL_DUCKDB_2
	all = all && !get.has_pushed_projection && !get.at_clause && get.scan_partition_indices.empty();
#endif
	return all;
}

//! Calls `visit(position, term)` for each term of the filters of a scan that decides about rows. False where it returned false, or where there
//! is a filter of another kind.
template <class VISIT>
bool VisitFilters(LogicalGet &get, VISIT &&visit) {
	auto &column_ids = get.GetColumnIds();
	auto column_at = [&](idx_t position) {
		auto &id = column_ids[position];
		return BoundColumnRefExpression(get.GetColumnName(id), get.GetColumnType(id),
		                                ColumnBinding(get.table_index, ProjectionIndex(position)));
	};
#ifdef VIBESPATIAL_DUCKDB_2
	if (get.table_filters.HasMultiColumnFilters()) {
		return false;
	}
	for (auto &entry : get.table_filters) {
		auto position = entry.GetIndex();
		if (column_ids[position].IsVirtualColumn()) {
			return false;
		}
		auto column = column_at(position);
		vector<unique_ptr<Expression>> terms;
		terms.push_back(entry.Filter().template Cast<ExpressionFilter>().expr->Copy());
		LogicalFilter::SplitPredicates(terms);
		for (auto &term : terms) {
			if (!ExpressionFilter::IsOptionalExpression(*term) &&
			    !visit(position, *ExpressionFilter(term->Copy()).ToExpression(column))) {
				return false;
			}
		}
	}
#else
	for (auto &entry : get.table_filters.filters) {
		idx_t position = 0;
		while (position < column_ids.size() && column_ids[position].GetPrimaryIndex() != entry.first) {
			position++;
		}
		if (position == column_ids.size() || column_ids[position].IsVirtualColumn()) {
			return false;
		}
		auto column = column_at(position);
		vector<reference<TableFilter>> parts {*entry.second};
		for (idx_t i = 0; i < parts.size(); i++) {
			auto &part = parts[i].get();
			switch (part.filter_type) {
			case TableFilterType::CONJUNCTION_AND:
				for (auto &child : part.template Cast<ConjunctionAndFilter>().child_filters) {
					parts.push_back(*child);
				}
				break;
			case TableFilterType::OPTIONAL_FILTER:
				break;
			case TableFilterType::CONSTANT_COMPARISON:
			case TableFilterType::IS_NULL:
			case TableFilterType::IS_NOT_NULL:
			case TableFilterType::CONJUNCTION_OR:
			case TableFilterType::IN_FILTER:
			case TableFilterType::EXPRESSION_FILTER:
				if (!visit(position, *part.ToExpression(column))) {
					return false;
				}
				break;
			default:
				return false;
			}
		}
	}
#endif
	return true;
}

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//
//! The base of an operator that adds a report to EXPLAIN ANALYZE. It calls SourceFinished() when its source has no more rows.
template <class BASE>
class ReportingOperator : public BASE {
public:
	using BASE::BASE;

	virtual InsertionOrderPreservingMap<string> Report(GlobalSourceState &gstate) const = 0;

#ifndef VIBESPATIAL_DUCKDB_2
	InsertionOrderPreservingMap<string> ExtraSourceParams(GlobalSourceState &gstate,
	                                                      LocalSourceState &) const override {
		return Report(gstate);
	}
#endif

protected:
	void SourceFinished([[maybe_unused]] ExecutionContext &context, [[maybe_unused]] GlobalSourceState &gstate) const {
#ifdef VIBESPATIAL_DUCKDB_2
		auto &profiler = context.thread.profiler;
		if (!profiler.OperatorMetricsIsInitialized(*this)) {
			return; // profiling is off
		}
		auto params = this->ParamsToString();
		for (auto &entry : Report(gstate)) {
			params[entry.first] = entry.second;
		}
		profiler.GetOperatorMetrics(*this).SetExtraInfo(std::move(params));
#endif
	}
};

#ifdef VIBESPATIAL_DUCKDB_2
using StateLock = std::unique_lock<annotated_mutex>;

inline StateLock LockState(StateWithBlockableTasks &state) {
	return StateLock(state.lock);
}
inline void UnblockTasks(StateWithBlockableTasks &state, StateLock &) {
	state.UnblockTasks();
}
inline SourceResultType BlockSource(StateWithBlockableTasks &state, StateLock &, const InterruptState &interrupt) {
	return state.BlockSource(interrupt);
}
#else
using StateLock = unique_lock<mutex>;

inline StateLock LockState(StateWithBlockableTasks &state) {
	return state.Lock();
}
inline void UnblockTasks(StateWithBlockableTasks &state, StateLock &guard) {
	state.UnblockTasks(guard);
}
inline SourceResultType BlockSource(StateWithBlockableTasks &state, StateLock &guard, const InterruptState &interrupt) {
	return state.BlockSource(guard, interrupt);
}
#endif

//===----------------------------------------------------------------------===//
// Table functions
//===----------------------------------------------------------------------===//
inline void AddNamedParameter(TableFunction &function, const string &name, const LogicalType &type) {
#ifdef VIBESPATIAL_DUCKDB_2
	auto &signature = function.GetSignature();
	auto add = [&](TypedKwargs &options) { options.Add(Identifier(name), type); };
	if (signature.GetTypedKwargs()) {
		signature.ExtendTypedKwargs(add);
	} else {
		signature.WithTypedKwargs("options", add);
	}
#else
	function.named_parameters[name] = type;
#endif
}

inline const string &FunctionName(const TableFunctionBindInput &input) {
#ifdef VIBESPATIAL_DUCKDB_2
	return NameOf(input.table_function.GetName());
#else
	return input.table_function.name;
#endif
}

//! Adds the types of the positional parameters and the names of the named ones
inline void DescribeParameters(const TableFunction &function, FunctionDescription &description) {
#ifdef VIBESPATIAL_DUCKDB_2
	auto &signature = function.GetSignature();
	for (auto &parameter : signature.GetParameters()) {
		if (!parameter.IsVariadic()) {
			description.parameter_types.push_back(parameter.GetType());
		}
	}
	if (auto options = signature.GetTypedKwargs()) {
		for (auto &name : options->GetNames()) {
			description.parameter_names.push_back(NameOf(name));
		}
	}
#else
	description.parameter_types = function.arguments;
	for (auto &parameter : function.named_parameters) {
		description.parameter_names.push_back(parameter.first);
	}
#endif
}

inline Parser ParserFor(ClientContext &context) {
#ifdef VIBESPATIAL_DUCKDB_2
	return Parser(context);
#else
	return Parser(context.GetParserOptions());
#endif
}

//! A reference to a table by a name that may be qualified
inline unique_ptr<BaseTableRef> TableOf(const QualifiedName &name) {
	auto table = make_uniq<BaseTableRef>();
#ifdef VIBESPATIAL_DUCKDB_2
	table->SetQualifiedName(name);
#else
	table->catalog_name = name.catalog;
	table->schema_name = name.schema;
	table->table_name = name.name;
#endif
	return table;
}

} // namespace duckdb

#endif
