# vibespatial_link_older(TARGET): links a target that is shipped so that it loads on systems with an older glibc and libstdc++ than
# this one, as old as DuckDB's own wheels ask for (manylinux_2_26). scripts/link_stubs.py says how.
set(VIBESPATIAL_GLIBC 2.26 CACHE STRING "The oldest glibc that the binaries load on; empty: that of this system")

if(VIBESPATIAL_GLIBC AND NOT VIBESPATIAL_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
	set(stubs ${CMAKE_BINARY_DIR}/stubs)
	set(stub_scripts ${CMAKE_CURRENT_LIST_DIR}/../scripts/link_stubs.py ${CMAKE_CURRENT_LIST_DIR}/../scripts/older_glibc.cpp
			${CMAKE_CURRENT_LIST_DIR}/../scripts/older_start.cpp)
	add_custom_command(OUTPUT ${stubs}/libc.so
			COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/../scripts/link_stubs.py ${CMAKE_CXX_COMPILER}
					${VIBESPATIAL_GLIBC} ${stubs}
			DEPENDS ${stub_scripts}
			COMMENT "Libraries with the symbols of glibc ${VIBESPATIAL_GLIBC}" VERBATIM)
	add_custom_target(vibespatial_stubs DEPENDS ${stubs}/libc.so)
endif()

function(vibespatial_link_older TARGET)
	if(TARGET vibespatial_stubs)
		add_dependencies(${TARGET} vibespatial_stubs)
		# Until glibc 2.34 threads and dlopen are in the two that are named. libgcc_s of this system needs what it has itself.
		target_link_options(${TARGET} PRIVATE -L${CMAKE_BINARY_DIR}/stubs -Wl,-z,defs -Wl,--allow-shlib-undefined
				-Wl,--push-state,--no-as-needed
				${CMAKE_BINARY_DIR}/stubs/libpthread.so.0 ${CMAKE_BINARY_DIR}/stubs/libdl.so.2 -Wl,--pop-state)
		set_property(TARGET ${TARGET} APPEND PROPERTY LINK_DEPENDS ${CMAKE_BINARY_DIR}/stubs/libc.so)
	endif()
endfunction()
