# What `pip install .` installs of this build: the ops, inside the package. The rest of it is python/fovea.

# torch is imported first and has loaded LibTorch by then; the path is for whoever loads the ops without it.
set(installed_targets fovea_ops)
if(TARGET fovea_ops_cuda)
  list(APPEND installed_targets fovea_ops_cuda)
endif()
set_target_properties(${installed_targets} PROPERTIES INSTALL_RPATH "$ORIGIN;${LIBTORCH_DIR}/lib")
install(TARGETS ${installed_targets} LIBRARY DESTINATION fovea/lib COMPONENT python)

# The package refuses another torch than this one with a message instead of a crash.
file(WRITE "${PROJECT_BINARY_DIR}/torch_version.txt" "${LIBTORCH_VERSION}\n")
install(FILES "${PROJECT_BINARY_DIR}/torch_version.txt" DESTINATION fovea/lib COMPONENT python)
