# What other projects find: the targets Stook::…, in this build (add_subdirectory, FetchContent) and installed
# (find_package), .pc files and man pages.

# Names as libraries are known by: Stook::stook and Stook::malloc are shared, …_static what their archives hold.
set(name_of_stook_shared stook)
set(name_of_stook_static stook_static)
set(name_of_stook_malloc_shared malloc)
set(name_of_stook_malloc_static malloc_static)
set(name_of_stook_urcu_shared urcu)
set(name_of_stook_urcu_static urcu_static)
foreach(target ${installed})
    add_library(Stook::${name_of_${target}} ALIAS ${target})
    set_target_properties(${target} PROPERTIES EXPORT_NAME ${name_of_${target}})
endforeach()
if(NOT STOOK_INSTALL)
    return()
endif()

include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Stook)
install(TARGETS ${installed} EXPORT StookTargets INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TARGET stook_malloc_sim)
    install(TARGETS stook_sim stook_malloc_sim LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/stook/sim)
endif()
install(EXPORT StookTargets NAMESPACE Stook:: DESTINATION ${package_dir})
configure_package_config_file(cmake/StookConfig.cmake.in StookConfig.cmake INSTALL_DESTINATION ${package_dir})
# docs/releases.md: below 1.0 a minor release may change the interface.
write_basic_package_version_file(StookConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/StookConfig.cmake ${PROJECT_BINARY_DIR}/StookConfigVersion.cmake
    DESTINATION ${package_dir})

install(DIRECTORY include/stook TYPE INCLUDE)
configure_file(stook.pc.in stook.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/stook.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(TARGET stook_malloc_shared)
    configure_file(stook-malloc.pc.in stook-malloc.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/stook-malloc.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
if(TARGET stook_urcu_shared)
    install(FILES ${PROJECT_BINARY_DIR}/stook-urcu.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
file(GLOB manuals CONFIGURE_DEPENDS man/*.1 man/*.3 man/*.7)
foreach(manual ${manuals})
    string(REGEX REPLACE ".*\\." "" section ${manual})
    install(FILES ${manual} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endforeach()

# All that is installed, and nothing else: `make install` builds no tests and benches.
add_custom_target(stook-installed DEPENDS ${installed})
foreach(target stook-tool stook_sim stook_malloc_sim rte_mempool_stook stook-sqlite stook-sqlite-preload)
    if(TARGET ${target})
        add_dependencies(stook-installed ${target})
    endif()
endforeach()
