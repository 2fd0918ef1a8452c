# The standalone build: everything links against a DuckDB prefix (headers and static archives).

set(VIBESPATIAL_DUCKDB_PREFIX "" CACHE PATH "DuckDB prefix, as scripts/build_duckdb.sh makes it")
set(VIBESPATIAL_DUCKDB_VERSION v1.5.5)
option(VIBESPATIAL_SANITIZE "Build with AddressSanitizer and UndefinedBehaviorSanitizer" OFF)
option(VIBESPATIAL_TESTS "Build the unit tests and the sqllogictest runner" ON)

if(NOT EXISTS "${VIBESPATIAL_DUCKDB_PREFIX}/lib/libduckdb_static.a")
	message(FATAL_ERROR "VIBESPATIAL_DUCKDB_PREFIX='${VIBESPATIAL_DUCKDB_PREFIX}' holds no lib/libduckdb_static.a; "
			"run make, which fetches or builds the prefix, or scripts/fetch.py prefix, which prints its folder")
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
	message(FATAL_ERROR "g++ 12 or newer is needed, found ${CMAKE_CXX_COMPILER_VERSION}")
endif()

if(NOT VIBESPATIAL_PLATFORM)
	message(FATAL_ERROR "no DuckDB platform is known for the processor ${CMAKE_SYSTEM_PROCESSOR}")
endif()
file(STRINGS "${VIBESPATIAL_DUCKDB_PREFIX}/BUILD-INFO" prefix_platform REGEX "^platform ")
if(NOT prefix_platform STREQUAL "platform ${VIBESPATIAL_PLATFORM}")
	message(FATAL_ERROR "the prefix is for '${prefix_platform}', the compiler builds for ${VIBESPATIAL_PLATFORM}")
endif()

if(NOT CMAKE_BUILD_TYPE)
	set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
find_package(Threads REQUIRED)
include(CheckCXXSourceCompiles)

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
	set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()
if(VIBESPATIAL_SANITIZE)
	add_compile_options(-g -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
	add_link_options(-fsanitize=address,undefined)
endif()

# The DuckDB headers and archives, with the loader that says which extensions are linked in.
add_library(duckdb_prefix INTERFACE)
target_include_directories(duckdb_prefix SYSTEM INTERFACE ${VIBESPATIAL_DUCKDB_PREFIX}/include)
function(duckdb_archives NAME)
	file(GLOB archives ${VIBESPATIAL_DUCKDB_PREFIX}/lib/libduckdb_*.a)
	list(FILTER archives EXCLUDE REGEX "generated_extension_loader")
	foreach(archive ${ARGN})
		list(APPEND archives ${VIBESPATIAL_DUCKDB_PREFIX}/lib/lib${archive}.a)
	endforeach()
	add_library(${NAME} INTERFACE)
	target_link_libraries(${NAME} INTERFACE duckdb_prefix -Wl,--start-group ${archives} -Wl,--end-group
			Threads::Threads ${CMAKE_DL_LIBS})
	# CMake does not look into a linker group for what a target must be linked anew after.
	set_target_properties(${NAME} PROPERTIES INTERFACE_LINK_DEPENDS "${archives}")
endfunction()
duckdb_archives(duckdb_for_extension dummy_static_extension_loader)
duckdb_archives(duckdb_embedded duckdb_generated_extension_loader core_functions_extension parquet_extension)

# ---- the geometry core and the CPU engine: no DuckDB in it
add_library(vibespatial_core STATIC ${VIBESPATIAL_CORE_SOURCES})
vibespatial_compile(vibespatial_core)
add_dependencies(vibespatial_core vibespatial_kernel_registry)
target_link_libraries(vibespatial_core PUBLIC Threads::Threads ${CMAKE_DL_LIBS})
set_target_properties(vibespatial_core PROPERTIES LINKER_LANGUAGE CXX)

# ---- the extension
add_library(vibespatial MODULE ${VIBESPATIAL_GLUE_SOURCES})
vibespatial_compile(vibespatial)
target_compile_definitions(vibespatial PRIVATE DUCKDB_BUILD_LOADABLE_EXTENSION)
target_precompile_headers(vibespatial PRIVATE <duckdb.hpp>)
target_link_libraries(vibespatial PRIVATE vibespatial_core duckdb_for_extension)
target_link_options(vibespatial PRIVATE -Wl,--gc-sections -Wl,--exclude-libs,ALL
		-Wl,--version-script=${CMAKE_CURRENT_LIST_DIR}/exports.map)
set_target_properties(vibespatial PROPERTIES PREFIX "" SUFFIX ".duckdb_extension"
		LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR} LINK_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/exports.map)
set(footer ${CMAKE_CURRENT_LIST_DIR}/../scripts/append_footer.py)
add_custom_command(TARGET vibespatial POST_BUILD
		COMMAND ${CMAKE_STRIP} $<TARGET_FILE:vibespatial>
		COMMAND ${Python3_EXECUTABLE} ${footer} $<TARGET_FILE:vibespatial> ${VIBESPATIAL_PLATFORM}
				${VIBESPATIAL_DUCKDB_VERSION} v${PROJECT_VERSION}
		VERBATIM)

if(VIBESPATIAL_CUDA_PREFIX)
	include(${CMAKE_CURRENT_LIST_DIR}/cuda.cmake)
endif()

# ---- tests
if(VIBESPATIAL_TESTS)
	file(GLOB unit_sources CONFIGURE_DEPENDS test/unit/*.cpp)
	add_executable(vibespatial_unit ${unit_sources})
	vibespatial_compile(vibespatial_unit)
	target_include_directories(vibespatial_unit SYSTEM PRIVATE ${VIBESPATIAL_DUCKDB_PREFIX}/third_party/catch)
	target_precompile_headers(vibespatial_unit PRIVATE <catch.hpp>)
	# main.cpp is the one file that includes catch.hpp with its implementation.
	set_source_files_properties(test/unit/main.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
	target_link_libraries(vibespatial_unit PRIVATE vibespatial_core)
	if(TARGET vibespatial_gpu)
		file(GLOB gpu_unit_sources CONFIGURE_DEPENDS test/unit/gpu/*.cpp)
		target_sources(vibespatial_unit PRIVATE ${gpu_unit_sources})
		target_link_libraries(vibespatial_unit PRIVATE vibespatial_gpu)
	endif()
	set_target_properties(vibespatial_unit PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test)

	file(GLOB sqllogic_sources CONFIGURE_DEPENDS test/sqllogic/*.cpp)
	if(sqllogic_sources)
		add_executable(vibespatial_sqllogic ${sqllogic_sources})
		vibespatial_compile(vibespatial_sqllogic)
		target_link_libraries(vibespatial_sqllogic PRIVATE duckdb_embedded)
		target_link_options(vibespatial_sqllogic PRIVATE -Wl,--gc-sections
				$<$<NOT:$<BOOL:${VIBESPATIAL_SANITIZE}>>:-s>)
		set_target_properties(vibespatial_sqllogic PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test)
	endif()

	# The fuzzer always runs under the sanitizers, so it compiles the readers for itself.
	set(CMAKE_REQUIRED_FLAGS -fsanitize=address,undefined)
	check_cxx_source_compiles("int main() { return 0; }" VIBESPATIAL_HAS_SANITIZERS)
	unset(CMAKE_REQUIRED_FLAGS)
	if(VIBESPATIAL_HAS_SANITIZERS AND NOT CMAKE_CROSSCOMPILING)
		file(GLOB geometry_sources CONFIGURE_DEPENDS src/geometry/*.cpp)
		add_executable(vibespatial_fuzz_wkb test/fuzz/wkb_fuzz.cpp ${geometry_sources})
		vibespatial_compile(vibespatial_fuzz_wkb)
		target_compile_options(vibespatial_fuzz_wkb PRIVATE -g1 -fsanitize=address,undefined -fno-sanitize-recover=undefined
				-Wno-maybe-uninitialized)
		target_link_options(vibespatial_fuzz_wkb PRIVATE -fsanitize=address,undefined)
		set_target_properties(vibespatial_fuzz_wkb PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test)
	endif()
endif()
