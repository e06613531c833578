"""The encoder-decoder Transformer (d2l 11.7)."""

import math
from typing import Optional

from torch import Tensor, nn

from fovea._tasks import Translator
from fovea.models.attention import MultiHeadAttention, PositionalEncoding, SelfAttention


class PositionWiseFFN(nn.Module):
    def __init__(self, num_hiddens: int, ffn_num_hiddens: int):
        super().__init__()
        self.dense1 = nn.Linear(num_hiddens, ffn_num_hiddens)
        self.dense2 = nn.Linear(ffn_num_hiddens, num_hiddens)

    def forward(self, X: Tensor) -> Tensor:
        return self.dense2(self.dense1(X).relu())


class AddNorm(nn.Module):
    def __init__(self, num_hiddens: int, dropout: float):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.ln = nn.LayerNorm(num_hiddens)

    def forward(self, X: Tensor, Y: Tensor) -> Tensor:
        return self.ln(self.dropout(Y) + X)


class TransformerEncoderBlock(nn.Module):
    def __init__(self, num_hiddens: int, ffn_num_hiddens: int, num_heads: int, dropout: float, use_bias: bool,
                 positions: str):
        super().__init__()
        self.attention = SelfAttention(num_hiddens, num_heads, dropout, use_bias, positions)
        self.addnorm1 = AddNorm(num_hiddens, dropout)
        self.ffn = PositionWiseFFN(num_hiddens, ffn_num_hiddens)
        self.addnorm2 = AddNorm(num_hiddens, dropout)

    def forward(self, X: Tensor, valid_lens: Optional[Tensor], bias: Optional[Tensor] = None) -> Tensor:
        Y = self.addnorm1(X, self.attention(X, valid_lens, bias)[0])
        return self.addnorm2(Y, self.ffn(Y))


class TransformerDecoderBlock(nn.Module):
    def __init__(self, num_hiddens: int, ffn_num_hiddens: int, num_heads: int, dropout: float, use_bias: bool,
                 positions: str):
        super().__init__()
        self.attention1 = SelfAttention(num_hiddens, num_heads, dropout, use_bias, positions)
        self.addnorm1 = AddNorm(num_hiddens, dropout)
        self.attention2 = MultiHeadAttention(num_hiddens, num_heads, dropout, use_bias)
        self.addnorm2 = AddNorm(num_hiddens, dropout)
        self.ffn = PositionWiseFFN(num_hiddens, ffn_num_hiddens)
        self.addnorm3 = AddNorm(num_hiddens, dropout)

    def forward(self, X: Tensor, encoded: Tensor, valid_lens: Optional[Tensor], bias: Optional[Tensor] = None,
                past: Optional[tuple[Tensor, Tensor]] = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        # Causal in evaluation too; the book drops the mask there.
        attended, past = self.attention1(X, bias=bias, is_causal=True, past=past)
        Y = self.addnorm1(X, attended)
        Z = self.addnorm2(Y, self.attention2(Y, encoded, encoded, valid_lens))
        return self.addnorm3(Z, self.ffn(Z)), past


def _blocks(kind, num_blks: int, *sizes) -> nn.Sequential:
    blks = nn.Sequential()
    for i in range(num_blks):
        blks.add_module(f'block{i}', kind(*sizes))
    return blks


class _TransformerStack(nn.Module):
    """What encoder and decoder begin with: embeddings, positions, and `num_blks` blocks of `kind`."""

    def __init__(self, kind, vocab_size: int, num_hiddens: int, ffn_num_hiddens: int, num_heads: int, num_blks: int,
                 dropout: float, use_bias: bool, max_len: int, positions: str, is_causal: bool):
        super().__init__()
        self.scale = math.sqrt(num_hiddens)
        self.embedding = nn.Embedding(vocab_size, num_hiddens)
        self.pos_encoding = PositionalEncoding(num_hiddens, dropout, max_len, positions, num_heads, is_causal)
        self.blks = _blocks(kind, num_blks, num_hiddens, ffn_num_hiddens, num_heads, dropout, use_bias, positions)


class TransformerEncoder(_TransformerStack):
    def __init__(self, vocab_size: int, *sizes):
        super().__init__(TransformerEncoderBlock, vocab_size, *sizes, is_causal=False)

    def forward(self, tokens: Tensor, valid_lens: Optional[Tensor] = None) -> Tensor:
        """tokens (batch, steps), of which the first valid_lens (batch) count -> (batch, steps, num_hiddens)."""
        X = self.pos_encoding(self.embedding(tokens) * self.scale)
        bias = self.pos_encoding.bias(X.shape[1], X.shape[1], X)
        for blk in self.blks:
            X = blk(X, valid_lens, bias)
        return X


class TransformerDecoder(_TransformerStack):
    def __init__(self, vocab_size: int, num_hiddens: int, *sizes):
        super().__init__(TransformerDecoderBlock, vocab_size, num_hiddens, *sizes, is_causal=True)
        self.dense = nn.Linear(num_hiddens, vocab_size)

    def forward(self, tokens: Tensor, encoded: Tensor, valid_lens: Optional[Tensor] = None,
                cache: Optional[list] = None) -> Tensor:
        """tokens (batch, steps) -> logits (batch, steps, vocab_size) for the tokens that follow.

        `encoded` is what the encoder gave, valid_lens its lengths. `cache`, at first an empty list, remembers the
        tokens of earlier calls: each call then takes the next tokens only.
        """
        past = [None] * len(self.blks) if not cache else list(cache)
        first = 0 if past[0] is None else past[0][0].shape[2]
        X = self.pos_encoding(self.embedding(tokens) * self.scale, first)
        bias = self.pos_encoding.bias(X.shape[1], first + X.shape[1], X)
        for i, blk in enumerate(self.blks):
            X, past[i] = blk(X, encoded, valid_lens, bias, past[i])
        if cache is not None:
            cache[:] = past
        return self.dense(X)


class Transformer(Translator, nn.Module):
    """The encoder-decoder Transformer (d2l 11.7.6)."""

    def __init__(self, source_vocab_size: int, target_vocab_size: int, num_hiddens: int = 256,
                 ffn_num_hiddens: int = 64, num_heads: int = 4, num_blks: int = 2, dropout: float = 0.2,
                 use_bias: bool = False, max_len: int = 1000, positions: str = 'sinusoidal'):
        super().__init__()
        sizes = num_hiddens, ffn_num_hiddens, num_heads, num_blks, dropout, use_bias, max_len, positions
        self.encoder = TransformerEncoder(source_vocab_size, *sizes)
        self.decoder = TransformerDecoder(target_vocab_size, *sizes)

    def forward(self, source: Tensor, target: Tensor, source_valid_lens: Optional[Tensor] = None) -> Tensor:
        """Teacher forcing: logits (batch, target steps, target_vocab_size).

        source (batch, steps) ends with <eos>, then <pad>; source_valid_lens (batch) counts <eos>. target (batch, steps)
        begins with <bos>.
        """
        return self.decoder(target, self.encoder(source, source_valid_lens), source_valid_lens)
