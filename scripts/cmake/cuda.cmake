# The CUDA backend: core/runtime/cuda, the tuned kernels core/kernels/*/*_cuda*, and every generic kernel (the sources
# there without _cpu, _cuda or _host in their names) once more, compiled for the GPU by nvcc, or by g++ against the emulator of
# tests/cuda_emulator. Sets cuda_found, which says what was chosen.
list(FILTER kernel_sources EXCLUDE REGEX "_(cpu|cuda|host)[_.][^/]*$")
file(GLOB cuda_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/core/runtime/cuda/*.cu ${CMAKE_SOURCE_DIR}/core/kernels/*/*.cu)
file(GLOB cuda_host_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/core/runtime/cuda/*.cpp
  ${CMAKE_SOURCE_DIR}/core/runtime/cuda/libraries/*.cpp
  ${CMAKE_SOURCE_DIR}/core/kernels/*/*_cuda*.cpp ${CMAKE_SOURCE_DIR}/core/distributed/*_cuda.cpp)
# Needs nothing of CUDA and is tested in every build.
set(cuda_library_source ${CMAKE_SOURCE_DIR}/core/runtime/cuda/libraries/library.cpp)
list(REMOVE_ITEM cuda_host_sources ${cuda_library_source})
target_sources(saccade_core PRIVATE ${cuda_library_source})
target_link_libraries(saccade_core PUBLIC ${CMAKE_DL_LIBS})

set(cuda_mode ${SACCADE_CUDA})
if(cuda_mode STREQUAL "auto")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(cuda_mode on)
  else()
    set(cuda_mode off)
    set(cuda_found "off (no nvcc was found)")
  endif()
elseif(cuda_mode STREQUAL "off")
  set(cuda_found "off (switched off)")
endif()

# A source of another language or with other flags is another file: one that includes it.
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
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    if(SACCADE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES ${SACCADE_CUDA_ARCHITECTURES})
    elseif(EXISTS /dev/nvidia0)
      set(CMAKE_CUDA_ARCHITECTURES native)
    else()
      set(CMAKE_CUDA_ARCHITECTURES 90)  # code for sm_90 and its PTX
    endif()
  endif()
  enable_language(CUDA)
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.4 AND SACCADE_CUDA STREQUAL "auto")
    set(cuda_mode off)
    set(cuda_found "off (nvcc ${CMAKE_CUDA_COMPILER_VERSION} is older than 12.4)")
  endif()
endif()

# Without the header there is no GPU code, or no build when it was asked for.
macro(need_header variable file what packages)
  find_path(${variable} ${file} HINTS ${CUDAToolkit_INCLUDE_DIRS})
  if(NOT ${variable} AND SACCADE_CUDA STREQUAL "auto")
    set(cuda_mode off)
    set(cuda_found "off (${what} were not found)")
  elseif(NOT ${variable})
    message(FATAL_ERROR "${file} was not found: install ${what} (${packages})")
  endif()
endmacro()

if(cuda_mode STREQUAL "on")
  find_package(CUDAToolkit REQUIRED)
  # Only the headers are needed; the libraries are looked for when the program runs.
  need_header(cublaslt_include cublasLt.h "cuBLAS's headers" "libcublas-dev, or the whole CUDA toolkit")
  need_header(cudnn_include cudnn_graph.h "cuDNN 9's headers" libcudnn9-dev-cuda-13)
endif()

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
  list(JOIN CMAKE_CUDA_ARCHITECTURES ", " architectures)
  set_source_files_properties(${CMAKE_SOURCE_DIR}/core/runtime/cuda/device.cpp PROPERTIES
    COMPILE_DEFINITIONS "SACCADE_CUDA_ARCHITECTURES=\"${architectures}\"")
  # Of g++'s part of these files alone, which only launches kernels: kernels are always optimised.
  set(CMAKE_CUDA_FLAGS_RELEASE "-O1 -DNDEBUG")
  # The static runtime starts without a driver.
  set_target_properties(saccade_core PROPERTIES
    CUDA_COMPILER_LAUNCHER "${CMAKE_CXX_COMPILER_LAUNCHER}" CUDA_RUNTIME_LIBRARY Static
    CUDA_ARCHITECTURES "${CMAKE_CUDA_ARCHITECTURES}")
  # fmt's compile-time checks of formats do not pass nvcc's front end; g++ has made them already.
  target_compile_options(saccade_core PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;--extended-lambda;\
-DFMT_CONSTEVAL=;-DFMT_USE_CONSTEXPR=1;-Xcompiler=-fopenmp,-Wall,-Werror;-Werror=all-warnings>")
  # The headers only where they are needed: all other files compile to the same objects with and without CUDA, so that a
  # build folder can be switched from one to the other.
  set_property(SOURCE ${cuda_host_sources} APPEND PROPERTY COMPILE_OPTIONS -isystem ${CUDAToolkit_INCLUDE_DIRS})
  target_link_libraries(saccade_core PUBLIC $<LINK_ONLY:CUDA::cudart_static>)
  set(cuda_found "on (nvcc ${CMAKE_CUDA_COMPILER_VERSION}, architectures ${CMAKE_CUDA_ARCHITECTURES})")
  find_path(nccl_include nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  if(NOT nccl_include)
    string(APPEND cuda_found ", but one GPU only: NCCL's header (libnccl-dev) was not found")
  endif()
elseif(cuda_mode STREQUAL "emulated")
  # With the hooks every load and store of device code is checked, to the byte. AddressSanitizer, which no object can have at the
  # same time, checks the bounds in its place where everything is sanitized; where some libraries are, it watches the host's part,
  # and UndefinedBehaviorSanitizer both.
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
    # Every access passes through these: they are to be quick.
    if(SACCADE_SANITIZE_ONLY)
      foreach(source hooks memory block_order)
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
elseif(cuda_mode STREQUAL "off")
  target_sources(saccade_core PRIVATE ${CMAKE_SOURCE_DIR}/core/runtime/no_cuda.cpp)
else()
  message(FATAL_ERROR "SACCADE_CUDA is ${SACCADE_CUDA}, expected auto, on, off or emulated")
endif()
