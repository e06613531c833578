"""Live parity: a run that fovea trained, loaded into the Python twin, gives the same loss and translations."""

import re
import sys
import unicodedata

import pytest
import torch
from conftest import ROOT, write_lines
from safetensors.torch import load_file

sys.path.insert(0, str(ROOT / 'scripts' / 'reference'))

from transformer import make_translator  # noqa: E402

NUM_STEPS = 8


def vocabulary(path):
    """{token: id} of a vocabulary file: a header, the reserved tokens, then one token a line."""
    lines = path.read_text(encoding='utf-8').split('\n')[2:-1]
    return {token: i for i, token in enumerate(lines)}


def tokens_of(text):
    """fovea's text pipeline, written down once more: NFC, single spaces, lower case, d2l's punctuation."""
    text = ' '.join(unicodedata.normalize('NFC', text).split()).lower()
    return re.sub(r'(?<=[^ ])([,.!?])', r' \1', text).split(' ')


def text_of(tokens):
    return re.sub(r' ([,.!?])', r'\1', ' '.join(tokens))


def pad(rows, fill):
    longest = max(map(len, rows))
    return torch.tensor([row + [fill] * (longest - len(row)) for row in rows])


class Twin:
    def __init__(self, run):
        folder = run.path / 'checkpoints' / 'best'
        self.src, self.tgt = (vocabulary(folder / f'{side}.vocab') for side in ('source', 'target'))
        self.words = list(self.tgt)
        self.model = make_translator(len(self.src), len(self.tgt), self.tgt['<pad>'], num_hiddens=16,
                                     ffn_num_hiddens=32, num_heads=2, num_blks=1, dropout=0.1)
        self.model.load_state_dict(load_file(folder / 'model.safetensors'))
        self.model.eval()

    def encode(self, texts, ids):
        rows = [[ids.get(token, ids['<unk>']) for token in tokens_of(text)] + [ids['<eos>']] for text in texts]
        assert max(map(len, rows)) <= NUM_STEPS
        return rows

    @torch.no_grad()
    def loss(self, pairs):
        sources, labels = (self.encode(side, ids) for side, ids in zip(zip(*pairs), (self.src, self.tgt)))
        src, label = pad(sources, self.src['<pad>']), pad(labels, self.tgt['<pad>'])
        tgt = torch.cat([torch.full((len(pairs), 1), self.tgt['<bos>']), label[:, :-1]], dim=1)
        lens = torch.tensor([len(row) for row in sources])
        total, count = self.model.loss_terms(self.model(src, tgt, lens), label)
        return (total / count).item(), int(count)

    @torch.no_grad()
    def translate(self, texts):
        rows = self.encode(texts, self.src)
        lens = torch.tensor([len(row) for row in rows])
        best = self.model.greedy(pad(rows, self.src['<pad>']), lens, self.tgt['<bos>'], NUM_STEPS)
        for row in best.tolist():
            tokens = [self.words[i] for i in row]
            yield text_of(tokens[:tokens.index('<eos>')] if '<eos>' in tokens else tokens)


@pytest.fixture(scope='module')
def twin(trained):
    torch.set_num_threads(1)
    return Twin(trained)


def test_the_loss_is_the_twins(fovea, trained, twin):
    result = fovea.json('evaluate', trained)
    loss, count = twin.loss(trained.test)
    assert result['tokens'] == count
    assert result['loss'] == pytest.approx(loss, abs=1e-4)


def test_greedy_translations_are_the_twins(fovea, trained, twin, tmp_path):
    write_lines(tmp_path / 'in.txt', trained.sources)
    ours, theirs = fovea.translate(trained, '--input', 'in.txt'), list(twin.translate(trained.sources))
    assert ours == theirs
    assert len(set(ours)) > 10
