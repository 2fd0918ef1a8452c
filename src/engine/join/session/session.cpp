#include "engine/join/session/session.hpp"

#include "engine/join/session/build_upload.hpp"
#include "engine/join/session/tile.hpp"

#include <limits>

namespace vibespatial {

//! The device returns a count for every build row after each tile. From so many build rows on the pairs are fewer bytes.
static constexpr size_t MAX_COUNTED_ROWS = 16384;

bool ReadPoints(const JoinRow *rows, size_t count, double *x, double *y, bool &has_nulls) {
	has_nulls = false;
	for (size_t i = 0; i < count; i++) {
		vibe::Vec2 point {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::quiet_NaN()};
		if (!rows[i].data) {
			has_nulls = true;
		} else if (!vibe::TryReadPoint(rows[i].data, rows[i].size, point)) {
			return false;
		}
		x[i] = point.x;
		y[i] = point.y;
	}
	return true;
}

JoinBuild::JoinBuild(JoinSession &session, JoinIndex &index, std::unique_ptr<BuildUpload> upload)
    : session(session), index(index), upload(std::move(upload)) {
}

JoinBuild::~JoinBuild() = default;

bool JoinBuild::OnDevice() const {
	return upload && session.IsActive();
}

JoinSession::JoinSession(JoinHost &host, const JoinCondition &condition, JoinOutput output, bool ordered)
    : host(host), condition(condition), ordered(ordered), output(output) {
}

JoinSession::~JoinSession() = default;

void JoinSession::UseDevice(GpuEngine *engine_p, size_t build_rows) {
	engine = engine_p;
	active = true;
	if (output == JoinOutput::COUNTS && build_rows > MAX_COUNTED_ROWS) {
		output = JoinOutput::PAIRS;
	}
}

bool JoinSession::IsAwaited() {
	if (has_started) {
		return false;
	}
	has_started = !active || !host.DeviceIsStarting();
	return !has_started;
}

void JoinSession::RequireDevice() {
	try {
		if (active) {
			host.WaitForDevice();
		}
	} catch (const GpuError &error) {
		Fail(error);
	}
}

void JoinSession::Need(const std::vector<std::string> &names) {
	std::lock_guard<std::mutex> guard(kernel_lock);
	std::vector<std::string> cold;
	for (auto &name : names) {
		if (kernels.count(name) == 0) {
			cold.push_back(name);
		}
	}
	if (!cold.empty()) {
		host.WaitForKernels(cold);
		kernels.insert(cold.begin(), cold.end());
	}
}

void JoinSession::Fail(const GpuError &error) {
	active = false;
	std::string reason;
	Note([&](JoinReport &all) {
		if (all.failure.empty()) {
			all.failure = error.what();
		}
		reason = all.failure;
	});
	host.DeviceFailed(reason);
}

std::unique_ptr<JoinBuild> JoinSession::NewBuild(JoinIndex &index, bool on_device,
                                                 std::function<void(const UploadReport &)> note) {
	auto upload = on_device ? std::make_unique<BuildUpload>(*this, index, std::move(note)) : nullptr;
	return std::make_unique<JoinBuild>(*this, index, std::move(upload));
}

void JoinSession::AddTiles(std::vector<std::unique_ptr<Tile>> tiles) {
	std::lock_guard<std::mutex> guard(lock);
	for (auto &tile : tiles) {
		left_tiles.push_back(std::move(tile));
	}
}

std::unique_ptr<Tile> JoinSession::TakeTile(size_t number) {
	return std::move(left_tiles[number]);
}

void JoinSession::AddCounts(const std::vector<uint64_t> &more) {
	std::lock_guard<std::mutex> guard(lock);
	if (counts.size() < more.size()) {
		counts.resize(more.size());
	}
	for (size_t i = 0; i < more.size(); i++) {
		counts[i] += more[i];
	}
}

void JoinSession::AddTimes(const GpuTimes &times) {
	Note([&](JoinReport &all) { all.times.Add(times); });
}

JoinReport JoinSession::Report() const {
	std::lock_guard<std::mutex> guard(lock);
	return report;
}

} // namespace vibespatial
