#include "duckdb/expressions/condition.hpp"

#include "duckdb/execution/expression_executor.hpp"
#include "duckdb/planner/expression/list.hpp"
#include "duckdb/planner/expression_iterator.hpp"
#include "duckdb/planner/joinside.hpp"
#include "duckdb/planner/logical_operator_visitor.hpp"
#include "duckdb/planner/operator/logical_filter.hpp"
#include "duckdb/planner/operator/logical_join.hpp"
#include "duckdb/support/wkb_output.hpp"

namespace duckdb {

using vibespatial::JoinLimit;
using vibespatial::JoinTerm;

//===----------------------------------------------------------------------===//
// The functions, by name
//===----------------------------------------------------------------------===//
namespace {

struct NamedPredicate {
	const char *name;
	vibe::Predicate predicate;
	vibe::Predicate flipped;
	//! What to take when there are several: the most selective first
	int rank;
};

const NamedPredicate PREDICATES[] = {
    {"equals", vibe::PREDICATE_EQUALS, vibe::PREDICATE_EQUALS, 0},
    {"within", vibe::PREDICATE_WITHIN, vibe::PREDICATE_CONTAINS, 1},
    {"contains", vibe::PREDICATE_CONTAINS, vibe::PREDICATE_WITHIN, 1},
    {"coveredby", vibe::PREDICATE_COVERED_BY, vibe::PREDICATE_COVERS, 1},
    {"covers", vibe::PREDICATE_COVERS, vibe::PREDICATE_COVERED_BY, 1},
    {"withinproperly", vibe::PREDICATE_WITHIN_PROPERLY, vibe::PREDICATE_CONTAINS_PROPERLY, 1},
    {"containsproperly", vibe::PREDICATE_CONTAINS_PROPERLY, vibe::PREDICATE_WITHIN_PROPERLY, 1},
    {"touches", vibe::PREDICATE_TOUCHES, vibe::PREDICATE_TOUCHES, 2},
    {"crosses", vibe::PREDICATE_CROSSES, vibe::PREDICATE_CROSSES, 2},
    {"overlaps", vibe::PREDICATE_OVERLAPS, vibe::PREDICATE_OVERLAPS, 2},
    {"intersects", vibe::PREDICATE_INTERSECTS, vibe::PREDICATE_INTERSECTS, 3},
};
constexpr int DISTANCE_RANK = 4;
constexpr int BOXES_RANK = 5;

const NamedPredicate *FindPredicate(const string &name) {
	for (auto &entry : PREDICATES) {
		if (name == entry.name) {
			return &entry;
		}
	}
	return nullptr;
}

vibe::Predicate FlipPredicate(vibe::Predicate predicate) {
	for (auto &entry : PREDICATES) {
		if (entry.predicate == predicate) {
			return entry.flipped;
		}
	}
	return predicate;
}

bool IsGeometryFunction(const Expression &expr, idx_t arguments) {
	if (expr.GetExpressionClass() != ExpressionClass::BOUND_FUNCTION) {
		return false;
	}
	auto &function = expr.Cast<BoundFunctionExpression>();
	return ChildrenOf(function).size() == arguments &&
	       ReturnTypeOf(*ChildrenOf(function)[0]).id() == LogicalTypeId::GEOMETRY &&
	       ReturnTypeOf(*ChildrenOf(function)[1]).id() == LogicalTypeId::GEOMETRY;
}

//! Casts between GEOMETRY types change the CRS in the type alone
unique_ptr<Expression> *StripCasts(unique_ptr<Expression> *expr) {
	while (IsCast(**expr)) {
		auto &child = CastChild(**expr);
		if (ReturnTypeOf(**expr).id() != LogicalTypeId::GEOMETRY ||
		    ReturnTypeOf(*child).id() != LogicalTypeId::GEOMETRY) {
			break;
		}
		expr = &child;
	}
	return expr;
}

//===----------------------------------------------------------------------===//
// Recognising
//===----------------------------------------------------------------------===//
//! A term as it stands in the plan: nothing is moved until all is decided
struct FoundTerm {
	JoinTerm term {};
	int rank = 0;
	unique_ptr<Expression> *left = nullptr;
	unique_ptr<Expression> *right = nullptr;
	JoinLimit limit_from = JoinLimit::NONE;
	double limit = 0;
	optional_ptr<Expression> left_limit;
	optional_ptr<Expression> right_limit;
	bool compared = false;
	bool strict = false;
};

class Recogniser {
public:
	Recogniser(ClientContext &context, const JoinTables &tables) : context(context), tables(tables) {
	}

	//! x for "x = true" and the like: a join keeps the rows where its condition is true
	static unique_ptr<Expression> &StripTruth(unique_ptr<Expression> &expr) {
		if (!IsComparison(*expr)) {
			return expr;
		}
		auto is = [](const Expression &side, bool truth) {
			if (side.GetExpressionClass() != ExpressionClass::BOUND_CONSTANT) {
				return false;
			}
			auto &value = ValueOf(side.Cast<BoundConstantExpression>());
			return value.type().id() == LogicalTypeId::BOOLEAN && !value.IsNull() && BooleanValue::Get(value) == truth;
		};
		bool truth;
		switch (expr->GetExpressionType()) {
		case ExpressionType::COMPARE_EQUAL:
		case ExpressionType::COMPARE_NOT_DISTINCT_FROM:
			truth = true;
			break;
		case ExpressionType::COMPARE_NOTEQUAL:
			truth = false;
			break;
		default:
			return expr;
		}
		auto &left = LeftOf(*expr);
		auto &right = RightOf(*expr);
		return is(*right, truth) ? StripTruth(left) : is(*left, truth) ? StripTruth(right) : expr;
	}

	//! Terms that a conjunct is the OR of; or that it cannot be true without, when it is not `exact`
	bool Conjunct(unique_ptr<Expression> &conjunct, vector<FoundTerm> &found, bool &exact) {
		exact = true;
		auto &expr = StripTruth(conjunct);
		if (expr->GetExpressionType() != ExpressionType::CONJUNCTION_OR) {
			found.resize(1);
			return Term(expr, found[0]);
		}
		idx_t distances = 0, boxes = 0;
		bool equals = false;
		for (auto &child : ChildrenOf(expr->Cast<BoundConjunctionExpression>())) {
			FoundTerm term;
			auto fits = [&]() {
				return found.empty() ||
				       ((*term.left)->Equals(**found[0].left) && (*term.right)->Equals(**found[0].right));
			};
			auto &arm = StripTruth(child);
			if (arm->GetExpressionType() == ExpressionType::CONJUNCTION_AND) {
				exact = false;
				bool any = false;
				for (auto &part : ChildrenOf(arm->Cast<BoundConjunctionExpression>())) {
					term = FoundTerm();
					any = Term(StripTruth(part), term) && fits();
					if (any) {
						break;
					}
				}
				if (!any) {
					return false;
				}
			} else if (!Term(arm, term) || !fits()) {
				return false;
			}
			if (term.term.kind == JoinTerm::DISTANCE && ++distances > 1) {
				// The engine has one limit: the largest finds the pairs of all
				exact = false;
				if (!Widen(found, term)) {
					return false;
				}
				continue;
			}
			boxes += term.term.kind == JoinTerm::BOXES;
			equals |= term.term.kind == JoinTerm::RELATE && term.term.predicate == vibe::PREDICATE_EQUALS;
			found.push_back(term);
		}
		// EMPTY geometries, which may be equal or near, have no boxes
		return !(boxes > 0 && (distances > 0 || equals));
	}

private:
	//! Makes the distance that was found hold wherever another one does
	static bool Widen(vector<FoundTerm> &found, const FoundTerm &other) {
		for (auto &term : found) {
			if (term.term.kind != JoinTerm::DISTANCE) {
				continue;
			}
			if (term.limit_from != JoinLimit::CONSTANT || other.limit_from != JoinLimit::CONSTANT) {
				return false;
			}
			term.limit = term.limit < other.limit || other.limit != other.limit ? other.limit : term.limit;
			term.term.empty_is_near |= other.term.empty_is_near;
			term.compared |= other.compared;
			term.strict = false;
		}
		return true;
	}

	bool Term(unique_ptr<Expression> &expr, FoundTerm &found) {
		switch (expr->GetExpressionType()) {
		case ExpressionType::BOUND_FUNCTION:
			return Function(*expr, found);
		case ExpressionType::COMPARE_LESSTHAN:
		case ExpressionType::COMPARE_LESSTHANOREQUALTO: {
			found.strict = expr->GetExpressionType() == ExpressionType::COMPARE_LESSTHAN;
			return Distance(*LeftOf(*expr), *RightOf(*expr), found);
		}
		case ExpressionType::COMPARE_GREATERTHAN:
		case ExpressionType::COMPARE_GREATERTHANOREQUALTO: {
			found.strict = expr->GetExpressionType() == ExpressionType::COMPARE_GREATERTHAN;
			return Distance(*RightOf(*expr), *LeftOf(*expr), found);
		}
		default:
			return false;
		}
	}

	bool Function(Expression &expr, FoundTerm &found) {
		if (IsGeometryFunction(expr, 3)) {
			auto &function = expr.Cast<BoundFunctionExpression>();
			return SpatialFunctionName(FunctionName(function)) == "dwithin" && Arguments(function, found) &&
			       Limit(*ChildrenOf(function)[2], found);
		}
		if (!IsGeometryFunction(expr, 2)) {
			return false;
		}
		auto &function = expr.Cast<BoundFunctionExpression>();
		auto name = SpatialFunctionName(FunctionName(function));
		if (name == "dwithin") {
			return Arguments(function, found) && BoundLimit(function, found);
		}
		bool boxes = name == "intersects_extent";
		auto predicate = FindPredicate(name);
		if ((!boxes && !predicate) || !Arguments(function, found)) {
			return false;
		}
		if (boxes) {
			found.term.kind = JoinTerm::BOXES;
			found.rank = BOXES_RANK;
			return true;
		}
		bool in_order = found.left == StripCasts(&ChildrenOf(function)[0]);
		found.term.kind = JoinTerm::RELATE;
		found.term.predicate = in_order ? predicate->predicate : predicate->flipped;
		found.rank = predicate->rank;
		return true;
	}

	//! ST_DWithin of `spatial` takes a constant distance away when it is bound, out of our sight. Two points tell it: the largest
	//! x for which (0 0) and (x 0) are within it.
	bool BoundLimit(const BoundFunctionExpression &function, FoundTerm &found) {
		constexpr double LARGEST = 1e150, SMALLEST = 1e-150; // whose squares are exact enough
		auto within = [&](double x) {
			auto copy = function.Copy();
			auto &arguments = ChildrenOf(copy->Cast<BoundFunctionExpression>());
			arguments[0] = make_uniq<BoundConstantExpression>(PointValue(0));
			arguments[1] = make_uniq<BoundConstantExpression>(PointValue(x));
			auto value = ExpressionExecutor::EvaluateScalar(context, *copy);
			return !value.IsNull() && BooleanValue::Get(value);
		};
		found.term.kind = JoinTerm::DISTANCE;
		found.rank = DISTANCE_RANK;
		found.limit_from = JoinLimit::CONSTANT;
		if (!within(0)) {
			found.limit = vibespatial::JoinCondition::NO_LIMIT;
			return true;
		}
		if (!within(SMALLEST)) {
			found.limit = 0;
			return true;
		}
		// Positive doubles are ordered as their bits are
		uint64_t low = BitsOf(SMALLEST), high = BitsOf(LARGEST);
		while (low + 1 < high) {
			auto middle = low + (high - low) / 2;
			(within(FromBits(middle)) ? low : high) = middle;
		}
		found.limit = FromBits(low);
		return high != BitsOf(LARGEST);
	}
	static uint64_t BitsOf(double value) {
		return Load<uint64_t>(const_data_ptr_cast(&value));
	}
	static double FromBits(uint64_t bits) {
		return Load<double>(const_data_ptr_cast(&bits));
	}
	static Value PointValue(double x) {
		char wkb[WKB_HEADER_SIZE + 2 * sizeof(double)];
		WkbOutput out(wkb);
		out.Header(vibespatial::GeometryType::POINT, 0);
		out.Ordinate(x);
		out.Ordinate(0);
		return Value::GEOMETRY(const_data_ptr_cast(wkb), sizeof(wkb));
	}

	bool Distance(Expression &expr, Expression &limit, FoundTerm &found) {
		if (!IsGeometryFunction(expr, 2)) {
			return false;
		}
		auto &function = expr.Cast<BoundFunctionExpression>();
		if (SpatialFunctionName(FunctionName(function)) != "distance" || !Arguments(function, found)) {
			return false;
		}
		found.compared = true;
		found.term.empty_is_near = true;
		return Limit(limit, found);
	}

	bool Limit(Expression &limit, FoundTerm &found) {
		if (ReturnTypeOf(limit).id() != LogicalTypeId::DOUBLE || limit.IsVolatile()) {
			return false;
		}
		found.term.kind = JoinTerm::DISTANCE;
		found.rank = DISTANCE_RANK;
		if (limit.IsFoldable()) {
			found.limit_from = JoinLimit::CONSTANT;
			auto value = ExpressionExecutor::EvaluateScalar(context, limit);
			found.limit = value.IsNull() ? vibespatial::JoinCondition::NO_LIMIT : value.GetValue<double>();
			return true;
		}
		if (SideOf(limit) != JoinSide::BOTH) {
			bool is_right = SideOf(limit) == JoinSide::RIGHT;
			found.limit_from = is_right ? JoinLimit::BUILD : JoinLimit::PROBE;
			(is_right ? found.right_limit : found.left_limit) = limit;
			return true;
		}
		// A sum of one part from each side
		if (limit.GetExpressionClass() != ExpressionClass::BOUND_FUNCTION) {
			return false;
		}
		auto &sum = limit.Cast<BoundFunctionExpression>();
		if (FunctionName(sum) != "+" || ChildrenOf(sum).size() != 2) {
			return false;
		}
		for (auto &part : ChildrenOf(sum)) {
			if (ReturnTypeOf(*part).id() != LogicalTypeId::DOUBLE || SideOf(*part) == JoinSide::BOTH) {
				return false;
			}
			(SideOf(*part) == JoinSide::RIGHT ? found.right_limit : found.left_limit) = *part;
		}
		found.limit_from = JoinLimit::SUM;
		return found.left_limit && found.right_limit;
	}

	//! One argument from each side
	bool Arguments(BoundFunctionExpression &function, FoundTerm &found) {
		auto first = StripCasts(&ChildrenOf(function)[0]);
		auto second = StripCasts(&ChildrenOf(function)[1]);
		if ((*first)->IsVolatile() || (*second)->IsVolatile()) {
			return false;
		}
		auto first_side = SideOf(**first), second_side = SideOf(**second);
		if (first_side == JoinSide::LEFT && second_side == JoinSide::RIGHT) {
			found.left = first;
			found.right = second;
			return true;
		}
		if (first_side == JoinSide::RIGHT && second_side == JoinSide::LEFT) {
			found.left = second;
			found.right = first;
			return true;
		}
		return false;
	}

	JoinSide SideOf(Expression &expr) const {
		if (tables.constants_are_right && expr.GetExpressionClass() == ExpressionClass::BOUND_CONSTANT &&
		    ReturnTypeOf(expr).id() == LogicalTypeId::GEOMETRY &&
		    !ValueOf(expr.Cast<BoundConstantExpression>()).IsNull()) {
			return JoinSide::RIGHT;
		}
		return JoinSide::GetJoinSide(expr, tables.left, tables.right);
	}

	ClientContext &context;
	const JoinTables &tables;
};

} // namespace

unique_ptr<Expression> AndOf(unique_ptr<Expression> first, unique_ptr<Expression> second) {
	return first ? make_uniq_base<Expression, BoundConjunctionExpression>(ExpressionType::CONJUNCTION_AND,
	                                                                      std::move(first), std::move(second))
	             : std::move(second);
}

unique_ptr<Expression> NullUnless(unique_ptr<Expression> condition, unique_ptr<Expression> value) {
	auto null = make_uniq<BoundConstantExpression>(Value(ReturnTypeOf(*value)));
	return make_uniq<BoundCaseExpression>(std::move(condition), std::move(value), std::move(null));
}

string SpatialFunctionName(const string &function_name) {
	auto name = StringUtil::Lower(function_name);
	if (StringUtil::StartsWith(name, "st_")) {
		return name.substr(3);
	}
	if (StringUtil::StartsWith(name, "vibe_")) {
		return name.substr(5);
	}
	return name == "&&" ? "intersects_extent" : string();
}

bool FindSpatialPredicate(const string &name, vibe::Predicate &predicate) {
	auto entry = FindPredicate(name);
	predicate = entry ? entry->predicate : vibe::PREDICATE_DISJOINT;
	return entry || name == "disjoint";
}

JoinTables::JoinTables(LogicalOperator &join) {
	LogicalJoin::GetTableReferences(*join.children[0], left);
	LogicalJoin::GetTableReferences(*join.children[1], right);
}

JoinTables JoinTables::OfFilter(LogicalOperator &input) {
	JoinTables result;
	LogicalJoin::GetTableReferences(input, result.left);
	result.constants_are_right = true;
	return result;
}

bool SpatialCondition::Take(ClientContext &context, const JoinTables &tables, vector<unique_ptr<Expression>> &conjuncts,
                            SpatialCondition &result) {
	LogicalFilter::SplitPredicates(conjuncts);
	Recogniser recogniser(context, tables);
	vector<FoundTerm> best;
	idx_t best_index = 0;
	bool best_exact = true;
	auto rank = [](const vector<FoundTerm> &terms) {
		int worst = 0;
		for (auto &term : terms) {
			worst = MaxValue(worst, term.rank);
		}
		return worst;
	};
	for (idx_t i = 0; i < conjuncts.size(); i++) {
		vector<FoundTerm> found;
		bool exact;
		if (recogniser.Conjunct(conjuncts[i], found, exact) && (best.empty() || rank(found) < rank(best))) {
			best = std::move(found);
			best_index = i;
			best_exact = exact;
		}
	}
	if (best.empty()) {
		return false;
	}

	result.text = conjuncts[best_index]->ToString();
	for (auto &found : best) {
		result.condition.any_of.push_back(found.term);
		if (found.term.kind != JoinTerm::DISTANCE) {
			continue;
		}
		result.condition.compared = found.compared;
		result.condition.strict = found.strict;
		result.condition.limit_from = found.limit_from;
		result.condition.limit = found.limit;
		result.left_limit = found.left_limit ? found.left_limit->Copy() : nullptr;
		result.right_limit = found.right_limit ? found.right_limit->Copy() : nullptr;
	}
	result.left = (*best[0].left)->Copy();
	result.right = (*best[0].right)->Copy();
	if (best_exact) {
		conjuncts.erase_at(best_index);
	}
	for (auto &conjunct : conjuncts) {
		result.residual = AndOf(std::move(result.residual), std::move(conjunct));
	}
	return true;
}

void SpatialCondition::Flip() {
	std::swap(left, right);
	std::swap(left_limit, right_limit);
	for (auto &term : condition.any_of) {
		term.predicate = FlipPredicate(term.predicate);
	}
	if (condition.limit_from == JoinLimit::PROBE) {
		condition.limit_from = JoinLimit::BUILD;
	} else if (condition.limit_from == JoinLimit::BUILD) {
		condition.limit_from = JoinLimit::PROBE;
	}
}

//===----------------------------------------------------------------------===//
// Hiding
//===----------------------------------------------------------------------===//
template <class F>
static void VisitExpressions(unique_ptr<Expression> &expr, const F &visit) {
	ExpressionIterator::EnumerateChildren(*expr,
	                                      [&](unique_ptr<Expression> &child) { VisitExpressions(child, visit); });
	visit(expr);
}

template <class F>
static void VisitExpressions(LogicalOperator &op, const F &visit) {
	for (auto &child : op.children) {
		VisitExpressions(*child, visit);
	}
	LogicalOperatorVisitor::EnumerateExpressions(op,
	                                             [&](unique_ptr<Expression> *expr) { VisitExpressions(*expr, visit); });
}

static bool IsPredicateOfTwoTables(Expression &expr) {
	if (!IsGeometryFunction(expr, 2) && !IsGeometryFunction(expr, 3)) {
		return false;
	}
	auto name = SpatialFunctionName(FunctionName(expr.Cast<BoundFunctionExpression>()));
	if (!FindPredicate(name) && name != "dwithin" && name != "intersects_extent") {
		return false;
	}
	unordered_set<TableIndex> tables;
	ExpressionIterator::VisitExpression<BoundColumnRefExpression>(
	    expr, [&](const BoundColumnRefExpression &column) { tables.insert(BindingOf(column).table_index); });
	return tables.size() > 1;
}

void HideSpatialPredicates(LogicalOperator &plan) {
	VisitExpressions(plan, [](unique_ptr<Expression> &expr) {
		if (IsPredicateOfTwoTables(*expr)) {
			auto alias = expr->GetAlias();
			expr = MakeComparison(ExpressionType::COMPARE_EQUAL, std::move(expr),
			                      make_uniq<BoundConstantExpression>(Value::BOOLEAN(true)));
			expr->SetAlias(alias);
		}
	});
}

bool RestoreSpatialPredicates(LogicalOperator &plan) {
	bool any = false;
	VisitExpressions(plan, [&](unique_ptr<Expression> &expr) {
		auto &inner = Recogniser::StripTruth(expr);
		if (&inner != &expr && IsPredicateOfTwoTables(*inner)) {
			auto predicate = std::move(inner);
			expr = std::move(predicate);
			any = true;
		}
	});
	return any;
}

} // namespace duckdb
