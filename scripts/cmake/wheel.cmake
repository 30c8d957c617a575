# The Python wheel (pyproject.toml; docs/python.md): the module of train/python, libsaccade with the program
# in it, a program of a few KB that calls it, and the libraries that they need, except those of libc and the
# compiler. Folders are those inside the wheel.
set(exports ${CMAKE_BINARY_DIR}/wheel_exports.map)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/train/library/exports.map)
file(READ ${CMAKE_SOURCE_DIR}/train/library/exports.map listed)
file(CONFIGURE OUTPUT ${exports} CONTENT "${listed}SACCADE_PROGRAM {\n  global:\n    saccade_open_mp;\n    saccade_run_program;\n};\n" @ONLY)

add_library(saccade_library SHARED train/python/entry.cpp)
target_link_libraries(saccade_library PRIVATE ${SACCADE_OBJECTS})
target_link_options(saccade_library PRIVATE -Wl,--version-script=${exports} -Wl,-z,nodelete -Wl,-z,defs)
set_target_properties(saccade_library PROPERTIES OUTPUT_NAME saccade LINKER_LANGUAGE CXX LINK_DEPENDS ${exports}
  INSTALL_RPATH "$ORIGIN")
add_executable(saccade train/python/program.cpp)
target_include_directories(saccade PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(saccade PRIVATE saccade_library)
set_target_properties(saccade PROPERTIES ENABLE_EXPORTS ON INSTALL_RPATH "$ORIGIN/../lib")
foreach(target saccade saccade_library)  # the libraries' own libraries are searched there too
  target_link_options(${target} PRIVATE LINKER:--disable-new-dtags)
endforeach()

install(TARGETS saccade RUNTIME DESTINATION saccade/bin COMPONENT wheel)
install(TARGETS saccade_library LIBRARY DESTINATION saccade/lib COMPONENT wheel)
install(CODE "set(library \"$<TARGET_FILE:saccade_library>\")" COMPONENT wheel)
install(SCRIPT ${CMAKE_SOURCE_DIR}/scripts/cmake/wheel_libraries.cmake COMPONENT wheel)
# On PATH: starts the program of the module that the script's Python has.
if(SKBUILD_SCRIPTS_DIR)
  install(PROGRAMS train/python/launcher.py DESTINATION ${SKBUILD_SCRIPTS_DIR} RENAME saccade COMPONENT wheel)
endif()
