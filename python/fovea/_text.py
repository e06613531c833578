"""fovea's text pipeline, as src/fovea/data has it: from a line to tokens to ids, and back."""

import pathlib
import re
import unicodedata
import zlib
from typing import Iterable, Sequence

_MAGIC = 'fovea-vocabulary 1'


def normalize(line: str) -> str:
    """Unicode NFC, single spaces, none at either end."""
    return ' '.join(unicodedata.normalize('NFC', line).split())


_INVISIBLE = {0xAD, 0x61C, 0x200B, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2060, 0x2065),
              *range(0x2066, 0x206A), 0xFEFF}


def _is_joined(c: str) -> bool:
    """Whether a joiner beside it may have something to join."""
    code = ord(c)
    return code >= 0x590 and not c.isspace() and not 0x2000 <= code <= 0x206F and not 0x3000 <= code <= 0x303F


def unify_characters(text: str) -> str:
    """Drops characters without a shape, joiners where they join nothing, and turns the apostrophe U+2019 into '."""
    chars = [c for c in text if ord(c) not in _INVISIBLE]
    kept, open_quotes = [' '], 0
    for c, after in zip(chars, [*chars[1:], ' ']):
        before = kept[-1]
        if c == '\u200c' and not (_is_joined(before) and _is_joined(after)) or c == '\u200d' and not _is_joined(before):
            continue
        if c == '\u2018':
            open_quotes += 1
        if c == '\u2019':
            if open_quotes == 0 or all(unicodedata.category(d)[0] in 'LMN' for d in (before, after)):
                c = "'"
            else:
                open_quotes -= 1
        kept.append(c)
    return ''.join(kept[1:])


def _words(line: str, lowercase: bool) -> list[str]:
    line = normalize(line)
    if lowercase:
        line = line.lower()
    return re.sub(r'(?<=[^ ])([,.!?])', r' \1', line).split(' ') if line else []


def _join_words(tokens: Iterable[str]) -> str:
    return re.sub(r' (?=[,.!?])', '', ' '.join(tokens))


def _characters(line: str, lowercase: bool) -> list[str]:
    line = normalize(line)
    return list(normalize(line.lower()) if lowercase else line)


TOKENIZERS = {'words': (_words, _join_words), 'characters': (_characters, ''.join)}


class Vocabulary:
    """Tokens and their ids, with the tokenizer that cuts text into them.

    Attributes:
        tokens: a list, by id.
        reserved: {token: id} of <pad>, <bos>, <eos>, <unk>: text never reaches these.
        pad, bos, eos, unk: their ids.
    """

    def __init__(self, tokens: Sequence[str], reserved: Iterable[str], tokenizer: str = 'words',
                 lowercase: bool = True, unify: bool = True):
        self.tokens = list(tokens)
        ids = {token: i for i, token in enumerate(self.tokens)}
        self.reserved = {token: ids[token] for token in reserved}
        self._ids = {token: i for token, i in ids.items() if token not in self.reserved}
        self.pad, self.bos, self.eos, self.unk = (self.reserved[f'<{name}>'] for name in ('pad', 'bos', 'eos', 'unk'))
        self._cut, self._join = TOKENIZERS[tokenizer]
        self._lowercase, self._unify = lowercase, unify

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, token: str) -> int:
        """The id of a token of text, unk where it is none."""
        return self._ids.get(token, self.unk)

    def encode(self, line: str) -> list[int]:
        """The ids of a line, without <bos> and <eos>; none for a blank line."""
        line = unify_characters(line) if self._unify else line
        return [self[token] for token in self._cut(line, self._lowercase)]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of the ids up to the first <eos>."""
        kept = []
        for i in ids:
            if i == self.eos:
                break
            if i not in (self.bos, self.pad):
                kept.append(self.tokens[i])
        return self._join(kept)

    @staticmethod
    def load(path: pathlib.Path, tokenizer: str = 'words', lowercase: bool = True, unify: bool = True) -> 'Vocabulary':
        data = path.read_bytes()
        header, _, body = data.partition(b'\n')
        header = header.decode('utf-8', 'replace')
        found = re.fullmatch(re.escape(_MAGIC) + r' tokens=(\d+) crc32=([0-9a-f]{8})', header)
        if not found:
            raise ValueError(f'{path}: expected a vocabulary ("{_MAGIC} ..."), found {header[:60]!r}')
        if zlib.crc32(body) != int(found[2], 16):
            raise ValueError(f'{path}: the file was changed after it was written (its checksum does not fit)')
        reserved, *tokens = body.decode('utf-8').split('\n')[:-1]
        return Vocabulary([_unescape(token) for token in tokens], map(_unescape, reserved.split('\t')[1:]), tokenizer,
                          lowercase, unify)


def _unescape(token: str) -> str:
    return re.sub(r'\\(\\|x[0-9a-f]{2})', lambda m: '\\' if m[1] == '\\' else chr(int(m[1][1:], 16)), token)
