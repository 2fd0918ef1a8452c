#include "gpu_plugin/compile/helper_process.hpp"

#include "gpu_plugin/compile/write_all.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ; // NOLINT: POSIX names it so

namespace vibespatial {

namespace {

constexpr char MAGIC[4] = {'V', 'K', 'R', '1'};
constexpr uint64_t LARGEST = 256ull << 20;
//! Of what the helper printed, kept for the error
constexpr size_t KEPT_OUTPUT = 2000;
//! What is below is given to the helper
constexpr int FIRST_OWN_DESCRIPTOR = 10;
//! For its end, once it has sent everything, and once it was killed
constexpr double END_SECONDS = 5;

struct Frame {
	char magic[4];
	uint32_t good;
	uint64_t name_size;
	uint64_t body_size;
};

//! Both ends; what is left open is closed
struct Pipe {
	int ends[2] = {-1, -1};
	//! Why it could not be made, or 0
	int problem = 0;

	//! Where the host has closed its descriptors 0 to 2, a new pipe would take their place
	Pipe() {
		int made[2];
		if (pipe2(made, O_CLOEXEC) != 0) {
			problem = errno;
			return;
		}
		for (int i = 0; i < 2; i++) {
			ends[i] = fcntl(made[i], F_DUPFD_CLOEXEC, FIRST_OWN_DESCRIPTOR);
			problem = ends[i] < 0 ? errno : problem;
			close(made[i]);
		}
	}
	~Pipe() {
		CloseRead();
		CloseWrite();
	}
	Pipe(const Pipe &) = delete;
	Pipe &operator=(const Pipe &) = delete;
	void CloseRead() {
		if (ends[0] >= 0) {
			close(ends[0]);
			ends[0] = -1;
		}
	}
	void CloseWrite() {
		if (ends[1] >= 0) {
			close(ends[1]);
			ends[1] = -1;
		}
	}
};

//! Takes the first whole result out of `bytes`; false when there is none yet. Throws nothing: bad bytes set `broken`.
bool TakeResult(std::string &bytes, HelperResult &result, bool &broken) {
	Frame frame;
	if (bytes.size() < sizeof(frame)) {
		return false;
	}
	std::memcpy(&frame, bytes.data(), sizeof(frame));
	if (std::memcmp(frame.magic, MAGIC, sizeof(MAGIC)) != 0 || frame.name_size > LARGEST || frame.body_size > LARGEST) {
		broken = true;
		return false;
	}
	if (bytes.size() < sizeof(frame) + frame.name_size + frame.body_size) {
		return false;
	}
	result.name = bytes.substr(sizeof(frame), frame.name_size);
	result.good = frame.good == 1;
	auto body = bytes.substr(sizeof(frame) + frame.name_size, frame.body_size);
	(result.good ? result.payload : result.error) = std::move(body);
	bytes.erase(0, sizeof(frame) + frame.name_size + frame.body_size);
	return true;
}

//! A child that the host may reap before us: with a handler that waits for all children, or because it ignores SIGCHLD. Then its
//! number may be another process's, so a child that is not ours any more is neither killed nor waited for.
class Child {
public:
	explicit Child(pid_t pid) : pid(pid) {
#ifdef SYS_pidfd_open
		fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
#endif
	}
	~Child() {
		// Not waited for where what came of it could not be reported
		if (!ended) {
			Kill();
			WaitFor(END_SECONDS);
		}
		if (fd >= 0) {
			close(fd);
		}
	}
	Child(const Child &) = delete;
	Child &operator=(const Child &) = delete;

	void Kill() {
		if (Ended(WNOHANG | WNOWAIT)) {
			return;
		}
#ifdef SYS_pidfd_send_signal
		if (fd >= 0) {
			syscall(SYS_pidfd_send_signal, fd, SIGKILL, nullptr, 0);
			return;
		}
#endif
		kill(pid, SIGKILL);
	}

	//! False where it has not ended in that time
	bool WaitFor(double seconds) {
		using Clock = std::chrono::steady_clock;
		const auto until = Clock::now() + std::chrono::duration<double>(seconds);
		while (!Ended(WNOHANG)) {
			if (Clock::now() >= until) {
				return false;
			}
			// Readable when it ends; without such a descriptor this is a short sleep
			pollfd wait {fd, POLLIN, 0};
			poll(&wait, 1, fd >= 0 ? 100 : 5);
		}
		return true;
	}

	std::string HowItEnded() const {
		if (!is_known) {
			return "the compile helper ended, and this process was not told how";
		}
		if (info.si_code == CLD_EXITED) {
			return "the compile helper ended with status " + std::to_string(info.si_status);
		}
		return "the compile helper was ended by signal " + std::to_string(info.si_status);
	}

private:
	bool Ended(int options) {
		if (ended) {
			return true;
		}
		int got;
		do {
			info.si_pid = 0;
			got = waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | options);
		} while (got < 0 && errno == EINTR);
		if (got < 0) {
			ended = true; // somebody else has its status
			return true;
		}
		if (info.si_pid == 0) {
			return false;
		}
		is_known = true;
		ended = (options & WNOWAIT) == 0;
		return true;
	}

	const pid_t pid;
	int fd = -1;
	siginfo_t info {};
	bool ended = false;
	bool is_known = false;
};

} // namespace

bool WriteHelperResult(int fd, const HelperResult &result) {
	auto &body = result.good ? result.payload : result.error;
	Frame frame;
	std::memcpy(frame.magic, MAGIC, sizeof(MAGIC));
	frame.good = result.good;
	frame.name_size = result.name.size();
	frame.body_size = body.size();
	std::string bytes(reinterpret_cast<const char *>(&frame), sizeof(frame));
	bytes += result.name;
	bytes += body;
	return WriteAll(fd, bytes);
}

void RunHelper(const HelperJob &job, const std::function<void(HelperResult &&)> &report,
               const std::function<bool()> &stopped) {
	auto left = job.specs;
	auto fail_all = [&](const std::string &why) {
		// The helper takes them in order: it was at the first that is left
		for (size_t i = 0; i < left.size(); i++) {
			report(HelperResult {left[i], false, "", why, i > 0});
		}
		left.clear();
	};
	// The helper ends when its input does, which it does not read otherwise
	Pipe results, output, input;
	for (auto *pipe : {&results, &output, &input}) {
		if (pipe->problem != 0) {
			fail_all(std::string("no pipe to the compile helper: ") + std::strerror(pipe->problem));
			return;
		}
	}

	std::vector<std::string> words {job.program, "specs",    "--capability", std::to_string(job.capability),
	                                "--folder",  job.folder, "--parent",     std::to_string(getpid())};
	for (auto &folder : job.library_folders) {
		words.insert(words.end(), {"--library-folder", folder});
	}
	if (job.precompiled_headers) {
		words.emplace_back("--pch");
	}
	words.insert(words.end(), job.specs.begin(), job.specs.end());
	std::vector<char *> arguments;
	arguments.reserve(words.size() + 1);
	for (auto &word : words) {
		arguments.push_back(&word[0]);
	}
	arguments.push_back(nullptr);

	// Results come on descriptor 3; all that is printed goes into the other pipe
	posix_spawn_file_actions_t actions;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, input.ends[0], 0);
	posix_spawn_file_actions_adddup2(&actions, output.ends[1], 1);
	posix_spawn_file_actions_adddup2(&actions, output.ends[1], 2);
	posix_spawn_file_actions_adddup2(&actions, results.ends[1], 3);
	posix_spawnattr_t attributes;
	posix_spawnattr_init(&attributes);
	// A process group of its own, so that a Ctrl-C meant for a query does not end a compile; the helper ends with its parent
	// The signals that this thread blocks are not the helper's business
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setpgroup(&attributes, 0);
	sigset_t none;
	sigemptyset(&none);
	posix_spawnattr_setsigmask(&attributes, &none);
	pid_t pid = -1;
	const int spawned = posix_spawn(&pid, job.program.c_str(), &actions, &attributes, arguments.data(), environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	if (spawned != 0) {
		fail_all(job.program + " could not be started: " + std::strerror(spawned));
		return;
	}
	Child child(pid);
	results.CloseWrite();
	output.CloseWrite();
	input.CloseRead();

	using Clock = std::chrono::steady_clock;
	auto heard = Clock::now();
	std::string bytes, printed, why;
	bool broken = false;
	std::vector<char> block(1 << 16);
	while (results.ends[0] >= 0 || output.ends[0] >= 0) {
		pollfd wait[2] = {{results.ends[0], POLLIN, 0}, {output.ends[0], POLLIN, 0}};
		if (poll(wait, 2, 100) < 0 && errno != EINTR) {
			why = std::string("poll: ") + std::strerror(errno);
			break;
		}
		if (stopped()) {
			why = "stopped";
			break;
		}
		if (std::chrono::duration<double>(Clock::now() - heard).count() > job.timeout_seconds) {
			why = "the compile helper gave no kernel for " + std::to_string(static_cast<int>(job.timeout_seconds)) +
			      " seconds and was ended (SET vibe_compile_timeout)";
			break;
		}
		for (int i = 0; i < 2; i++) {
			if (wait[i].fd < 0 || !(wait[i].revents & (POLLIN | POLLHUP | POLLERR))) {
				continue;
			}
			const auto got = read(wait[i].fd, block.data(), block.size());
			if (got < 0 && errno == EINTR) {
				continue;
			}
			if (got <= 0) {
				i == 0 ? results.CloseRead() : output.CloseRead();
				continue;
			}
			if (i == 1) {
				printed.append(block.data(), static_cast<size_t>(got));
				if (printed.size() > 2 * KEPT_OUTPUT) {
					printed.erase(0, printed.size() - KEPT_OUTPUT);
				}
				continue;
			}
			bytes.append(block.data(), static_cast<size_t>(got));
			HelperResult result;
			while (TakeResult(bytes, result, broken)) {
				heard = Clock::now();
				const auto named = std::find(left.begin(), left.end(), result.name);
				if (named != left.end()) {
					left.erase(named);
					report(std::move(result));
				}
				result = HelperResult();
			}
			if (broken) {
				results.CloseRead();
				why = "the compile helper sent what is no kernel";
			}
		}
		if (broken || left.empty()) {
			break;
		}
	}
	input.CloseWrite();
	const bool by_itself = left.empty() || (results.ends[0] < 0 && !broken);
	if (!by_itself || !child.WaitFor(END_SECONDS)) {
		child.Kill();
		// One that even this does not end is stuck in the kernel: it is not waited for
		child.WaitFor(END_SECONDS);
	}
	if (!left.empty()) {
		if (why.empty()) {
			why = child.HowItEnded();
		}
		if (!printed.empty()) {
			why += ": " + printed.substr(printed.size() - std::min(printed.size(), KEPT_OUTPUT));
		}
		fail_all(why);
	}
}

} // namespace vibespatial
