"""The flash-attention op from Python: loaded as a library, checked as torch checks its own, compiled, trained through."""

import pathlib

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = ROOT / 'build' / 'default' / 'lib' / 'libfovea_ops.so'

if not LIBRARY.exists():
    pytest.skip(f'no {LIBRARY}', allow_module_level=True)
torch.ops.load_library(str(LIBRARY))
flash_attention = torch.ops.fovea.flash_attention


def heads(*sizes, dtype=torch.float32, **kwargs):
    return torch.randn(*sizes, dtype=dtype, **kwargs)


def key(step=0):
    return torch.tensor([1, step, 7])


def plain(q, k, v, mask=None, bias=None, scale=None):
    scores = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = scores.masked_fill(~mask, float('-inf'))
    return torch.softmax(scores, -1).nan_to_num(0) @ v


CASES = {
    'full': {},
    'causal': {'causal': True},
    'lens': {'valid_lens': torch.tensor([5, 0, 3]), 'query_lens': torch.tensor([2, 6, 0])},
    'lens2d': {'valid_lens': torch.arange(18).view(3, 6) % 8},
    'window': {'window_left': 2, 'window_right': 1},
    'dropout': {'dropout_p': 0.3, 'rng': torch.tensor([1, 2, 3])},
    'scale': {'scale': 0.3},
}


@pytest.mark.parametrize('name', CASES)
@pytest.mark.parametrize('dtype', [torch.float32, torch.float64])
def test_opcheck(name, dtype):
    q, k, v = heads(3, 2, 6, 5, dtype=dtype), heads(3, 2, 7, 5, dtype=dtype), heads(3, 2, 7, 4, dtype=dtype)
    for requires_grad in (False, True):
        args = tuple(t.clone().requires_grad_(requires_grad) for t in (q, k, v))
        torch.library.opcheck(flash_attention.default, args, CASES[name])


def test_opcheck_packed_and_bias():
    offsets = torch.tensor([0, 3, 3, 8], dtype=torch.int32)
    q, k, v = (heads(8, 2, 5).requires_grad_() for _ in range(3))
    torch.library.opcheck(flash_attention.default, (q, k, v),
                          {'query_offsets': offsets, 'key_offsets': offsets, 'max_query': 5, 'max_key': 5, 'causal': True})
    q, k, v = (heads(2, 3, 4, 5).requires_grad_() for _ in range(3))
    for sizes in [(4, 4), (3, 1, 4), (2, 1, 1, 4)]:
        torch.library.opcheck(flash_attention.default, (q, k, v), {'bias': heads(*sizes).requires_grad_()})


def test_equals_torch():
    q, k, v = heads(2, 3, 70, 20), heads(2, 3, 90, 20), heads(2, 3, 90, 20)
    bias = heads(3, 1, 90)
    mask = torch.ones(70, 90, dtype=torch.bool).tril(20)
    out, lse = flash_attention(q, k, v, causal=True, bias=bias)
    torch.testing.assert_close(out, plain(q, k, v, mask, bias), rtol=1e-5, atol=1e-6)
    scores = (q @ k.transpose(-1, -2) * 20 ** -0.5 + bias).masked_fill(~mask, float('-inf'))
    torch.testing.assert_close(lse, scores.logsumexp(-1), rtol=1e-5, atol=1e-5)


def test_compiles_to_one_graph_over_many_steps():
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    @torch.compile(backend=backend, fullgraph=True)
    def step(q, k, v, rng):
        return flash_attention(q, k, v, causal=True, dropout_p=0.2, rng=rng)[0].square().sum()

    q, k, v = (heads(2, 2, 9, 8).requires_grad_() for _ in range(3))
    losses = set()
    for i in range(5):
        loss = step(q, k, v, key(i))
        loss.backward()
        losses.add(loss.item())
    assert len(graphs) == 1
    assert len(losses) == 5  # other steps, other draws


def test_compiled_gradients_equal_eager_ones():
    def f(q, k, v):
        return flash_attention(q, k, v, window_left=3)[0].sin().sum()

    inputs = [heads(2, 2, 9, 8).requires_grad_() for _ in range(3)]
    expected = torch.autograd.grad(f(*inputs), inputs)
    compiled = torch.compile(f, backend='aot_eager', fullgraph=True, dynamic=True)
    for found, e in zip(torch.autograd.grad(compiled(*inputs), inputs), expected):
        torch.testing.assert_close(found, e)


def test_trains():
    torch.manual_seed(0)
    projection = torch.nn.Linear(16, 48)
    head = torch.nn.Linear(16, 16)
    optimizer = torch.optim.Adam([*projection.parameters(), *head.parameters()], lr=1e-2)
    x = torch.randn(8, 12, 16)
    losses = []
    for step in range(60):
        q, k, v = projection(x).view(8, 12, 3, 2, 8).permute(2, 0, 3, 1, 4)
        out, _ = flash_attention(q, k, v, causal=True, dropout_p=0.1, rng=key(step))
        loss = (head(out.transpose(1, 2).flatten(2)) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


def test_second_derivative_raises_and_lse_has_none():
    q, k, v = (heads(1, 1, 3, 4).requires_grad_() for _ in range(3))
    out, lse = flash_attention(q, k, v)
    assert not lse.requires_grad
    grad, = torch.autograd.grad(out.sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match='derivative for fovea::flash_attention_backward'):
        grad.sum().backward()
    with torch.no_grad():
        assert flash_attention(q, k, v)[0].grad_fn is None


def test_half_precision_and_autocast():
    q, k, v = (heads(2, 2, 9, 8) for _ in range(3))
    expected = plain(q, k, v)
    for dtype, tolerance in [(torch.bfloat16, 4e-2), (torch.float16, 4e-3)]:
        out, lse = flash_attention(q.to(dtype), k.to(dtype), v.to(dtype))
        assert out.dtype == dtype and lse.dtype == torch.float32
        torch.testing.assert_close(out.float(), expected, rtol=0, atol=tolerance)
    with torch.autocast('cpu', dtype=torch.bfloat16):
        assert flash_attention(q, k, v)[0].dtype == torch.bfloat16


def test_errors_name_the_values():
    q = heads(1, 2, 3, 4)
    for kwargs, message in [({'dropout_p': 1.5, 'rng': key()}, '1.5'), ({'dropout_p': 0.5}, 'needs an rng'),
                            ({'window_left': -2}, '-2'), ({'bias': heads(5)}, r'\[5\]'),
                            ({'valid_lens': torch.tensor([1, 2])}, r'\[2\]')]:
        with pytest.raises(RuntimeError, match=message):
            flash_attention(q, q, q, **kwargs)
    with pytest.raises(RuntimeError, match='257'):
        flash_attention(heads(1, 1, 2, 257), heads(1, 1, 2, 257), heads(1, 1, 2, 257))


@pytest.mark.parametrize('requires_grad', [False, True])
@pytest.mark.parametrize('place', ['query', 'key', 'value', 'bias', 'dropout'])
def test_c60_a_tangent_is_refused_not_dropped(place, requires_grad):
    inputs = {name: heads(2, 3, 4, 5) for name in ('query', 'key', 'value')} | {'bias': heads(2, 3, 4, 4)}
    if place == 'dropout':
        def function(x):
            return torch.ops.fovea.dropout(x, key(), 0.5)
    else:
        def function(x):
            given = inputs | {place: x}
            return flash_attention(given['query'], given['key'], given['value'], bias=given['bias'])[0]
    x = inputs.get(place, inputs['query']).requires_grad_(requires_grad)
    tangent = torch.ones_like(x)
    with pytest.raises(NotImplementedError, match='has no forward-mode derivative'):
        torch.func.jvp(function, (x,), (tangent,))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, tangent)
        with pytest.raises(NotImplementedError, match='has no forward-mode derivative'):
            function(dual)
        with torch.no_grad(), pytest.raises(NotImplementedError, match='has no forward-mode derivative'):
            function(dual)
    x = x.detach().requires_grad_()  # the other direction is there
    assert torch.autograd.grad(function(x).sum(), x)[0].abs().max() > 0


def test_c60_forward_over_reverse_is_refused_too():
    q, k, v = (heads(1, 1, 3, 4).requires_grad_() for _ in range(3))
    output = flash_attention(q, k, v)[0]
    with torch.autograd.forward_ad.dual_level():
        gradient = torch.autograd.forward_ad.make_dual(torch.ones_like(output), torch.ones_like(output))
        with pytest.raises(RuntimeError, match='forward'):
            torch.autograd.grad(output, q, gradient)
