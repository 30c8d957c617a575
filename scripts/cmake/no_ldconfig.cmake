# After cpack: removes the scripts in which CPack calls ldconfig, since Debian only wants the trigger, which
# the library's package has.
foreach(package IN LISTS CPACK_PACKAGE_FILES)
  if(package MATCHES "/libsaccade[0-9.]+_[^/]*$")
    set(tree ${package}.tree)
    execute_process(COMMAND dpkg-deb -R ${package} ${tree} COMMAND_ERROR_IS_FATAL ANY)
    file(REMOVE ${tree}/DEBIAN/postinst ${tree}/DEBIAN/postrm)
    execute_process(COMMAND dpkg-deb --root-owner-group -b ${tree} ${package} OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
    file(REMOVE_RECURSE ${tree})
  endif()
endforeach()
