//===----------------------------------------------------------------------===//
//                         vibespatial
//
// test/sqllogic/isolate.hpp
//
//
//===----------------------------------------------------------------------===//

#pragma once

#include "runner.hpp"

#include <string>

namespace sqllogic {

//! RunTestFile in a process of its own, with a temporary folder of its own: a crash or a hang is a failure of that
//! file, reported with the statement that was running
TestResult RunIsolated(const Options &options, const std::string &path, const std::string &engine);

//! ProbeEngines in a process of its own: this process never starts DuckDB's threads, so it can always fork
EngineProbe ProbeIsolated(const Options &options);

} // namespace sqllogic
