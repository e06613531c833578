"""The Transformer with shifted windows (Liu et al. 2021), with tokens in rows, as the paper writes it."""

from typing import Sequence

import torch
from torch import Tensor, nn

from fovea._tasks import Classifier
from fovea.models.attention import MultiHeadAttention
from fovea.models.vit import PatchEmbedding, StochasticDepth, ViTMLP, depths


class WindowAttention(MultiHeadAttention):
    """Self-attention within windows, with a learnt bias for each distance: (batch, rows, columns, num_hiddens)."""

    def __init__(self, num_hiddens: int, num_heads: int, dropout: float, window: int, shift: int):
        super().__init__(num_hiddens, num_heads, dropout, use_bias=True)
        self.window, self.shift = window, shift
        self.relative_position_bias = nn.Parameter(torch.randn((2 * window - 1) ** 2, num_heads) * 0.02)
        y, x = torch.meshgrid(torch.arange(window), torch.arange(window), indexing='ij')
        y, x = y.flatten(), x.flatten()
        distance = (y[:, None] - y + window - 1) * (2 * window - 1) + x[:, None] - x + window - 1
        self.register_buffer('distance', distance, persistent=False)  # (window^2, window^2)

    def cut(self, X: Tensor) -> Tensor:
        """(batch, rows, columns, ...) -> (batch, windows, window^2, ...)"""
        X = X.unflatten(2, (-1, self.window)).unflatten(1, (-1, self.window)).transpose(2, 3)
        return X.flatten(3, 4).flatten(1, 2)

    def join(self, X: Tensor, rows: int, columns: int) -> Tensor:
        X = X.unflatten(2, (self.window, self.window)).unflatten(1, (rows // self.window, columns // self.window))
        return X.transpose(2, 3).flatten(3, 4).flatten(1, 2)

    def forward(self, X: Tensor) -> Tensor:
        rows, columns = X.shape[1:3]
        # (1, heads, window^2, window^2)
        bias = self.relative_position_bias[self.distance].permute(2, 0, 1).unsqueeze(0)
        if self.shift > 0:
            X = X.roll((-self.shift, -self.shift), (1, 2))
            side_y, side_x = (self.sides(count, X.device) for count in (rows, columns))
            region = self.cut((3 * side_y[:, None] + side_x)[None, :, :, None])[0, :, :, 0]  # (windows, window^2)
            apart = (region[:, :, None] != region[:, None, :]).unsqueeze(1)
            bias = bias.masked_fill(apart, float('-inf'))  # (windows, heads, window^2, window^2)
        windows = self.cut(X)  # (batch, windows, window^2, num_hiddens)
        batch, count = windows.shape[:2]
        flat = windows.flatten(0, 1)
        bias = bias.expand(batch, count, -1, -1, -1) if self.shift == 0 else bias.expand(batch, -1, -1, -1, -1)
        out = self.attend(self.split(self.W_q(flat)), *self.project_keys(flat, flat), attn_mask=bias.flatten(0, 1))
        X = self.join(out.unflatten(0, (batch, count)), rows, columns)
        return X.roll((self.shift, self.shift), (1, 2)) if self.shift > 0 else X

    def sides(self, count: int, device) -> Tensor:
        """0 before the last window; in it 1, and 2 behind the seam that the shift leaves."""
        place = torch.arange(count, device=device)
        return (place >= count - self.window).int() + (place >= count - self.shift).int()


class SwinBlock(nn.Module):
    def __init__(self, num_hiddens: int, mlp_num_hiddens: int, num_heads: int, dropout: float, window: int, shift: int,
                 stochastic_depth: float):
        super().__init__()
        self.ln1 = nn.LayerNorm(num_hiddens)
        self.attention = WindowAttention(num_hiddens, num_heads, dropout, window, shift)
        self.ln2 = nn.LayerNorm(num_hiddens)
        self.mlp = ViTMLP(num_hiddens, mlp_num_hiddens, dropout)
        self.depth = StochasticDepth(stochastic_depth)

    def forward(self, X: Tensor) -> Tensor:
        X = X + self.depth(self.attention(self.ln1(X)))
        return X + self.depth(self.mlp(self.ln2(X)))


class Stage(nn.Module):
    """Blocks, and, but in the last, a layer that merges four tokens into one of twice the width."""

    def __init__(self, blks: list[SwinBlock], num_hiddens: int, is_last: bool):
        super().__init__()
        self.blks = nn.Sequential(*blks)
        self.merge_norm = None if is_last else nn.LayerNorm(4 * num_hiddens)
        self.merge = None if is_last else nn.Linear(4 * num_hiddens, 2 * num_hiddens, bias=False)

    def forward(self, X: Tensor) -> Tensor:
        X = self.blks(X)
        if self.merge is None:
            return X
        corners = [X[:, 0::2, 0::2], X[:, 1::2, 0::2], X[:, 0::2, 1::2], X[:, 1::2, 1::2]]
        return self.merge(self.merge_norm(torch.cat(corners, -1)))


class Swin(Classifier, nn.Module):
    """Images (batch, channels, height, width), normalised -> logits (batch, num_classes)."""

    def __init__(self, image_shape: Sequence[int], num_classes: int, patch_size: int = 2, window: int = 7,
                 num_hiddens: int = 48, mlp_ratio: int = 4, num_heads: Sequence[int] = (2, 4),
                 num_blks: Sequence[int] = (2, 2), emb_dropout: float = 0.0, blk_dropout: float = 0.0,
                 stochastic_depth: float = 0.0):
        super().__init__()
        channels, height, width = image_shape
        if len(num_heads) != len(num_blks):
            raise ValueError(f'num_blks and num_heads: expected one number for each stage in both, got '
                             f'{len(num_blks)} and {len(num_heads)}')
        if height % patch_size != 0 or width % patch_size != 0:
            raise ValueError(f'patches of {patch_size} x {patch_size} do not cut images of {height} x {width}')
        self.rows, self.columns = rows, columns = height // patch_size, width // patch_size
        self.patch_embedding = PatchEmbedding(channels, (patch_size, patch_size), num_hiddens)
        self.patch_norm = nn.LayerNorm(num_hiddens)
        self.dropout = nn.Dropout(emb_dropout)
        shares, stages = iter(depths(stochastic_depth, sum(num_blks))), []
        for s, (heads, count) in enumerate(zip(num_heads, num_blks)):
            side = min(window, rows, columns)
            if rows % side != 0 or columns % side != 0:
                raise ValueError(f'windows of {side} x {side} do not cut the {rows} x {columns} tokens of stage '
                                 f'{s + 1}')
            # A grid that is one window is not shifted.
            shift = side // 2 if (rows, columns) != (side, side) else 0
            blks = [SwinBlock(num_hiddens, num_hiddens * mlp_ratio, heads, blk_dropout, side, shift if i % 2 else 0,
                              next(shares)) for i in range(count)]
            is_last = s + 1 == len(num_blks)
            stages.append(Stage(blks, num_hiddens, is_last))
            if not is_last:
                if rows % 2 != 0 or columns % 2 != 0:
                    raise ValueError(f'the {rows} x {columns} tokens of stage {s + 1} cannot be merged two by two')
                rows, columns, num_hiddens = rows // 2, columns // 2, 2 * num_hiddens
        self.stages = nn.Sequential(*stages)
        self.norm = nn.LayerNorm(num_hiddens)
        self.head = nn.Linear(num_hiddens, num_classes)

    def forward(self, X: Tensor) -> Tensor:
        X = self.dropout(self.patch_norm(self.patch_embedding(X)))
        X = self.stages(X.unflatten(1, (self.rows, self.columns)))
        return self.head(self.norm(X).mean((1, 2)))
