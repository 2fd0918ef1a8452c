//===----------------------------------------------------------------------===//
// engine/gpu/runtime/runtime.hpp
//
// The device registry: the one GPU engine of the process, from the plug-in's file to the open engine. There is nothing of
// CUDA here, and a process that never asks for an engine opens nothing.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/interface/engine.hpp"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

namespace vibespatial {

class GpuRuntime {
public:
	enum class Phase : uint8_t { NOT_STARTED, OPENING, OPEN, FAILED };

	//! Never destroyed: a thread that opens the plug-in may outlive every database
	static GpuRuntime &Get();

	//! Of the whole process. An engine that is open is told; its device stays the one it was opened with.
	void SetOptions(const GpuOptions &options);
	GpuOptions Options();

	//! Opens the plug-in on a thread of its own and asks for these kernels once it is open (at once where it is already).
	//! Returns without waiting. A failed opening is not tried again.
	void StartInBackground(const std::vector<std::string> &names, const std::string &requested_by, bool urgent = false);
	//! The same, after a moment without Work, or a second from now at the latest: a driver that starts holds up the memory of all threads
	void StartWhenQuiet(const std::vector<std::string> &names, const std::string &requested_by);
	//! An operator at work, from its first row to its last
	class Work {
	public:
		Work();
		~Work();
		Work(const Work &) = delete;
		Work &operator=(const Work &) = delete;
	};
	//! The same, but opens nothing: without effect where nobody has begun to
	void RequestIfStarted(const std::vector<std::string> &names, const std::string &requested_by, bool urgent);
	//! Opens it where nobody has yet, or nobody could, and waits for that; nothing after so long, with the reason
	GpuEngine *Engine(double wait_seconds, std::string &why_not);
	//! The engine where it is open already; costs nothing
	GpuEngine *IfOpen() const;

	//! Before a database closes, after which the process may end at any time: waits, at most so long, for what cannot be stopped
	void Quiesce(double timeout_seconds);

	Phase GetPhase();
	//! "not started", "being opened", "open", or why it could not be opened
	std::string State();
	//! The file of the plug-in, whether or not it was opened; empty where there is none, with the reason
	std::string PluginPath(std::string &why_not);

	//! The plug-in's libraries that this runtime looks for, since the loader of the plug-in needs them
	std::vector<GpuComponent> Libraries();

	//! Could a device be here? Looks for the files of the drivers, loads nothing.
	static bool DeviceIsPossible();
	//! Why it could not
	static const char *NoDeviceText();

private:
	GpuRuntime();

	//! How the plug-in is opened where nobody has begun to
	enum class Opening : uint8_t { NONE, AT_ONCE, WHEN_QUIET };
	void Start(std::unique_lock<std::mutex> &guard, Opening opening);
	void Request(const std::vector<std::string> &names, const std::string &requested_by, bool urgent, Opening opening);
	//! False where the process ends before
	bool AwaitQuiet();
	//! Somebody waits for the engine
	void Hurry(std::unique_lock<std::mutex> &guard);
	void Open();
	//! The engine, or nothing and the reason
	GpuEngine *OpenPlugin(const GpuOptions &options, std::string &error);
	static void Tell(GpuEngine &open, const GpuOptions &given);
	void AtExit();
	//! Around a fork; an engine of the process that a child was forked from is of no use there
	void BeforeFork();
	void AfterFork();
	void InChild();

	std::mutex lock;
	std::condition_variable changed;
	Phase phase = Phase::NOT_STARTED;
	GpuOptions options;
	uint64_t options_version = 0;
	std::string failure;
	struct Wish {
		std::vector<std::string> names;
		std::string requested_by;
		bool urgent;
	};
	//! What was asked for while the plug-in is being opened
	std::vector<Wish> wishes;
	//! Lets others see the engine where nothing was set or asked for since; else false, with what was
	bool Publish(GpuEngine &opened, std::vector<Wish> &granted, GpuOptions &used, uint64_t &version, bool &is_new);
	std::atomic<GpuEngine *> engine {nullptr};
	bool started = false;
	//! Phase OPENING: the plug-in has not been touched yet, and whether somebody waits for it
	bool awaits_quiet = false;
	bool is_wanted = false;
	std::atomic<int> at_work {0};
	//! Of steady_clock, when the last Work ended
	std::atomic<int64_t> last_work {0};
	bool forked = false;
	bool exiting = false;
	//! Held while an open engine is configured, so that the last options win
	std::mutex configuring;
};

} // namespace vibespatial
