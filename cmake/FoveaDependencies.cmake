# The libraries fovea is built on, beside LibTorch. Included by the build and by the installed
# package's fovea-config.cmake, so that both see the same targets.
#
#   fovea_deps::spdlog, ::yaml, ::json, ::utf8proc, ::protozero, ::zlib, ::zip, ::png, ::jpeg, ::highway,
#   ::cli11

include_guard(GLOBAL)

function(_fovea_missing what apt_package)
  message(FATAL_ERROR "fovea needs ${what}, which was not found.\n"
                      "On Debian: apt install ${apt_package}   (scripts/setup installs everything)")
endfunction()

# A header and, if given, a library that bring no CMake package of their own.
function(_fovea_plain_dependency name header library apt_package)
  string(TOUPPER "FOVEA_${name}" prefix)
  find_path(${prefix}_INCLUDE_DIR ${header})
  if(NOT ${prefix}_INCLUDE_DIR)
    _fovea_missing("the header <${header}>" ${apt_package})
  endif()
  add_library(fovea_deps::${name} INTERFACE IMPORTED GLOBAL)
  target_include_directories(fovea_deps::${name} SYSTEM INTERFACE "${${prefix}_INCLUDE_DIR}")
  if(library)
    find_library(${prefix}_LIBRARY ${library})
    if(NOT ${prefix}_LIBRARY)
      _fovea_missing("the library lib${library}" ${apt_package})
    endif()
    target_link_libraries(fovea_deps::${name} INTERFACE "${${prefix}_LIBRARY}")
  endif()
  mark_as_advanced(${prefix}_INCLUDE_DIR ${prefix}_LIBRARY)
endfunction()

# A dependency with a CMake package; the first target that exists is taken.
function(_fovea_packaged_dependency name package apt_package)
  find_package(${package} QUIET)
  foreach(target IN LISTS ARGN)
    if(TARGET ${target})
      add_library(fovea_deps::${name} INTERFACE IMPORTED GLOBAL)
      # Imported targets of find_package are local to this directory scope; make them visible.
      set_target_properties(${target} PROPERTIES IMPORTED_GLOBAL TRUE)
      target_link_libraries(fovea_deps::${name} INTERFACE ${target})
      return()
    endif()
  endforeach()
  _fovea_missing("${package}" ${apt_package})
endfunction()

_fovea_plain_dependency(highway hwy/highway.h hwy libhwy-dev)
if(FOVEA_ONLY_OPS)
  return()
endif()

find_package(Threads REQUIRED)
_fovea_packaged_dependency(fmt fmt libfmt-dev fmt::fmt)
_fovea_packaged_dependency(spdlog spdlog libspdlog-dev spdlog::spdlog)
_fovea_packaged_dependency(yaml yaml-cpp libyaml-cpp-dev yaml-cpp::yaml-cpp yaml-cpp)
_fovea_packaged_dependency(json nlohmann_json nlohmann-json3-dev nlohmann_json::nlohmann_json)
_fovea_packaged_dependency(cli11 CLI11 libcli11-dev CLI11::CLI11)
_fovea_packaged_dependency(zlib ZLIB zlib1g-dev ZLIB::ZLIB)
_fovea_packaged_dependency(png PNG libpng-dev PNG::PNG)
_fovea_packaged_dependency(jpeg JPEG libjpeg62-turbo-dev JPEG::JPEG)
_fovea_plain_dependency(utf8proc utf8proc.h utf8proc libutf8proc-dev)
_fovea_plain_dependency(protozero protozero/pbf_writer.hpp "" libprotozero-dev)
_fovea_plain_dependency(zip zip.h zip libzip-dev)

# LibTorch ships the headers of a newer fmt in its include directory, where they would be taken for
# the system's and break the system's spdlog. A directory that holds nothing but a link to the
# system's fmt headers, searched before LibTorch's, puts that right.
find_path(FOVEA_FMT_INCLUDE_DIR fmt/core.h NO_CMAKE_PATH NO_CMAKE_ENVIRONMENT_PATH)
mark_as_advanced(FOVEA_FMT_INCLUDE_DIR)
if(NOT FOVEA_FMT_INCLUDE_DIR)
  _fovea_missing("the header <fmt/core.h>" libfmt-dev)
endif()
set(_fovea_fmt_dir "${CMAKE_BINARY_DIR}/fovea_fmt")
file(MAKE_DIRECTORY "${_fovea_fmt_dir}")
file(CREATE_LINK "${FOVEA_FMT_INCLUDE_DIR}/fmt" "${_fovea_fmt_dir}/fmt" SYMBOLIC)
target_compile_options(fovea_deps::fmt INTERFACE "-I${_fovea_fmt_dir}")
target_compile_definitions(
  fovea_deps::spdlog INTERFACE SPDLOG_FMT_EXTERNAL SPDLOG_COMPILED_LIB
)
target_link_libraries(fovea_deps::spdlog INTERFACE fovea_deps::fmt Threads::Threads)
