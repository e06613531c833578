# `cmake --install` and the package: find_package(fovea), then link fovea::fovea.

include(CMakePackageConfigHelpers)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/fovea")

set(installed_targets)
foreach(target fovea fovea_ops)
  if(TARGET ${target})
    list(APPEND installed_targets ${target})
  endif()
endforeach()

# LibTorch stays where it is; CMake itself would leave its path out where it lies below the source tree.
if(TARGET fovea)
  set_target_properties(${installed_targets} PROPERTIES INSTALL_RPATH "$ORIGIN;${LIBTORCH_DIR}/lib")
  install(
    TARGETS ${installed_targets}
    EXPORT fovea-targets
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  )
  install(DIRECTORY src/fovea DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
  install(EXPORT fovea-targets NAMESPACE fovea:: DESTINATION ${package_dir})
  configure_package_config_file(
    cmake/fovea-config.cmake.in "${PROJECT_BINARY_DIR}/fovea-config.cmake"
    INSTALL_DESTINATION ${package_dir}
  )
  write_basic_package_version_file(
    "${PROJECT_BINARY_DIR}/fovea-config-version.cmake" COMPATIBILITY SameMinorVersion
  )
  install(
    FILES "${PROJECT_BINARY_DIR}/fovea-config.cmake"
          "${PROJECT_BINARY_DIR}/fovea-config-version.cmake" cmake/FindLibTorch.cmake
          cmake/FoveaDependencies.cmake
    DESTINATION ${package_dir}
  )
endif()

# Loaded at run time where there is a GPU, never linked: no part of the package.
if(TARGET fovea_ops_cuda)
  set_target_properties(fovea_ops_cuda PROPERTIES INSTALL_RPATH "$ORIGIN;${LIBTORCH_DIR}/lib")
  install(TARGETS fovea_ops_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()

if(TARGET fovea_cli)
  set_target_properties(
    fovea_cli PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR};${LIBTORCH_DIR}/lib"
  )
  install(TARGETS fovea_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  # The program writes its man pages and completion itself; one that is built for another machine cannot.
  if(NOT CMAKE_CROSSCOMPILING)
    set(generated "${PROJECT_BINARY_DIR}/generated")
    file(MAKE_DIRECTORY "${generated}")
    install(
      CODE "
      foreach(shell bash zsh)
        execute_process(COMMAND \"$<TARGET_FILE:fovea_cli>\" completion \${shell}
                        OUTPUT_FILE \"${generated}/fovea.\${shell}\" COMMAND_ERROR_IS_FATAL ANY)
      endforeach()
      execute_process(COMMAND \"$<TARGET_FILE:fovea_cli>\" man --directory \"${generated}/man1\"
                      COMMAND_ERROR_IS_FATAL ANY)"
    )
    install(DIRECTORY "${generated}/man1" DESTINATION ${CMAKE_INSTALL_MANDIR})
    install(FILES "${generated}/fovea.bash" DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
            RENAME fovea)
    install(FILES "${generated}/fovea.zsh" DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions RENAME _fovea)
  endif()
endif()
