#include "duckdb/overlay/pinned_union.hpp"

#include "duckdb/overlay/dispatch.hpp"
#include "duckdb/parallel/meta_pipeline.hpp"
#include "duckdb/parallel/pipeline.hpp"
#include "duckdb/support/cpu_work.hpp"
#include "duckdb/support/task_parallel.hpp"
#include "duckdb/support/wkb_output.hpp"
#include "engine/overlay/grouped_overlay.hpp"
#include "engine/overlay/tuning.hpp"

namespace duckdb {

using vibespatial::GroupedOverlay;
using vibespatial::KnownPolygons;

//===----------------------------------------------------------------------===//
// Planning
//===----------------------------------------------------------------------===//
LogicalPinnedUnion::LogicalPinnedUnion(unique_ptr<LogicalOperator> child, vector<Column> columns_p,
                                       shared_ptr<PinnedUnion> found, string table)
    : columns(std::move(columns_p)), found(std::move(found)), table(std::move(table)) {
	estimated_cardinality = child->estimated_cardinality;
	has_estimated_cardinality = child->has_estimated_cardinality;
	children.push_back(std::move(child));
}

void LogicalPinnedUnion::Serialize(Serializer &) const {
	throw NotImplementedException("%s has no serialized form", GetName());
}

InsertionOrderPreservingMap<string> LogicalPinnedUnion::ParamsToString() const {
	InsertionOrderPreservingMap<string> result;
	result["Table"] = table;
	SetParamsEstimatedCardinality(result);
	return result;
}

PhysicalOperator &LogicalPinnedUnion::CreatePlan(ClientContext &context, PhysicalPlanGenerator &planner) {
	auto &child = planner.CreatePlan(*children[0]);
	vector<idx_t> all;
	for (idx_t i = 0; i < child.types.size(); i++) {
		all.push_back(i);
	}
	auto &collect = planner.Make<PhysicalCollectRows>(context, child, std::move(all), false);
	return planner.Make<PhysicalPinnedUnion>(*this, collect);
}

PhysicalPinnedUnion::PhysicalPinnedUnion(PhysicalPlan &plan, const LogicalPinnedUnion &logical, PhysicalOperator &child)
    : PhysicalOperator(plan, PhysicalOperatorType::EXTENSION, logical.types, logical.estimated_cardinality),
      columns(logical.columns), found(logical.found), table(logical.table) {
	children.push_back(child);
}

InsertionOrderPreservingMap<string> PhysicalPinnedUnion::ParamsToString() const {
	InsertionOrderPreservingMap<string> result;
	result["Operator"] = GetName(); // DuckDB's text has no names of extension operators
	result["Table"] = table;
	SetEstimatedCardinality(result, estimated_cardinality);
	return result;
}

void PhysicalPinnedUnion::BuildPipelines(Pipeline &current, MetaPipeline &meta_pipeline) {
	auto &child = children[0].get();
	meta_pipeline.GetState().SetPipelineSource(current, *this);
	child.sink_state.reset();
	auto &pipeline = meta_pipeline.CreateChildMetaPipeline(current, child);
	pipeline.Build(child.children[0]);
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//
namespace {

//! The unions of a column of groups
class ColumnUnions {
public:
	ColumnUnions(ClientContext &context, const PinnedPolygons &pinned) : context(context), pinned(pinned) {
	}

	//! `first_groups`: the first one of each chunk
	void Read(const ColumnDataCollection &groups, idx_t column, vector<idx_t> &first_groups) {
		ColumnDataScanState scan;
		DataChunk chunk;
		groups.InitializeScan(scan, vector<column_t> {column});
		groups.InitializeScanChunk(scan, chunk);
		starts.push_back(0);
		first_groups.clear();
		while (groups.Scan(scan, chunk)) {
			first_groups.push_back(Groups());
			UnifiedVectorFormat format;
			chunk.data[0].ToUnifiedFormat(chunk.size(), format);
			auto rows = UnifiedVectorFormat::GetData<string_t>(format);
			for (idx_t i = 0; i < chunk.size(); i++) {
				const auto at = format.sel->get_index(i);
				if (format.validity.RowIsValid(at)) {
					const auto count = rows[at].GetSize() / PinnedPolygons::NUMBER_BYTES;
					const auto begin = numbers.size();
					numbers.resize(begin + count);
					memcpy(numbers.data() + begin, rows[at].GetData(), count * PinnedPolygons::NUMBER_BYTES);
				}
				starts.push_back(numbers.size());
			}
		}
		made.resize(Groups(), vibespatial::WkbSlice {nullptr, 0});
	}
	idx_t Groups() const {
		return starts.size() - 1;
	}
	const uint32_t *Numbers(idx_t group) const {
		return numbers.data() + starts[group];
	}
	idx_t Count(idx_t group) const {
		return starts[group + 1] - starts[group];
	}
	//! What was made of a group; no data where that is left to those who emit it
	const vibespatial::WkbSlice &Made(idx_t group) const {
		return made[group];
	}

	//! As many as the device takes, many at once, and groups that are large
	void Unite(RowUnion &unite, vibespatial::Parallel &parallel) {
		const auto &known = *pinned.Rows().polygons;
		vector<KnownPolygons::Counts> counts(Groups());
		vibespatial::ForEach(parallel, Groups(), [&](size_t group) {
			for (idx_t i = 0; i < Count(group); i++) {
				if (!known.Count(Numbers(group)[i], counts[group])) {
					counts[group] = KnownPolygons::Counts(); // the CPU's
					return;
				}
			}
		});
		vector<idx_t> small, large;
		idx_t of_small = 0, of_large = 0;
		for (idx_t group = 0; group < Groups(); group++) {
			const auto vertices = counts[group].vertices;
			if (counts[group].polygons >= vibespatial::overlay_tuning::LEAST_POLYGONS &&
			    vertices >= vibespatial::overlay_tuning::LEAST_VERTICES) {
				large.push_back(group);
				of_large += vertices;
			} else if (vertices > 0) {
				small.push_back(group);
				of_small += vertices;
			}
		}
		pinned.Expect(of_small + of_large);
		UniteSmall(small, counts, of_small, parallel);
		UniteLarge(large, counts, of_large, unite, parallel);
	}

private:
	struct Batch {
		vector<idx_t> groups;
		idx_t vertices = 0;
	};

	void UniteSmall(const vector<idx_t> &small, const vector<KnownPolygons::Counts> &counts, idx_t vertices,
	                vibespatial::Parallel &parallel) {
		//! From so many on, each thread has batches of its own
		constexpr idx_t MANY = 2 * GroupedOverlay::ENOUGH;
		const bool many = vertices >= MANY && parallel.Threads() > 1;
		const auto most = many ? MinValue<idx_t>(GroupedOverlay::ENOUGH, vertices / parallel.Threads() + 1)
		                       : static_cast<idx_t>(GroupedOverlay::ENOUGH);
		vector<Batch> batches;
		for (auto group : small) {
			if (batches.empty() || batches.back().vertices >= most) {
				batches.emplace_back();
			}
			batches.back().groups.push_back(group);
			batches.back().vertices += counts[group].vertices;
		}
		wkb.resize(batches.size());
		if (many) {
			parallel.For(batches.size(), [&](size_t i) {
				vibespatial::Serial serial;
				UniteBatch(batches[i], wkb[i], serial);
			});
			return;
		}
		for (idx_t i = 0; i < batches.size(); i++) {
			UniteBatch(batches[i], wkb[i], parallel);
		}
	}

	void UniteBatch(const Batch &batch, vibespatial::PagesVector<uint8_t> &bytes, vibespatial::Parallel &parallel) {
		if (!OverlayDispatch::WouldTake(context, batch.groups.size(), batch.vertices)) {
			return;
		}
		GroupedOverlay groups;
		groups.AddKnown(
		    pinned.Rows(), batch.groups.size(),
		    [&](size_t i) {
			    return GroupedOverlay::KnownGroup {Numbers(batch.groups[i]),
			                                       static_cast<size_t>(Count(batch.groups[i]))};
		    },
		    parallel);
		OverlayDispatch device(context, &pinned);
		const auto begins = device.Unite(groups, bytes, parallel);
		for (idx_t i = 0; i + 1 < begins.size(); i++) {
			if (begins[i] < begins[i + 1]) {
				made[batch.groups[i]] = vibespatial::WkbSlice {bytes.data() + begins[i], begins[i + 1] - begins[i]};
			}
		}
	}

	//! Side by side, each by one thread, but for those that have more than a thread's share of all vertices. They have all threads, when they
	//! come out.
	void UniteLarge(const vector<idx_t> &large, const vector<KnownPolygons::Counts> &counts, idx_t vertices,
	                RowUnion &unite, vibespatial::Parallel &parallel) {
		vector<idx_t> fair;
		for (auto group : large) {
			if (counts[group].vertices <= vertices / parallel.Threads()) {
				fair.push_back(group);
			}
		}
		const auto first = wkb.size();
		wkb.resize(first + fair.size());
		parallel.For(fair.size(), [&](size_t i) {
			const auto group = fair[i];
			Vector result(LogicalType::GEOMETRY(), 1);
			const auto united = unite.Unite(pinned, Numbers(group), Count(group), result);
			auto &bytes = wkb[first + i];
			bytes.resize(united.GetSize());
			memcpy(bytes.data(), united.GetData(), united.GetSize());
			made[group] = vibespatial::WkbSlice {bytes.data(), bytes.size()};
		});
	}

	ClientContext &context;
	const PinnedPolygons &pinned;
	//! Of the rows of all groups, and where those of each group begin
	vibespatial::PagesVector<uint32_t> numbers;
	vibespatial::CountedVector<idx_t> starts;
	vibespatial::CountedVector<vibespatial::WkbSlice> made;
	std::vector<vibespatial::PagesVector<uint8_t>> wkb;
};

//===----------------------------------------------------------------------===//
// Source
//===----------------------------------------------------------------------===//
class PinnedUnionSource : public GlobalSourceState {
public:
	PinnedUnionSource(ClientContext &context, const PhysicalPinnedUnion &op)
	    : context(context), op(op), pinned(op.found->Get()),
	      work(std::make_shared<vibespatial::SharedWork>(ThreadCount(context), CancelPoll(context))) {
	}
	idx_t MaxThreads() override {
		return MaxValue<idx_t>(op.Rows().ChunkCount(), 1);
	}

	//! All threads together, and those that are free
	void Unite() {
		if (!pinned || !pinned->HasRows()) {
			return;
		}
		if (!invited.exchange(true)) {
			TaskThreads(context).Invite(work);
		}
		work->Run([&](vibespatial::Parallel &parallel) {
			const QueryScope scope(context);
			for (auto &column : op.columns) {
				unions.push_back(make_uniq<ColumnUnions>(context, *pinned));
				unions.back()->Read(op.Rows(), column.number, first_groups);
				unions.back()->Unite(*column.unite, parallel);
			}
		});
	}
	//! False where there are none left
	bool Next(DataChunk &chunk) {
		const idx_t number = next_chunk++;
		if (number >= op.Rows().ChunkCount()) {
			return false;
		}
		op.Rows().FetchChunk(number, chunk);
		for (idx_t i = 0; i < unions.size(); i++) {
			Write(*unions[i], *op.columns[i].unite, first_groups[number], chunk.data[op.columns[i].number],
			      chunk.size());
		}
		return true;
	}

private:
	//! Unions in the place of the numbers of their rows
	void Write(const ColumnUnions &made, RowUnion &unite, idx_t first, Vector &column, idx_t count) {
		Vector result(column.GetType(), count);
		auto strings = MutableData<string_t>(result);
		for (idx_t i = 0; i < count; i++) {
			const auto group = first + i;
			const auto &wkb = made.Made(group);
			if (made.Count(group) == 0) {
				MutableValidity(result).SetInvalid(i);
			} else if (wkb.data) {
				strings[i] = EmitWkb(result, wkb.size, [&](WkbOutput out) { out.Bytes(wkb.data, wkb.size); });
			} else {
				strings[i] = unite.Unite(*pinned, made.Numbers(group), made.Count(group), result);
			}
		}
		SetRowCount(result, count);
		column.Reference(result);
	}

	ClientContext &context;
	const PhysicalPinnedUnion &op;
	const shared_ptr<PinnedPolygons> pinned;
	const std::shared_ptr<vibespatial::SharedWork> work;
	std::atomic<bool> invited {false};
	vector<unique_ptr<ColumnUnions>> unions;
	//! Of each chunk
	vector<idx_t> first_groups;
	std::atomic<idx_t> next_chunk {0};
};

} // namespace

unique_ptr<GlobalSourceState> PhysicalPinnedUnion::GetGlobalSourceState(ClientContext &context) const {
	return make_uniq<PinnedUnionSource>(context, *this);
}

SourceResultType PhysicalPinnedUnion::GetDataInternal(ExecutionContext &, DataChunk &chunk,
                                                      OperatorSourceInput &input) const {
	auto &source = input.global_state.Cast<PinnedUnionSource>();
	source.Unite();
	return source.Next(chunk) ? SourceResultType::HAVE_MORE_OUTPUT : SourceResultType::FINISHED;
}

} // namespace duckdb
