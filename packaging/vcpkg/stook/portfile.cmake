vcpkg_download_distfile(ARCHIVE
    URLS "@URL@/stook-${VERSION}.tar.xz"
    FILENAME "stook-${VERSION}.tar.xz"
    SHA512 @SHA512@
)
vcpkg_extract_source_archive(SOURCE_PATH ARCHIVE "${ARCHIVE}")
vcpkg_check_features(OUT_FEATURE_OPTIONS FEATURE_OPTIONS FEATURES tools STOOK_TOOLS watch STOOK_WATCH)
vcpkg_cmake_configure(
    SOURCE_PATH "${SOURCE_PATH}"
    OPTIONS -DSTOOK_TESTS=OFF -DSTOOK_BENCH=OFF ${FEATURE_OPTIONS}
)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME Stook CONFIG_PATH lib/cmake/Stook)
vcpkg_fixup_pkgconfig()

# Both kinds are built; a triplet wants one.
if(VCPKG_LIBRARY_LINKAGE STREQUAL "static")
    message(STATUS "stook: libstook-malloc.so, which LD_PRELOAD needs, is installed in static triplets too")
endif()
if("tools" IN_LIST FEATURES)
    vcpkg_copy_tools(TOOL_NAMES stook AUTO_CLEAN)
endif()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
