"""Loads the compiled ops: after that they are torch.ops.fovea.*."""

import importlib.metadata
import os
import pathlib
import re
import warnings

import torch


def version() -> str:
    try:
        return importlib.metadata.version('fovea')
    except importlib.metadata.PackageNotFoundError:  # the source tree, with FOVEA_LIBRARY_DIR
        return '0+source'


def _load() -> None:
    # The variable is for work on fovea itself: python/ of the source tree with the libraries of a build tree.
    folder = pathlib.Path(os.environ.get('FOVEA_LIBRARY_DIR') or pathlib.Path(__file__).parent / 'lib')
    library = folder / 'libfovea_ops.so'
    if not library.exists():
        raise ImportError(f'fovea: {library} does not exist; `pip install .` in the source tree of fovea compiles it '
                          '(python/ alone is not the package)')
    stamp = folder / 'torch_version.txt'
    if stamp.exists():
        built, found = stamp.read_text().strip(), re.match('[0-9.]*[0-9]', torch.__version__)[0]
        if built != found:
            raise ImportError(f'fovea was compiled for torch {built}, and this is torch {found}; compile it again: '
                              '`pip install --force-reinstall --no-deps .` in the source tree of fovea')
    torch.ops.load_library(str(library))
    cuda = folder / 'libfovea_ops_cuda.so'
    if cuda.exists() and torch.version.cuda:
        try:
            torch.ops.load_library(str(cuda))
            DEVICES.add('cuda')
        except OSError as error:
            warnings.warn(f'fovea: the kernels for CUDA are not used, torch operations take their place: {error}',
                          stacklevel=3)


DEVICES = {'cpu', 'meta'}  # for which there is a kernel of attention
_load()


def draw_rng() -> torch.Tensor:
    """What the ops' `rng` is to be, drawn from torch's generator: any three numbers are a seed of their own."""
    return torch.randint(2 ** 62, (3,))
