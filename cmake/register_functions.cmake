# Writes register_functions.cpp: one call for each src/duckdb/functions/<area>.cpp, which defines Register<Area>. A file that is
# added there is compiled and registered without an entry anywhere else. Sets VIBESPATIAL_REGISTER_FUNCTIONS to the path.
file(GLOB areas CONFIGURE_DEPENDS src/duckdb/functions/*.cpp)
set(declarations "")
set(calls "")
foreach(area ${areas})
	get_filename_component(words ${area} NAME_WE)
	string(REPLACE "_" ";" words ${words})
	set(name Register)
	foreach(word ${words})
		string(SUBSTRING ${word} 0 1 first)
		string(SUBSTRING ${word} 1 -1 rest)
		string(TOUPPER ${first} first)
		string(APPEND name ${first}${rest})
	endforeach()
	string(APPEND declarations "void ${name}(ExtensionLoader &loader);\n")
	string(APPEND calls "\t${name}(loader);\n")
endforeach()
set(VIBESPATIAL_REGISTER_FUNCTIONS ${CMAKE_CURRENT_BINARY_DIR}/register_functions.cpp)
file(CONFIGURE OUTPUT ${VIBESPATIAL_REGISTER_FUNCTIONS} @ONLY CONTENT [[
// Written by cmake/register_functions.cmake
#include "duckdb/functions/functions.hpp"

namespace duckdb {

@declarations@
void RegisterFunctions(ExtensionLoader &loader) {
@calls@}

} // namespace duckdb
]])
