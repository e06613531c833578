"""fovea.attention beside torch's scaled_dot_product_attention: the same names, the same rules, the same numbers."""

import math
import random

import pytest
import torch
from package import fovea
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention as sdpa

attention = fovea.attention
TOLERANCE = {torch.float32: 2e-6, torch.float64: 1e-12, torch.bfloat16: 2e-2, torch.float16: 3e-3}


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def rows_of(mask, is_causal, whole):
    """Whether a row of the scores `whole` sees a key."""
    seen = torch.ones(whole, dtype=torch.bool)
    if mask is not None:
        seen = seen & (mask if mask.dtype == torch.bool else mask > -math.inf)
    if is_causal:
        seen = seen.tril()
    return seen.any(-1, keepdim=True)


def drop_dims(rng, shape):
    """A shape that broadcasts to this one."""
    shape = [1 if rng.random() < 0.3 else n for n in shape]
    return shape[rng.randrange(len(shape) + 1):] if rng.random() < 0.4 else shape


def random_case(seed):
    rng = random.Random(seed)
    dtype = rng.choice(list(TOLERANCE))
    lengths = rng.choice([1, 2, 5, 9, 33]), rng.choice([1, 2, 5, 9, 33])
    width, value_width = rng.choice([1, 4, 7, 16]), rng.choice([1, 4, 7, 16])
    batch = [rng.choice([1, 2, 3]) for _ in range(rng.randrange(4))]
    gqa = len(batch) >= 1 and rng.random() < 0.3
    shapes = {}
    for name, steps, last in (('query', lengths[0], width), ('key', lengths[1], width),
                              ('value', lengths[1], value_width)):
        leading = drop_dims(rng, batch) if name != 'query' or rng.random() < 0.3 else batch
        shapes[name] = [*leading, steps, last]
    if gqa:
        batch[-1] = 6
        for name, heads in (('query', 6), ('key', rng.choice([1, 2, 3])), ('value', rng.choice([1, 2, 3]))):
            shapes[name] = [*batch[:-1], heads, *shapes[name][-2:]]
    inputs = [torch.randn(shapes[name]).to(dtype).requires_grad_() for name in shapes]
    whole = (*(batch if gqa else torch.broadcast_shapes(*(s[:-2] for s in shapes.values()))), *lengths)
    mask, kind = None, rng.choice(['none', 'bool', 'float', 'keys', 'inf'])
    if kind != 'none':
        shape = drop_dims(rng, whole[:-2]) + [rng.choice([1, lengths[0]]), lengths[1]]
        mask = torch.rand(shape) < 0.7 if kind == 'bool' else torch.randn(shape).to(dtype)
        if kind == 'keys':
            mask = (torch.arange(lengths[1]) < rng.randrange(lengths[1] + 1)).expand(1, lengths[1])
        elif kind == 'inf':
            mask = mask.masked_fill(torch.rand(shape) < 0.3, -math.inf)
        if mask.dtype.is_floating_point:
            mask.requires_grad_()
    options = {'is_causal': rng.random() < 0.4, 'scale': rng.choice([None, None, 0.3, 1.0, -0.5]), 'enable_gqa': gqa}
    return inputs, mask, options, whole


@pytest.mark.parametrize('seed', range(300))
def test_equals_scaled_dot_product_attention(seed):
    inputs, mask, options, whole = random_case(seed)
    torch.manual_seed(seed)
    dtype = inputs[0].dtype
    out = attention(*inputs, attn_mask=mask, **options)
    # In float64, what SDPA's own rounding cannot blur. It knows no mask beside is_causal on every path: one of both.
    wide = [t.detach().double().requires_grad_() for t in inputs]
    wide_mask = mask
    if mask is not None:
        wide_mask = mask.detach().double().requires_grad_() if mask.dtype.is_floating_point else mask
    both = wide_mask
    if mask is not None and options['is_causal']:
        causal = torch.ones(whole[-2:], dtype=torch.bool).tril()
        both = wide_mask & causal if mask.dtype == torch.bool else wide_mask.masked_fill(~causal, -math.inf)
    # SDPA takes no mask that is wider than query @ key^T.
    wide_query = wide[0].expand(*whole[:-2], *wide[0].shape[-2:])
    expected = sdpa(wide_query, *wide[1:], attn_mask=both, is_causal=options['is_causal'] and mask is None,
                    scale=options['scale'], enable_gqa=options['enable_gqa'])
    sees = rows_of(mask, options['is_causal'], whole)
    expected = expected.where(sees, 0.0)
    assert out.dtype == dtype and out.shape == expected.shape
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(out.double(), expected, rtol=tolerance, atol=tolerance)
    assert (out.where(~sees, 0) == 0).all()

    if dtype in (torch.float32, torch.float64):
        weights = torch.randn_like(expected)
        given = [t for t in (*inputs, mask) if t is not None and t.requires_grad]
        same = [t for t in (*wide, wide_mask) if t is not None and t.requires_grad]
        (out.double() * weights).sum().backward()
        (expected * weights).sum().backward()
        for t, e in zip(given, same):
            torch.testing.assert_close(t.grad.double(), e.grad.nan_to_num(0), rtol=50 * tolerance, atol=50 * tolerance)


@pytest.mark.parametrize('place', ['query', 'key', 'value', 'mask'])
@pytest.mark.parametrize('queries, keys, width', [(1, 5, 8), (9, 9, 64), (37, 40, 64), (128, 300, 64)])
@pytest.mark.parametrize('dtype', TOLERANCE)
def test_nan_goes_on_to_output_and_gradients(place, queries, keys, width, dtype):
    """As by the definition: a NaN that a query sees is not taken for a key that is forbidden."""
    inputs = [torch.randn(1, 2, n, width, dtype=dtype) for n in (queries, keys, keys)]
    mask = torch.zeros(queries, keys, dtype=dtype)
    seen = {'query': inputs[0][0, 0, 0], 'key': inputs[1][0, 0, 2], 'value': inputs[2][0, 0, 2], 'mask': mask[0]}[place]
    seen[3] = math.nan
    inputs = [t.requires_grad_() for t in inputs]
    out = attention(*inputs, attn_mask=mask if place == 'mask' else None)
    expected = torch.softmax(inputs[0] @ inputs[1].mT + mask, -1) @ inputs[2]
    assert torch.equal(out.isnan(), expected.isnan()) and out.isnan().any()
    grads, expected_grads = (torch.autograd.grad(o.sum(), inputs) for o in (out, expected))
    for got, right in zip(grads, expected_grads):
        assert torch.equal(got.isnan().any(-1), right.isnan().any(-1))


def test_nan_beside_forbidden_keys_only():
    query, key, value = (torch.randn(1, 1, n, 8) for n in (20, 300, 300))
    key[0, 0, 2, 3] = math.nan
    mask = torch.full((20, 300), -math.inf)
    mask[0, 2] = mask[1, 5] = 0.0
    out = attention(query, key, value, attn_mask=mask)  # a forbidden NaN stays one: NaN less infinity
    assert out.isnan().all()
    valid = attention(query, key, value, valid_lens=torch.tensor([2]))
    assert valid.isfinite().all()


@pytest.mark.parametrize('queries, keys', [(5, 5), (3, 7), (7, 3), (1, 6), (6, 1)])
def test_is_causal_is_upper_left_unless_lower_right(queries, keys):
    q, k, v = (torch.randn(2, 3, n, 4) for n in (queries, keys, keys))
    torch.testing.assert_close(attention(q, k, v, is_causal=True), sdpa(q, k, v, is_causal=True))
    seen = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)
    expected = sdpa(q, k, v, attn_mask=seen).where(seen.any(1, keepdim=True), 0.0)
    torch.testing.assert_close(attention(q, k, v, is_causal=True, lower_right=True), expected)
    if keys >= queries:
        torch.testing.assert_close(expected, sdpa(q, k, v, attn_mask=causal_lower_right(queries, keys)))


@pytest.mark.parametrize('lower_right', [False, True])
@pytest.mark.parametrize('window', [0, 2, (1, None), (None, 1), (0, 3), (4, 0), (None, None)])
@pytest.mark.parametrize('queries, keys', [(6, 6), (3, 9), (9, 3), (9, 1)])
def test_window(window, queries, keys, lower_right):
    left, right = (window, window) if isinstance(window, int) else window
    distance = torch.arange(keys) - torch.arange(queries).unsqueeze(1) - (keys - queries if lower_right else 0)
    seen = (distance >= -math.inf if left is None else distance >= -left) & \
        (distance <= math.inf if right is None else distance <= right)
    q, k, v = (torch.randn(2, 3, n, 4) for n in (queries, keys, keys))
    bias, lens = torch.randn(2, 1, queries, keys), torch.randint(keys + 1, (2, queries))
    for is_causal in (False, True):
        mask = seen & (distance <= 0) if is_causal else seen
        out = attention(q, k, v, is_causal=is_causal, window=window, lower_right=lower_right)
        torch.testing.assert_close(out, sdpa(q, k, v, attn_mask=mask).where(mask.any(1, keepdim=True), 0.0))
        mask = mask & (torch.arange(keys) < lens.unsqueeze(-1)).unsqueeze(1)
        out = attention(q, k, v, bias, is_causal=is_causal, window=window, lower_right=lower_right, valid_lens=lens)
        expected = sdpa(q, k, v, attn_mask=bias.masked_fill(~mask, -math.inf)).where(mask.any(-1, keepdim=True), 0.0)
        torch.testing.assert_close(out, expected)


@pytest.mark.parametrize('leading', [(3,), (3, 2), (3, 2, 2), ()])
def test_valid_lens(leading):
    q, k, v = (torch.randn(*leading, n, 4) for n in (5, 6, 6))
    sequences = leading if len(leading) == 1 else leading[:-1]
    for shape in (sequences, (*sequences, 5)):
        lens = torch.randint(0, 9, shape, dtype=torch.int32)
        seen = torch.arange(6) < (lens if len(shape) > len(sequences) else lens.unsqueeze(-1)).unsqueeze(-1)
        if len(leading) > 1:
            seen = seen.unsqueeze(-3)
        expected = sdpa(q, k, v, attn_mask=seen.expand(*leading, 5, 6)).where(seen.any(-1, keepdim=True), 0.0)
        torch.testing.assert_close(attention(q, k, v, valid_lens=lens), expected)


@pytest.mark.parametrize('width', [4, 300])
def test_what_lies_beyond_valid_lens_is_never_used(width):
    q, k, v = (torch.randn(2, 2, 5, width) for _ in range(3))
    lens = torch.tensor([3, 0])
    expected = attention(q, k, v, valid_lens=lens)
    for i, n in enumerate(lens):
        k[i, :, n:] = v[i, :, n:] = math.nan
    inputs = [t.requires_grad_() for t in (q, k, v)]
    out = attention(*inputs, valid_lens=lens)
    assert torch.equal(out, expected)
    out.sum().backward()
    assert all(t.grad.isfinite().all() for t in inputs) and (k.grad[1] == 0).all()


def test_gradients_are_those_of_finite_differences():
    q, k, v = (torch.randn(2, 4, n, 3, dtype=torch.double).requires_grad_() for n in (4, 5, 5))
    bias = torch.randn(4, 1, 5, dtype=torch.double).requires_grad_()
    check = torch.autograd.gradcheck
    assert check(lambda *a: attention(*a, is_causal=True), (q, k, v, bias))
    assert check(lambda *a: attention(*a, window=(1, 1), valid_lens=torch.tensor([3, 5]), scale=0.7), (q, k, v))
    assert check(lambda *a: attention(*a, enable_gqa=True), (q, k[:, :2].detach().requires_grad_(), v))
    rng = torch.tensor([1, 2, 3])
    assert check(lambda *a: attention(*a, dropout_p=0.4, rng=rng), (q, k, v))


def test_dropout_is_decided_by_manual_seed_and_by_rng():
    q, k = torch.randn(4, 4, 50, 8), torch.randn(4, 4, 60, 8)
    v = torch.eye(60).expand(4, 4, 60, 60)  # the output is the weights
    weights = attention(q, k, v)
    draw = [attention(q, k, v, dropout_p=0.3) for _ in range(2)]
    assert not torch.equal(*draw)
    torch.manual_seed(0)
    torch.randn(4, 4, 50, 8), torch.randn(4, 4, 60, 8)
    assert torch.equal(attention(q, k, v, dropout_p=0.3), draw[0])
    kept = draw[0] != 0
    assert kept.float().mean() == pytest.approx(0.7, abs=0.01)
    torch.testing.assert_close(draw[0], weights.where(kept, 0.0) / 0.7)
    rng = torch.tensor([1, 2, 3])
    one, other = (attention(q, k, v, dropout_p=0.3, rng=torch.tensor(r)) for r in ([1, 2, 3], [1, 2, 4]))
    assert torch.equal(attention(q, k, v, dropout_p=0.3, rng=rng), one) and not torch.equal(one, other)
    torch.testing.assert_close(one, fovea.dropout(weights, 0.3, rng=rng))
    # A weight falls by its place, not by the sizes around it.
    assert torch.equal(attention(q[:1, :, :9], k[:1], v[:1], dropout_p=0.3, rng=rng) == 0, one[:1, :, :9] == 0)
    assert (attention(q, k, v, dropout_p=1.0) == 0).all()


@pytest.mark.parametrize('shape', [(6, 50), (4, 6, 50), (4, 2, 6, 50), (300,), (2, 2, 2, 6, 50)])
def test_dropout(shape):
    x = torch.randn(shape).requires_grad_()
    torch.manual_seed(3)
    y = fovea.dropout(x, 0.25)
    torch.manual_seed(3)
    assert torch.equal(fovea.dropout(x, 0.25), y)
    kept = y != 0
    assert kept.float().mean() == pytest.approx(0.75, abs=0.1)
    torch.testing.assert_close(y, x.where(kept, 0.0) / 0.75)
    y.sum().backward()
    torch.testing.assert_close(x.grad, kept / 0.75)
    assert fovea.dropout(x, 0.25, training=False) is x
    with pytest.raises(ValueError, match='1.5'):
        fovea.dropout(x, 1.5)


def test_empty_tensors():
    for batch, queries, keys in [(0, 3, 4), (2, 0, 4), (2, 3, 0)]:
        q, k = torch.randn(batch, 2, queries, 4), torch.randn(batch, 2, keys, 4)
        for options in ({}, {'is_causal': True}, {'window': 1}):
            out = attention(q, k, k, **options)
            assert out.shape == q.shape and (out == 0).all()


def test_wide_heads_take_plain_operations():
    q, k, v = (torch.randn(2, 2, n, 300).requires_grad_() for n in (6, 7, 7))
    out = attention(q, k, v, is_causal=True, valid_lens=torch.tensor([3, 7]), window=(2, None))
    narrow = attention(*(t.double().requires_grad_() for t in (q, k, v)), is_causal=True,
                       valid_lens=torch.tensor([3, 7]), window=(2, None))
    torch.testing.assert_close(out.double(), narrow, rtol=1e-5, atol=1e-5)
    seen = (torch.ones(6, 7).tril() - torch.ones(6, 7).tril(-3)).bool() & \
        (torch.arange(7) < torch.tensor([3, 7]).view(2, 1, 1, 1))
    torch.testing.assert_close(out, sdpa(q, k, v, attn_mask=seen).where(seen.any(-1, keepdim=True), 0.0))
    rng = torch.tensor([1, 2, 3])
    v = torch.eye(7).expand(2, 2, 7, 7)
    torch.testing.assert_close(attention(q, k, v, dropout_p=0.5, rng=rng) == 0,
                               attention(q[..., :8], k[..., :8], v, dropout_p=0.5, rng=rng) == 0)


def compiled(f, **options):
    torch._dynamo.reset()
    return torch.compile(f, fullgraph=True, **options)


@pytest.mark.parametrize('dynamic', [None, True])
def test_compiles_to_one_graph(dynamic):
    def f(q, k, v, mask, lens):
        out = attention(q, k, v, mask, is_causal=True, valid_lens=lens)
        return out + attention(q, k, v, window=3, dropout_p=0.2, enable_gqa=True)

    g = compiled(f, backend='aot_eager', dynamic=dynamic)
    for steps in (5, 8):
        inputs = [torch.randn(2, 2, steps, 4).requires_grad_() for _ in range(3)]
        rest = torch.rand(2, 1, steps, steps) > 0.3, torch.tensor([2, steps])
        torch.manual_seed(1)
        expected = f(*inputs, *rest)
        torch.manual_seed(1)
        found = g(*inputs, *rest)
        torch.testing.assert_close(found, expected)
        for a, b in zip(torch.autograd.grad(found.sum(), inputs), torch.autograd.grad(expected.sum(), inputs)):
            torch.testing.assert_close(a, b)


def test_compiles_with_inductor():
    q, k, v = (torch.randn(2, 2, 9, 8) for _ in range(3))
    g = compiled(lambda q, k, v: attention(q.sin(), k, v, is_causal=True).cos())
    torch.testing.assert_close(g(q, k, v), attention(q.sin(), k, v, is_causal=True).cos())


def test_autocast():
    q, k, v = (torch.randn(2, 2, 9, 8) for _ in range(3))
    bias = torch.randn(9, 9)
    with torch.autocast('cpu', dtype=torch.bfloat16):
        out = attention(q, k.bfloat16(), v, bias)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), sdpa(q, k, v, bias), rtol=0, atol=5e-2)


@pytest.mark.parametrize('dims', [(0, 0, 0), (0, None, None), (1, 2, 0), (None, 0, 0)])
def test_vmap(dims):
    q, k, v = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 6, 4), torch.randn(2, 3, 6, 4)
    many = [t if d is None else torch.stack([t, 2 * t, -t], d) for t, d in zip((q, k, v), dims)]
    out = torch.func.vmap(lambda *a: attention(*a, is_causal=True), in_dims=dims)(*many)
    for i in range(3):
        one = [t if d is None else t.select(d, i) for t, d in zip(many, dims)]
        torch.testing.assert_close(out[i], attention(*one, is_causal=True))


def test_vmap_of_masks_lens_and_dropout():
    q, bias, lens = torch.randn(2, 3, 5, 4), torch.randn(3, 3, 1, 5), torch.tensor([[1, 5], [0, 2], [3, 3]])
    out = torch.func.vmap(lambda b, n: attention(q, q, q, b, valid_lens=n))(bias, lens)
    for i in range(3):
        torch.testing.assert_close(out[i], attention(q, q, q, bias[i], valid_lens=lens[i]))
    many = torch.randn(4, 2, 3, 5, 4)

    def f(x):
        return attention(x, x, torch.eye(5).expand(2, 3, 5, 5), dropout_p=0.5)

    different = torch.func.vmap(f, randomness='different')(many)
    assert not torch.equal(different[0] == 0, different[1] == 0)
    with pytest.raises(RuntimeError, match='randomness'):
        torch.func.vmap(f)(many)


def test_functional_gradients():
    """torch.func.grad, and vmap over it (gradients of each example)."""
    q, k, v = torch.randn(4, 2, 5, 3), torch.randn(4, 2, 6, 3), torch.randn(4, 2, 6, 3)

    def loss(q, k, v):
        return attention(q, k, v, is_causal=True).sin().sum()

    inputs = [t.clone().requires_grad_() for t in (q, k, v)]
    expected = torch.autograd.grad(loss(*inputs), inputs)
    for found, e in zip(torch.func.grad(loss, argnums=(0, 1, 2))(q, k, v), expected):
        torch.testing.assert_close(found, e)
    for found, e in zip(torch.func.vmap(torch.func.grad(loss, argnums=(0, 1, 2)))(q, k, v), expected):
        torch.testing.assert_close(found, e)


@pytest.mark.parametrize('shape', [(5, 6), (2, 1, 6), (3, 1, 5, 6), (1, 2, 5, 1)])
def test_functional_gradients_of_masks_and_dropout(shape):
    """One mask for all examples, whose gradient is asked for by example; and a mask for each."""
    q, k, v = torch.randn(4, 3, 2, 5, 3), torch.randn(4, 3, 2, 6, 3), torch.randn(4, 3, 2, 6, 3)
    bias, biases, rng = torch.randn(shape), torch.randn(4, *shape), torch.tensor([1, 2, 3])

    def loss(bias, q, k, v):
        out = attention(q, k, v, bias, valid_lens=torch.tensor([6, 2, 4]), dropout_p=0.2, rng=rng)
        return (out.sin() * torch.arange(1.0, 4).view(3, 1, 1, 1)).sum()

    for given, dim in ((bias, None), (biases, 0)):
        each = torch.func.vmap(torch.func.grad(loss, argnums=(0, 1)), in_dims=(dim, 0, 0, 0))(given, q, k, v)
        for i in range(4):
            inputs = [(bias if dim is None else biases[i]).clone().requires_grad_(), q[i].clone().requires_grad_()]
            expected = torch.autograd.grad(loss(*inputs, k[i], v[i]), inputs)
            torch.testing.assert_close([t[i] for t in each], list(expected))

    def mean_of_all(bias):
        return torch.func.vmap(lambda *a: attention(*a, bias, is_causal=True).sin().sum())(q, k, v).mean()

    one = bias.clone().requires_grad_()
    expected, = torch.autograd.grad(sum(attention(q[i], k[i], v[i], one, is_causal=True).sin().sum() / 4
                                        for i in range(4)), one)
    torch.testing.assert_close(torch.func.grad(mean_of_all)(bias), expected)


def test_what_has_no_derivative_says_so():
    q = torch.randn(1, 2, 3, 4)
    with pytest.raises((RuntimeError, NotImplementedError), match='second derivative'):
        torch.func.grad(lambda x: torch.func.grad(lambda y: attention(y, y, y).sum())(x).sum())(q)
    with pytest.raises((RuntimeError, NotImplementedError), match='jvp|forward'):
        torch.func.jvp(lambda x: attention(x, x, x), (q,), (q,))
    x = q.clone().requires_grad_()
    grad, = torch.autograd.grad(attention(x, x, x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match='derivative'):
        grad.sum().backward()


def test_errors_name_what_was_given():
    q, k = torch.randn(2, 4, 5, 8), torch.randn(2, 4, 6, 8)
    for error, message, args, kwargs in [
            (ValueError, r'\(2, 4, 6, 7\)', (q, k[..., :7], k), {}),
            (ValueError, r'as many.*\(2, 4, 5, 8\)', (q, k, q), {}),
            (ValueError, 'broadcast.*3', (q, torch.randn(3, 4, 6, 8), k), {}),
            (ValueError, 'heads', (q, k[:, :3], k), {'enable_gqa': True}),
            (ValueError, r'steps, width.*\(8,\)', (q[0, 0, 0], k, k), {}),
            (TypeError, 'float64', (q, k.double(), k), {}),
            (TypeError, 'int64', (q.long(), k.long(), k.long()), {}),
            (ValueError, r'attn_mask \(6, 5\)', (q, k, k, torch.randn(6, 5)), {}),
            (TypeError, 'int64', (q, k, k, torch.ones(5, 6, dtype=torch.long)), {}),
            (ValueError, '1.5', (q, k, k), {'dropout_p': 1.5}),
            (ValueError, r'\(2,\).*\(2, 5\).*\(3,\)', (q, k, k), {'valid_lens': torch.tensor([1, 2, 3])}),
            (TypeError, 'float32', (q, k, k), {'valid_lens': torch.tensor([1.0, 2.0])}),
            (ValueError, '-1', (q, k, k), {'window': -1}),
            (ValueError, 'window', (q, k, k), {'window': (1, 2, 3)})]:
        with pytest.raises(error, match=message):
            attention(*args, **kwargs)
