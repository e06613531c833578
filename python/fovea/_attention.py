"""Attention with the interface of torch.nn.functional.scaled_dot_product_attention, computed by fovea's op."""

import math
from typing import NamedTuple, Optional, Union

import torch
from torch import Tensor
from torch.nn.functional import pad

from fovea import _ops
from fovea._functional import Settings, flash_attention

_WIDEST = 256  # of the heads that the op takes
_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)

Bound = Optional[int]


def attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor] = None, dropout_p: float = 0.0,
              is_causal: bool = False, scale: Optional[float] = None, enable_gqa: bool = False, *,
              valid_lens: Optional[Tensor] = None, window: Union[int, tuple[Bound, Bound], None] = None,
              lower_right: bool = False, rng: Optional[Tensor] = None) -> Tensor:
    """softmax(scale * query @ key^T + mask) @ value, exactly, without writing the weights to memory.

    Arguments and rules up to ``enable_gqa`` are those of torch.nn.functional.scaled_dot_product_attention; a call of
    that function becomes a call of this one by its name alone. Where several arguments restrict what a query sees, it
    sees what all of them allow. A query that sees no key has output 0 and gradient 0.

    Args:
        query: ``(..., heads, L, E)``. Float32, float64, bfloat16 or float16, the same for all three.
        key: ``(..., heads, S, E)``. Dimensions before the last two are broadcast among query, key and value.
        value: ``(..., heads, S, Ev)``.
        attn_mask: broadcastable to ``(..., heads, L, S)``. Boolean: True where the query may see the key. Float: added
            to the scaled scores, -inf forbids; it may require a gradient, and memory then grows with L x S.
        dropout_p: the share of the weights that is set to 0. As in torch, it applies whenever it is not 0: pass 0.0 in
            evaluation. The draws are decided by torch.manual_seed, or by ``rng``.
        is_causal: query i sees the keys j <= i (torch's upper-left alignment, also where L and S differ).
        scale: 1 / sqrt(E) by default.
        enable_gqa: each head of key and value serves query_heads / key_heads heads of the query in a row.
        valid_lens: integers: how many keys are valid, the first ones, as in the book's masked_softmax. One for each
            sequence, ``(batch)``, or one for each query, ``(batch, L)``. ``batch`` is the dimensions before the heads:
            one dimension for ``(batch, heads, L, E)`` and for ``(batch, L, E)``. Lengths above S count as S. What the
            keys and values beyond hold, NaN for instance, changes nothing.
        window: the keys around query i that it may see: ``(left, right)`` for i - left <= j <= i + right, None for no
            bound; a number for both.
        lower_right: is_causal and window count from the last query and key: query i stands at i + S - L, as
            torch.nn.attention.bias.causal_lower_right has it. This is what decoding with a cache needs.
        rng: an int64 tensor of three numbers on the CPU that decides the draws of dropout instead of torch's
            generator: (seed, step, site). Equal numbers give equal draws, whatever the number of threads; whether a
            weight falls depends on them and on its (sequence, head, query, key) only.

    Returns:
        ``(..., heads, L, Ev)``.

    Differentiable once in query, key, value and a float attn_mask. Works under torch.compile (one graph), autocast,
    torch.vmap, and torch.func.grad and vjp outside of compiled functions. Heads wider than 256 and devices for which no kernel is installed take plain torch operations.

    Raises ValueError or TypeError, naming what was expected and what was given.
    """
    batch = _batch_of(query, key, value, enable_gqa)
    if enable_gqa:
        key, value = (t.repeat_interleave(query.shape[-3] // t.shape[-3], -3) for t in (key, value))
    if not 0.0 <= dropout_p <= 1.0:
        raise ValueError(f'fovea.attention: dropout_p must be in [0, 1], got {dropout_p}')
    queries, keys = query.shape[-2], key.shape[-2]
    bias = None if attn_mask is None else _bias_of(attn_mask, batch, query, keys)
    lens = None if valid_lens is None else _lens_of(valid_lens, batch, query)
    see = _Sight.of(is_causal, window, queries, keys, lower_right)
    q = _four_dims(query.narrow(-2, 0, see.queries), batch)
    k, v = (_four_dims(t.narrow(-2, 0, see.keys), batch) for t in (key, value))
    if bias is not None:
        bias = bias.narrow(-1, 0, see.keys) if bias.shape[-1] != 1 else bias
        bias = bias.narrow(-2, 0, see.queries) if bias.dim() > 1 and bias.shape[-2] != 1 else bias
    if lens is not None and lens.dim() == 2:
        lens = lens.narrow(1, 0, see.queries)
    if dropout_p == 0.0:
        rng = None
    elif rng is None:
        rng = _ops.draw_rng()
    if _op_takes(q, v):
        settings = Settings(causal=see.right == 0, window_left=-1 if see.left is None else see.left,
                            window_right=-1 if see.right is None else see.right, dropout_p=dropout_p, scale=scale)
        out = flash_attention(q, k, v, bias, lens, rng, settings)
    else:
        out = _plain(q, k, v, bias, lens, see, dropout_p, rng, scale)
    out = pad(out, (0, 0, 0, queries - see.queries)) if see.queries < queries else out
    return out.reshape(*batch, queries, value.shape[-1])


class _Sight(NamedTuple):
    """Query i of the first `queries` sees the keys i + keys - queries + (-left ... right) of the first `keys`."""

    queries: int
    keys: int
    left: Bound
    right: Bound

    @staticmethod
    def of(is_causal, window, queries, keys, lower_right) -> '_Sight':
        left, right = _bounds_of(window)
        if is_causal:
            right = 0
        if lower_right or queries == keys or (left is None and right is None):
            return _Sight(queries, keys, left, right)
        # From the upper left. No query sees the keys beyond queries + right, and the queries beyond keys + left see no
        # key. Without them the bounds, counted from the lower right, are not below 0.
        if right is not None and keys > queries + right:
            keys = queries + right
        if left is not None and queries > keys + left:
            queries = keys + left
        shift = keys - queries
        return _Sight(queries, keys, None if left is None else left + shift, None if right is None else right - shift)


def _bounds_of(window) -> tuple[Bound, Bound]:
    if window is None:
        return None, None
    pair = (window, window) if isinstance(window, int) else tuple(window)
    if len(pair) != 2 or any(not (b is None or isinstance(b, int) and b >= 0) for b in pair):
        raise ValueError('fovea.attention: window must be a number of keys or (left, right), each 0 or more or None, '
                         f'got {window}')
    return pair


def _batch_of(query, key, value, enable_gqa) -> tuple[int, ...]:
    """All dimensions of the output but the last two."""
    shapes = f'query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}'
    if min(query.dim(), key.dim(), value.dim()) < (3 if enable_gqa else 2):
        heads = 'heads, ' if enable_gqa else ''
        raise ValueError(f'fovea.attention: expected (..., {heads}steps, width), got {shapes}')
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(f'fovea.attention: query and key must have the same width, got {shapes}')
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(f'fovea.attention: keys and values must be as many, got {shapes}')
    if not query.dtype == key.dtype == value.dtype and not torch.is_autocast_enabled(query.device.type):
        raise TypeError('fovea.attention: query, key and value must have one dtype, got '
                        f'{query.dtype}, {key.dtype} and {value.dtype}')
    if not query.dtype.is_floating_point:
        raise TypeError(f'fovea.attention: expected floating point numbers, got {query.dtype}')
    leading = [t.shape[:-2] for t in (query, key, value)]
    if enable_gqa:
        heads = query.shape[-3]
        if any(t.shape[-3] == 0 or heads % t.shape[-3] != 0 for t in (key, value)):
            raise ValueError('fovea.attention: with enable_gqa the heads of key and of value must divide those of '
                             f'query, got {shapes}')
        leading = [(*t.shape[:-3], heads) for t in (query, key, value)]
    try:
        return tuple(torch.broadcast_shapes(*leading))
    except RuntimeError:
        raise ValueError(f'fovea.attention: the dimensions before the last two do not broadcast: {shapes}') from None


def _four_dims(x: Tensor, batch: tuple[int, ...]) -> Tensor:
    """(sequences, heads, steps, width); a dimension that is alone stands for sequences."""
    x = x.expand(*batch, *x.shape[-2:])
    if len(batch) == 2:
        return x
    if len(batch) < 2:
        return x.unsqueeze(-3) if len(batch) == 1 else x[None, None]
    return x.reshape(math.prod(batch[:-1]), *x.shape[-3:])


def _bias_of(mask: Tensor, batch: tuple[int, ...], query: Tensor, keys: int) -> Tensor:
    """What is added to the scores, in the query's dtype, broadcastable to (sequences, heads, L, S)."""
    whole = (*batch, query.shape[-2], keys)
    fits = mask.dim() <= len(whole) and all(m in (1, n) for m, n in zip(reversed(mask.shape), reversed(whole)))
    if not fits:
        raise ValueError(f'fovea.attention: attn_mask {tuple(mask.shape)} does not broadcast to {whole}')
    if mask.dtype == torch.bool:
        bias = torch.where(mask, query.new_zeros(()), query.new_full((), -math.inf))
    elif mask.dtype.is_floating_point:
        bias = mask.to(query.dtype)
    else:
        raise TypeError(f'fovea.attention: attn_mask must be boolean or floating point, got {mask.dtype}')
    if len(batch) == 1 and bias.dim() == 3:
        return bias.unsqueeze(1)
    if len(batch) > 2 and bias.dim() > 3:
        sequences = (*(1,) * (len(batch) + 2 - bias.dim()), *bias.shape[:-3])
        if any(n != 1 for n in sequences):
            sequences = batch[:-1]
        return bias.expand(*sequences, *bias.shape[-3:]).reshape(math.prod(sequences), *bias.shape[-3:])
    return bias


def _lens_of(lens: Tensor, batch: tuple[int, ...], query: Tensor) -> Tensor:
    """int64 (sequences) or (sequences, L)."""
    lens = torch.as_tensor(lens)
    sequences, queries = batch if len(batch) == 1 else batch[:-1], query.shape[-2]
    if lens.dtype == torch.bool or lens.dtype.is_floating_point or lens.dtype.is_complex:
        raise TypeError(f'fovea.attention: valid_lens must be integers, got {lens.dtype}')
    if tuple(lens.shape) not in (tuple(sequences), (*sequences, queries)):
        raise ValueError(f'fovea.attention: valid_lens must be {tuple(sequences)}, or {(*sequences, queries)} with one '
                         f'for each query, got {tuple(lens.shape)}')
    per_query = (queries,) if lens.dim() > len(sequences) else ()
    return lens.to(query.device, torch.int64).reshape(math.prod(sequences), *per_query)


def _op_takes(q: Tensor, v: Tensor) -> bool:
    widths = q.shape[-1], v.shape[-1]
    return 1 <= min(widths) and max(widths) <= _WIDEST and q.dtype in _DTYPES and q.device.type in _ops.DEVICES


def _plain(q, k, v, bias, lens, see: _Sight, dropout_p, rng, scale) -> Tensor:
    """The same in torch's operations, dropout included: q, k, v (sequences, heads, L or S, width)."""
    j = torch.arange(see.keys, device=q.device)
    if lens is not None:  # zeros are selected, so that NaN beyond the lengths reaches no gradient either
        beyond = (j >= lens.reshape(lens.shape[0], -1).amax(1, keepdim=True))[:, None, :, None]
        k, v = k.masked_fill(beyond, 0.0), v.masked_fill(beyond, 0.0)
    scores = q @ k.transpose(-2, -1) * (1 / math.sqrt(max(q.shape[-1], 1)) if scale is None else scale)
    if bias is not None:
        scores = scores + bias
    distance = j - (torch.arange(see.queries, device=q.device) + (see.keys - see.queries)).unsqueeze(1)  # (L, S)
    seen = torch.ones_like(distance, dtype=torch.bool)
    if see.left is not None:
        seen = seen & (distance >= -see.left)
    if see.right is not None:
        seen = seen & (distance <= see.right)
    if lens is not None:
        seen = seen & (j < lens.view(lens.shape[0], 1, -1, 1))  # (sequences, 1, L or 1, S)
    seen = seen & (scores > -math.inf)
    lowest = torch.finfo(scores.dtype).min
    weights = torch.softmax(torch.where(seen, scores, lowest), -1).masked_fill(~seen, 0.0)
    if dropout_p > 0.0:
        weights = torch.ops.fovea.dropout(weights, rng, dropout_p)
    return weights @ v
