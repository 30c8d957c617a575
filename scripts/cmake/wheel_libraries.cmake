# Installs, next to the wheel's libsaccade (`library`), the libraries that it needs, under the names that the
# loader asks for, and the licences of their packages. Every system has those of libc and the compiler.
set(folder "${CMAKE_INSTALL_PREFIX}/saccade/lib")
file(GET_RUNTIME_DEPENDENCIES LIBRARIES "${library}" RESOLVED_DEPENDENCIES_VAR needed UNRESOLVED_DEPENDENCIES_VAR missing
  PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread|stdc\\+\\+|gcc_s)\\.so")
if(missing)
  message(FATAL_ERROR "not found: ${missing}, which ${library} needs")
endif()
foreach(path IN LISTS needed)
  get_filename_component(name "${path}" NAME)
  file(REAL_PATH "${path}" file)
  message(STATUS "Installing: ${folder}/${name}")
  file(COPY_FILE "${file}" "${folder}/${name}" ONLY_IF_DIFFERENT)
  # On Debian: "libjpeg62-turbo:amd64: /usr/lib/..."; on other systems the licences are not known here.
  string(REGEX REPLACE "^/usr/lib/" "/lib/" old_file "${file}")  # where packages from before /lib became /usr/lib have it
  foreach(known IN ITEMS "${file}" "${old_file}")
    execute_process(COMMAND dpkg-query -S "${known}" OUTPUT_VARIABLE owner RESULT_VARIABLE failed ERROR_QUIET)
    if(NOT failed)
      break()
    endif()
  endforeach()
  string(REGEX MATCH "^[^:,]+" package "${owner}")
  if(NOT failed AND EXISTS "/usr/share/doc/${package}/copyright")
    file(REAL_PATH "/usr/share/doc/${package}/copyright" licence)
    file(COPY_FILE "${licence}" "${folder}/${package}.copyright" ONLY_IF_DIFFERENT)
  else()
    message(WARNING "the licence of ${file} is not known: add it before the wheel is given to others")
  endif()
endforeach()
