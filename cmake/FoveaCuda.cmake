# fovea_ops_cuda: the CUDA kernels of the ops, where there are a toolkit and a LibTorch with CUDA.
#
# Loading the library is all there is to do: it registers its kernels with the dispatcher.

set(FOVEA_CUDA "AUTO" CACHE STRING "Build the CUDA kernels: ON, OFF, or AUTO (where there is a toolkit)")
set_property(CACHE FOVEA_CUDA PROPERTY STRINGS AUTO ON OFF)

if(FOVEA_CUDA STREQUAL "AUTO" AND NOT LIBTORCH_HAS_CUDA)
  message(STATUS "CUDA kernels: not built, this LibTorch is for the CPU")
  return()
endif()
if(NOT FOVEA_CUDA)
  return()
endif()
# A wheel that was installed without what it depends on has libtorch_cuda.so, but nothing can load it.
find_library(
  FOVEA_CUDNN NAMES cudnn libcudnn.so.9 HINTS "${LIBTORCH_DIR}/lib" "${LIBTORCH_DIR}/../nvidia/cudnn/lib"
)
mark_as_advanced(FOVEA_CUDNN)
if(FOVEA_CUDA STREQUAL "AUTO" AND NOT FOVEA_CUDNN)
  message(STATUS "CUDA kernels: not built, LibTorch's CUDA libraries are missing (scripts/setup --full)")
  return()
endif()
if(NOT LIBTORCH_HAS_CUDA)
  message(FATAL_ERROR "FOVEA_CUDA=ON needs a LibTorch with CUDA (scripts/setup --full)")
endif()

include(CheckLanguage)
# Real code for the two architectures the kernels are tuned for, and one to translate for later ones.
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90 CACHE STRING "CUDA architectures")
endif()
# The same run-time library that LibTorch uses, not a second copy of it.
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  if(NOT FOVEA_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "FOVEA_CUDA=ON, but there is no nvcc. Set CMAKE_CUDA_COMPILER or add it to PATH.")
  endif()
  message(STATUS "CUDA kernels: not built, there is no nvcc")
  return()
endif()
enable_language(CUDA)
# CMake before 3.26 does not know that nvcc has C++20.
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
find_package(CUDAToolkit REQUIRED)
find_package(LibTorch 2.6 REQUIRED COMPONENTS cuda)

# Kernels see raw pointers and sizes: neither LibTorch's headers nor its flags.
file(GLOB cuda_kernel_sources CONFIGURE_DEPENDS src/fovea/ops/cuda/*.cu)
add_library(fovea_cuda_kernels OBJECT ${cuda_kernel_sources})
target_include_directories(fovea_cuda_kernels PRIVATE src)
target_compile_options(
  fovea_cuda_kernels PRIVATE --expt-relaxed-constexpr -Xptxas=-v -Xcompiler=-fPIC,-Wall,-Wextra
)
# What ptxas says about registers and spills is kept beside the objects; a test reads it.
set(FOVEA_PTXAS_REPORTS "${PROJECT_BINARY_DIR}/ptxas")
set(launcher "${PROJECT_SOURCE_DIR}/cmake/keep-ptxas-report" "${FOVEA_PTXAS_REPORTS}")
if(FOVEA_CCACHE)
  list(APPEND launcher "${FOVEA_CCACHE}")
endif()
set_target_properties(fovea_cuda_kernels PROPERTIES CUDA_COMPILER_LAUNCHER "${launcher}")

file(GLOB cuda_sources CONFIGURE_DEPENDS src/fovea/ops/cuda/*.cpp)
add_library(fovea_ops_cuda SHARED ${cuda_sources} $<TARGET_OBJECTS:fovea_cuda_kernels>)
target_link_libraries(
  fovea_ops_cuda PUBLIC fovea_ops libtorch::cuda PRIVATE $<BUILD_INTERFACE:fovea_flags> CUDA::cudart
)
set_target_properties(fovea_ops_cuda PROPERTIES LINKER_LANGUAGE CXX)
fovea_compile_together(fovea_ops_cuda src/fovea)
message(STATUS "CUDA kernels: nvcc ${CMAKE_CUDA_COMPILER_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}")
