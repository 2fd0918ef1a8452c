#include "duckdb/pinned/values.hpp"

#include "duckdb/execution/expression_executor.hpp"
#include "duckdb/planner/expression/list.hpp"

#include <cmath>
#include <cstring>
#include <limits>

namespace duckdb {

namespace {

constexpr int64_t LEAST = std::numeric_limits<int64_t>::min(), MOST = std::numeric_limits<int64_t>::max();

//! Bits of floating-point numbers as integers in the order of the numbers, and back
template <class T>
T FlipNegative(T value) {
	using Bits = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;
	Bits bits;
	std::memcpy(&bits, &value, sizeof(bits));
	bits = bits < 0 ? bits ^ std::numeric_limits<Bits>::max() : bits;
	std::memcpy(&value, &bits, sizeof(bits));
	return value;
}

template <class T>
T Ordered(T value) {
	if constexpr (std::is_floating_point_v<T>) {
		// As DuckDB orders them: NaN equals NaN and is greater than all others. -0 stays itself, right below 0.
		return FlipNegative(std::isnan(value) ? std::numeric_limits<T>::quiet_NaN() : value);
	} else if constexpr (std::is_unsigned_v<T> && !std::is_same_v<T, bool>) {
		return static_cast<T>(value ^ (T(1) << (8 * sizeof(T) - 1)));
	} else {
		return value;
	}
}

//! The value that Ordered() was given
template <class T>
T Unordered(T value) {
	if constexpr (std::is_floating_point_v<T>) {
		return FlipNegative(value);
	} else {
		return Ordered(value);
	}
}

template <class T>
void ReadAs(const uint8_t *values, const uint8_t *nulls, idx_t count, Vector &column) {
	auto data = MutableData<T>(column);
	auto &validity = MutableValidity(column);
	for (idx_t i = 0; i < count; i++) {
		T value;
		std::memcpy(&value, values + i * sizeof(T), sizeof(T));
		data[i] = Unordered(value);
		if (nulls[i]) {
			validity.SetInvalid(i);
		}
	}
}

template <class T>
void AppendAs(Vector &column, idx_t count, vector<uint8_t> &values, vector<uint8_t> &nulls) {
	UnifiedVectorFormat format;
	column.ToUnifiedFormat(count, format);
	auto data = UnifiedVectorFormat::GetData<T>(format);
	const auto begin = values.size();
	values.resize(begin + count * sizeof(T));
	for (idx_t i = 0; i < count; i++) {
		auto at = format.sel->get_index(i);
		const bool is_valid = format.validity.RowIsValid(at);
		const T value = is_valid ? Ordered<T>(data[at]) : T();
		std::memcpy(values.data() + begin + i * sizeof(T), &value, sizeof(T));
		nulls.push_back(is_valid ? 0 : 1);
	}
}

bool IsPinnable(const LogicalType &type) {
	switch (type.id()) {
	case LogicalTypeId::BOOLEAN:
	case LogicalTypeId::TINYINT:
	case LogicalTypeId::SMALLINT:
	case LogicalTypeId::INTEGER:
	case LogicalTypeId::BIGINT:
	case LogicalTypeId::UTINYINT:
	case LogicalTypeId::USMALLINT:
	case LogicalTypeId::UINTEGER:
	case LogicalTypeId::UBIGINT:
	case LogicalTypeId::FLOAT:
	case LogicalTypeId::DOUBLE:
	case LogicalTypeId::DATE:
	case LogicalTypeId::TIMESTAMP:
	case LogicalTypeId::TIMESTAMP_SEC:
	case LogicalTypeId::TIMESTAMP_MS:
	case LogicalTypeId::TIMESTAMP_NS:
	case LogicalTypeId::TIMESTAMP_TZ:
		return true;
	case LogicalTypeId::DECIMAL:
		return type.InternalType() != PhysicalType::INT128;
	default:
		return false;
	}
}

} // namespace

uint32_t PinnedWidth(const LogicalType &type) {
	return IsPinnable(type) ? static_cast<uint32_t>(GetTypeIdSize(type.InternalType())) : 0;
}

void AppendPinned(Vector &column, idx_t count, vector<uint8_t> &values, vector<uint8_t> &nulls) {
	switch (column.GetType().InternalType()) {
	case PhysicalType::BOOL:
	case PhysicalType::INT8:
		return AppendAs<int8_t>(column, count, values, nulls);
	case PhysicalType::INT16:
		return AppendAs<int16_t>(column, count, values, nulls);
	case PhysicalType::INT32:
		return AppendAs<int32_t>(column, count, values, nulls);
	case PhysicalType::INT64:
		return AppendAs<int64_t>(column, count, values, nulls);
	case PhysicalType::UINT8:
		return AppendAs<uint8_t>(column, count, values, nulls);
	case PhysicalType::UINT16:
		return AppendAs<uint16_t>(column, count, values, nulls);
	case PhysicalType::UINT32:
		return AppendAs<uint32_t>(column, count, values, nulls);
	case PhysicalType::UINT64:
		return AppendAs<uint64_t>(column, count, values, nulls);
	case PhysicalType::FLOAT:
		return AppendAs<float>(column, count, values, nulls);
	case PhysicalType::DOUBLE:
		return AppendAs<double>(column, count, values, nulls);
	default:
		throw InternalException("a column of type %s cannot be pinned", column.GetType().ToString());
	}
}

void ReadPinned(const uint8_t *values, const uint8_t *nulls, idx_t count, Vector &column) {
	switch (column.GetType().InternalType()) {
	case PhysicalType::BOOL:
	case PhysicalType::INT8:
		return ReadAs<int8_t>(values, nulls, count, column);
	case PhysicalType::INT16:
		return ReadAs<int16_t>(values, nulls, count, column);
	case PhysicalType::INT32:
		return ReadAs<int32_t>(values, nulls, count, column);
	case PhysicalType::INT64:
		return ReadAs<int64_t>(values, nulls, count, column);
	case PhysicalType::UINT8:
		return ReadAs<uint8_t>(values, nulls, count, column);
	case PhysicalType::UINT16:
		return ReadAs<uint16_t>(values, nulls, count, column);
	case PhysicalType::UINT32:
		return ReadAs<uint32_t>(values, nulls, count, column);
	case PhysicalType::UINT64:
		return ReadAs<uint64_t>(values, nulls, count, column);
	case PhysicalType::FLOAT:
		return ReadAs<float>(values, nulls, count, column);
	case PhysicalType::DOUBLE:
		return ReadAs<double>(values, nulls, count, column);
	default:
		throw InternalException("a column of type %s cannot be pinned", column.GetType().ToString());
	}
}

namespace {

//! A value that is not NULL
int64_t EncodeConstant(const Value &value) {
	DataChunk chunk;
	chunk.Initialize(Allocator::DefaultAllocator(), {value.type()});
	chunk.SetValue(0, 0, value);
	SetRowCount(chunk, 1);
	vector<uint8_t> values, nulls;
	AppendPinned(chunk.data[0], 1, values, nulls);
	switch (values.size()) {
	case 1:
		return static_cast<int8_t>(values[0]);
	case 2:
		return Load<int16_t>(values.data());
	case 4:
		return Load<int32_t>(values.data());
	default:
		return Load<int64_t>(values.data());
	}
}

//! The values that SQL takes for equal to a value that is not NULL
struct EqualValues {
	explicit EqualValues(const Value &value) : low(EncodeConstant(value)), high(low) {
		const bool has_two_zeros =
		    value.type().id() == LogicalTypeId::FLOAT || value.type().id() == LogicalTypeId::DOUBLE;
		if (has_two_zeros && (low == -1 || low == 0)) {
			low = -1;
			high = 0;
		}
	}
	int64_t low;
	int64_t high;
};

//! The clauses of a condition, term by term
class ClauseReader {
public:
	ClauseReader(ClientContext &context, const std::function<bool(const ColumnBinding &, string &)> &name_of)
	    : context(context), name_of(name_of) {
	}

	//! Adds the clause of one term: a comparison, IN, IS [NOT] NULL, or an OR of such of one column
	bool Read(const Expression &term, PinnedClause &clause) {
		if (term.GetExpressionType() == ExpressionType::CONJUNCTION_OR) {
			for (auto &child : ChildrenOf(term.Cast<BoundConjunctionExpression>())) {
				if (!Read(*child, clause)) {
					return false;
				}
			}
			return true;
		}
		if (term.GetExpressionClass() == ExpressionClass::BOUND_COLUMN_REF) {
			return ReadFlag(term, 1, clause);
		}
		if (IsComparison(term)) {
			auto copy = term.Copy();
			return ReadComparison(term.GetExpressionType(), *LeftOf(*copy), *RightOf(*copy), clause);
		}
		if (term.GetExpressionClass() != ExpressionClass::BOUND_OPERATOR) {
			return false;
		}
		auto &children = ChildrenOf(term.Cast<BoundOperatorExpression>());
		switch (term.GetExpressionType()) {
		case ExpressionType::OPERATOR_NOT:
			return ReadFlag(*children[0], 0, clause);
		case ExpressionType::OPERATOR_IS_NULL:
			return SetColumn(*children[0], clause) && Add(clause, MOST, LEAST, true);
		case ExpressionType::OPERATOR_IS_NOT_NULL:
			return SetColumn(*children[0], clause) && Add(clause, LEAST, MOST, false);
		case ExpressionType::COMPARE_IN:
			for (idx_t i = 1; i < children.size(); i++) {
				if (!ReadComparison(ExpressionType::COMPARE_EQUAL, *children[0], *children[i], clause)) {
					return false;
				}
			}
			return true;
		default:
			return false;
		}
	}

private:
	static bool Add(PinnedClause &clause, int64_t low, int64_t high, bool null_passes) {
		vibespatial::PinnedTerm range;
		range.low = low;
		range.high = high;
		range.null_passes = null_passes;
		clause.ranges.push_back(range);
		return true;
	}

	//! A column of type BOOLEAN as a condition
	bool ReadFlag(const Expression &column, int64_t value, PinnedClause &clause) const {
		return ReturnTypeOf(column).id() == LogicalTypeId::BOOLEAN && SetColumn(column, clause) &&
		       Add(clause, value, value, false);
	}

	bool SetColumn(const Expression &expr, PinnedClause &clause) const {
		string name;
		if (expr.GetExpressionClass() != ExpressionClass::BOUND_COLUMN_REF || PinnedWidth(ReturnTypeOf(expr)) == 0 ||
		    !name_of(BindingOf(expr.Cast<BoundColumnRefExpression>()), name) ||
		    (!clause.column.empty() && clause.column != name)) {
			return false;
		}
		clause.column = name;
		return true;
	}

	bool ReadComparison(ExpressionType type, const Expression &left, const Expression &right, PinnedClause &clause) {
		if (left.GetExpressionClass() != ExpressionClass::BOUND_COLUMN_REF) {
			return right.GetExpressionClass() == ExpressionClass::BOUND_COLUMN_REF &&
			       ReadComparison(FlipComparisonExpression(type), right, left, clause);
		}
		Value value;
		if (!SetColumn(left, clause) || !right.IsFoldable() || ReturnTypeOf(right) != ReturnTypeOf(left) ||
		    !ExpressionExecutor::TryEvaluateScalar(context, right, value)) {
			return false;
		}
		if (value.IsNull()) {
			return Add(clause, MOST, LEAST, false); // true for no row
		}
		const EqualValues equal(value);
		const auto low = equal.low, high = equal.high;
		switch (type) {
		case ExpressionType::COMPARE_EQUAL:
			return Add(clause, low, high, false);
		case ExpressionType::COMPARE_NOTEQUAL:
			return (low == LEAST || Add(clause, LEAST, low - 1, false)) &&
			       (high == MOST || Add(clause, high + 1, MOST, false));
		case ExpressionType::COMPARE_LESSTHAN:
			return low == LEAST ? Add(clause, MOST, LEAST, false) : Add(clause, LEAST, low - 1, false);
		case ExpressionType::COMPARE_LESSTHANOREQUALTO:
			return Add(clause, LEAST, high, false);
		case ExpressionType::COMPARE_GREATERTHAN:
			return high == MOST ? Add(clause, MOST, LEAST, false) : Add(clause, high + 1, MOST, false);
		case ExpressionType::COMPARE_GREATERTHANOREQUALTO:
			return Add(clause, low, MOST, false);
		default:
			return false;
		}
	}

	ClientContext &context;
	const std::function<bool(const ColumnBinding &, string &)> &name_of;
};

} // namespace

bool AddClauses(ClientContext &context, const Expression &condition,
                const std::function<bool(const ColumnBinding &binding, string &name)> &name_of,
                vector<PinnedClause> &clauses) {
	vector<unique_ptr<Expression>> terms;
	terms.push_back(condition.Copy());
	LogicalFilter::SplitPredicates(terms);
	ClauseReader reader(context, name_of);
	for (auto &term : terms) {
		PinnedClause clause;
		if (term->IsVolatile() || !reader.Read(*term, clause)) {
			return false;
		}
		for (auto &range : clause.ranges) {
			range.ends_clause = false;
		}
		clause.ranges.back().ends_clause = true;
		clauses.push_back(std::move(clause));
	}
	return true;
}

} // namespace duckdb
