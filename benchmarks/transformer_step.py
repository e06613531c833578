"""Whole training steps of the Python twin in d2l's fra-eng setting: load, forward, backward, clip, update.

    python benchmarks/transformer_step.py --path fra.txt --variant d2l --threads 2 --steps 20 --rounds 5

Variants:
  d2l   as the book writes it: its layers, its data loader, its gradient clipping, `torch.optim.Adam`.
  best  the same model and mathematics with PyTorch's fast parts: scaled_dot_product_attention, fused Adam,
        clip_grad_norm_, batches cut from the arrays with index_select; torch.compile with --compile.

One line of JSON for each round: {"variant", "round", "steps", "tokens", "tokens_per_second", "median_ms_per_step",
"cpu_ms_per_step", "loss"}. Tokens are valid target tokens; `tokens_per_second` is over the round's whole time.
`cpu_ms_per_step` is processor time over all threads, which says more on a machine that is busy with other work.

With --interleave a round waits for a line on stdin, so that a driver can alternate rounds with another program; nothing
at all, not even the import of torch, is done before the first line. Warm-up steps precede the first round, unmeasured.
"""

import argparse
import json
import pathlib
import statistics
import sys
import time

REFERENCE = pathlib.Path(__file__).resolve().parents[1] / 'scripts' / 'reference'


def endless_d2l(data):
    while True:
        yield from data.train_dataloader()


def endless_fast(data):
    import torch
    arrays = [array[:data.num_train] for array in data.arrays]
    while True:
        for indices in torch.randperm(data.num_train).split(data.batch_size):
            yield [array.index_select(0, indices) for array in arrays]


def use_fast_attention(model):
    """Replaces the forward pass of every d2l.MultiHeadAttention; the parameters stay."""
    import torch
    from d2l import torch as d2l
    from torch.nn import functional as F

    def forward(self, queries, keys, values, valid_lens):
        split = lambda X: X.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        mask = torch.arange(keys.shape[1], device=keys.device) < valid_lens[..., None]
        mask = mask[:, None, None] if valid_lens.dim() == 1 else mask[:, None]
        heads = F.scaled_dot_product_attention(
            split(self.W_q(queries)), split(self.W_k(keys)), split(self.W_v(values)), attn_mask=mask,
            dropout_p=self.attention.dropout.p if self.training else 0.0)
        return self.W_o(heads.transpose(1, 2).flatten(2))

    for module in model.modules():
        if isinstance(module, d2l.MultiHeadAttention):
            module.forward = forward.__get__(module)
            module.attention.attention_weights = None  # not computed


def make_step(args):
    """Returns (step, batches): step(batch) trains on a batch and returns its loss, a tensor."""
    sys.path.insert(0, str(REFERENCE))
    import torch
    from fra_eng import FraEng
    from transformer import clip_gradients, make_translator

    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    data = FraEng(args.path)
    model = make_translator(len(data.src_vocab), len(data.tgt_vocab), data.tgt_vocab['<pad>'], dropout=args.dropout)
    model.train()

    if args.variant == 'd2l':
        optimizer = torch.optim.Adam(model.parameters(), lr=model.lr)

        def step(batch):
            loss = model.training_step(batch)
            optimizer.zero_grad()
            loss.backward()
            with torch.no_grad():
                clip_gradients(1, model)
                optimizer.step()
            return loss
        return step, endless_d2l(data), data

    use_fast_attention(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=model.lr, fused=True)
    parameters = list(model.parameters())

    def compute_loss(src, tgt, src_valid_len, label):
        logits = model(src, tgt, src_valid_len)
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), label.flatten(), ignore_index=model.tgt_pad)

    if args.compile:
        compute_loss = torch.compile(compute_loss)

    def step(batch):
        loss = compute_loss(*batch)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        return loss
    return step, endless_fast(data), data


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--path', required=True, help='fra.txt')
    parser.add_argument('--variant', choices=('d2l', 'best'), default='d2l')
    parser.add_argument('--compile', action='store_true', help='torch.compile the loss (variant best)')
    parser.add_argument('--threads', type=int, default=2)
    parser.add_argument('--steps', type=int, default=20, help='steps in a round')
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--warmup', type=int, default=8, help='unmeasured steps before the first round')
    parser.add_argument('--dropout', type=float, default=0.2)
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--interleave', action='store_true', help='wait for a line on stdin before each round')
    args = parser.parse_args()
    if args.compile and args.variant != 'best':
        parser.error('--compile goes with --variant best')

    step = None
    for index in range(args.rounds):
        if args.interleave and not sys.stdin.readline():
            break
        if step is None:
            step, batches, data = make_step(args)
            for _ in range(args.warmup):
                step(next(batches))
        times, tokens = [], 0
        start, cpu_start = time.perf_counter(), time.process_time()
        for _ in range(args.steps):
            step_start = time.perf_counter()
            batch = next(batches)
            loss = step(batch)
            tokens += int((batch[-1] != data.tgt_vocab['<pad>']).sum())
            times.append(time.perf_counter() - step_start)
        seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
        print(json.dumps({
            'variant': args.variant + ('+compile' if args.compile else ''), 'round': index, 'steps': args.steps,
            'tokens': tokens, 'tokens_per_second': round(tokens / seconds, 1),
            'median_ms_per_step': round(1000 * statistics.median(times), 3),
            'cpu_ms_per_step': round(1000 * cpu_seconds / args.steps, 3), 'loss': round(loss.item(), 4)}),
            flush=True)


if __name__ == '__main__':
    main()
