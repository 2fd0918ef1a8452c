//===----------------------------------------------------------------------===//
// engine/join/session/build_upload.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/dispatch/needs.hpp"
#include "engine/join/session/session.hpp"

namespace vibespatial {

//! Brings a build side, or a partition of it, to the device. Each part is uploaded when it is first needed, by the threads that need
//! it together. A build side that an earlier join has left there is found by a hash of its content.
class BuildUpload {
public:
	//! `note` is called for the rows and for the cells
	BuildUpload(JoinSession &session, JoinIndex &index, std::function<void(const UploadReport &)> note);

	//! Uploads the cells; false where points do not ask cells but the rows. Throws GpuError.
	bool PrepareCells();
	//! Uploads the rows and their tree. Throws GpuError.
	void PrepareRows();
	//! Throws GpuError.
	std::unique_ptr<GpuTile> NewTile();
	//! What the rows are; known once one of the above has returned
	const SideKinds &Kinds() const {
		return kinds;
	}

private:
	using Work = std::shared_ptr<SharedWork>;
	Work NewWork() const;
	void Run(const Work &work, const std::function<void(Parallel &)> &steps);
	//! Finds or creates the build side on the device
	void Prepare();
	BuildKey HashContent(const GpuRows &rows, Parallel &parallel);

	JoinSession &session;
	JoinIndex &index;
	const std::function<void(const UploadReport &)> note;
	const Work key_work;
	const Work cell_work;
	const Work row_work;
	BuildKey key;
	SideKinds kinds;
	//! From Prepare() until the rows are on the device
	std::unique_ptr<WkbLayout> layout;
	std::shared_ptr<GpuBuild> device_build;
};

} // namespace vibespatial
