"""Dropout by fovea's op, whose draws depend on what an element is."""

from typing import Optional

import torch
from torch import Tensor

from fovea import _ops


def dropout(input: Tensor, p: float = 0.5, training: bool = True, *, rng: Optional[Tensor] = None) -> Tensor:
    """Sets a share `p` of the elements to 0 and multiplies the others by 1 / (1 - p), as torch's dropout does.

    Args:
        input: floating point. ``(sequences, heads, queries, keys)``, ``(sequences, steps, channels)`` or
            ``(rows, channels)``; other shapes are taken as rows.
        p: the share, in [0, 1].
        training: False returns the input.
        rng: an int64 tensor of three numbers on the CPU, (seed, step, site), which decides the draws. None: they are
            drawn from torch's generator, so that torch.manual_seed decides.

    Whether an element falls depends on ``rng`` and on its index only, not on the size of the tensor or the number of
    threads: a batch that is padded further drops the same elements.
    """
    if not 0.0 <= p <= 1.0:
        raise ValueError(f'fovea.dropout: p must be in [0, 1], got {p}')
    if not training or p == 0.0:
        return input
    rng = _ops.draw_rng() if rng is None else rng
    if 2 <= input.dim() <= 4:
        return torch.ops.fovea.dropout(input, rng, p)
    rows = input.reshape(-1, input.shape[-1]) if input.dim() > 4 else input.reshape(1, -1)
    return torch.ops.fovea.dropout(rows, rng, p).reshape(input.shape)
