# The standalone build. Everything that knows no DuckDB is built once; the extension and the sqllogictest runner are built for
# each DuckDB prefix (headers and static archives), into a folder of that version: v1.5.5/vibespatial.duckdb_extension.

set(VIBESPATIAL_DUCKDB_PREFIXES "" CACHE STRING "DuckDB prefixes, as scripts/build_duckdb.sh makes them, one for each version")
set(VIBESPATIAL_SANITIZE OFF CACHE STRING "ON: build with AddressSanitizer and UndefinedBehaviorSanitizer; thread: with ThreadSanitizer")
option(VIBESPATIAL_TESTS "Build the unit tests and the sqllogictest runners" ON)

if(NOT VIBESPATIAL_DUCKDB_PREFIXES)
	message(FATAL_ERROR "VIBESPATIAL_DUCKDB_PREFIXES is empty; "
			"run make, which fetches or builds a prefix, or scripts/fetch.py prefix, which prints its folder")
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
	message(FATAL_ERROR "g++ 12 or newer is needed, found ${CMAKE_CXX_COMPILER_VERSION}")
endif()

if(NOT VIBESPATIAL_PLATFORM)
	message(FATAL_ERROR "no DuckDB platform is known for the processor ${CMAKE_SYSTEM_PROCESSOR}")
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
if(VIBESPATIAL_SANITIZE STREQUAL "thread")
	add_compile_options(-g -fsanitize=thread -fno-omit-frame-pointer)
	add_link_options(-fsanitize=thread)
elseif(VIBESPATIAL_SANITIZE)
	add_compile_options(-g -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
	add_link_options(-fsanitize=address,undefined)
endif()

include(${CMAKE_CURRENT_LIST_DIR}/older_glibc.cmake)

# ---- the geometry core and the CPU engine: no DuckDB in it
add_library(vibespatial_core STATIC ${VIBESPATIAL_CORE_SOURCES})
vibespatial_compile(vibespatial_core)
target_link_libraries(vibespatial_core PUBLIC Threads::Threads ${CMAKE_DL_LIBS})
set_target_properties(vibespatial_core PROPERTIES LINKER_LANGUAGE CXX)

# ---- what is built for each version of DuckDB; the target "all" is the rest
include(${CMAKE_CURRENT_LIST_DIR}/duckdb_version.cmake)
add_custom_target(vibespatial)
foreach(prefix ${VIBESPATIAL_DUCKDB_PREFIXES})
	vibespatial_duckdb_version(${prefix})
endforeach()

if(VIBESPATIAL_CUDA_PREFIX)
	include(${CMAKE_CURRENT_LIST_DIR}/cuda.cmake)
endif()

if(VIBESPATIAL_ARROW_PREFIX)
	include(${CMAKE_CURRENT_LIST_DIR}/arrow.cmake)
endif()

# ---- tests
if(VIBESPATIAL_TESTS)
	file(GLOB unit_sources CONFIGURE_DEPENDS test/unit/*.cpp test/unit/*/*.cpp)
	list(FILTER unit_sources EXCLUDE REGEX "/unit/(arrow|gpu)/")
	add_executable(vibespatial_unit ${unit_sources})
	vibespatial_compile(vibespatial_unit)
	target_include_directories(vibespatial_unit PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/test/unit/support)
	list(GET VIBESPATIAL_DUCKDB_PREFIXES 0 first_prefix)
	target_include_directories(vibespatial_unit SYSTEM PRIVATE ${first_prefix}/third_party/catch)
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

	# The fuzzer always runs under the sanitizers, so it compiles the readers for itself. AddressSanitizer does not see copies that are
	# fortified.
	set(CMAKE_REQUIRED_FLAGS -fsanitize=address,undefined)
	check_cxx_source_compiles("int main() { return 0; }" VIBESPATIAL_HAS_SANITIZERS)
	unset(CMAKE_REQUIRED_FLAGS)
	if(VIBESPATIAL_HAS_SANITIZERS AND NOT CMAKE_CROSSCOMPILING)
		file(GLOB geometry_sources CONFIGURE_DEPENDS src/geometry/*.cpp)
		add_executable(vibespatial_fuzz_wkb test/fuzz/wkb_fuzz.cpp ${geometry_sources})
		vibespatial_compile(vibespatial_fuzz_wkb)
		target_include_directories(vibespatial_fuzz_wkb PRIVATE ${PROJECT_SOURCE_DIR}/test/unit/support)
		target_compile_options(vibespatial_fuzz_wkb PRIVATE -g1 -fsanitize=address,undefined -fno-sanitize-recover=undefined
				-Wno-maybe-uninitialized "SHELL:-U _FORTIFY_SOURCE")
		target_link_options(vibespatial_fuzz_wkb PRIVATE -fsanitize=address,undefined)
		set_target_properties(vibespatial_fuzz_wkb PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test)
	endif()
endif()
