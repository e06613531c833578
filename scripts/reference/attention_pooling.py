"""Attention pooling by a kernel of distance (section 11.2), as the book defines it."""

import torch
from torch import nn
from torch.nn import functional as F

KERNELS = {
    'gaussian': lambda u: torch.exp(-u**2 / 2),
    'boxcar': lambda u: (u.abs() < 1).float(),
    'constant': lambda u: torch.ones_like(u),
    'epanechikov': lambda u: torch.clamp(1 - u.abs(), min=0),
}


def nadaraya_watson(keys, values, queries, kernel, bandwidth=1.0):
    """keys and values (n), queries (m) -> predictions (m), weights (m, n)."""
    weights = KERNELS[kernel]((queries[:, None] - keys[None]) / bandwidth)
    weights = weights / weights.sum(1, keepdim=True)
    return weights @ values, weights


class NWKernelRegression(nn.Module):
    """The parametric form: w multiplies the distance. queries (m), keys and values (m, n) -> (m)."""

    def __init__(self, w):
        super().__init__()
        self.w = nn.Parameter(w)

    def forward(self, queries, keys, values):
        self.attention_weights = F.softmax(-((queries[:, None] - keys) * self.w)**2 / 2, dim=1)
        return (self.attention_weights * values).sum(1)


def without_own(points):
    """(n) -> (n, n - 1): row i has all points but the i-th."""
    n = len(points)
    return points.repeat(n, 1)[~torch.eye(n, dtype=torch.bool)].reshape(n, n - 1)
