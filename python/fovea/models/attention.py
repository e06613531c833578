"""Multi-head attention (d2l 11.5), and how it knows positions (d2l 11.6 and after)."""

import math
from typing import Optional

import torch
from torch import Tensor, nn

from fovea._attention import attention


def check_choice(name: str, value: str, known: tuple[str, ...]) -> None:
    """What a setting with that name may be."""
    if value not in known:
        raise ValueError(f'{name}: expected one of {", ".join(known)}, got {value!r}')


class MultiHeadAttention(nn.Module):
    """d2l 11.5: (batch, queries, num_hiddens) over keys and values of (batch, keys, num_hiddens)."""

    def __init__(self, num_hiddens: int, num_heads: int, dropout: float = 0.0, use_bias: bool = False):
        super().__init__()
        if num_hiddens % num_heads != 0:
            raise ValueError(f'num_hiddens must be divisible by num_heads, got {num_hiddens} and {num_heads}')
        self.num_heads, self.dropout = num_heads, dropout
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(num_hiddens, num_hiddens, use_bias) for _ in range(4))

    def split(self, x: Tensor) -> Tensor:
        """(batch, heads, steps, num_hiddens / heads)"""
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def project_keys(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        return self.split(self.W_k(keys)), self.split(self.W_v(values))

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor, **restrictions) -> Tensor:
        """Queries, keys and values are projected and split. `restrictions` are those of fovea.attention."""
        dropout = self.dropout if self.training else 0.0
        out = attention(queries, keys, values, dropout_p=dropout, **restrictions)
        return self.W_o(out.transpose(1, 2).flatten(2))

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor, valid_lens: Optional[Tensor] = None) -> Tensor:
        return self.attend(self.split(self.W_q(queries)), *self.project_keys(keys, values), valid_lens=valid_lens)


POSITIONS = ('sinusoidal', 'learned', 'rotary', 'alibi', 't5', 'none')


def sinusoids(max_len: int, num_hiddens: int) -> Tensor:
    """P of Vaswani et al. 2017: (1, max_len, num_hiddens)."""
    even = torch.arange(0, num_hiddens, 2, dtype=torch.float32)
    angle = torch.arange(max_len, dtype=torch.float32).unsqueeze(1) / torch.pow(10000, even / num_hiddens)
    return torch.stack((angle.sin(), angle.cos()), -1).flatten(1)[None, :, :num_hiddens].contiguous()


def rotate(x: Tensor, first: int) -> Tensor:
    """Turns the pairs of the last axis of (..., steps, width) by their positions from `first` on (Su et al. 2021)."""
    width, kind = x.shape[-1], torch.float64 if x.dtype == torch.float64 else torch.float32
    frequencies = torch.exp(torch.arange(width // 2, device=x.device).to(kind) * (-2 * math.log(10000.0) / width))
    places = torch.arange(x.shape[-2], device=x.device) + first
    angle = places.to(kind).unsqueeze(-1) * frequencies  # (steps, width / 2)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


def alibi(num_heads: int, queries: int, keys: int, like: Tensor) -> Tensor:
    """What Press et al. 2022 add to scores: (heads, queries, keys), for queries that are the last of the keys."""
    power = 2 ** int(math.log2(num_heads))
    head = torch.arange(num_heads, device=like.device)
    own, between = (head + 1) * (-8 / power), ((head - power) * 2 + 1) * (-4 / power)
    slopes = torch.exp2(torch.where(head < power, own, between).float())
    keys_at = torch.arange(keys, device=like.device)
    distance = (keys_at[keys - queries:].unsqueeze(1) - keys_at).abs()
    return (distance * -slopes.view(-1, 1, 1)).to(like.dtype)


def t5_buckets(distance: Tensor, both_directions: bool, num_buckets: int = 32, max_distance: int = 128) -> Tensor:
    """The bucket of each key position less query position (Raffel et al. 2020): near ones one by one, far ones by their
    logarithm. Where attention looks back only, keys ahead share the bucket of distance 0."""
    buckets = num_buckets // 2 if both_directions else num_buckets
    near = buckets // 2
    far = distance.abs() if both_directions else (-distance).clamp_min(0)
    logarithm = (far.float().clamp_min(1) / near).log() * ((buckets - near) / math.log(max_distance / near))
    bucket = torch.where(far < near, far, (logarithm.long() + near).clamp_max(buckets - 1))
    return bucket + (distance > 0) * buckets if both_directions else bucket


class PositionalEncoding(nn.Module):
    """d2l 11.6, and other ways to know positions. Rotary ones are handed to self-attention, ALiBi's and T5's as a
    bias. `is_causal`: that attention looks back only, which T5's biases must know."""

    def __init__(self, num_hiddens: int, dropout: float, max_len: int, positions: str = 'sinusoidal',
                 num_heads: int = 1, is_causal: bool = False):
        super().__init__()
        check_choice('positions', positions, POSITIONS)
        self.positions, self.max_len, self.num_heads, self.is_causal = positions, max_len, num_heads, is_causal
        self.dropout = nn.Dropout(dropout)
        if positions == 'sinusoidal':
            self.register_buffer('P', sinusoids(max_len, num_hiddens), persistent=False)
        elif positions == 'learned':
            self.P = nn.Parameter(torch.randn(1, max_len, num_hiddens) * 0.02)
        elif positions == 't5':
            self.relative_attention_bias = nn.Parameter(torch.randn(32, num_heads) * 0.02)

    def bias(self, queries: int, keys: int, like: Tensor) -> Optional[Tensor]:
        """What is added to scores: (heads, queries, keys), for queries that are the last of the keys; or None."""
        if self.positions == 'alibi':
            return alibi(self.num_heads, queries, keys, like)
        if self.positions != 't5':
            return None
        keys_at = torch.arange(keys, device=like.device)
        distance = keys_at - keys_at[keys - queries:].unsqueeze(1)
        buckets = t5_buckets(distance, not self.is_causal)
        return self.relative_attention_bias[buckets].permute(2, 0, 1).to(like.dtype)

    def forward(self, X: Tensor, first: int = 0) -> Tensor:
        """X (batch, steps, num_hiddens), whose steps are at the positions from `first` on."""
        if self.positions in ('sinusoidal', 'learned'):
            end = first + X.shape[1]
            if end > self.max_len:
                raise ValueError(f'a sequence has {end} tokens, and there are {self.max_len} positions (model.max_len)')
            X = X + self.P[:, first:end].to(X.dtype)
        return self.dropout(X)


class SelfAttention(MultiHeadAttention):
    """Attention of a sequence to itself, which knows the positions."""

    def __init__(self, num_hiddens: int, num_heads: int, dropout: float, use_bias: bool, positions: str):
        super().__init__(num_hiddens, num_heads, dropout, use_bias)
        if positions == 'rotary' and num_hiddens // num_heads % 2 != 0:
            raise ValueError(f'rotary positions turn pairs: num_hiddens / num_heads must be even, got '
                             f'{num_hiddens // num_heads}')
        self.positions = positions

    def forward(self, X: Tensor, valid_lens: Optional[Tensor] = None, bias: Optional[Tensor] = None,
                is_causal: bool = False,
                past: Optional[tuple[Tensor, Tensor]] = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """`bias`: added to the scores. `past`: keys and values of the steps before X. Returns the output, and the same
        with those of X."""
        first = 0 if past is None else past[0].shape[2]
        queries, (keys, values) = self.split(self.W_q(X)), self.project_keys(X, X)
        if self.positions == 'rotary':
            queries, keys = rotate(queries, first), rotate(keys, first)
        if past is not None:
            keys, values = torch.cat((past[0], keys), 2), torch.cat((past[1], values), 2)
        out = self.attend(queries, keys, values, attn_mask=bias, valid_lens=valid_lens, is_causal=is_causal,
                          lower_right=True)
        return out, (keys, values)
