#include "engine/join/shares.hpp"

#include <algorithm>

namespace vibespatial {

using namespace join_tuning;

JoinShares::JoinShares(JoinIndex &index, const std::function<void()> &poll, Threads threads)
    : index(index), poll(poll), threads(std::move(threads)) {
}

void JoinShares::SetFirstOnly(bool value) {
	first_only = value;
}

void JoinShares::Begin(const JoinRow *tile_p, size_t count_p, const double *row_limits_p, const bool *done_p) {
	tile = tile_p;
	count = count_p;
	row_limits = row_limits_p;
	done = done_p;
	share_count = (count + ROWS_PER_SHARE - 1) / ROWS_PER_SHARE;
	while (shares.size() < share_count) {
		shares.push_back(std::make_unique<Share>(index, poll));
	}
	for (size_t i = 0; i < share_count; i++) {
		auto &share = *shares[i];
		share.first_row = static_cast<uint32_t>(i * ROWS_PER_SHARE);
		share.probe.SetFirstOnly(first_only);
		share.begun = false;
		share.found = share.given = 0;
		share.more = true;
	}
}

size_t JoinShares::Next(uint32_t *probe_rows, uint32_t *build_rows, size_t capacity) {
	while (true) {
		size_t given = 0;
		bool more = false;
		for (size_t i = 0; i < share_count; i++) {
			auto &share = *shares[i];
			const size_t some = std::min(capacity - given, share.found - share.given);
			for (size_t k = 0; k < some; k++) {
				probe_rows[given + k] = share.first_row + share.probe_rows[share.given + k];
				build_rows[given + k] = share.build_rows[share.given + k];
			}
			share.given += some;
			given += some;
			more |= share.more;
		}
		if (given > 0 || !more) {
			return given;
		}
		threads([&](Parallel &parallel) {
			parallel.For(share_count, [&](size_t i) {
				auto &share = *shares[i];
				if (!share.begun) {
					const size_t begin = share.first_row;
					share.probe.Begin(tile + begin, std::min(ROWS_PER_SHARE, count - begin),
					                  row_limits ? row_limits + begin : nullptr, done ? done + begin : nullptr);
					share.begun = true;
				}
				if (share.more) {
					share.found = share.probe.Next(share.probe_rows, share.build_rows, PAIRS_PER_SHARE);
					share.given = 0;
					share.more = share.found == PAIRS_PER_SHARE;
				}
			});
		});
	}
}

JoinCounts JoinShares::Counts() const {
	JoinCounts total;
	for (auto &share : shares) {
		total.Add(share->probe.counts);
	}
	return total;
}

} // namespace vibespatial
