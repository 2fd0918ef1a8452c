// The build side of a join.
#include "engine/gpu/machine/join.hpp"
#include "engine/gpu/machine/shapes.hpp"
#include "engine/gpu/machine/tree.hpp"

namespace vibespatial {

void *MachineBuild::Allocate(Machine &machine, size_t size) {
	const size_t rounded = std::max<size_t>(size, 8);
	held.push_back(machine.Allocate(rounded));
	bytes += rounded;
	return held.back().get();
}

template <class T>
const T *MachineBuild::Copy(Machine &machine, const T *from, size_t count, Parallel &parallel) {
	auto *to = static_cast<T *>(Allocate(machine, count * sizeof(T)));
	machine.Put(to, from, count * sizeof(T), parallel);
	return to;
}

template <class T>
const T *MachineBuild::Keep(const MachineArray<T> &array) {
	held.push_back(array.held);
	bytes += array.count * sizeof(T);
	return array.at;
}

//! Holds the lock of the build until it is finished
class MachineBuild::RowUpload : public GpuRowUpload {
public:
	RowUpload(MachineBuild &build, std::unique_lock<std::mutex> guard, const GpuRows &rows, Parallel &parallel,
	          GpuTimes &tree_times)
	    : build(build), guard(std::move(guard)), machine(build.machines()), count(rows.count) {
		build.PutTree(*machine, rows, parallel, tree_times);
		build.limits = rows.limits ? build.Copy(*machine, rows.limits, rows.count, parallel) : nullptr;
		if (rows.leaves) {
			build.leaves = build.Copy(*machine, rows.leaves->data(), rows.leaves->size(), parallel);
			return;
		}
		if (rows.points) {
			build.side = vibe::SideView {nullptr, build.Copy(*machine, rows.points, rows.count, parallel)};
			return;
		}
		shapes = std::make_unique<BuildShapes>(
		    *machine, [this](size_t size) { return this->build.Allocate(*machine, size); }, rows, parallel);
	}

	const std::vector<uint32_t> &LeftRows() const override {
		static const std::vector<uint32_t> NONE;
		return shapes ? shapes->LeftRows() : NONE;
	}

	void AddShapes(const std::vector<PackedShapes> &pieces, Parallel &parallel) override {
		machine->Use();
		shapes->Add(pieces, parallel);
	}

	void AddBytes(GpuTimes &times) override {
		machine->AddBytes(times);
	}

	void Finish() override {
		if (shapes) {
			build.side = vibe::SideView {shapes->Views(), nullptr};
			build.has_points = shapes->has_points;
			build.has_large = shapes->has_large;
		}
		machine->Synchronize();
		build.row_count = count;
		build.has_rows.store(true, std::memory_order_release);
		guard.unlock();
	}

private:
	MachineBuild &build;
	std::unique_lock<std::mutex> guard;
	const std::unique_ptr<Machine> machine;
	const size_t count;
	std::unique_ptr<BuildShapes> shapes;
};

std::unique_ptr<GpuRowUpload> MachineBuild::BeginRows(const GpuRows &rows, Parallel &parallel, GpuTimes &tree_times) {
	std::unique_lock<std::mutex> guard(lock);
	if (has_rows) {
		return nullptr;
	}
	return std::make_unique<RowUpload>(*this, std::move(guard), rows, parallel, tree_times);
}

void MachineBuild::PutTree(Machine &machine, const GpuRows &rows, Parallel &parallel, GpuTimes &tree_times) {
	tree = vibe::TreeView {};
	tree.rows = static_cast<uint32_t>(rows.count);
	if (rows.tree) {
		const auto &source = *rows.tree;
		tree.items = static_cast<uint32_t>(source.Count());
		tree.nodes = Copy(machine, source.Nodes(), source.NodeCount() * vibe::NODE_FLOATS, parallel);
		tree.ids = reinterpret_cast<const vibe::i32 *>(Copy(machine, source.Ids().data(), source.Count(), parallel));
		tree.boxes = rows.boxes ? Copy(machine, rows.boxes->data(), rows.boxes->size(), parallel) : nullptr;
	} else {
		const auto packed = PackTree(machine, rows.boxes->data(), rows.boxes->size(), parallel, tree_times);
		tree.items = static_cast<uint32_t>(packed.items);
		tree.nodes = Keep(packed.nodes);
		tree.ids = Keep(packed.ids);
		tree.boxes = Keep(packed.boxes);
	}
	tree.part_row = Copy(machine, rows.part_row->data(), rows.part_row->size(), parallel);
}

vibe::RoughEdges MachineBuild::PutRough(Machine &machine, const CellIndex::Pieces &pieces, Parallel &parallel) {
	const auto frame = vibe::RoughFrame::Of(pieces.view.box);
	auto *to = static_cast<vibe::RoughVec *>(Allocate(machine, pieces.vertex_count * sizeof(vibe::RoughVec)));
	constexpr size_t AT_ONCE = Machine::MOST_WRITTEN / sizeof(vibe::RoughVec);
	parallel.For((pieces.vertex_count + AT_ONCE - 1) / AT_ONCE, [&](size_t step) {
		const size_t begin = step * AT_ONCE, count = std::min(AT_ONCE, pieces.vertex_count - begin);
		machine.Use();
		machine.Write(to + begin, count * sizeof(vibe::RoughVec), [&](void *at) {
			auto *vertices = static_cast<vibe::RoughVec *>(at);
			for (size_t i = 0; i < count; i++) {
				vertices[i] = frame.Of(pieces.vertices[begin + i]);
			}
		});
	});
	return vibe::RoughEdges {to, frame};
}

void MachineBuild::SetCells(const CellIndex::Pieces &pieces, size_t rows, Parallel &parallel, GpuTimes &times) {
	std::lock_guard<std::mutex> guard(lock);
	if (has_cells) {
		return;
	}
	const auto made = machines();
	auto &machine = *made;
	cells = pieces.view;
	cells.top_words = Copy(machine, pieces.top_words, pieces.top_word_count, parallel);
	cells.vertices = Copy(machine, pieces.vertices, pieces.vertex_count, parallel);
	auto *pool = static_cast<uint8_t *>(Allocate(machine, pieces.chunks.size() * CellIndex::CHUNK_BYTES));
	parallel.For(pieces.chunks.size(), [&](size_t i) {
		machine.Use();
		machine.Put(pool + i * CellIndex::CHUNK_BYTES, pieces.chunks[i], CellIndex::CHUNK_BYTES);
	});
	cells.pool = pool;
	if (machine.limits.rough_edges && cells.reach.limit < 0) {
		rough = PutRough(machine, pieces, parallel);
	}
	machine.Synchronize();
	machine.AddBytes(times);
	row_count = rows;
	has_cells.store(true, std::memory_order_release);
}

} // namespace vibespatial
