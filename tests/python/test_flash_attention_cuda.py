"""The CUDA library loads and registers without a GPU; with one, the op is checked at small sizes (more:
scripts/gpu-check)."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = ROOT / "build" / "default" / "lib"

pytestmark = pytest.mark.skipif(not (LIBRARIES / "libfovea_ops_cuda.so").exists(), reason="built without CUDA")


def test_loading_registers_the_kernels():
    torch.ops.load_library(LIBRARIES / "libfovea_ops.so")
    torch.ops.load_library(LIBRARIES / "libfovea_ops_cuda.so")
    for op in ("flash_attention", "flash_attention_backward"):
        assert torch._C._dispatch_has_kernel_for_dispatch_key(f"fovea::{op}", "CUDA")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_small_problems_on_the_gpu():
    subprocess.run([sys.executable, ROOT / "scripts" / "gpu_check.py", "small"], check=True)
