// What EXPLAIN says about a planned join (ParamsToString), and EXPLAIN ANALYZE about one that has run (Report)
#include "duckdb/spatial_join/physical/state.hpp"

namespace duckdb {

string PhysicalSpatialJoin::GetName() const {
	return "VIBE_SPATIAL_JOIN";
}

InsertionOrderPreservingMap<string> PhysicalSpatialJoin::ParamsToString() const {
	InsertionOrderPreservingMap<string> result;
	result["Join Type"] = EnumUtil::ToString(join_type);
	result["Predicate"] = predicate_text;
	if (!residual_text.empty()) {
		result["Residual"] = residual_text;
	}
	if (has_aggregate) {
		string names;
		for (auto &expr : aggregates) {
			names += (names.empty() ? "" : "\n") + expr->GetName();
		}
		result["Aggregates"] = names;
	}
	bool only_relate = true;
	for (auto &term : condition.any_of) {
		only_relate &= term.kind == vibespatial::JoinTerm::RELATE;
	}
	result["Index"] = only_relate ? "tree of boxes; cells once many points meet areas" : "tree of boxes";
	result["Engine"] = planned_pin.empty() ? planned_engine : planned_pin;
	string coverings;
	for (auto &scan : probe_scans) {
		if (scan.covering_index.IsValid() && coverings.find(scan.covering.name) == string::npos) {
			coverings += (coverings.empty() ? "left out by " : ", ") + scan.covering.name;
		}
	}
	if (!coverings.empty()) {
		result["Row Groups"] = coverings;
	}
	SetEstimatedCardinality(result, estimated_cardinality);
	return result;
}

InsertionOrderPreservingMap<string> PhysicalSpatialJoin::Report(GlobalSourceState &) const {
	auto &state = SpatialJoinState::Get(*this);
	InsertionOrderPreservingMap<string> result;
	auto milliseconds = [](double seconds) { return StringUtil::Format("%.1f ms", seconds * 1e3); };
	auto index = state.part_indexes;
	if (state.build) {
		index.Add(*state.build);
	}
	auto parts = state.partitions ? ", " + to_string(state.partitions->grid.PartCount()) + " parts" : string();
	// DuckDB prints no names of extension operators here
	result["Operator"] = GetName();
	result["Built"] = to_string(state.built_rows) + " rows, " + milliseconds(index.seconds) + parts;
	result["Built Index"] = index.description + ", " + StringUtil::BytesToHumanReadableString(index.bytes);
	result["Index Engine"] = state.index_dispatch.Describe();
	result["Pairs Engine"] = state.pairs_dispatch.Describe();
	auto probed_rows = state.probed_rows, pairs = state.pairs;
	state.pairs_dispatch.CountedRows(probed_rows, pairs);
	result["Probed"] = to_string(probed_rows) + " rows, " + milliseconds(state.probe_seconds);
	auto counts = state.counts;
	state.pairs_dispatch.AddTo(counts);
	result["Candidates"] = to_string(counts.candidates);
	result["Cell Hits"] = to_string(counts.cell_hits);
	result["Exact Tests"] = to_string(counts.exact_tests);
	result["Pairs"] = to_string(pairs);
	return result;
}

} // namespace duckdb
