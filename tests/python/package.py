"""The package of the source tree with the ops of the build tree, for tests. What pip installs is tested by
test_install.py."""

import os
import sys

import pytest
from conftest import ROOT

LIBRARIES = ROOT / 'build' / 'default' / 'lib'
if not (LIBRARIES / 'libfovea_ops.so').exists():
    pytest.skip(f'no {LIBRARIES}/libfovea_ops.so', allow_module_level=True)
os.environ['FOVEA_LIBRARY_DIR'] = str(LIBRARIES)
sys.path.insert(0, str(ROOT / 'python'))

import fovea  # noqa: E402, F401
