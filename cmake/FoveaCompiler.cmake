# Warnings, sanitizers, the shared precompiled header, ccache and the linker.

if(NOT CMAKE_CXX_COMPILER_ID MATCHES "^(GNU|Clang)$")
  message(WARNING "fovea is built with GCC and Clang; ${CMAKE_CXX_COMPILER_ID} is untried.")
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 11)
  message(FATAL_ERROR "fovea needs C++20: GCC 11 or newer, not ${CMAKE_CXX_COMPILER_VERSION}.")
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)

# One precompiled header serves libraries and programs, so both must be compiled alike: CMake's
# property would give -fPIC to the first and -fPIE to the second, which GCC's PCH does not allow.
set(CMAKE_POSITION_INDEPENDENT_CODE OFF)

set(FOVEA_SANITIZE "" CACHE STRING "Sanitizers, as in -fsanitize=: e.g. address,undefined")

add_library(fovea_flags INTERFACE)
target_compile_options(fovea_flags INTERFACE -fPIC -Wall -Wextra -Wshadow)
if(FOVEA_WERROR)
  target_compile_options(fovea_flags INTERFACE -Werror)
endif()
if(FOVEA_SANITIZE)
  target_compile_options(
    fovea_flags INTERFACE -fsanitize=${FOVEA_SANITIZE} -fno-omit-frame-pointer
                          -fno-sanitize-recover=undefined
  )
  # GCC's sanitizers make it suspect uninitialised values in the standard library's own headers.
  target_compile_options(
    fovea_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
  )
  string(REPLACE "fuzzer-no-link," "" _fovea_link_sanitizers "${FOVEA_SANITIZE}")
  target_link_options(fovea_flags INTERFACE -fsanitize=${_fovea_link_sanitizers})
endif()

foreach(_linker mold lld gold)
  find_program(FOVEA_LINKER_${_linker} ld.${_linker})
  mark_as_advanced(FOVEA_LINKER_${_linker})
  if(FOVEA_LINKER_${_linker} AND NOT (_linker STREQUAL "mold" AND CMAKE_CXX_COMPILER_VERSION
                                                                  VERSION_LESS 12.1))
    target_link_options(fovea_flags INTERFACE -fuse-ld=${_linker})
    break()
  endif()
endforeach()

find_program(FOVEA_CCACHE ccache)
mark_as_advanced(FOVEA_CCACHE)
if(FOVEA_CCACHE)
  set(_fovea_ccache_launcher
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${FOVEA_CCACHE}
  )
  if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${_fovea_ccache_launcher})
  endif()
  # Without it ccache cannot see what a precompiled header holds, and never hits.
  target_compile_options(
    fovea_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>
                          "$<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>"
  )
endif()

# <torch/torch.h> costs 15 to 30 seconds per file; compiled once, it is shared by all targets.
if(FOVEA_PCH)
  file(WRITE "${CMAKE_BINARY_DIR}/fovea_pch/empty.cpp.in" "// Carries the precompiled header.\n")
  configure_file(
    "${CMAKE_BINARY_DIR}/fovea_pch/empty.cpp.in" "${CMAKE_BINARY_DIR}/fovea_pch/empty.cpp" COPYONLY
  )
  add_library(fovea_pch OBJECT "${CMAKE_BINARY_DIR}/fovea_pch/empty.cpp")
  target_link_libraries(fovea_pch PRIVATE fovea_flags libtorch::cpu)
  target_precompile_headers(fovea_pch PRIVATE <torch/torch.h>)
endif()

function(fovea_use_torch_pch target)
  if(FOVEA_PCH)
    target_precompile_headers(${target} REUSE_FROM fovea_pch)
  endif()
endfunction()
