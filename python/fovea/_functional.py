"""The attention op for torch.func: vmap, grad, vjp and what is made of them.

torch.func cannot look into ops that are written in C++. Outside of its transforms nothing of this is used.
"""

from typing import NamedTuple, Optional

import torch
from torch import Tensor


class Settings(NamedTuple):
    """The arguments of the op that are no tensors."""

    causal: bool
    window_left: int
    window_right: int
    dropout_p: float
    scale: Optional[float]


def flash_attention(query: Tensor, key: Tensor, value: Tensor, bias: Optional[Tensor], valid_lens: Optional[Tensor],
                    rng: Optional[Tensor], settings: Settings) -> Tensor:
    """What torch.ops.fovea.flash_attention gives for padded tensors: (sequences, heads, queries, width)."""
    if not torch.compiler.is_compiling() and torch._C._are_functorch_transforms_active():
        return _Forward.apply(query, key, value, bias, valid_lens, rng, settings)[0]
    return torch.ops.fovea.flash_attention(query, key, value, bias=bias, valid_lens=valid_lens, rng=rng,
                                           **settings._asdict())[0]


class _Forward(torch.autograd.Function):
    @staticmethod
    def forward(query, key, value, bias, lens, rng, settings):
        return torch.ops.fovea.flash_attention(query, key, value, bias=bias, valid_lens=lens, rng=rng,
                                               **settings._asdict())

    @staticmethod
    def setup_context(ctx, inputs, output):
        *tensors, ctx.settings = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*tensors, *output)

    @staticmethod
    def backward(ctx, grad, _):
        bias_grad = ctx.needs_input_grad[3]
        grads = _Backward.apply(grad, *ctx.saved_tensors, ctx.settings, bias_grad)
        return *grads[:3], grads[3] if bias_grad else None, None, None, None

    @staticmethod
    def vmap(info, in_dims, query, key, value, bias, lens, rng, settings):
        tensors = (query, key, value, bias, lens, rng)
        if settings.dropout_p > 0 and in_dims[5] is None:
            return _one_by_one(lambda *t: _Forward.apply(*t, settings), info, in_dims, tensors)
        q, k, v, bias, lens, rng = _fold(info, in_dims, tensors)
        return _unfold(info, _Forward.apply(q, k, v, bias, lens, rng, settings))


class _Backward(torch.autograd.Function):
    @staticmethod
    def forward(grad, query, key, value, bias, lens, rng, out, lse, settings, bias_grad):
        return torch.ops.fovea.flash_attention_backward(grad, query, key, value, out, lse, bias=bias, valid_lens=lens,
                                                        rng=rng, bias_grad=bias_grad, **settings._asdict())

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, *grads):
        raise NotImplementedError('fovea.attention has no second derivative')

    @staticmethod
    def vmap(info, in_dims, grad, query, key, value, bias, lens, rng, out, lse, settings, bias_grad):
        tensors = (query, key, value, bias, lens, rng, grad, out, lse)
        in_dims = (*in_dims[1:7], in_dims[0], *in_dims[7:9])
        if settings.dropout_p > 0 and in_dims[5] is None:
            return _one_by_one(lambda q, k, v, b, n, r, g, *rest: _Backward.apply(g, q, k, v, b, n, r, *rest, settings,
                                                                                bias_grad), info, in_dims, tensors)
        q, k, v, b, n, r, g, o, s = _fold(info, in_dims, tensors)
        if bias_grad:  # each example has a gradient of its own, which the op adds up over those of one bias
            own = _five_dims(_move(bias, in_dims[3], info.batch_size))
            b = own.expand(-1, q.shape[0] // info.batch_size, -1, -1, -1).flatten(0, 1)
        *grads, db = _Backward.apply(g, q, k, v, b, n, r, o, s, settings, bias_grad)
        (dq, dk, dv), _ = _unfold(info, grads)
        if not bias_grad:
            return (dq, dk, dv, db), (0, 0, 0, None)
        db = db.unflatten(0, (info.batch_size, -1)).sum_to_size(own.shape)
        return (dq, dk, dv, db.reshape(_move(bias, in_dims[3], info.batch_size).shape)), (0, 0, 0, 0)


def _move(t: Tensor, dim: Optional[int], batch: int) -> Tensor:
    """The examples in front."""
    return t.expand(batch, *t.shape) if dim is None else t.movedim(dim, 0)


def _five_dims(bias: Tensor) -> Tensor:
    """(examples, sequences, heads, queries, keys), where up to three of them were left out after the first."""
    return bias.reshape(bias.shape[0], *(1,) * (5 - bias.dim()), *bias.shape[1:])


def _fold(info, in_dims, tensors) -> list[Optional[Tensor]]:
    """Examples become sequences: query, key, value, bias, lens, rng, and whatever is shaped as the output."""
    batch = info.batch_size
    folded = [None if t is None else _move(t, d, batch).flatten(0, 1) for t, d in zip(tensors, in_dims)]
    q, _, _, bias, lens, rng, *_ = tensors
    sequences = folded[0].shape[0] // batch
    if bias is not None:
        if in_dims[3] is None and (bias.dim() < 4 or bias.shape[0] == 1):
            folded[3] = bias
        else:
            b = _five_dims(_move(bias, in_dims[3], batch))
            folded[3] = b.expand(-1, sequences, -1, -1, -1).flatten(0, 1)
    if rng is not None:
        # Other sequences draw otherwise by themselves: one of the examples' rng does for all.
        folded[5] = rng if in_dims[5] is None else rng.select(in_dims[5], 0)
    return folded


def _unfold(info, outputs):
    return tuple(t.unflatten(0, (info.batch_size, -1)) for t in outputs), (0,) * len(outputs)


def _one_by_one(f, info, in_dims, tensors):
    """The same rng for each example means the same draws, and draws depend on a sequence's place."""
    rows = [f(*(t if d is None or t is None else t.select(d, i) for t, d in zip(tensors, in_dims)))
            for i in range(info.batch_size)]
    return tuple(map(torch.stack, zip(*rows))), (0,) * len(rows[0])
