# The build inside DuckDB's own tree, as its extension CI does it: DuckDB's functions make both targets. The loadable extension
# looks for the plug-ins in the folder vibespatial beside itself. -DVIBESPATIAL_CUDA_PREFIX=$(scripts/fetch.py cuda) puts the GPU
# plug-in there, -DVIBESPATIAL_ARROW_PREFIX=$(scripts/fetch.py arrow) the Arrow plug-in.

set(sources ${VIBESPATIAL_CORE_SOURCES} ${VIBESPATIAL_GLUE_SOURCES})
build_static_extension(vibespatial ${sources})
vibespatial_compile(vibespatial_extension)

if(EXISTS "${DUCKDB_MODULE_BASE_DIR}/scripts/append_metadata.cmake")
	build_loadable_extension(vibespatial " " ${sources})
else()
	# DuckDB's source distribution comes without the script that writes the footer: ours does it there.
	add_library(vibespatial_loadable_extension MODULE ${sources})
	target_compile_definitions(vibespatial_loadable_extension PRIVATE DUCKDB_BUILD_LOADABLE_EXTENSION)
	target_link_libraries(vibespatial_loadable_extension PRIVATE duckdb_static -Wl,--gc-sections -Wl,--exclude-libs,ALL)
	if(TARGET dummy_static_extension_loader)
		target_link_libraries(vibespatial_loadable_extension PRIVATE dummy_static_extension_loader)
	endif()
	set_target_properties(vibespatial_loadable_extension PROPERTIES OUTPUT_NAME vibespatial PREFIX ""
			SUFFIX ".duckdb_extension")
	add_custom_command(TARGET vibespatial_loadable_extension POST_BUILD
			COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/../scripts/append_footer.py
					$<TARGET_FILE:vibespatial_loadable_extension> ${VIBESPATIAL_PLATFORM}
					${DUCKDB_NORMALIZED_VERSION} v${PROJECT_VERSION}
			VERBATIM)
endif()
vibespatial_compile(vibespatial_loadable_extension)

# ---- the plug-ins, where they are asked for
include(${CMAKE_CURRENT_LIST_DIR}/older_glibc.cmake)
if(VIBESPATIAL_ARROW_PREFIX)
	include(${CMAKE_CURRENT_LIST_DIR}/arrow.cmake)
	add_dependencies(vibespatial_loadable_extension vibespatial_arrow)
endif()
if(VIBESPATIAL_CUDA_PREFIX)
	find_package(Threads REQUIRED)
	add_library(vibespatial_core STATIC ${VIBESPATIAL_CORE_SOURCES})
	vibespatial_compile(vibespatial_core)
	target_link_libraries(vibespatial_core PUBLIC Threads::Threads ${CMAKE_DL_LIBS})
	include(${CMAKE_CURRENT_LIST_DIR}/cuda.cmake)
	add_dependencies(vibespatial_loadable_extension vibespatial_cuda vibespatial_compile_helper)
endif()

install(TARGETS vibespatial_extension EXPORT "${DUCKDB_EXPORT_SET}"
		LIBRARY DESTINATION "${INSTALL_LIB_DIR}" ARCHIVE DESTINATION "${INSTALL_LIB_DIR}")
