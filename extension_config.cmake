# Read by DuckDB's build: -DDUCKDB_EXTENSION_CONFIGS=<this file>
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/CMakeLists.txt vibespatial_project REGEX "^project\\(vibespatial ")
string(REGEX REPLACE ".* VERSION ([0-9.]+).*" "v\\1" vibespatial_version "${vibespatial_project}")
duckdb_extension_load(vibespatial
		SOURCE_DIR ${CMAKE_CURRENT_LIST_DIR}
		INCLUDE_DIR ${CMAKE_CURRENT_LIST_DIR}/src
		TEST_DIR ${CMAKE_CURRENT_LIST_DIR}/test/sql
		EXTENSION_VERSION ${vibespatial_version}
		LOAD_TESTS
)
# Since 2.0 a program of DuckDB's build, its test runner among them, has those extensions that are listed for it.
if(COMMAND duckdb_extension_statically_link)
	duckdb_extension_statically_link(vibespatial)
endif()
