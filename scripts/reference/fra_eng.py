"""d2l's English-French corpus (`MTFraEng`), read from a local file."""

from d2l import torch as d2l


class FraEng(d2l.MTFraEng):
    """`d2l.MTFraEng` on the file at `path` (lines of English, tab, French), with one change.

    A sentence longer than num_steps keeps `<eos>` as its last token; d2l cuts it off together with the words that do
    not fit. Both the source and the target are treated so.

    As in d2l: text is lower-cased, U+202F and U+00A0 become spaces, `,.!?` are set apart; sentences and vocabularies
    come from the first num_train + num_val + 1 lines (its loop reads one line more than it says, so the validation
    split has num_val + 1 pairs); tokens seen once are `<unk>`.
    """

    def __init__(self, path, batch_size=128, num_steps=9, num_train=512, num_val=128):
        self._path = path
        super().__init__(batch_size, num_steps, num_train, num_val)

    def _download(self):
        with open(self._path, encoding='utf-8') as f:
            return f.read()

    def _tokenize(self, text, max_examples=None):
        def keep_eos(sentences):
            n = self.num_steps
            return [tokens if len(tokens) <= n else tokens[:n - 1] + tokens[-1:] for tokens in sentences]
        src, tgt = super()._tokenize(text, max_examples)
        return keep_eos(src), keep_eos(tgt)
