//===----------------------------------------------------------------------===//
// vibespatial_extension.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"

namespace duckdb {

//! How DuckDB's own build finds the extension when it is linked in
class VibespatialExtension : public Extension {
public:
	void Load(ExtensionLoader &loader) override;
	std::string Name() override;
	std::string Version() const override;
};

} // namespace duckdb
