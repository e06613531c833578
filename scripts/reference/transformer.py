"""The Python twin of fovea's Transformer: d2l's encoder, and the decoder that d2l's package lacks.

d2l 1.0.3 ships the encoder half of chapter 11.7 (`TransformerEncoder` and everything below it) but not the
decoder, so the decoder is written here on top of d2l's own layers. Attribute names are the book's, therefore
`state_dict()` keys are the parameter names of the C++ model (`encoder.blks.block0.attention.W_q.weight`,
`decoder.blks.block1.attention2.W_o.weight`, `decoder.dense.bias`, ...).

Two things differ from the book on purpose, as they do in fovea:

* the decoder's self-attention is causal in evaluation mode too (the book drops the mask there, so its validation
  loss looks at the tokens it predicts);
* a token decoded step by step gets its true position (the book gives each of them position 0).
"""

import math

import torch
from d2l import torch as d2l
from torch import nn


class TransformerDecoderBlock(nn.Module):
    """Causal self-attention, attention over the encoder's output, feed-forward network; each with add & norm.

    `state` is `[enc_outputs, enc_valid_lens, past]`; `past[i]` holds block i's earlier inputs, or None.
    """

    def __init__(self, num_hiddens, ffn_num_hiddens, num_heads, dropout, i, use_bias=False):
        super().__init__()
        self.i = i
        self.attention1 = d2l.MultiHeadAttention(num_hiddens, num_heads, dropout, use_bias)
        self.addnorm1 = d2l.AddNorm(num_hiddens, dropout)
        self.attention2 = d2l.MultiHeadAttention(num_hiddens, num_heads, dropout, use_bias)
        self.addnorm2 = d2l.AddNorm(num_hiddens, dropout)
        self.ffn = d2l.PositionWiseFFN(ffn_num_hiddens, num_hiddens)
        self.addnorm3 = d2l.AddNorm(num_hiddens, dropout)

    def forward(self, X, state):
        enc_outputs, enc_valid_lens, past = state
        seen = 0 if past[self.i] is None else past[self.i].shape[1]
        key_values = X if seen == 0 else torch.cat([past[self.i], X], dim=1)
        past[self.i] = key_values
        # Query t stands at position seen + t and may look at the seen + t + 1 keys up to itself.
        ends = torch.arange(seen + 1, key_values.shape[1] + 1, device=X.device)
        causal_lens = ends.expand(X.shape[0], -1)  # (batch_size, num_steps)
        Y = self.addnorm1(X, self.attention1(X, key_values, key_values, causal_lens))
        Z = self.addnorm2(Y, self.attention2(Y, enc_outputs, enc_outputs, enc_valid_lens))
        return self.addnorm3(Z, self.ffn(Z)), state


class TransformerDecoder(d2l.AttentionDecoder):
    """Embedding scaled by sqrt(num_hiddens), positions, `num_blks` decoder blocks, a dense layer onto the vocabulary."""

    def __init__(self, vocab_size, num_hiddens, ffn_num_hiddens, num_heads, num_blks, dropout, use_bias=False):
        super().__init__()
        self.num_hiddens = num_hiddens
        self.embedding = nn.Embedding(vocab_size, num_hiddens)
        self.pos_encoding = d2l.PositionalEncoding(num_hiddens, dropout)
        self.blks = nn.Sequential()
        for i in range(num_blks):
            self.blks.add_module(f'block{i}', TransformerDecoderBlock(
                num_hiddens, ffn_num_hiddens, num_heads, dropout, i, use_bias))
        self.dense = nn.LazyLinear(vocab_size)
        self._attention_weights = None

    def init_state(self, enc_outputs, enc_valid_lens):
        return [enc_outputs, enc_valid_lens, [None] * len(self.blks)]

    def forward(self, X, state):
        seen = 0 if state[2][0] is None else state[2][0].shape[1]
        positions = self.pos_encoding.P[:, seen:seen + X.shape[1]].to(self.embedding.weight.device)
        X = self.pos_encoding.dropout(self.embedding(X) * math.sqrt(self.num_hiddens) + positions)
        weights = [[], []]  # decoder self-attention; encoder-decoder attention
        for blk in self.blks:
            X, state = blk(X, state)
            weights[0].append(blk.attention1.attention.attention_weights)
            weights[1].append(blk.attention2.attention.attention_weights)
        self._attention_weights = weights
        return self.dense(X), state

    @property
    def attention_weights(self):
        return self._attention_weights


class TransformerTranslator(d2l.Seq2Seq):
    """Encoder and decoder with d2l's masked loss: the cross-entropy's sum over valid targets / their number."""

    def loss_terms(self, logits, labels):
        """The sum of the losses at valid targets, and how many there are (both 0-dim tensors)."""
        losses = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction='none')
        mask = (labels.flatten() != self.tgt_pad).to(losses.dtype)
        return (losses * mask).sum(), mask.sum()

    def loss(self, Y_hat, Y):
        total, count = self.loss_terms(Y_hat, Y)
        return total / count

    def training_step(self, batch):
        """As d2l's, without the plot."""
        return self.loss(self(*batch[:-1]), batch[-1])

    @torch.no_grad()
    def greedy(self, src, src_valid_len, bos, num_steps):
        """Token ids (batch_size, num_steps): the likeliest token at each step; nothing stops at `<eos>`."""
        self.eval()
        state = self.decoder.init_state(self.encoder(src, src_valid_len), src_valid_len)
        tokens = [torch.full((src.shape[0], 1), bos, dtype=src.dtype, device=src.device)]
        for _ in range(num_steps):
            logits, state = self.decoder(tokens[-1], state)
            tokens.append(logits.argmax(2))
        return torch.cat(tokens[1:], dim=1)


def make_translator(src_vocab_size, tgt_vocab_size, tgt_pad, num_hiddens=256, ffn_num_hiddens=64, num_heads=4,
                    num_blks=2, dropout=0.2, lr=0.0015, use_bias=False, init='default'):
    """A translator whose lazy layers have their sizes and initial values. The defaults are the book's.

    init: 'default' is what the book's Transformer has (PyTorch's own initialisation of `Linear`); 'xavier' applies
    d2l's `init_seq2seq`, which the book does in its recurrent models: Xavier-uniform weights in every `Linear`.
    """
    encoder = d2l.TransformerEncoder(src_vocab_size, num_hiddens, ffn_num_hiddens, num_heads, num_blks, dropout,
                                     use_bias)
    decoder = TransformerDecoder(tgt_vocab_size, num_hiddens, ffn_num_hiddens, num_heads, num_blks, dropout, use_bias)
    model = TransformerTranslator(encoder, decoder, tgt_pad=tgt_pad, lr=lr)
    tokens = torch.zeros((1, 1), dtype=torch.int64)
    with torch.no_grad():
        model(tokens, tokens, torch.ones(1, dtype=torch.int64))
    if init == 'xavier':
        model.apply(d2l.init_seq2seq)
    elif init != 'default':
        raise ValueError(f"init: expected 'default' or 'xavier', got {init!r}")
    return model


def clip_gradients(grad_clip_val, model):
    """d2l's `Trainer.clip_gradients`: scale by grad_clip_val / norm when the norm is larger. Returns the norm."""
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    norm = torch.sqrt(sum((g ** 2).sum() for g in grads))
    if norm > grad_clip_val:
        for grad in grads:
            grad *= grad_clip_val / norm
    return norm
