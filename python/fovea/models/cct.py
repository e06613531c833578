"""The compact convolutional Transformer (Hassani et al. 2021)."""

from typing import Optional, Sequence

import torch
from torch import Tensor, nn

from fovea.models.vit import ImageTransformer


class CCT(ImageTransformer):
    """Convolutions in place of patches, and a mean of all tokens, weighted by attention, in place of a class token.
    Images (batch, channels, height, width), normalised -> logits (batch, num_classes)."""

    def __init__(self, image_shape: Sequence[int], num_classes: int, num_convs: int = 2, kernel_size: int = 3,
                 num_hiddens: int = 128, mlp_num_hiddens: int = 128, num_heads: int = 2, num_blks: int = 2,
                 positions: str = 'learned', emb_dropout: float = 0.0, blk_dropout: float = 0.1,
                 stochastic_depth: float = 0.0, layer_scale: Optional[float] = None, use_bias: bool = True):
        super().__init__()
        channels, rows, columns = image_shape
        widths = [64 << min(i, 10) for i in range(num_convs - 1)] + [num_hiddens]
        self.convs = nn.ModuleList(nn.Conv2d(a, b, kernel_size, padding=kernel_size // 2, bias=False)
                                   for a, b in zip([channels, *widths], widths))
        for conv in self.convs:
            nn.init.kaiming_normal_(conv.weight)
            rows, columns = (rows + 1) // 2, (columns + 1) // 2
        self._make_blocks(rows * columns, num_blks, num_hiddens, mlp_num_hiddens, num_heads, blk_dropout, use_bias,
                          positions, 0.2, stochastic_depth, emb_dropout, layer_scale=layer_scale)
        self.norm = nn.LayerNorm(num_hiddens)
        self.attention_pool = nn.Linear(num_hiddens, 1)
        self.head = nn.Linear(num_hiddens, num_classes)

    def forward(self, X: Tensor) -> Tensor:
        for conv in self.convs:
            X = nn.functional.max_pool2d(conv(X).relu(), 3, 2, 1)
        X = X.flatten(2).transpose(1, 2)  # (batch, tokens, num_hiddens)
        X = self.norm(self._run_blocks(X))
        weights = self.attention_pool(X).softmax(1).transpose(1, 2)  # (batch, 1, tokens)
        return self.head((weights @ X).squeeze(1))
