"""What scripts/gpu-check runs: fovea::flash_attention on a GPU against float64, and its speed.

usage: gpu_check.py correct | small | speed
"""

import itertools
import math
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

LIBRARIES = Path(__file__).resolve().parent.parent / "build" / "default" / "lib"
NAMES = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32"}


def plain(q, k, v, allowed, bias, keep, scale):
    """softmax(scale q k^T + bias) v with the weights written out; a row without keys gives 0."""
    scores = (q @ k.transpose(-2, -1)) * scale
    if bias is not None:
        scores = scores + bias
        allowed = allowed & (bias != -math.inf)
    some = allowed.any(-1, keepdim=True)
    scores = torch.where(allowed, scores, torch.where(some, -math.inf, 0.0).to(scores.dtype))
    weights = torch.where(allowed, scores.softmax(-1), torch.zeros((), dtype=q.dtype, device=q.device))
    return (weights * keep.to(q.dtype)) @ v


def interval(queries, keys, causal, window):
    """bool (queries, keys): causal, and the window, aligned bottom right."""
    i = torch.arange(queries, device="cuda").unsqueeze(-1) + keys - queries
    j = torch.arange(keys, device="cuda")
    allowed = torch.ones(queries, keys, dtype=torch.bool, device="cuda")
    if causal:
        allowed &= j <= i
    if window[0] >= 0:
        allowed &= j >= i - window[0]
    if window[1] >= 0:
        allowed &= j <= i + window[1]
    return allowed


class Checker:
    def __init__(self):
        self.count = 0
        self.failures = []

    def close(self, what, got, exact, plain_result, factor):
        """The rule: at most `factor` times the error of plain attention in the same dtype, and 4 eps max|exact|."""
        self.count += 1
        error = (got.double() - exact).abs().max().item() if exact.numel() else 0.0
        plain_error = (plain_result.double() - exact).abs().max().item() if exact.numel() else 0.0
        largest = exact.abs().max().item() if exact.numel() else 0.0
        limit = factor * plain_error + 4 * torch.finfo(got.dtype).eps * max(largest, 1e-3)
        if not error <= limit:  # also where it is no number
            self.failures.append(f"{what}: error {error:.3g}, limit {limit:.3g}")

    def true(self, what, condition):
        self.count += 1
        if not condition:
            self.failures.append(what)


def padded(check, dtype, batch, heads, queries, keys, dim, value_dim, mask, dropout, bias_shape):
    what = f"{NAMES[dtype]} {batch}x{heads}x{queries}x{keys} d {dim}/{value_dim} {mask} p {dropout} bias {bias_shape}"
    generator = torch.Generator("cuda").manual_seed(queries * 1000 + keys)

    def random(*size):
        return torch.randn(*size, generator=generator, device="cuda").to(dtype)

    # Transposed views, as a projection makes them.
    q = random(batch, queries, heads, dim).transpose(1, 2)
    k = random(batch, keys, heads, dim).transpose(1, 2)
    v = random(batch, keys, heads, value_dim).transpose(1, 2)
    grad = random(batch, heads, queries, value_dim)
    causal = "causal" in mask
    window = (5, 3) if "window" in mask else (-1, -1)
    allowed = interval(queries, keys, causal, window).expand(batch, 1, queries, keys).clone()
    arguments = dict(causal=causal, window_left=window[0], window_right=window[1], dropout_p=dropout)
    j = torch.arange(keys, device="cuda")
    if "lens" in mask:
        lens = torch.tensor([(7 * b * keys // 11) % (keys + 1) for b in range(batch)], device="cuda")
        arguments["valid_lens"] = lens
        allowed &= j < lens.view(-1, 1, 1, 1)
        beyond = (j >= lens.view(-1, 1)).view(batch, 1, keys, 1)
        k, v = k.masked_fill(beyond, 0), v.masked_fill(beyond, 0)
        poisoned = [k.masked_fill(beyond, math.nan), v.masked_fill(beyond, math.nan)]
    elif "each" in mask:
        lens = torch.arange(batch * queries, device="cuda").mul(5).remainder(keys + 1).view(batch, queries)
        arguments["valid_lens"] = lens
        allowed &= j < lens.view(batch, 1, queries, 1)
    bias = None
    if bias_shape is not None:
        bias = random(*(n if wanted else 1 for n, wanted in zip((batch, heads, queries, keys), bias_shape)))
        bias = bias.masked_fill(torch.rand(bias.shape, generator=generator, device="cuda") < 0.1, -math.inf)
        arguments["bias"] = bias
    rng = torch.tensor([3, 5, 7])
    keep = torch.ones(batch, heads, queries, keys, dtype=torch.float64, device="cuda")
    if dropout > 0:
        arguments["rng"] = rng
        keep = torch.ops.fovea.dropout(keep, rng, dropout)
    scale = 1 / math.sqrt(dim)

    inputs = [q, k, v] + ([bias] if bias is not None else [])

    def run(function, tensors):
        leaves = [t.detach().clone(memory_format=torch.preserve_format).requires_grad_() for t in tensors]
        out = function(*leaves)
        return out, torch.autograd.grad(out, leaves, grad.to(out.dtype))

    def by_plain(q, k, v, bias=None):
        return plain(q, k, v, allowed, bias, keep, scale)

    def by_flash(q, k, v, bias=None):
        return torch.ops.fovea.flash_attention(q, k, v, **(arguments | {"bias": bias}))[0]

    exact, exact_grads = run(by_plain, [t.double() for t in inputs])
    rough, rough_grads = run(by_plain, inputs)
    used = list(inputs)
    if "lens" in mask:
        used[1:3] = poisoned
    got, got_grads = run(by_flash, used)
    check.close(f"{what}: output", got, exact, rough, 2)
    for name, a, b, c in zip(("dq", "dk", "dv", "dbias"), got_grads, exact_grads, rough_grads):
        check.close(f"{what}: {name}", a, b.masked_fill(b.isnan(), 0), c.masked_fill(c.isnan(), 0), 3)
    again, again_grads = run(by_flash, used)
    check.true(f"{what}: twice the same bits",
               torch.equal(got, again) and all(torch.equal(a, b) for a, b in zip(got_grads, again_grads)))


def packed(check, dtype, query_lengths, key_lengths, heads, dim, causal, dropout):
    what = f"{NAMES[dtype]} packed {query_lengths} {key_lengths} d {dim} causal {causal} p {dropout}"
    generator = torch.Generator("cuda").manual_seed(1)

    def random(total):
        return torch.randn(total, heads, dim, generator=generator, device="cuda").to(dtype).requires_grad_()

    def offsets(lengths):
        return torch.tensor([0, *itertools.accumulate(lengths)], dtype=torch.int32, device="cuda")

    q, k, v = random(sum(query_lengths)), random(sum(key_lengths)), random(sum(key_lengths))
    grad = torch.randn(q.shape, generator=generator, device="cuda").to(dtype)
    rng = torch.tensor([3, 5, 7])
    batch = len(query_lengths)
    keep = torch.ones(batch, heads, max(query_lengths), max(key_lengths), dtype=torch.float64, device="cuda")
    if dropout > 0:
        keep = torch.ops.fovea.dropout(keep, rng, dropout)
    out, _ = torch.ops.fovea.flash_attention(
        q, k, v, query_offsets=offsets(query_lengths), key_offsets=offsets(key_lengths), max_query=max(query_lengths),
        max_key=max(key_lengths), causal=causal, dropout_p=dropout, rng=rng if dropout > 0 else None)
    got = [out, *torch.autograd.grad(out, [q, k, v], grad)]

    def by_plain(kind):
        leaves = [t.detach().to(kind).requires_grad_() for t in (q, k, v)]
        parts = []
        starts = zip(itertools.accumulate([0, *query_lengths]), itertools.accumulate([0, *key_lengths]))
        for b, (n, m, (i, j)) in enumerate(zip(query_lengths, key_lengths, starts)):
            rows = [t[s:s + l].transpose(0, 1) for t, s, l in zip(leaves, (i, j, j), (n, m, m))]
            allowed = interval(n, m, causal, (-1, -1))
            parts.append(plain(*rows, allowed, None, keep[b, :, :n, :m], 1 / math.sqrt(dim)).transpose(0, 1))
        joined = torch.cat(parts)
        return [joined, *torch.autograd.grad(joined, leaves, grad.to(kind))]

    for name, a, b, c, factor in zip(("output", "dq", "dk", "dv"), got, by_plain(torch.float64), by_plain(dtype),
                                     (2, 3, 3, 3)):
        check.close(f"{what}: {name}", a, b, c, factor)


MASKS = ("none", "causal", "lens", "causal lens", "each", "window", "causal window")


def correct(check):
    dtypes = (torch.bfloat16, torch.float16, torch.float32)
    sizes = ((1, 1), (9, 9), (5, 2), (37, 37), (64, 64), (65, 1), (130, 257), (300, 200))
    dims = ((64, 64), (20, 33), (128, 128), (96, 40), (256, 256), (3, 5))
    for i, (dtype, (queries, keys), (dim, value_dim)) in enumerate(itertools.product(dtypes, sizes, dims)):
        for n, mask in enumerate(MASKS):
            if (i + n) % 3 == 0:  # a third of the grid, with every pair of values in it
                padded(check, dtype, 3, 2, queries, keys, dim, value_dim, mask, 0.0 if (i + n) % 2 else 0.2, None)
    for dtype, shape, (queries, keys) in itertools.product(
            dtypes, ((1, 1, 1, 1), (0, 1, 1, 1), (1, 0, 1, 1), (0, 0, 1, 1), (0, 1, 0, 1)), ((40, 50), (150, 130))):
        padded(check, dtype, 2, 3, queries, keys, 64, 64, "causal", 0.1, shape)
    for dtype, dim, causal, dropout in itertools.product(dtypes, (64, 40, 128), (False, True), (0.0, 0.3)):
        packed(check, dtype, [5, 0, 61, 1], [5, 3, 64, 0], 2, dim, causal, dropout)
        packed(check, dtype, [200, 1, 33], [200, 65, 33], 2, dim, causal, dropout)
    for dtype, causal in itertools.product(dtypes[:2], (False, True)):
        padded(check, dtype, 1, 2, 2048, 2048, 128, 128, "causal" if causal else "none", 0.0, None)


def small(check):
    for dtype in NAMES:
        for mask in ("causal lens", "each"):
            padded(check, dtype, 3, 2, 37, 40, 20, 64, mask, 0.2, None)
            padded(check, dtype, 2, 2, 70, 133, 64, 64, mask, 0.2, (0, 1, 1, 1))
        padded(check, dtype, 1, 1, 140, 70, 128, 128, "causal", 0.2, None)
        padded(check, dtype, 1, 1, 70, 70, 256, 256, "none", 0.0, None)
        packed(check, dtype, [5, 0, 61, 1], [5, 3, 64, 0], 2, 64, True, 0.3)


def milliseconds(function, seconds=0.15):
    function()
    torch.cuda.synchronize()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times, begun = [], time.monotonic()
    while len(times) < 5 or (time.monotonic() - begun < seconds and len(times) < 100):
        start.record()
        function()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return sorted(times)[len(times) // 2]


def timed_pair(function, tensors, grad):
    """Milliseconds of forward and of backward; None where the backend refuses."""
    try:
        with torch.no_grad():
            forward = milliseconds(lambda: function(*tensors))
        leaves = [t.detach().requires_grad_() for t in tensors]
        out = function(*leaves)
        backward = milliseconds(lambda: torch.autograd.grad(out, leaves, grad, retain_graph=True))
        return forward, backward
    except RuntimeError:
        return None


def speed():
    backends = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION,
                "efficient": SDPBackend.EFFICIENT_ATTENTION, "math": SDPBackend.MATH}
    print(torch.cuda.get_device_name(), "bf16, milliseconds of forward / backward")
    print(f"{'shape':34}" + "".join(f"{n:>18}" for n in ("fovea", *backends)) + f"{'TFLOP/s':>14}")
    shapes = [(4, 16, n, d, mask) for d in (64, 128) for n in (1024, 2048, 8192) for mask in ("none", "causal")]
    shapes += [(128, 4, 9, 64, "lens"), (128, 8, 37, 64, "none"), (256, 8, 64, 64, "lens")]
    for batch, heads, steps, dim, mask in shapes:
        q, k, v, grad = (torch.randn(batch, steps, heads, dim, device="cuda").to(torch.bfloat16).transpose(1, 2)
                         for _ in range(4))
        lens = torch.randint(1, steps + 1, (batch,), device="cuda") if mask == "lens" else None
        causal = mask == "causal"
        attention_mask = None
        if lens is not None:
            attention_mask = (torch.arange(steps, device="cuda") < lens.view(-1, 1)).view(batch, 1, 1, steps)

        def fovea(q, k, v):
            return torch.ops.fovea.flash_attention(q, k, v, valid_lens=lens, causal=causal)[0]

        def torch_attention(q, k, v):
            return F.scaled_dot_product_attention(q, k, v, attn_mask=attention_mask, is_causal=causal)

        results = {"fovea": timed_pair(fovea, (q, k, v), grad)}
        for name, backend in backends.items():
            if name == "math" and steps > 2048:
                results[name] = None
                continue
            with sdpa_kernel(backend):
                results[name] = timed_pair(torch_attention, (q, k, v), grad)
        row = f"{f'{batch}x{heads}x{steps}x{dim} {mask}':34}"
        for times in results.values():
            row += f"{f'{times[0]:.3f} / {times[1]:.3f}' if times else '-':>18}"
        flops = 4 * batch * heads * steps * steps * dim * (0.5 if causal else 1)
        mine = results["fovea"]
        if mine:
            row += f"{f'{flops / mine[0] / 1e9:.0f} / {2.5 * flops / mine[1] / 1e9:.0f}':>14}"
        print(row, flush=True)


def main():
    torch.ops.load_library(LIBRARIES / "libfovea_ops.so")
    torch.ops.load_library(LIBRARIES / "libfovea_ops_cuda.so")
    # Plain attention is to be that of its dtype.
    torch.backends.cuda.matmul.allow_tf32 = False
    if sys.argv[1] == "speed":
        speed()
        return 0
    begun = time.monotonic()
    check = Checker()
    {"correct": correct, "small": small}[sys.argv[1]](check)
    torch.cuda.synchronize()
    for failure in check.failures[:40]:
        print("FAILED", failure)
    print(f"{sys.argv[1]}: {check.count - len(check.failures)} of {check.count} checks passed, "
          f"{time.monotonic() - begun:.0f} s")
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
