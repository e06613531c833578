"""The recurrent translators of sections 10.7 and 11.4: d2l's encoder, and the decoders that d2l's package lacks.

Attribute names are the book's, therefore `state_dict()` keys are the parameter names of the C++ model. One thing differs
on purpose, as it does in fovea: the encoder stops at the end of each sentence; the book's reads the padding too.
"""

import torch
from d2l import torch as d2l
from torch import nn

from transformer import TransformerTranslator


class PackedEncoder(d2l.Seq2SeqEncoder):
    """d2l's encoder without the padding. Gives (outputs (steps, batch, hiddens), state (layers, batch, hiddens))."""

    def forward(self, X, valid_len):
        packed = nn.utils.rnn.pack_padded_sequence(self.embedding(X), valid_len, batch_first=True,
                                                   enforce_sorted=False)
        outputs, state = self.rnn.rnn(packed)
        return nn.utils.rnn.pad_packed_sequence(outputs, total_length=X.shape[1])[0], state


class ContextDecoder(d2l.Decoder):
    """Begins with the encoder's state and sees its last output at each step."""

    def __init__(self, vocab_size, embed_size, num_hiddens, num_layers, dropout=0):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embed_size)
        self.rnn = d2l.GRU(embed_size + num_hiddens, num_hiddens, num_layers, dropout)
        self.dense = nn.Linear(num_hiddens, vocab_size)

    def init_state(self, enc_all_outputs, enc_valid_lens):
        _, state = enc_all_outputs
        return [state[-1], state]  # the last layer's state is its output at the last token

    def forward(self, X, state):
        context, hidden = state
        embs = self.embedding(X).transpose(0, 1)  # (steps, batch, embed_size)
        inputs = torch.cat([embs, context.expand(len(embs), -1, -1)], -1)
        outputs, hidden = self.rnn(inputs, hidden)
        return self.dense(outputs).transpose(0, 1), [context, hidden]


class BahdanauDecoder(d2l.AttentionDecoder):
    """At each step the last layer's state asks all the encoder's outputs."""

    def __init__(self, vocab_size, embed_size, num_hiddens, num_layers, dropout=0):
        super().__init__()
        self.attention = d2l.AdditiveAttention(num_hiddens, dropout)
        self.embedding = nn.Embedding(vocab_size, embed_size)
        self.rnn = nn.GRU(embed_size + num_hiddens, num_hiddens, num_layers, dropout=dropout)
        self.dense = nn.Linear(num_hiddens, vocab_size)

    def init_state(self, enc_all_outputs, enc_valid_lens):
        outputs, hidden = enc_all_outputs
        return [outputs.transpose(0, 1), hidden, enc_valid_lens]

    def forward(self, X, state):
        enc_outputs, hidden, enc_valid_lens = state
        outputs, self._attention_weights = [], []
        for x in self.embedding(X).transpose(0, 1):
            context = self.attention(hidden[-1][:, None], enc_outputs, enc_outputs, enc_valid_lens)
            out, hidden = self.rnn(torch.cat([context, x[:, None]], -1).transpose(0, 1), hidden)
            outputs.append(out)
            self._attention_weights.append(self.attention.attention_weights)
        return self.dense(torch.cat(outputs)).transpose(0, 1), [enc_outputs, hidden, enc_valid_lens]

    @property
    def attention_weights(self):
        """(batch, 1, target steps, source steps)."""
        return torch.cat(self._attention_weights, 1)[:, None]


def make_translator(decoder, src_vocab_size, tgt_vocab_size, tgt_pad, embed_size, num_hiddens, num_layers, dropout=0,
                    lr=0.001):
    """decoder: ContextDecoder or BahdanauDecoder."""
    model = TransformerTranslator(PackedEncoder(src_vocab_size, embed_size, num_hiddens, num_layers, dropout),
                                  decoder(tgt_vocab_size, embed_size, num_hiddens, num_layers, dropout),
                                  tgt_pad=tgt_pad, lr=lr)
    tokens = torch.zeros((1, 1), dtype=torch.int64)
    with torch.no_grad():
        model(tokens, tokens, torch.ones(1, dtype=torch.int64))  # gives the lazy layers their sizes
    model.apply(d2l.init_seq2seq)
    return model
