#pragma once

#include <cstdlib>
#include <string>
#include <unistd.h>

//! A folder of its own, gone with the test
struct TemporaryFolder {
	TemporaryFolder() {
		char name[] = "/tmp/vibespatial-test-XXXXXX";
		path = mkdtemp(name);
	}
	~TemporaryFolder() {
		const auto command = "rm -rf '" + path + "'";
		if (std::system(command.c_str()) != 0) {
			path.clear();
		}
	}
	std::string path;
};
