"""The vision Transformer (d2l 11.8) and what became of it."""

from typing import Optional, Sequence, Union

import torch
from torch import Tensor, nn

from fovea._tasks import Classifier
from fovea.models.attention import MultiHeadAttention, PositionalEncoding, rotate


class PatchEmbedding(nn.Module):
    """Cuts images (batch, channels, height, width) into patches and projects each: (batch, patches, num_hiddens)."""

    def __init__(self, channels: int, patch: tuple[int, int], num_hiddens: int):
        super().__init__()
        self.conv = nn.Conv2d(channels, num_hiddens, patch, patch)

    def forward(self, X: Tensor) -> Tensor:
        return self.conv(X).flatten(2).transpose(1, 2)


class ConvStem(nn.Module):
    """Convolutions in place of patches (Xiao et al. 2021): each halves the sides, as often as `patch_size` asks for."""

    def __init__(self, channels: int, patch_size: int, num_hiddens: int):
        super().__init__()
        halvings = patch_size.bit_length() - 1
        if patch_size != 1 << halvings or halvings < 1:
            raise ValueError(f'patch_size: convolutions halve the sides: expected 2, 4, 8, ..., got {patch_size}')
        widths = [max(1, num_hiddens >> (halvings - 1 - i)) for i in range(halvings)]
        self.convs = nn.ModuleList(nn.Conv2d(a, b, 3, stride=2, padding=1, bias=False)
                                   for a, b in zip([channels, *widths], widths))
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for width in widths)
        self.proj = nn.Conv2d(widths[-1], num_hiddens, 1)

    def forward(self, X: Tensor) -> Tensor:
        for conv, norm in zip(self.convs, self.norms):
            X = norm(conv(X)).relu()
        return self.proj(X).flatten(2).transpose(1, 2)


class StochasticDepth(nn.Module):
    """In training, what a branch adds is dropped for a whole example with probability p (Huang et al. 2016)."""

    def __init__(self, p: float):
        super().__init__()
        self.p = p

    def forward(self, X: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return X
        kept = torch.rand(X.shape[0], *[1] * (X.dim() - 1), device=X.device) >= self.p
        return X * kept / (1 - self.p)


class LayerScale(nn.Module):
    """What a branch adds, times a learnt factor of each channel (Touvron et al. 2021); None: as it is."""

    def __init__(self, num_hiddens: int, initial: Optional[float]):
        super().__init__()
        self.gamma = None if initial is None else nn.Parameter(torch.full((num_hiddens,), initial))

    def forward(self, X: Tensor) -> Tensor:
        return X if self.gamma is None else X * self.gamma


class ViTAttention(MultiHeadAttention):
    """Self-attention. `lsa`: no token looks at itself, and each head learns the scale of its scores (Lee et al.
    2021)."""

    def __init__(self, num_hiddens: int, num_heads: int, dropout: float, use_bias: bool, lsa: bool, rotary: bool):
        super().__init__(num_hiddens, num_heads, dropout, use_bias)
        self.rotary = rotary
        self.scale = nn.Parameter(torch.full((num_heads,), (num_hiddens // num_heads) ** -0.5)) if lsa else None

    def forward(self, X: Tensor, bias: Optional[Tensor] = None) -> Tensor:
        queries, (keys, values) = self.split(self.W_q(X)), self.project_keys(X, X)
        if self.rotary:
            queries, keys = rotate(queries, 0), rotate(keys, 0)
        if self.scale is None:
            return self.attend(queries, keys, values, attn_mask=bias)
        own = torch.eye(X.shape[1], dtype=torch.bool, device=X.device)
        mask = ~own if bias is None else bias.masked_fill(own, float('-inf'))
        return self.attend(queries * self.scale.view(-1, 1, 1), keys, values, attn_mask=mask, scale=1.0)


class ViTMLP(nn.Module):
    def __init__(self, num_hiddens: int, mlp_num_hiddens: int, dropout: float):
        super().__init__()
        self.dense1 = nn.Linear(num_hiddens, mlp_num_hiddens)
        self.dropout1 = nn.Dropout(dropout)
        self.dense2 = nn.Linear(mlp_num_hiddens, num_hiddens)
        self.dropout2 = nn.Dropout(dropout)

    def forward(self, X: Tensor) -> Tensor:
        return self.dropout2(self.dense2(self.dropout1(nn.functional.gelu(self.dense1(X)))))


class ViTBlock(nn.Module):
    """Pre-norm: attention, then dense layers, each beside a residual connection."""

    def __init__(self, num_hiddens: int, mlp_num_hiddens: int, num_heads: int, dropout: float, use_bias: bool,
                 lsa: bool = False, stochastic_depth: float = 0.0, layer_scale: Optional[float] = None,
                 rotary: bool = False):
        super().__init__()
        self.ln1 = nn.LayerNorm(num_hiddens)
        self.attention = ViTAttention(num_hiddens, num_heads, dropout, use_bias, lsa, rotary)
        self.ln2 = nn.LayerNorm(num_hiddens)
        self.mlp = ViTMLP(num_hiddens, mlp_num_hiddens, dropout)
        self.ls1, self.ls2 = LayerScale(num_hiddens, layer_scale), LayerScale(num_hiddens, layer_scale)
        self.depth = StochasticDepth(stochastic_depth)

    def forward(self, X: Tensor, bias: Optional[Tensor] = None) -> Tensor:
        """X (batch, tokens, num_hiddens). `bias`: added to the scores."""
        X = X + self.depth(self.ls1(self.attention(self.ln1(X), bias)))
        return X + self.depth(self.ls2(self.mlp(self.ln2(X))))


def depths(stochastic_depth: float, count: int) -> list[float]:
    """Of each of `count` blocks: it grows from 0 in the first to `stochastic_depth` in the last."""
    return [stochastic_depth * (1.0 if count == 1 else i / (count - 1)) for i in range(count)]


class ImageTransformer(Classifier, nn.Module):
    """What ViT and CCT share: positions of a fixed number of tokens, and blocks."""

    def _make_blocks(self, num_tokens: int, num_blks: int, num_hiddens: int, mlp_num_hiddens: int, num_heads: int,
                     dropout: float, use_bias: bool, positions: str, std: float, stochastic_depth: float,
                     emb_dropout: float, **options):
        """`std`: of learned positions before training."""
        if positions == 'learned':
            self.pos_embedding = nn.Parameter(torch.randn(1, num_tokens, num_hiddens) * std)
        else:
            self.pos_encoding = PositionalEncoding(num_hiddens, 0.0, num_tokens, positions, num_heads)
        self.dropout = nn.Dropout(emb_dropout)
        self.blks = nn.Sequential(*(ViTBlock(num_hiddens, mlp_num_hiddens, num_heads, dropout, use_bias,
                                             stochastic_depth=depth, rotary=positions == 'rotary', **options)
                                    for depth in depths(stochastic_depth, num_blks)))

    def _run_blocks(self, X: Tensor) -> Tensor:
        """X (batch, tokens, num_hiddens), without positions."""
        bias = None
        if hasattr(self, 'pos_embedding'):
            X = X + self.pos_embedding
        else:
            X, bias = self.pos_encoding(X), self.pos_encoding.bias(X.shape[1], X.shape[1], X)
        X = self.dropout(X)
        for blk in self.blks:
            X = blk(X, bias)
        return X


class ViT(ImageTransformer):
    """The vision Transformer: images (batch, channels, height, width), normalised -> logits (batch, num_classes)."""

    def __init__(self, image_shape: Sequence[int], num_classes: int, patch_size: int = 16,
                 patch_width: Optional[int] = None, num_hiddens: int = 512, mlp_num_hiddens: int = 2048,
                 num_heads: int = 8, num_blks: int = 2, emb_dropout: float = 0.1, blk_dropout: float = 0.1,
                 positions: str = 'learned', pos_embedding_std: float = 1.0, use_bias: bool = False,
                 stem: str = 'patches', pooling: str = 'token', lsa: bool = False, stochastic_depth: float = 0.0,
                 layer_scale: Optional[float] = None):
        super().__init__()
        for name, value, known in [('stem', stem, ('patches', 'convolutions')),
                                   ('pooling', pooling, ('token', 'mean'))]:
            if value not in known:
                raise ValueError(f'{name}: expected {" or ".join(known)}, got {value!r}')
        channels, height, width = image_shape
        patch = patch_size, patch_size if patch_width is None else patch_width
        if height % patch[0] != 0 or width % patch[1] != 0:
            raise ValueError(f'patches of {patch[0]} x {patch[1]} do not cut images of {height} x {width}')
        num_patches = height // patch[0] * (width // patch[1])
        if stem == 'patches':
            self.patch_embedding = PatchEmbedding(channels, patch, num_hiddens)
        else:
            self.stem = ConvStem(channels, patch_size, num_hiddens)
        prefix = self._make_tokens(num_hiddens, pooling)
        self._make_blocks(prefix + num_patches, num_blks, num_hiddens, mlp_num_hiddens, num_heads, blk_dropout,
                          use_bias, positions, pos_embedding_std, stochastic_depth, emb_dropout, lsa=lsa,
                          layer_scale=layer_scale)
        self.head = nn.Sequential(nn.LayerNorm(num_hiddens), nn.Linear(num_hiddens, num_classes))

    def _make_tokens(self, num_hiddens: int, pooling: str) -> int:
        """Makes the tokens that stand before the patches; says how many."""
        self.cls_token = nn.Parameter(torch.zeros(1, 1, num_hiddens)) if pooling == 'token' else None
        return 0 if self.cls_token is None else 1

    def _tokens(self) -> list[Tensor]:
        return [] if self.cls_token is None else [self.cls_token]

    def features(self, X: Tensor) -> Tensor:
        """What the last block gives: (batch, tokens, num_hiddens)."""
        X = self.stem(X) if hasattr(self, 'stem') else self.patch_embedding(X)
        X = torch.cat([*(token.expand(X.shape[0], -1, -1) for token in self._tokens()), X], 1)
        return self._run_blocks(X)

    def forward(self, X: Tensor) -> Tensor:
        X = self.features(X)
        return self.head(X.mean(1) if self.cls_token is None else X[:, 0])


class DeiT(ViT):
    """A vision Transformer with a second token, whose head learns what a teacher says (Touvron et al. 2021)."""

    def __init__(self, image_shape: Sequence[int], num_classes: int, *, num_hiddens: int = 512,
                 pos_embedding_std: float = 0.02, use_bias: bool = True, **options: Union[int, float, str, None]):
        super().__init__(image_shape, num_classes, num_hiddens=num_hiddens, pos_embedding_std=pos_embedding_std,
                         use_bias=use_bias, **options)
        self.head_dist = nn.Linear(num_hiddens, num_classes)

    def _make_tokens(self, num_hiddens: int, pooling: str) -> int:
        self.dist_token = nn.Parameter(torch.zeros(1, 1, num_hiddens))
        return super()._make_tokens(num_hiddens, 'token') + 1

    def _tokens(self) -> list[Tensor]:
        return [*super()._tokens(), self.dist_token]

    def heads(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """The logits of the class token and those of the distillation token."""
        X = self.features(X)
        return self.head(X[:, 0]), self.head_dist(self.head[0](X[:, 1]))

    def forward(self, X: Tensor) -> Tensor:
        return sum(self.heads(X)) / 2
