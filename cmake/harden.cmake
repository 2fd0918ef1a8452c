# vibespatial_harden(TARGET): what makes a defect in our code harder to use. Every target that is shipped has it, in builds that are
# optimized and have no sanitizer, which is its own guard. test/python/test_packaging.py reads it back from the built files.
#   _FORTIFY_SOURCE=3            copies into buffers of known size are checked (older C libraries make 2 of it)
#   -fstack-protector-strong     an overwritten stack frame ends the process
#   -fstack-clash-protection     a large frame cannot jump over the guard page
#   -mbranch-protection, -fcf-protection   returns and indirect jumps only go where the compiler meant them to; without the
#                                hardware for it they do nothing
#   relro, now                   the table of imported functions is read-only once the file is loaded
#   noexecstack                  no code on the stack
include_guard()

set(VIBESPATIAL_HARDENING_FLAGS -fstack-protector-strong -fstack-clash-protection -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
	list(APPEND VIBESPATIAL_HARDENING_FLAGS -mbranch-protection=standard)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64)$")
	list(APPEND VIBESPATIAL_HARDENING_FLAGS -fcf-protection=full)
endif()

function(vibespatial_harden TARGET)
	if(VIBESPATIAL_SANITIZE OR VIBESPATIAL_FUZZ OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
		return()
	endif()
	# Without optimization there is nothing to fortify, and glibc says so in a warning for every source
	target_compile_options(${TARGET} PRIVATE "$<$<NOT:$<CONFIG:Debug>>:${VIBESPATIAL_HARDENING_FLAGS}>")
	target_link_options(${TARGET} PRIVATE -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
endfunction()
