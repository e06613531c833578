# One program holds all tests; ctest runs it once per file, which is as fine a grain as LibTorch's
# start-up time (half a second per process) makes sensible. Inside a file: fovea_tests "name of test".

find_package(Catch2 QUIET)
if(NOT TARGET Catch2::Catch2)
  message(FATAL_ERROR "The tests need Catch2. On Debian: apt install catch2\n"
                      "(or configure with -DFOVEA_BUILD_TESTS=OFF)")
endif()

file(GLOB_RECURSE test_sources CONFIGURE_DEPENDS tests/*_test.cpp)
file(GLOB_RECURSE test_program_sources CONFIGURE_DEPENDS tests/*.cpp)
list(FILTER test_program_sources EXCLUDE REGEX "/tests/fuzz/")
if(test_sources AND TARGET fovea)
  add_executable(fovea_tests ${test_program_sources})
  target_include_directories(fovea_tests PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(
    fovea_tests PRIVATE fovea_flags fovea fovea_commands Catch2::Catch2 fovea_deps::utf8proc
                        fovea_deps::protozero fovea_deps::zlib fovea_deps::highway
  )
  if(TARGET fovea_models)
    target_link_libraries(fovea_tests PRIVATE fovea_models)
  endif()
  if(TARGET fovea_ops_cuda)
    add_dependencies(fovea_tests fovea_ops_cuda)
    set_source_files_properties(
      tests/ops/ptxas_report_test.cpp PROPERTIES COMPILE_DEFINITIONS
                                             FOVEA_PTXAS_REPORTS="${FOVEA_PTXAS_REPORTS}"
    )
  endif()
  if(TARGET fovea_cli)
    add_dependencies(fovea_tests fovea_cli)
  endif()
  # Only these know where the project lies, so that ccache can serve the others to another clone.
  set_source_files_properties(
    tests/source_dir.cpp PROPERTIES COMPILE_DEFINITIONS FOVEA_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
  )
  # CUDA kernels compiled for the CPU: "#pragma unroll" is nvcc's.
  set_source_files_properties(
    tests/ops/flash_attention_cuda_host_test.cpp
               PROPERTIES COMPILE_OPTIONS -Wno-unknown-pragmas
  )
  fovea_compile_together(fovea_tests tests)

  # libgomp's waiting threads spin; with several test programs on few cores that costs more than it
  # gains. LibTorch keeps its registries until the very end, which the leak checker takes for leaks,
  # so only the other checks of the address sanitizer are on.
  set(test_environment
      "OMP_WAIT_POLICY=passive"
      "ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0:abort_on_error=0"
      "UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1"
      "NO_COLOR=1"
  )
  if(Catch2_VERSION VERSION_LESS 3)
    set(no_tests_is_an_error -w NoTests)
  endif()
  foreach(source IN LISTS test_sources)
    get_filename_component(name "${source}" NAME_WE)
    add_test(NAME ${name} COMMAND fovea_tests -\# "[#${name}]" ${no_tests_is_an_error})
    set_tests_properties(${name} PROPERTIES ENVIRONMENT "${test_environment}" TIMEOUT 600)
  endforeach()
endif()
