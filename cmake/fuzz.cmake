# The coverage-guided fuzzers: scripts/fuzz.py configures this in build/fuzz with clang, where its runtime libraries are installed.
# It needs no DuckDB and compiles only what the targets reach: readers, relate, overlays and constructive functions.

option(VIBESPATIAL_FUZZ "Build the fuzzers alone, with clang" OFF)
if(NOT VIBESPATIAL_FUZZ)
	return()
endif()
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
	message(FATAL_ERROR "the fuzzers are built with clang, which has libFuzzer; scripts/fuzz.py says how to get it")
endif()
find_package(Threads REQUIRED)
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
	set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()
set(CMAKE_BUILD_TYPE Release)
set(CMAKE_CXX_FLAGS_RELEASE "-O1 -g1")
set(VIBESPATIAL_WARNINGS "")
# -fno-sanitize=float-divide-by-zero: what a division by zero gives is defined, and some formulas want it
add_compile_options(-fsanitize=address,undefined,fuzzer-no-link -fno-sanitize=float-divide-by-zero,vptr -fno-sanitize-recover=undefined
		-fno-omit-frame-pointer)
add_link_options(-fsanitize=address,undefined)

file(GLOB fuzzed_sources CONFIGURE_DEPENDS src/geometry/*.cpp src/engine/common/uninitialized.cpp src/engine/index/point_locator.cpp src/engine/shape/*.cpp src/engine/measure/*.cpp
     src/engine/relate/*.cpp src/engine/overlay/*.cpp src/engine/constructive/*.cpp)
add_library(vibespatial_fuzzed STATIC ${fuzzed_sources})
vibespatial_compile(vibespatial_fuzzed)
target_link_libraries(vibespatial_fuzzed PUBLIC Threads::Threads)

# One program for all targets: FUZZ_TARGET names one
file(GLOB targets CONFIGURE_DEPENDS test/fuzz/targets/*.cpp)
add_executable(vibespatial_fuzz ${targets})
vibespatial_compile(vibespatial_fuzz)
target_include_directories(vibespatial_fuzz PRIVATE ${PROJECT_SOURCE_DIR}/test/fuzz ${PROJECT_SOURCE_DIR}/test/unit/support)
target_link_libraries(vibespatial_fuzz PRIVATE vibespatial_fuzzed)
target_link_options(vibespatial_fuzz PRIVATE -fsanitize=fuzzer)
