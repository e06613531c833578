"""Models that remember the training rows and predict numbers out of them (d2l 11.2)."""

from typing import Optional

import torch
from torch import Tensor, nn

from fovea._tasks import Regressor
from fovea.models.attention import check_choice

KERNELS = ('gaussian', 'boxcar', 'constant', 'epanechikov')


class AttentionPooling(nn.Module):
    """The mean of the values, weighted by the distance between query and key, divided by the bandwidth or times w."""

    def __init__(self, kernel: str = 'gaussian', bandwidth: float = 1.0, learn_width: bool = False):
        super().__init__()
        check_choice('kernel', kernel, KERNELS)
        self.kernel, self.bandwidth = kernel, bandwidth
        self.w = nn.Parameter(torch.rand(1)) if learn_width else None

    def weights(self, queries: Tensor, keys: Tensor, own: Optional[Tensor] = None) -> Tensor:
        """(queries, keys). `own` (queries): the key that each query may not see, its own in training."""
        difference = queries.unsqueeze(1) - keys
        squared = (difference / self.bandwidth if self.w is None else difference * self.w).square().sum(-1)
        allowed = torch.ones_like(squared, dtype=torch.bool)
        if own is not None:
            allowed = torch.arange(len(keys), device=keys.device) != own.unsqueeze(1)
        if self.kernel == 'gaussian':
            return (-squared / 2).masked_fill(~allowed, float('-inf')).softmax(-1)
        weights = {'boxcar': lambda: (squared < 1).to(squared.dtype), 'constant': lambda: torch.ones_like(squared),
                   'epanechikov': lambda: (1 - squared.sqrt()).relu()}[self.kernel]() * allowed
        # Where no key is near, all have the same weight.
        weights = torch.where(weights.sum(-1, True) > 0, weights, allowed.to(weights.dtype))
        return weights / weights.sum(-1, True)

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor, own: Optional[Tensor] = None) -> Tensor:
        return self.weights(queries, keys, own) @ values


class RememberedRows(Regressor, nn.Module):
    """`keys` (rows, features) and `values` (rows, targets): the training rows, standardised."""

    def __init__(self, num_inputs: int, num_outputs: int, num_examples: int):
        super().__init__()
        self.register_buffer('keys', torch.zeros(num_examples, num_inputs))
        self.register_buffer('values', torch.zeros(num_examples, num_outputs))


class NadarayaWatson(RememberedRows):
    """Attention pooling by a kernel of distance: (rows, features) -> (rows, targets)."""

    def __init__(self, num_inputs: int, num_outputs: int, num_examples: int, kernel: str = 'gaussian',
                 bandwidth: float = 1.0, learn_width: bool = False):
        super().__init__(num_inputs, num_outputs, num_examples)
        self.attention = AttentionPooling(kernel, bandwidth, learn_width)

    def forward(self, X: Tensor, own: Optional[Tensor] = None) -> Tensor:
        """`own` (rows): which training row each is, as it must be left out in training."""
        return self.attention(X, self.keys, self.values, own)


class Pooling(RememberedRows):
    """The baselines: the same for every row, the mean of the targets, the greatest, or a learnt weighted sum."""

    def __init__(self, num_inputs: int, num_outputs: int, num_examples: int, kind: str = 'average'):
        super().__init__(num_inputs, num_outputs, num_examples)
        if kind not in ('average', 'max', 'fully_connected'):
            raise ValueError(f'kind: expected average, max or fully_connected, got {kind!r}')
        self.kind = kind
        if kind == 'fully_connected':
            self.dense = nn.Linear(num_examples, 1)

    def forward(self, X: Tensor) -> Tensor:
        if self.kind == 'fully_connected':
            pooled = self.dense(self.values.t()).t()
        else:
            pooled = self.values.mean(0, True) if self.kind == 'average' else self.values.amax(0, True)
        return pooled.expand(len(X), -1)
