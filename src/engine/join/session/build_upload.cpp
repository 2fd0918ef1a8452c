#include "engine/join/session/build_upload.hpp"

#include "engine/join/session/content_hash.hpp"

namespace vibespatial {

BuildUpload::BuildUpload(JoinSession &session, JoinIndex &index, std::function<void(const UploadReport &)> note)
    : session(session), index(index), note(std::move(note)), key_work(NewWork()), cell_work(NewWork()),
      row_work(NewWork()) {
}

BuildUpload::Work BuildUpload::NewWork() const {
	return std::make_shared<SharedWork>(session.host.Threads(), session.Poll());
}

void BuildUpload::Run(const Work &work, const std::function<void(Parallel &)> &steps) {
	work->Run([&](Parallel &parallel) {
		session.host.Invite(work);
		steps(parallel);
	});
}

//! Lays out the rows for the upload as well: both read every row, and neither needs a device
BuildKey BuildUpload::HashContent(const GpuRows &rows, Parallel &parallel) {
	constexpr size_t ROWS_PER_STEP = WkbLayout::ROWS_PER_PART;
	std::vector<BuildKey> keys((rows.count + ROWS_PER_STEP - 1) / ROWS_PER_STEP);
	if (!rows.points) {
		layout = std::make_unique<WkbLayout>(rows.count);
	}
	parallel.For(keys.size(), [&](size_t step) {
		ContentHash hash;
		for (size_t i = step * ROWS_PER_STEP; i < std::min(rows.count, (step + 1) * ROWS_PER_STEP); i++) {
			if (rows.points) {
				hash.Add(rows.points[i].x);
				hash.Add(rows.points[i].y);
			} else {
				hash.Add(rows.wkb[i].data, rows.wkb[i].data ? rows.wkb[i].size : 0);
				hash.Add(uint64_t(rows.wkb[i].data != nullptr));
			}
			if (rows.limits) {
				hash.Add(rows.limits[i]);
			}
		}
		keys[step] = hash.Key();
		if (layout) {
			layout->Read(step, rows.wkb);
		}
	});
	kinds = rows.points ? SideKinds::Points() : SideKinds::Shapes(false, false);
	if (layout) {
		layout->MakeGroups(parallel);
		for (auto &part : layout->parts) {
			kinds.multipoints = kinds.multipoints || part.has_points;
			kinds.large = kinds.large || part.has_large;
		}
	}
	ContentHash all;
	all.Add(uint64_t(rows.points != nullptr));
	for (auto &part : keys) {
		all.Add(part);
	}
	// The boxes of the tree and the content of the cells depend on the condition as well
	auto &condition = index.Condition();
	for (auto &term : condition.any_of) {
		all.Add(uint64_t(term.kind) | uint64_t(term.predicate) << 8 | uint64_t(term.empty_is_near) << 16);
	}
	all.Add(uint64_t(condition.limit_from) | uint64_t(condition.compared) << 8 | uint64_t(condition.strict) << 9);
	all.Add(index.CellLimit());
	return all.Key();
}

void BuildUpload::Prepare() {
	Run(key_work, [&](Parallel &parallel) {
		GpuRows rows;
		index.ExportRows(rows);
		key = HashContent(rows, parallel);
		session.host.WaitForDevice();
		device_build = session.Engine().FindBuild(key);
		if (!device_build) {
			device_build = session.Engine().NewBuild();
			return;
		}
		session.Note([](JoinReport &report) { report.was_resident = true; });
		if (device_build->HasRows()) {
			layout.reset();
		}
	});
}

bool BuildUpload::PrepareCells() {
	Prepare();
	if (device_build->HasCells()) {
		return true;
	}
	auto cells = index.CellsForDevice();
	if (!cells) {
		return false;
	}
	Run(cell_work, [&](Parallel &parallel) {
		UploadReport report;
		report.what = "cells of the build side";
		report.begin = std::chrono::system_clock::now();
		const auto before = device_build->Bytes();
		GpuTimes times;
		device_build->SetCells(cells->GetPieces(), index.RowCount(), parallel, times);
		session.AddTimes(times);
		report.bytes = device_build->Bytes() - before;
		report.end = std::chrono::system_clock::now();
		note(report);
		session.Engine().KeepBuild(key, device_build);
	});
	return true;
}

void BuildUpload::PrepareRows() {
	Prepare();
	if (device_build->HasRows()) {
		return;
	}
	Run(row_work, [&](Parallel &parallel) {
		UploadReport report;
		GpuRows rows;
		index.ExportRows(rows);
		rows.layout = layout.get();
		session.Need(BuildNeeds(kinds, !rows.tree));
		report.begin = std::chrono::system_clock::now();
		if (auto upload = device_build->BeginRows(rows, parallel, report.tree_times)) {
			AddLeftShapes(
			    *upload, rows.wkb, [&](uint32_t row, PackedShapes &packed) { index.PackRow(row, packed); }, parallel);
			upload->Finish();
			GpuTimes times;
			upload->AddBytes(times);
			session.AddTimes(times);
			report.bytes = times.bytes_to_device;
		}
		layout.reset();
		// Nothing was uploaded where another query has brought the same rows meanwhile
		report.boxes = report.tree_times.bytes_to_device > 0 ? rows.boxes->size() : 0;
		report.end = std::chrono::system_clock::now();
		note(report);
		session.Engine().KeepBuild(key, device_build);
	});
}

std::unique_ptr<GpuTile> BuildUpload::NewTile() {
	Prepare();
	return session.Engine().NewTile(device_build, session.condition);
}

} // namespace vibespatial
