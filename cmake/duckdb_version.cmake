# vibespatial_duckdb_version(PREFIX): the targets of one version of DuckDB, X.Y.Z by its prefix.
#   vibespatial-X.Y.Z   the extension, vX.Y.Z/vibespatial.duckdb_extension, beside a link to the folder of plug-ins, where it looks
#   sqllogic-X.Y.Z      the sqllogictest runner with that DuckDB inside, vX.Y.Z/test/vibespatial_sqllogic
# "all" is neither of them, so that one version can be built alone; the target vibespatial makes the extensions of all versions.

# The headers of PREFIX with its archives as one group, which lists every archive of DuckDB itself and those named after the prefix.
function(vibespatial_duckdb_archives NAME PREFIX)
	file(GLOB archives CONFIGURE_DEPENDS ${PREFIX}/lib/libduckdb_*.a)
	list(FILTER archives EXCLUDE REGEX "generated_extension_loader")
	list(APPEND archives ${ARGN})
	add_library(${NAME} INTERFACE)
	target_include_directories(${NAME} SYSTEM INTERFACE ${PREFIX}/include)
	target_link_libraries(${NAME} INTERFACE -Wl,--start-group ${archives} -Wl,--end-group Threads::Threads ${CMAKE_DL_LIBS})
	# CMake does not look into a linker group for what a target must be linked anew after.
	set_target_properties(${NAME} PROPERTIES INTERFACE_LINK_DEPENDS "${archives}")
endfunction()

function(vibespatial_duckdb_version PREFIX)
	if(NOT EXISTS "${PREFIX}/lib/libduckdb_static.a")
		message(FATAL_ERROR "'${PREFIX}' is no DuckDB prefix: it holds no lib/libduckdb_static.a. scripts/fetch.py prefix makes one")
	endif()
	file(READ "${PREFIX}/BUILD-INFO" info)
	if(NOT info MATCHES "^DuckDB ([0-9.]+)")
		message(FATAL_ERROR "${PREFIX}/BUILD-INFO does not say which version of DuckDB it is")
	endif()
	set(version ${CMAKE_MATCH_1})
	if(NOT info MATCHES "\nplatform ${VIBESPATIAL_PLATFORM}\n")
		message(FATAL_ERROR "${PREFIX} is not for ${VIBESPATIAL_PLATFORM}, which the compiler builds for")
	endif()
	set(folder ${CMAKE_BINARY_DIR}/v${version})
	file(MAKE_DIRECTORY ${folder})
	file(CREATE_LINK ../vibespatial ${folder}/vibespatial SYMBOLIC)

	# ---- the extension. Until 2.0 an empty loader has to stand in for the one that lists linked extensions.
	set(extension vibespatial-${version})
	file(GLOB no_loader ${PREFIX}/lib/libdummy_static_extension_loader.a)
	vibespatial_duckdb_archives(duckdb_for_extension-${version} ${PREFIX} ${no_loader})
	add_library(${extension} MODULE EXCLUDE_FROM_ALL ${VIBESPATIAL_GLUE_SOURCES})
	vibespatial_compile(${extension})
	target_compile_definitions(${extension} PRIVATE DUCKDB_BUILD_LOADABLE_EXTENSION)
	target_precompile_headers(${extension} PRIVATE <duckdb/support/compat.hpp>)
	# What 2.0 calls deprecated is what 1.5 has.
	target_compile_options(${extension} PRIVATE -Wno-deprecated-declarations)
	target_link_libraries(${extension} PRIVATE vibespatial_core duckdb_for_extension-${version})
	set(exports ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/exports.map)
	# Its threads and its handlers of exit and fork may outlive a dlclose()
	target_link_options(${extension} PRIVATE -Wl,--gc-sections -Wl,--exclude-libs,ALL -Wl,--version-script=${exports}
			-Wl,-z,nodelete)
	set_target_properties(${extension} PROPERTIES PREFIX "" OUTPUT_NAME vibespatial SUFFIX ".duckdb_extension"
			LIBRARY_OUTPUT_DIRECTORY ${folder} LINK_DEPENDS ${exports})
	vibespatial_link_older(${extension})
	add_custom_command(TARGET ${extension} POST_BUILD
			COMMAND ${CMAKE_STRIP} $<TARGET_FILE:${extension}>
			COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../scripts/append_footer.py
					$<TARGET_FILE:${extension}> ${VIBESPATIAL_PLATFORM} v${version} v${PROJECT_VERSION}
			VERBATIM)
	add_dependencies(vibespatial ${extension})

	# ---- the sqllogictest runner
	if(VIBESPATIAL_TESTS)
		set(runner sqllogic-${version})
		file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/test/sqllogic/*.cpp)
		file(GLOB loader ${PREFIX}/lib/libduckdb_generated_extension_loader.a)
		if(NOT loader)
			# Since 2.0 a program registers the extensions that are linked into it.
			list(APPEND sources ${PROJECT_SOURCE_DIR}/test/sqllogic/linked/register.cpp)
		endif()
		vibespatial_duckdb_archives(duckdb_embedded-${version} ${PREFIX} ${loader}
				${PREFIX}/lib/libcore_functions_extension.a ${PREFIX}/lib/libparquet_extension.a)
		add_executable(${runner} EXCLUDE_FROM_ALL ${sources})
		vibespatial_compile(${runner})
		target_link_libraries(${runner} PRIVATE duckdb_embedded-${version})
		target_link_options(${runner} PRIVATE -Wl,--gc-sections $<$<NOT:$<BOOL:${VIBESPATIAL_SANITIZE}>>:-s>)
		set_target_properties(${runner} PROPERTIES OUTPUT_NAME vibespatial_sqllogic RUNTIME_OUTPUT_DIRECTORY ${folder}/test)
	endif()
endfunction()
