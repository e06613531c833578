"""Whole training steps of the vision Transformer's Python twin on images made up: forward, backward, clip, update.

    python benchmarks/vit_step.py --variant d2l --image 96 --patch 16 --threads 2

Variants:
  d2l   as the book writes it: its layers, its gradient clipping, torch.optim's optimizer.
  best  the same model and mathematics with PyTorch's fast parts: scaled_dot_product_attention, fused optimizer,
        clip_grad_norm_; torch.compile with --compile.

One line of JSON for each round: {"variant", "ms_per_step"}. With --interleave a round waits for a line on stdin, so that
a driver can alternate rounds with another program; nothing is done before the first line but to read the arguments.
"""

import argparse
import json
import pathlib
import sys
import time

REFERENCE = pathlib.Path(__file__).resolve().parents[1] / 'scripts' / 'reference'


def use_fast_attention(model):
    """Replaces the forward pass of every d2l.MultiHeadAttention; the parameters stay."""
    from d2l import torch as d2l
    from torch.nn import functional as F

    def forward(self, queries, keys, values, valid_lens):
        assert valid_lens is None
        split = lambda X: X.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        heads = F.scaled_dot_product_attention(
            split(self.W_q(queries)), split(self.W_k(keys)), split(self.W_v(values)),
            dropout_p=self.attention.dropout.p if self.training else 0.0)
        return self.W_o(heads.transpose(1, 2).flatten(2))

    for module in model.modules():
        if isinstance(module, d2l.MultiHeadAttention):
            module.forward = forward.__get__(module)


def make_step(args):
    sys.path.insert(0, str(REFERENCE))
    import torch
    from transformer import clip_gradients
    from vit import ViT

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    model = ViT(args.image, args.patch, args.hiddens, args.mlp, args.heads, args.blks, args.dropout, args.dropout)
    model.train()
    image, label = torch.randn(args.batch, 1, args.image, args.image), torch.randint(10, (args.batch,))
    fast = args.variant == 'best'
    make = {'sgd': torch.optim.SGD, 'adamw': torch.optim.AdamW}[args.optimizer]
    optimizer = make(model.parameters(), lr=1e-3, **({'fused': True} if fast else {}))
    parameters = list(model.parameters())
    if fast:
        use_fast_attention(model)

    def compute_loss(image, label):
        return torch.nn.functional.cross_entropy(model(image), label)

    if args.compile:
        compute_loss = torch.compile(compute_loss)

    def step():
        loss = compute_loss(image, label)
        optimizer.zero_grad()
        loss.backward()
        if fast:
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        else:
            with torch.no_grad():
                clip_gradients(1, model)
        optimizer.step()
    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--variant', choices=('d2l', 'best'), default='d2l')
    parser.add_argument('--compile', action='store_true', help='torch.compile the loss (variant best)')
    parser.add_argument('--optimizer', choices=('sgd', 'adamw'), default='sgd')
    for name, default in (('image', 96), ('patch', 16), ('hiddens', 512), ('mlp', 2048), ('heads', 8), ('blks', 2),
                          ('batch', 128), ('threads', 2), ('steps', 4), ('rounds', 5), ('warmup', 2)):
        parser.add_argument(f'--{name}', type=int, default=default)
    parser.add_argument('--dropout', type=float, default=0.1)
    parser.add_argument('--interleave', action='store_true', help='wait for a line on stdin before each round')
    args = parser.parse_args()
    if args.compile and args.variant != 'best':
        parser.error('--compile goes with --variant best')

    step = None
    for _ in range(args.rounds):
        if args.interleave and not sys.stdin.readline():
            break
        if step is None:
            step = make_step(args)
            for _ in range(args.warmup):
                step()
        start = time.perf_counter()
        for _ in range(args.steps):
            step()
        print(json.dumps({'variant': args.variant + ('+compile' if args.compile else ''),
                          'ms_per_step': 1000 * (time.perf_counter() - start) / args.steps}), flush=True)


if __name__ == '__main__':
    main()
