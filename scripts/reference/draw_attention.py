"""Draws which words a trained translator looks at: docs/attention.svg.

    scripts/quickstart
    cd scripts/reference
    ../../.venv/bin/python draw_attention.py ../../runs/quickstart "He wants some yellow socks." -o ../../docs/attention.svg

The weights are those of cross-attention in the decoder's last block, the mean over its heads, while the model
translates by greedy search. The run's own parameters are put into the Python twin (transformer.py), which keeps the
weights.
"""

import argparse
import json
import pathlib
import re
import unicodedata
from xml.sax.saxutils import escape

import torch
from safetensors.torch import load_file

from transformer import make_translator

STYLE = """\
text { font: 15px system-ui, sans-serif; fill: #1f2328; }
.small { font-size: 12.5px; fill: #59636e; }
.cell { fill: #0969da; }
.frame { fill: none; stroke: #d1d9e0; }
.back { fill: #ffffff; }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc; }
  .small { fill: #9198a1; }
  .cell { fill: #4493f8; }
  .frame { stroke: #3d444d; }
  .back { fill: #0d1117; }
}
"""
CAPTION = ['Each row: how much the model attends to each English word',
           'while it writes the French word on the left.']


def tokens_of(text):
    text = ' '.join(unicodedata.normalize('NFC', text).lower().split())
    return re.sub(r'(?<=[^ ])([,.!?])', r' \1', text).split(' ')


def vocabulary(path):
    """The tokens of a vocabulary file, in the order of their ids."""
    return path.read_text(encoding='utf-8').split('\n')[2:-1]  # after two lines about the file


@torch.no_grad()
def attend(model, source, bos, eos, longest=24):
    """Greedy search: the tokens with `eos`, and for each the weights (source tokens)."""
    model.eval()
    lens = torch.tensor([len(source)])
    state = model.decoder.init_state(model.encoder(torch.tensor([source]), lens), lens)
    tokens, rows = [bos], []
    while tokens[-1] != eos and len(rows) < longest:
        logits, state = model.decoder(torch.tensor([tokens[-1:]]), state)
        tokens.append(int(logits[0, -1].argmax()))
        rows.append(model.decoder.attention_weights[1][-1][:, -1].mean(0))  # over the heads
    return tokens[1:], torch.stack(rows)


def draw(columns, rows, weights, size=36, left=116, top=78):
    width, height = max(440, left + size * len(columns) + 16), top + size * len(rows) + 62
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
             f'viewBox="0 0 {width} {height}" role="img">',
             f'<title>Cross-attention of a trained translator: {escape(" ".join(columns))}</title>',
             f'<style>\n{STYLE}</style>',
             f'<rect class="back" width="{width}" height="{height}" rx="8"/>']
    for j, word in enumerate(columns):
        x = left + size * (j + 0.5)
        parts.append(f'<text x="{x}" y="{top - 10}" transform="rotate(-40 {x} {top - 10})">{escape(word)}</text>')
    for i, word in enumerate(rows):
        y = top + size * i
        parts.append(f'<text x="{left - 12}" y="{y + size / 2 + 5}" text-anchor="end">{escape(word)}</text>')
        for j in range(len(columns)):
            weight = float(weights[i, j])
            x = left + size * j
            parts.append(f'<rect class="cell" x="{x}" y="{y}" width="{size}" height="{size}" '
                         f'fill-opacity="{weight:.3f}"><title>{weight:.2f}</title></rect>')
            parts.append(f'<rect class="frame" x="{x}" y="{y}" width="{size}" height="{size}"/>')
    y = top + size * len(rows)
    for line, text in enumerate(CAPTION):
        parts.append(f'<text class="small" x="14" y="{y + 28 + 18 * line}">{text}</text>')
    return '\n'.join([*parts, '</svg>', ''])


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('run', type=pathlib.Path)
    parser.add_argument('text')
    parser.add_argument('-o', '--output', type=pathlib.Path, required=True)
    args = parser.parse_args()
    best = args.run / 'checkpoints/best'
    source, target = (vocabulary(best / f'{side}.vocab') for side in ('source', 'target'))
    weights = load_file(best / 'model.safetensors')
    blocks = {name.split('.')[2] for name in weights if name.startswith('decoder.blks.')}
    num_hiddens = weights['encoder.embedding.weight'].shape[1]
    heads = int(re.search(r'num_heads: (\d+)', (best / 'config.yaml').read_text())[1])
    twin = make_translator(len(source), len(target), target.index('<pad>'), num_hiddens,
                           weights['decoder.blks.block0.ffn.dense1.weight'].shape[0], heads, len(blocks))
    missing, extra = twin.load_state_dict(weights, strict=False)
    assert not extra and not missing, (missing, extra)
    words = [*tokens_of(args.text), '<eos>']
    ids = [source.index(word) for word in words]
    found, attention = attend(twin, ids, target.index('<bos>'), target.index('<eos>'))
    translation = [target[i] for i in found]
    print(json.dumps({'translation': ' '.join(translation)}, ensure_ascii=False))
    args.output.write_text(draw([w if w != '<eos>' else 'end' for w in words],
                                [w if w != '<eos>' else 'end' for w in translation], attention), encoding='utf-8')
