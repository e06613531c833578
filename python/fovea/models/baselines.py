"""Models without attention."""

import math
from typing import Sequence

import torch
from torch import Tensor, nn

from fovea._tasks import Classifier, Regressor


class NearestMean(Classifier, nn.Module):
    """Minus the squared distance to each class's mean image, as logits."""

    def __init__(self, image_shape: Sequence[int], num_classes: int):
        super().__init__()
        self.register_buffer('sums', torch.zeros(num_classes, math.prod(image_shape), dtype=torch.float64))
        self.register_buffer('counts', torch.zeros(num_classes, dtype=torch.float64))

    def forward(self, X: Tensor) -> Tensor:
        means = (self.sums / self.counts.clamp_min(1).unsqueeze(1)).float()  # (num_classes, num_pixels)
        X = X.flatten(1)
        distances = X.square().sum(1, True) - 2 * X @ means.t() + means.square().sum(1)
        return torch.where(self.counts > 0, -distances, torch.finfo(torch.float32).min)


class MLP(Regressor, nn.Module):
    """Dense layers with a ReLU between them (d2l 5.1): standardised (rows, features) -> (rows, targets)."""

    def __init__(self, num_inputs: int, num_outputs: int, num_hiddens: Sequence[int] = (64, 64), dropout: float = 0.0):
        super().__init__()
        sizes = [num_inputs, *num_hiddens, num_outputs]
        self.num_layers = len(sizes) - 1
        for i in range(self.num_layers):
            self.add_module(f'dense{i}', nn.Linear(sizes[i], sizes[i + 1]))
        self.dropout = nn.Dropout(dropout)

    def forward(self, X: Tensor) -> Tensor:
        for i in range(self.num_layers - 1):
            X = self.dropout(getattr(self, f'dense{i}')(X).relu())
        return getattr(self, f'dense{self.num_layers - 1}')(X)
