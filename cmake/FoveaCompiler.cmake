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
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} # what one clone has compiled serves the others
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

# <torch/torch.h> costs 15 to 30 seconds per file. Two ways round that:
#   FOVEA_UNITY on    each folder is one file to the compiler: the quickest build from nothing
#   FOVEA_UNITY off   one precompiled header for all, 700 MB of it: the quickest build after a change
if(NOT FOVEA_UNITY)
  file(WRITE "${CMAKE_BINARY_DIR}/fovea_pch/empty.cpp.in" "// Carries the precompiled header.\n")
  configure_file(
    "${CMAKE_BINARY_DIR}/fovea_pch/empty.cpp.in" "${CMAKE_BINARY_DIR}/fovea_pch/empty.cpp" COPYONLY
  )
  add_library(fovea_pch OBJECT "${CMAKE_BINARY_DIR}/fovea_pch/empty.cpp")
  target_link_libraries(fovea_pch PRIVATE fovea_flags libtorch::cpu)
  target_precompile_headers(fovea_pch PRIVATE <torch/torch.h>)
endif()

# fovea_compile_together(TARGET ROOT): files of one folder below ROOT are compiled together, or each
# with the precompiled header if it or its own header includes torch.
# Apart stay the files that Highway compiles once for each instruction set (*_kernel.cpp), and those
# with properties of their own. CMake's own unity builds name files by absolute paths, with which
# ccache cannot help a second clone; these name them by relative ones.
function(fovea_compile_together target root)
  get_target_property(sources ${target} SOURCES)
  if(NOT FOVEA_UNITY)
    target_precompile_headers(${target} REUSE_FROM fovea_pch)
  endif()
  set(folders)
  foreach(source IN LISTS sources)
    if(NOT source MATCHES "\\.cpp$")
      continue()
    endif()
    get_filename_component(source "${source}" ABSOLUTE BASE_DIR "${PROJECT_SOURCE_DIR}")
    file(STRINGS "${source}" foreach_target REGEX "hwy/foreach_target\\.h")
    get_source_file_property(options "${source}" COMPILE_OPTIONS)
    get_source_file_property(definitions "${source}" COMPILE_DEFINITIONS)
    if(FOVEA_UNITY AND NOT foreach_target AND NOT options AND NOT definitions)
      get_filename_component(folder "${source}" DIRECTORY)
      file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}/${root}" "${folder}")
      string(MAKE_C_IDENTIFIER "${target}_${folder}" folder)
      list(APPEND folders ${folder})
      list(APPEND ${folder} "${source}")
    elseif(NOT FOVEA_UNITY)
      string(REGEX REPLACE "\\.cpp$" ".h" header "${source}")
      set(torch)
      foreach(file "${source}" "${header}")
        if(EXISTS "${file}")
          file(STRINGS "${file}" includes REGEX "include (<torch/|<ATen/|<c10/|\"tests/(test|numeric|tiny_))")
          list(APPEND torch ${includes})
        endif()
      endforeach()
      if(foreach_target OR NOT torch)
        set_source_files_properties("${source}" PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
      endif()
    endif()
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(folder IN LISTS folders)
    set(together "${CMAKE_BINARY_DIR}/together/${folder}.cpp")
    set(text "// The files of one folder, compiled as one.\n")
    foreach(source IN LISTS ${folder})
      file(RELATIVE_PATH path "${CMAKE_BINARY_DIR}/together" "${source}")
      string(APPEND text "#include \"${path}\"\n")
    endforeach()
    file(CONFIGURE OUTPUT "${together}" CONTENT "${text}" @ONLY) # leaves an unchanged file alone
    set_source_files_properties(${${folder}} PROPERTIES HEADER_FILE_ONLY ON)
    target_sources(${target} PRIVATE "${together}")
  endforeach()
endfunction()
