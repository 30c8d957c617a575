# Manual pages and completion, which the program itself generates, and the packages: `cpack` in the build
# folder makes saccade (the program), libsaccade0.2 (the library, by its SOVERSION) and libsaccade-dev for
# Debian 12 and similar systems.
set(pages ${CMAKE_BINARY_DIR}/pages)
add_custom_command(OUTPUT ${pages}/made
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${pages}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${pages}/man
  COMMAND saccade --manual ${pages}/man
  COMMAND gzip -9nr ${pages}/man
  COMMAND saccade completion bash > ${pages}/saccade
  COMMAND saccade completion zsh > ${pages}/_saccade
  COMMAND saccade completion fish > ${pages}/saccade.fish
  COMMAND ${CMAKE_COMMAND} -E touch ${pages}/made
  DEPENDS saccade VERBATIM)
add_custom_target(saccade_pages ALL DEPENDS ${pages}/made)
install(DIRECTORY ${pages}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT saccade)
install(FILES ${pages}/saccade DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT saccade)
install(FILES ${pages}/_saccade DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions COMPONENT saccade)
install(FILES ${pages}/saccade.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT saccade)

# The files that Debian wants in each package. The date is the release's, so that the same source gives the
# same packages.
set(package_names saccade libsaccade${SACCADE_SOVERSION} libsaccade-dev)
file(STRINGS ${CMAKE_SOURCE_DIR}/CHANGELOG.md heading REGEX "^## ${PROJECT_VERSION} " LIMIT_COUNT 1)
string(REGEX REPLACE ".*\\(([0-9-]+)\\).*" "\\1" release_date "${heading}")
execute_process(COMMAND date --utc --date=${release_date} "+%a, %d %b %Y %H:%M:%S +0000" OUTPUT_VARIABLE release_time
  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
set(maintainer "The Saccade authors <saccade@users.noreply.github.com>")
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/pages.changelog @ONLY CONTENT
"saccade (@PROJECT_VERSION@) unstable; urgency=medium

  * See CHANGELOG.md in the source.

 -- @maintainer@  @release_time@
")
add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/changelog.gz
  COMMAND gzip -9nc ${CMAKE_BINARY_DIR}/pages.changelog > ${CMAKE_BINARY_DIR}/changelog.gz
  DEPENDS ${CMAKE_BINARY_DIR}/pages.changelog VERBATIM)
add_custom_target(saccade_changelog ALL DEPENDS ${CMAKE_BINARY_DIR}/changelog.gz)
foreach(package IN LISTS package_names)
  string(REGEX REPLACE "[0-9.]+$" "" component ${package})
  set(folder ${CMAKE_INSTALL_DATADIR}/doc/${package})
  install(FILES ${CMAKE_BINARY_DIR}/changelog.gz DESTINATION ${folder} COMPONENT ${component})
  install(FILES LICENSE DESTINATION ${folder} RENAME copyright COMPONENT ${component})
endforeach()
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libsaccade-dev COMPONENT libsaccade-dev)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT ${maintainer})
set(CPACK_COMPONENTS_ALL saccade libsaccade libsaccade-dev)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER ${maintainer})
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(processors "It needs a processor with what -march=${SACCADE_MARCH} means.")
set(CPACK_DEBIAN_SACCADE_PACKAGE_NAME saccade)
set(CPACK_DEBIAN_SACCADE_PACKAGE_SECTION science)
set(CPACK_DEBIAN_SACCADE_PACKAGE_SHLIBDEPS ON)
# Libraries that are opened when needed: for weights by name, and for videos.
set(CPACK_DEBIAN_SACCADE_PACKAGE_RECOMMENDS "libcurl4 | libcurl4t64, libssl3 | libssl3t64, ca-certificates")
set(CPACK_DEBIAN_SACCADE_PACKAGE_SUGGESTS "ffmpeg")
set(CPACK_DEBIAN_SACCADE_PACKAGE_RECOMMENDS "libcurl4, ca-certificates")  # opened by `saccade weights fetch`
set(CPACK_COMPONENT_SACCADE_DESCRIPTION "trains and runs attention-based object detectors
DETR, Deformable DETR, RT-DETR and DINO on COCO-format data and the like, from
a configuration, on processors and NVIDIA GPUs.
${processors}")
set(CPACK_DEBIAN_LIBSACCADE_PACKAGE_NAME libsaccade${SACCADE_SOVERSION})
set(CPACK_DEBIAN_LIBSACCADE_PACKAGE_PROVIDES libsaccade)
set(CPACK_DEBIAN_LIBSACCADE_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBSACCADE_PACKAGE_SHLIBDEPS ON)
set(CPACK_COMPONENT_LIBSACCADE_DESCRIPTION "attention-based object detectors, shared library
Runs what saccade has trained, from C, C++ or through a foreign-function
interface, and trains from C++.
${processors}")
# The loader's cache follows the library, and packages that use it depend on this version or a later one.
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/triggers CONTENT "activate-noawait ldconfig\n")
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/shlibs CONTENT "libsaccade ${SACCADE_SOVERSION} libsaccade${SACCADE_SOVERSION} (>= ${PROJECT_VERSION})\n")
set(CPACK_DEBIAN_LIBSACCADE_PACKAGE_CONTROL_EXTRA ${CMAKE_BINARY_DIR}/triggers ${CMAKE_BINARY_DIR}/shlibs)
set(CPACK_DEBIAN_LIBSACCADE-DEV_PACKAGE_NAME libsaccade-dev)
set(CPACK_DEBIAN_LIBSACCADE-DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_LIBSACCADE-DEV_PACKAGE_DEPENDS "libsaccade${SACCADE_SOVERSION} (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_LIBSACCADE-DEV_DESCRIPTION "attention-based object detectors, files for development
The headers of libsaccade for C and C++, its CMake package and saccade.pc, and
examples.")
set(CPACK_POST_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/scripts/cmake/no_ldconfig.cmake)
include(CPack)
