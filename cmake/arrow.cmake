# The Arrow plug-in. Built against the headers and the libarrow of the pinned pyarrow wheel; at run time the user's pyarrow or the
# system has libarrow, so nothing of it is copied.

set(arrow_folder ${CMAKE_CURRENT_BINARY_DIR}/vibespatial)
file(GLOB arrow_library ${VIBESPATIAL_ARROW_PREFIX}/libarrow.so.*)
if(NOT arrow_library OR NOT EXISTS ${VIBESPATIAL_ARROW_PREFIX}/include/arrow/api.h)
	message(FATAL_ERROR "VIBESPATIAL_ARROW_PREFIX='${VIBESPATIAL_ARROW_PREFIX}' is not what scripts/fetch.py arrow makes")
endif()

# What includes Arrow C++
function(vibespatial_uses_arrow TARGET)
	vibespatial_compile(${TARGET})
	target_include_directories(${TARGET} SYSTEM PRIVATE ${VIBESPATIAL_ARROW_PREFIX}/include)
	# Arrow's headers ask for it
	set_target_properties(${TARGET} PROPERTIES CXX_STANDARD 20)
	target_link_libraries(${TARGET} PRIVATE ${arrow_library})
endfunction()

file(GLOB arrow_sources CONFIGURE_DEPENDS src/arrow_plugin/*.cpp)
add_library(vibespatial_arrow SHARED ${arrow_sources})
vibespatial_uses_arrow(vibespatial_arrow)
set(plugin_exports ${CMAKE_CURRENT_LIST_DIR}/plugin_exports.map)
target_link_options(vibespatial_arrow PRIVATE -Wl,--gc-sections -Wl,--exclude-libs,ALL -Wl,--version-script=${plugin_exports} -Wl,-z,nodelete)
set_property(TARGET vibespatial_arrow APPEND PROPERTY LINK_DEPENDS ${plugin_exports})
# No path of this machine in it: the extension finds libarrow and opens it first
set_target_properties(vibespatial_arrow PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${arrow_folder} SKIP_BUILD_RPATH ON
		LINK_FLAGS_RELEASE -s)
vibespatial_link_older(vibespatial_arrow)

# ---- its unit tests: a program of their own, since nothing else may need libarrow to start
if(VIBESPATIAL_TESTS)
	file(GLOB arrow_unit_sources CONFIGURE_DEPENDS test/unit/arrow/*.cpp)
	add_executable(vibespatial_arrow_unit test/unit/main.cpp ${arrow_unit_sources})
	vibespatial_uses_arrow(vibespatial_arrow_unit)
	list(GET VIBESPATIAL_DUCKDB_PREFIXES 0 first_prefix)
	target_include_directories(vibespatial_arrow_unit SYSTEM PRIVATE ${first_prefix}/third_party/catch)
	target_link_libraries(vibespatial_arrow_unit PRIVATE vibespatial_arrow Threads::Threads)
	set_target_properties(vibespatial_arrow_unit PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test)
endif()
