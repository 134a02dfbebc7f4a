# What cmake --install leaves: headers, the libraries and the package; and, as a component of its own, only the generated kernels
# with the Halide runtime that they share.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/deformkit)
install(TARGETS deformkit deformkit_static deformkit_ascend deformkit_onnxruntime deformkit_torch EXPORT deformkitTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT deformkitTargets NAMESPACE deformkit:: DESTINATION ${package_dir})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/runtime/include/deformkit ${PROJECT_SOURCE_DIR}/compat/torch/include/deformkit
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${PROJECT_BINARY_DIR}/generated/deformkit_lists/deformkit/types.inc DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/deformkit)
# In a folder of their own, so that the vendor's names are found only by those who ask for deformkit::ascend.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/compat/ascend/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/deformkit/ascend)

set(kernel_include_dir ${CMAKE_INSTALL_INCLUDEDIR}/deformkit/kernels)
set(kernel_library_dir ${CMAKE_INSTALL_LIBDIR}/deformkit/kernels)
get_target_property(halide_include_dirs Halide::Runtime INTERFACE_INCLUDE_DIRECTORIES)
find_path(DEFORMKIT_HALIDE_RUNTIME_INCLUDE_DIR HalideRuntime.h
          HINTS ${halide_include_dirs} ${HalideHelpers_DIR}/../../../include ${Halide_DIR}/../../../include REQUIRED)
mark_as_advanced(DEFORMKIT_HALIDE_RUNTIME_INCLUDE_DIR)
install(FILES ${deformkit_variants_HEADERS} ${DEFORMKIT_HALIDE_RUNTIME_INCLUDE_DIR}/HalideRuntime.h
        DESTINATION ${kernel_include_dir} COMPONENT kernels EXCLUDE_FROM_ALL)
foreach (kernel IN LISTS deformkit_variants_KERNELS ITEMS deformkit_halide_runtime)
    install(FILES $<TARGET_FILE:${kernel}> DESTINATION ${kernel_library_dir} COMPONENT kernels EXCLUDE_FROM_ALL)
endforeach ()

configure_package_config_file(
    ${CMAKE_CURRENT_LIST_DIR}/deformkitConfig.cmake.in ${PROJECT_BINARY_DIR}/deformkitConfig.cmake
    INSTALL_DESTINATION ${package_dir} PATH_VARS kernel_include_dir kernel_library_dir)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/deformkitConfigVersion.cmake COMPATIBILITY SameMinorVersion)
set(package_files ${PROJECT_BINARY_DIR}/deformkitConfig.cmake ${PROJECT_BINARY_DIR}/deformkitConfigVersion.cmake)
install(FILES ${package_files} DESTINATION ${package_dir})
install(FILES ${package_files} DESTINATION ${package_dir} COMPONENT kernels EXCLUDE_FROM_ALL)
