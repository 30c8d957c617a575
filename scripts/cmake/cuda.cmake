# The CUDA backend: core/runtime/cuda, the tuned kernels core/kernels/*/*_cuda*, and every generic kernel (the
# sources there without _cpu, _cuda or _host in their names) a second time, compiled for the GPU by nvcc, or
# by g++ against the emulator of tests/cuda_emulator. Sets cuda_found, which describes the choice.
list(FILTER kernel_sources EXCLUDE REGEX "_(cpu|cuda|host)[_.][^/]*$")
file(GLOB cuda_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/core/runtime/cuda/*.cu ${CMAKE_SOURCE_DIR}/core/kernels/*/*.cu)
file(GLOB cuda_host_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/core/runtime/cuda/*.cpp
  ${CMAKE_SOURCE_DIR}/core/runtime/cuda/libraries/*.cpp
  ${CMAKE_SOURCE_DIR}/core/kernels/*/*_cuda*.cpp ${CMAKE_SOURCE_DIR}/core/distributed/*_cuda.cpp)
# Uses no CUDA and is tested in every build.
set(cuda_library_source ${CMAKE_SOURCE_DIR}/core/runtime/cuda/libraries/library.cpp)
list(REMOVE_ITEM cuda_host_sources ${cuda_library_source})
target_sources(saccade_core PRIVATE ${cuda_library_source})
target_link_libraries(saccade_core PUBLIC ${CMAKE_DL_LIBS})

include(scripts/cmake/find_cuda.cmake)

# A source compiled in another language or with other flags needs another file: one that includes it.
function(saccade_second_compilation source extension output)
  get_filename_component(name ${source} NAME_WE)
  get_filename_component(folder ${source} DIRECTORY)
  get_filename_component(folder ${folder} NAME)
  set(file ${CMAKE_BINARY_DIR}/${cuda_mode}_cuda/${folder}_${name}.${extension})
  file(RELATIVE_PATH included ${CMAKE_SOURCE_DIR} ${source})
  file(CONFIGURE OUTPUT ${file} CONTENT "#include \"${included}\"\n")
  set(${output} ${file} PARENT_SCOPE)
endfunction()

if(cuda_mode STREQUAL "on")
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake before 3.26 does not know that nvcc has it
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
  foreach(source ${kernel_sources})
    saccade_second_compilation(${source} cu file)
    list(APPEND cuda_sources ${file})
  endforeach()
  target_sources(saccade_core PRIVATE ${cuda_sources} ${cuda_host_sources})
  # CMake 3.31 and newer would merge these too, but their names are unique only within a file.
  set_source_files_properties(${cuda_sources} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  list(JOIN CMAKE_CUDA_ARCHITECTURES ", " architectures)
  string(REGEX REPLACE "-(real|virtual)" "" architectures "${architectures}")
  set_source_files_properties(${CMAKE_SOURCE_DIR}/core/runtime/cuda/device.cpp PROPERTIES
    COMPILE_DEFINITIONS "SACCADE_CUDA_ARCHITECTURES=\"${architectures}\"")
  # Only for g++'s part of these files, which just launches kernels: kernels are always optimised.
  set(CMAKE_CUDA_FLAGS_RELEASE "-O1 -DNDEBUG")
  # The static runtime starts without a driver.
  set_target_properties(saccade_core PROPERTIES
    CUDA_COMPILER_LAUNCHER "${CMAKE_CXX_COMPILER_LAUNCHER}" CUDA_RUNTIME_LIBRARY Static
    CUDA_ARCHITECTURES "${CMAKE_CUDA_ARCHITECTURES}")
  # fmt's compile-time checks of formats do not pass nvcc's front end; g++ has already made them.
  target_compile_options(saccade_core PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;--extended-lambda;\
-DFMT_CONSTEVAL=;-DFMT_USE_CONSTEXPR=1;-Xcompiler=-fopenmp,-Wall>")
  if(SACCADE_WERROR)
    target_compile_options(saccade_core PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Werror;-Werror=all-warnings>")
  endif()
  if(SACCADE_PACKAGE AND CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8)  # which has this option
    target_compile_options(saccade_core PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:--compress-mode=size>")
  endif()
  # The headers are only added where they are needed: all other files compile to the same objects with and
  # without CUDA, so that a build folder can be switched between the two.
  set(folders ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
  list(TRANSFORM folders PREPEND "-isystem")
  set_property(SOURCE ${cuda_host_sources} APPEND PROPERTY COMPILE_OPTIONS ${folders})
  target_link_libraries(saccade_core PUBLIC ${cudart_static} rt)
  set(cuda_found "on (nvcc ${CMAKE_CUDA_COMPILER_VERSION}, architectures ${CMAKE_CUDA_ARCHITECTURES})")
elseif(cuda_mode STREQUAL "emulated")
  # The hooks check every load and store of device code, to the byte. AddressSanitizer, which cannot be used
  # on the same object, checks the bounds instead if everything is sanitized; if only some libraries are, it
  # watches the host's part, and UndefinedBehaviorSanitizer watches both.
  set(emulated_flags "-DSACCADE_EMULATOR;-I${CMAKE_SOURCE_DIR}/tests/cuda_emulator")
  if(NOT sanitize_all)
    list(APPEND emulated_flags -O1 -DSACCADE_EMULATOR_HOOKS)
    if(SACCADE_SANITIZE_ONLY)
      # The hooks report misaligned addresses themselves, as the GPU would.
      list(APPEND emulated_flags -fno-sanitize=address -fsanitize=undefined -fno-sanitize=alignment -fno-sanitize-recover=all)
    endif()
    list(APPEND emulated_flags -fsanitize=thread)
  endif()
  foreach(source ${kernel_sources} ${cuda_sources} ${cuda_host_sources})
    saccade_second_compilation(${source} cpp file)
    set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS "${emulated_flags}")
    target_sources(saccade_core PRIVATE ${file})
  endforeach()
  file(GLOB emulator_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/cuda_emulator/*.cpp)
  set_source_files_properties(${emulator_sources} PROPERTIES INCLUDE_DIRECTORIES ${CMAKE_SOURCE_DIR}/tests/cuda_emulator)
  if(NOT sanitize_all)
    set_source_files_properties(${emulator_sources} PROPERTIES COMPILE_OPTIONS -DSACCADE_EMULATOR_HOOKS)
    # Every access goes through these, so they must be fast.
    if(SACCADE_SANITIZE_ONLY)
      foreach(source hooks emulator memory block_order)
        set_source_files_properties(${CMAKE_SOURCE_DIR}/tests/cuda_emulator/${source}.cpp PROPERTIES
          COMPILE_OPTIONS "-DSACCADE_EMULATOR_HOOKS;-fno-sanitize=all;-O2")
      endforeach()
    endif()
  else()
    list(FILTER emulator_sources EXCLUDE REGEX "/hooks\\.cpp$")
  endif()
  set_source_files_properties(${emulator_sources} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(saccade_core PRIVATE ${emulator_sources})
  set(cuda_found "emulated on the CPU (for tests)")
else()
  target_sources(saccade_core PRIVATE ${CMAKE_SOURCE_DIR}/core/runtime/no_cuda.cpp)
  set_property(SOURCE core/runtime/no_cuda.cpp PROPERTY COMPILE_DEFINITIONS "SACCADE_NO_CUDA=\"${cuda_missing}\"")
  set(cuda_found "off (${cuda_missing})")
endif()
