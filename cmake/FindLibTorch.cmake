# Finds LibTorch without `find_package(Torch)`, which for a CUDA build insists on a CUDA toolkit and
# rewrites the compiler flags of the whole project.
#
# Looked for, in this order:
#   1. LIBTORCH_ROOT (-D or environment): the directory that holds include/ and lib/
#   2. the torch that LIBTORCH_PYTHON, a Python interpreter, imports; nothing else where that is given
#   3. CMAKE_PREFIX_PATH (-D or environment): an unpacked LibTorch zip, or a wheel's share/cmake
#   4. .venv/lib/python3*/site-packages/torch below LIBTORCH_VENV_DIR (default: the source tree)
#
# Defines
#   libtorch::cpu    c10 and torch_cpu
#   libtorch::cuda   the above with c10_cuda and torch_cuda; only with `COMPONENTS cuda`
#   LIBTORCH_DIR, LIBTORCH_VERSION, LIBTORCH_HAS_CUDA

set(_libtorch_candidates)
set(_libtorch_from)
if(LIBTORCH_ROOT)
  set(_libtorch_candidates "${LIBTORCH_ROOT}" "${LIBTORCH_ROOT}/torch" "${LIBTORCH_ROOT}/libtorch")
  set(_libtorch_from "LIBTORCH_ROOT")
elseif(DEFINED ENV{LIBTORCH_ROOT})
  set(_libtorch_candidates "$ENV{LIBTORCH_ROOT}")
  set(_libtorch_from "the environment's LIBTORCH_ROOT")
elseif(LIBTORCH_PYTHON)
  # Without the environment (-E): pip hides what is installed from the builds it runs, by PYTHONPATH.
  execute_process(
    COMMAND "${LIBTORCH_PYTHON}" -E -c
            "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
    OUTPUT_VARIABLE _libtorch_candidates OUTPUT_STRIP_TRAILING_WHITESPACE
  )
  if(NOT _libtorch_candidates)
    message(FATAL_ERROR "${LIBTORCH_PYTHON} has no torch, and fovea is built for the torch that is there.\n"
                        "Install it first: ${LIBTORCH_PYTHON} -m pip install torch\n"
                        "(a tool that builds in an environment of its own has to be told not to: "
                        "pip install --no-build-isolation .)")
  endif()
  set(_libtorch_from "${_libtorch_candidates}")
else()
  set(_libtorch_from "CMAKE_PREFIX_PATH and .venv")
  file(TO_CMAKE_PATH "$ENV{CMAKE_PREFIX_PATH}" _libtorch_env_prefixes)
  foreach(_prefix IN LISTS CMAKE_PREFIX_PATH _libtorch_env_prefixes)
    list(APPEND _libtorch_candidates "${_prefix}" "${_prefix}/libtorch" "${_prefix}/../..")
  endforeach()
  if(NOT LIBTORCH_VENV_DIR)
    set(LIBTORCH_VENV_DIR "${PROJECT_SOURCE_DIR}")
  endif()
  file(GLOB _libtorch_wheels "${LIBTORCH_VENV_DIR}/.venv/lib/python3*/site-packages/torch")
  list(APPEND _libtorch_candidates ${_libtorch_wheels})
endif()

# Not cached on purpose: another prefix, or a new .venv, takes effect with the next configure.
set(LIBTORCH_DIR)
foreach(_candidate IN LISTS _libtorch_candidates)
  if(EXISTS "${_candidate}/include/torch/csrc/api/include/torch/torch.h"
     AND EXISTS "${_candidate}/lib/libtorch_cpu.so"
     AND EXISTS "${_candidate}/lib/libc10.so")
    get_filename_component(LIBTORCH_DIR "${_candidate}" REALPATH)
    break()
  endif()
endforeach()

if(LIBTORCH_DIR)
  set(LIBTORCH_VERSION)
  set(_libtorch_version_file "${LIBTORCH_DIR}/share/cmake/Torch/TorchConfigVersion.cmake")
  if(EXISTS "${_libtorch_version_file}")
    file(STRINGS "${_libtorch_version_file}" _line REGEX "PACKAGE_VERSION \"[0-9]" LIMIT_COUNT 1)
    string(REGEX REPLACE ".*\"([0-9.]+).*" "\\1" LIBTORCH_VERSION "${_line}")
  endif()
  file(STRINGS "${LIBTORCH_DIR}/lib/libc10.so" _libtorch_new_abi REGEX "__cxx11" LIMIT_COUNT 1)
  if(NOT _libtorch_new_abi)
    message(FATAL_ERROR "The LibTorch in ${LIBTORCH_DIR} is built with the old C++ ABI.\n"
                        "Take the \"cxx11 ABI\" zip, or run scripts/setup.")
  endif()
  set(LIBTORCH_HAS_CUDA OFF)
  if(EXISTS "${LIBTORCH_DIR}/lib/libtorch_cuda.so" AND EXISTS "${LIBTORCH_DIR}/lib/libc10_cuda.so")
    set(LIBTORCH_HAS_CUDA ON)
    set(LibTorch_cuda_FOUND TRUE)
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  LibTorch
  REQUIRED_VARS LIBTORCH_DIR
  VERSION_VAR LIBTORCH_VERSION
  HANDLE_COMPONENTS
  REASON_FAILURE_MESSAGE
    "looked at ${_libtorch_from}.\nRun scripts/setup, which installs it in .venv, or give -DLIBTORCH_ROOT=DIR or -DCMAKE_PREFIX_PATH=DIR, where DIR holds LibTorch's include/ and lib/"
)

function(_libtorch_import name)
  if(NOT TARGET libtorch::${name})
    add_library(libtorch::${name} SHARED IMPORTED)
    set_target_properties(
      libtorch::${name} PROPERTIES IMPORTED_LOCATION "${LIBTORCH_DIR}/lib/lib${name}.so"
    )
  endif()
endfunction()

if(LibTorch_FOUND AND NOT TARGET libtorch::cpu)
  _libtorch_import(c10)
  _libtorch_import(torch_cpu)

  add_library(libtorch::cpu INTERFACE IMPORTED)
  target_include_directories(
    libtorch::cpu SYSTEM INTERFACE "${LIBTORCH_DIR}/include"
                                   "${LIBTORCH_DIR}/include/torch/csrc/api/include"
  )
  target_link_libraries(libtorch::cpu INTERFACE libtorch::torch_cpu libtorch::c10)
  target_compile_features(libtorch::cpu INTERFACE cxx_std_20)
  # at::parallel_for is a header: without -fopenmp its loop silently runs on one thread. Only GCC's
  # OpenMP may be used, since LibTorch brings GCC's run-time library; with Clang the loops are serial.
  target_compile_options(libtorch::cpu INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fopenmp>)
  # Linked by its file, whatever it is called (the zips rename it): a second OpenMP run-time would
  # have its own threads and ignore at::set_num_threads.
  file(GLOB _libtorch_gomp "${LIBTORCH_DIR}/lib/libgomp*.so*")
  if(_libtorch_gomp)
    list(GET _libtorch_gomp 0 _libtorch_gomp)
    add_library(libtorch::gomp SHARED IMPORTED)
    set_target_properties(libtorch::gomp PROPERTIES IMPORTED_LOCATION "${_libtorch_gomp}")
    target_link_libraries(libtorch::cpu INTERFACE libtorch::gomp)
  else()
    target_link_options(libtorch::cpu INTERFACE $<$<LINK_LANG_AND_ID:CXX,GNU>:-fopenmp>)
  endif()
endif()

if(LibTorch_FOUND AND "cuda" IN_LIST LibTorch_FIND_COMPONENTS AND NOT TARGET libtorch::cuda)
  _libtorch_import(c10_cuda)
  _libtorch_import(torch_cuda)
  add_library(libtorch::cuda INTERFACE IMPORTED)
  # Nothing refers to torch_cuda by symbol; it registers itself when it is loaded.
  target_link_options(libtorch::cuda INTERFACE "LINKER:--no-as-needed")
  target_link_libraries(
    libtorch::cuda INTERFACE libtorch::cpu libtorch::torch_cuda libtorch::c10_cuda
  )
endif()
