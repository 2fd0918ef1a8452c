#include "gpu_plugin/compile/background_thread.hpp"

#include <atomic>
#include <catch.hpp>
#include <pthread.h>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>

using vibespatial::BackgroundThread;

TEST_CASE("What the work of a thread throws ends the thread alone", "[gpu][background_thread]") {
	BackgroundThread thread([] { throw std::runtime_error("no memory"); });
	CHECK(thread.JoinWithin(20));
	BackgroundThread other([] { throw 1; });
	CHECK(other.JoinWithin(20));
}

TEST_CASE("A thread that cannot be started is an error", "[gpu][background_thread]") {
	// No address space has room for such a stack
	const pid_t child = fork();
	if (child == 0) {
		pthread_attr_t attributes;
		pthread_attr_init(&attributes);
		pthread_attr_setstacksize(&attributes, size_t(1) << 60);
		pthread_setattr_default_np(&attributes);
		bool good = false;
		try {
			BackgroundThread thread([] {});
			thread.JoinWithin(20);
		} catch (const std::exception &error) {
			good = std::string(error.what()).find("no thread could be started") == 0;
		}
		_exit(good ? 0 : 1);
	}
	int status = 0;
	waitpid(child, &status, 0);
	CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

TEST_CASE("A thread that does not end is left to itself", "[gpu][background_thread]") {
	auto stop = std::make_shared<std::atomic<bool>>(false);
	BackgroundThread thread([stop] {
		while (!*stop) {
			usleep(1000);
		}
	});
	CHECK_FALSE(thread.JoinWithin(0.05));
	CHECK(thread.JoinWithin(0.05));
	*stop = true;
}
