"""Translates with a file that `fovea export RUN -o model.pt` wrote. Needs torch, and nothing of fovea.

    python translate.py model.pt "It's cold in Spain."
    python translate.py model.pt --beam 4 < lines.txt
"""

import argparse
import re
import sys
import unicodedata

try:
    import torch
except ImportError as error:
    sys.exit(f'error: {error}; this example needs torch as pip installs it (here: scripts/setup --full)')

# Characters without a shape, and the ones whose shape a joiner may change: see `unify`.
INVISIBLE = '\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff'
JOINED = f'(?:(?![\\s{INVISIBLE}\u2000-\u206f\u3000-\u303f])[\u0590-\U0010ffff])'


def unify(text):
    """The text as one sees it: nothing without a shape, joiners only where they join, U+2019 as an apostrophe unless it
    closes a quotation that U+2018 opened."""
    text = re.sub(f'[{INVISIBLE}]', '', text)
    text = re.sub(f'(?<!{JOINED})\u200d|(?<!{JOINED})\u200c|\u200c(?!{JOINED})', '', text)
    out, open_quotes = [], 0
    for i, c in enumerate(text):
        inside = 0 < i < len(text) - 1 and all(unicodedata.category(x)[0] in 'LMN' for x in text[i - 1:i + 2:2])
        open_quotes += c == '\u2018'
        if c == '\u2019' and (inside or not open_quotes):
            c = "'"
        open_quotes -= c == '\u2019'
        out.append(c)
    return ''.join(out)


class Translator:
    def __init__(self, path):
        files = dict.fromkeys(['source_tokens.txt', 'target_tokens.txt'], '')
        self.model = torch.jit.load(path, map_location='cpu', _extra_files=files)
        source, self.target = (text.decode('utf-8').split('\n')[:-1] for text in files.values())
        self.tokenizer = getattr(self.model, 'tokenizer', 'words')
        if self.tokenizer not in ('words', 'characters'):
            sys.exit(f'{path}: expected a tokenizer of words or characters, found {self.tokenizer}')
        # A text that says "<eos>" does not mean the end: reserved tokens are reached by number only.
        self.ids = {token: i for i, token in enumerate(source) if token not in self.model.source_reserved}

    def tokenize(self, text):
        """As in training: composed characters, single spaces, lower case; words, with punctuation marks on their own,
        or characters."""
        if getattr(self.model, 'unify_characters', False):
            text = unify(text)
        text = ' '.join(unicodedata.normalize('NFC', text).split())
        if self.model.lowercase:
            text = text.lower()
        if self.tokenizer == 'characters':
            return list(unicodedata.normalize('NFC', text))
        return re.sub(r'(?<=[^ ])([,.!?])', r' \1', text).split(' ') if text else []

    def encode(self, text):
        """Ids and <eos>, cut to what the model takes; nothing for a blank text."""
        tokens = self.tokenize(text)[:self.model.num_steps - 1]
        return [self.ids.get(token, self.model.source_unk) for token in tokens] + [self.model.source_eos] * bool(tokens)

    def decode(self, ids):
        if self.tokenizer == 'characters':
            return ''.join(self.target[i] for i in ids)
        return re.sub(r' (?=[,.!?])', '', ' '.join(self.target[i] for i in ids))

    @torch.no_grad()
    def __call__(self, texts, beam=1):
        """One translation for each text."""
        sources = [self.encode(text) for text in texts]
        valid_lens = torch.tensor([len(source) for source in sources])
        padded = torch.full((len(sources), max(1, valid_lens.max())), self.model.source_pad)
        for row, source in zip(padded, sources):
            row[:len(source)] = torch.tensor(source)
        tokens, lengths, _ = self.model.generate(padded, valid_lens, beam)  # (batch, n_best = 1, steps)
        return [self.decode(row[:length]) for row, length in zip(tokens[:, 0].tolist(), lengths[:, 0].tolist())]


def batches(lines, size=64):
    lines = [line.rstrip('\r\n') for line in lines]
    return (lines[i:i + size] for i in range(0, len(lines), size))


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description='Translate with an exported model: one output line for each input line.')
    parser.add_argument('model')
    parser.add_argument('text', nargs='*', help='sentences; without any, lines of the standard input')
    parser.add_argument('--beam', type=int, default=1, help='hypotheses kept; 1 is greedy search')
    args = parser.parse_intermixed_args()
    sys.stdin.reconfigure(encoding='utf-8-sig', newline='\n')
    sys.stdout.reconfigure(encoding='utf-8')
    translate = Translator(args.model)
    for batch in batches(args.text or sys.stdin):
        print('\n'.join(translate(batch, args.beam)))
