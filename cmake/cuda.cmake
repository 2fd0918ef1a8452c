# The GPU plug-in, the compile helper and the release pack. Built with the host compiler against the headers and libraries
# that scripts/fetch.py cuda brings: no CUDA toolkit, no CUDA language, no device.

set(VIBESPATIAL_PACK_ARCHITECTURES "80,90,100,120" CACHE STRING "What the release pack is compiled for")
set(VIBESPATIAL_KERNEL_PACK "" CACHE FILEPATH "A finished release pack, for builds that cannot run the helper")

set(gpu_folder ${CMAKE_CURRENT_BINARY_DIR}/vibespatial)
set(cuda ${VIBESPATIAL_CUDA_PREFIX}/nvidia/cu13)
set(cccl_library ${VIBESPATIAL_CUDA_PREFIX}/cuda/compute/cu13/cccl/libcccl.c.parallel.so)
if(NOT EXISTS ${cccl_library} OR NOT EXISTS ${cuda}/include/cuda_runtime_api.h)
	message(FATAL_ERROR "VIBESPATIAL_CUDA_PREFIX='${VIBESPATIAL_CUDA_PREFIX}' is not what scripts/fetch.py cuda makes")
endif()
file(SHA256 ${cccl_library} cccl_sha256)
file(GLOB cccl_info ${VIBESPATIAL_CUDA_PREFIX}/cuda_cccl-*.dist-info)
string(REGEX REPLACE ".*/cuda_cccl-(.*)\\.dist-info$" "\\1" cccl_version "${cccl_info}")

# ---- what needs no device: cache, pack, compilers, precompiler
file(GLOB gpu_sources CONFIGURE_DEPENDS src/gpu_plugin/compile/*.cpp)
add_library(vibespatial_gpu STATIC ${gpu_sources})
vibespatial_compile(vibespatial_gpu)
target_compile_definitions(vibespatial_gpu PRIVATE VIBESPATIAL_CCCL_VERSION="${cccl_version}"
		VIBESPATIAL_CCCL_SHA256="${cccl_sha256}")
target_link_libraries(vibespatial_gpu PUBLIC vibespatial_core)

# ---- the compile helper
add_executable(vibespatial_compile_helper src/compile_helper/main.cpp src/compile_helper/jit_link.cpp)
vibespatial_compile(vibespatial_compile_helper)
target_link_libraries(vibespatial_compile_helper PRIVATE vibespatial_gpu)
target_link_options(vibespatial_compile_helper PRIVATE -Wl,--gc-sections -Wl,--export-dynamic-symbol=nvJitLinkCreate)
set_target_properties(vibespatial_compile_helper PROPERTIES OUTPUT_NAME vibespatial-compile
		RUNTIME_OUTPUT_DIRECTORY ${gpu_folder})
vibespatial_link_older(vibespatial_compile_helper)

add_library(vibespatial_no_driver SHARED src/compile_helper/no_driver.c)
set_target_properties(vibespatial_no_driver PROPERTIES OUTPUT_NAME cuda SUFFIX .so.1 C_VISIBILITY_PRESET hidden
		LIBRARY_OUTPUT_DIRECTORY ${gpu_folder}/no-driver LINK_FLAGS "-nostdlib -s -Wl,-z,now -Wl,-z,noexecstack -Wl,-soname,libcuda.so.1")
target_compile_options(vibespatial_no_driver PRIVATE -w)
add_dependencies(vibespatial_compile_helper vibespatial_no_driver)

# ---- the plug-in
file(GLOB device_sources CONFIGURE_DEPENDS src/gpu_plugin/device/*.cpp)
add_library(vibespatial_cuda SHARED ${device_sources})
vibespatial_compile(vibespatial_cuda)
target_include_directories(vibespatial_cuda SYSTEM PRIVATE ${VIBESPATIAL_CUDA_PREFIX}/librmm/include
		${VIBESPATIAL_CUDA_PREFIX}/librmm/include/rapids ${VIBESPATIAL_CUDA_PREFIX}/rapids_logger/include ${cuda}/include)
# As RMM's own targets set them: its inline code must be the code in its library
target_compile_definitions(vibespatial_cuda PRIVATE CUB_DISABLE_NAMESPACE_MAGIC CUB_IGNORE_NAMESPACE_MAGIC_ERROR
		THRUST_DISABLE_ABI_NAMESPACE THRUST_IGNORE_ABI_NAMESPACE_ERROR CCCL_DISABLE_PDL)
target_link_libraries(vibespatial_cuda PRIVATE vibespatial_gpu ${gpu_folder}/librmm.so ${gpu_folder}/librapids_logger.so
		${cuda}/lib/libcudart_static.a rt ${CMAKE_DL_LIBS} Threads::Threads)
set(plugin_exports ${CMAKE_CURRENT_LIST_DIR}/plugin_exports.map)
target_link_options(vibespatial_cuda PRIVATE -Wl,--gc-sections -Wl,--exclude-libs,ALL -Wl,--version-script=${plugin_exports} -Wl,-z,nodelete)
set_property(TARGET vibespatial_cuda APPEND PROPERTY LINK_DEPENDS ${plugin_exports})
set_target_properties(vibespatial_cuda PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${gpu_folder}
		BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN" LINK_FLAGS_RELEASE -s)
vibespatial_link_older(vibespatial_cuda)

# ---- the libraries beside it: small ones as copies, the compilers and headers as links into the cache
file(MAKE_DIRECTORY ${gpu_folder})
foreach(library librmm/lib64/librmm.so rapids_logger/lib64/librapids_logger.so
		cuda/compute/cu13/cccl/libcccl.c.parallel.so)
	file(COPY ${VIBESPATIAL_CUDA_PREFIX}/${library} DESTINATION ${gpu_folder})
endforeach()
file(GLOB compilers ${cuda}/lib/libnvrtc.so.13 ${cuda}/lib/libnvrtc-builtins.so.13.* ${cuda}/lib/libnvJitLink.so.13)
foreach(library ${compilers})
	get_filename_component(name ${library} NAME)
	file(CREATE_LINK ${library} ${gpu_folder}/${name} SYMBOLIC)
endforeach()
file(CREATE_LINK ${VIBESPATIAL_CUDA_PREFIX}/cuda/cccl/headers/include ${gpu_folder}/cccl SYMBOLIC)

# ---- the release pack
set(pack ${gpu_folder}/kernels.pack)
if(VIBESPATIAL_KERNEL_PACK)
	configure_file(${VIBESPATIAL_KERNEL_PACK} ${pack} COPYONLY)
elseif(NOT CMAKE_CROSSCOMPILING)
	# Compiled from the kernels alone: a change of the helper's own code does not make it anew
	add_custom_command(OUTPUT ${pack}
			COMMAND $<TARGET_FILE:vibespatial_compile_helper> pack --capabilities ${VIBESPATIAL_PACK_ARCHITECTURES}
					--output ${pack}
			DEPENDS ${VIBESPATIAL_KERNEL_REGISTRY} ${CMAKE_CURRENT_LIST_DIR}/../src/gpu_plugin/compile/compilers.cpp
					${CMAKE_CURRENT_LIST_DIR}/../src/compile_helper/jit_link.cpp
			COMMENT "Compiling the kernels for sm_${VIBESPATIAL_PACK_ARCHITECTURES} (minutes)" VERBATIM)
	add_custom_target(vibespatial_pack ALL DEPENDS ${pack})
	add_dependencies(vibespatial_pack vibespatial_compile_helper)
endif()
