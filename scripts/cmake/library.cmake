# libsaccade, the shared library with the interfaces of train/library, and its installed files. It has all
# objects of the program, since kernels and layers register themselves.
if(EXISTS /etc/debian_version AND CMAKE_LIBRARY_ARCHITECTURE)  # where Debian has libraries, under every prefix
  set(CMAKE_INSTALL_LIBDIR lib/${CMAKE_LIBRARY_ARCHITECTURE} CACHE STRING "where libraries are installed")
endif()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_library(saccade_library SHARED)
add_library(Saccade::saccade ALIAS saccade_library)
target_link_libraries(saccade_library PRIVATE ${SACCADE_OBJECTS})
target_include_directories(saccade_library INTERFACE "$<BUILD_INTERFACE:${CMAKE_BINARY_DIR}/include>"
  "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
target_compile_features(saccade_library INTERFACE cxx_std_17)
set(SACCADE_SOVERSION ${PROJECT_VERSION_MAJOR})
if(PROJECT_VERSION_MAJOR EQUAL 0)  # a minor version may change the interfaces
  set(SACCADE_SOVERSION 0.${PROJECT_VERSION_MINOR})
endif()
set(exports ${CMAKE_SOURCE_DIR}/train/library/exports.map)
set_target_properties(saccade_library PROPERTIES OUTPUT_NAME saccade EXPORT_NAME saccade VERSION ${PROJECT_VERSION}
  SOVERSION ${SACCADE_SOVERSION} LINKER_LANGUAGE CXX LINK_DEPENDS ${exports})
# Its threads and registries stay, so it is never unloaded.
target_link_options(saccade_library PRIVATE -Wl,--version-script=${exports} -Wl,-z,nodelete -Wl,-z,defs)

install(TARGETS saccade RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT saccade)
install(DIRECTORY configs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/saccade/configs COMPONENT saccade
  FILES_MATCHING PATTERN "*.textproto")

install(TARGETS saccade_library EXPORT SaccadeTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT libsaccade NAMELINK_COMPONENT libsaccade-dev)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Saccade)
install(EXPORT SaccadeTargets NAMESPACE Saccade:: DESTINATION ${package_folder} COMPONENT libsaccade-dev)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/SaccadeConfig.cmake CONTENT
  "include(\"\${CMAKE_CURRENT_LIST_DIR}/SaccadeTargets.cmake\")\n" @ONLY)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/SaccadeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/SaccadeConfig.cmake ${CMAKE_BINARY_DIR}/SaccadeConfigVersion.cmake
  DESTINATION ${package_folder} COMPONENT libsaccade-dev)
install(DIRECTORY ${CMAKE_BINARY_DIR}/include/saccade DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT libsaccade-dev)
# The folder can be moved as a whole: the prefix is found relative to the file.
file(RELATIVE_PATH to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/saccade.pc @ONLY CONTENT [[
prefix=${pcfiledir}/@to_prefix@
libdir=${prefix}/@CMAKE_INSTALL_LIBDIR@
includedir=${prefix}/@CMAKE_INSTALL_INCLUDEDIR@

Name: saccade
Description: runs and trains attention-based object detectors
Version: @PROJECT_VERSION@
Libs: -L${libdir} -lsaccade
Cflags: -I${includedir}
]])
install(FILES ${CMAKE_BINARY_DIR}/saccade.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT libsaccade-dev)
include(scripts/cmake/packages.cmake)
