# Each benchmarks/x.cpp is a program of its own.

find_package(benchmark QUIET)
if(NOT TARGET benchmark::benchmark)
  message(FATAL_ERROR "The benchmarks need Google Benchmark. On Debian: apt install libbenchmark-dev")
endif()

file(GLOB benchmark_sources CONFIGURE_DEPENDS benchmarks/*.cpp)
if(TARGET fovea)
  foreach(source IN LISTS benchmark_sources)
    get_filename_component(name "${source}" NAME_WE)
    add_executable(bench_${name} ${source})
    target_link_libraries(bench_${name} PRIVATE fovea_flags fovea benchmark::benchmark)
    if(TARGET fovea_models)
      target_link_libraries(bench_${name} PRIVATE fovea_models)
    endif()
    fovea_compile_together(bench_${name} .)
  endforeach()
endif()
