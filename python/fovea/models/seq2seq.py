"""Recurrent encoders and decoders for translation, with or without attention (d2l 10.7, 11.3 and 11.4)."""

import math
from typing import Optional

import torch
from torch import Tensor, nn

from fovea._tasks import Translator
from fovea.models.attention import PositionalEncoding, check_choice

State = list[Tensor]  # of the recurrent layers: h, or h and c, each (layers, batch, num_hiddens)

SCORES = ('additive', 'dot', 'scaled_dot', 'general', 'cosine', 'location')
SCORE_WEIGHTS = ('softmax', 'relu', 'hard')


def _recurrent(cell: str, inputs: int, num_hiddens: int, num_layers: int, dropout: float, **options) -> nn.RNNBase:
    check_choice('cell', cell, ('gru', 'lstm'))
    between_layers = dropout if num_layers > 1 else 0.0
    return (nn.GRU if cell == 'gru' else nn.LSTM)(inputs, num_hiddens, num_layers, batch_first=True,
                                                  dropout=between_layers, **options)


def _unit_length(X: Tensor) -> Tensor:
    return X / X.square().sum(-1, True).clamp_min(1e-12).sqrt()


def _run(rnn: nn.RNNBase, X, state: Optional[State] = None):
    """The outputs and the last state; X may be packed."""
    initial = None if state is None else tuple(state) if isinstance(rnn, nn.LSTM) else state[0]
    Y, last = rnn(X, initial)
    return Y, list(last) if isinstance(last, tuple) else [last]


class ScoredAttention(nn.Module):
    """One query after the other asks the same keys (d2l 11.3; Luong et al. 2015). Queries (batch, queries, size), keys
    and values (batch, keys, size), of which the first valid_lens (batch) count."""

    def __init__(self, size: int, num_hiddens: int, score: str = 'additive', score_weights: str = 'softmax',
                 local_width: int = 0, max_keys: int = 1000, dropout: float = 0.0):
        super().__init__()
        check_choice('score', score, SCORES)
        check_choice('score_weights', score_weights, SCORE_WEIGHTS)
        self.score, self.score_weights, self.local_width = score, score_weights, local_width
        self.dropout = nn.Dropout(dropout)
        if score == 'additive':
            self.W_k, self.W_q = nn.Linear(size, num_hiddens, bias=False), nn.Linear(size, num_hiddens, bias=False)
            self.w_v = nn.Linear(num_hiddens, 1, bias=False)
        elif score == 'general':
            self.W_k = nn.Linear(size, size, bias=False)
        elif score == 'cosine':
            self.scale = nn.Parameter(torch.full((1,), 10.0))
        elif score == 'location':
            self.W_l = nn.Linear(size, max_keys)
        if local_width > 0:
            self.W_p, self.v_p = nn.Linear(size, size, bias=False), nn.Linear(size, 1, bias=False)

    def project_keys(self, keys: Tensor) -> Tensor:
        """What there is to compute of the keys alone, once for all queries. Padding has zeros."""
        if self.score == 'cosine':
            return _unit_length(keys)
        return self.W_k(keys) if hasattr(self, 'W_k') else keys

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        if self.score == 'additive':
            return self.w_v(torch.tanh(self.W_q(queries).unsqueeze(2) + keys.unsqueeze(1))).squeeze(-1)
        if self.score == 'location':
            return self.W_l(queries)[..., :keys.shape[1]]
        if self.score == 'scaled_dot':
            queries = queries / math.sqrt(queries.shape[-1])
        elif self.score == 'cosine':
            queries = _unit_length(queries) * self.scale
        return queries @ keys.transpose(1, 2)

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor, valid_lens: Tensor) -> tuple[Tensor, Tensor]:
        """With projected keys. Returns the output and the weights, (batch, queries, keys)."""
        places = torch.arange(keys.shape[1], device=keys.device)
        valid = (places < valid_lens.unsqueeze(-1)).unsqueeze(1)  # (batch, 1, keys)
        scores = self.scores(queries, keys)
        if self.score_weights == 'relu':
            weights = scores.relu() * valid / valid.sum(-1, True).clamp_min(1)
        else:
            weights = scores.masked_fill(~valid, float('-inf')).softmax(-1)
            if self.score_weights == 'hard':
                best = torch.zeros_like(weights).scatter(-1, weights.argmax(-1, True), 1.0)
                weights = best + weights - weights.detach() if self.training else best
        if self.local_width > 0:
            centre = torch.sigmoid(self.v_p(torch.tanh(self.W_p(queries)))) * valid_lens.view(-1, 1, 1)
            distance = places - centre
            gauss = torch.exp(-distance.square() / (2 * (self.local_width / 2) ** 2))
            weights = weights * gauss * (distance.abs() <= self.local_width)
        return self.dropout(weights) @ values, weights


class RNN(nn.Module):
    """d2l's GRU and LSTM, around the layers."""

    def __init__(self, cell: str, *sizes, **options):
        super().__init__()
        self.rnn = _recurrent(cell, *sizes, **options)


class Seq2SeqEncoder(nn.Module):
    """d2l's, which stops at the end of each sentence."""

    def __init__(self, vocab_size: int, embed_size: int, num_hiddens: int, num_layers: int, dropout: float, cell: str,
                 bidirectional: bool):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embed_size)
        width = num_hiddens // 2 if bidirectional else num_hiddens
        self.rnn = RNN(cell, embed_size, width, num_layers, dropout, bidirectional=bidirectional)
        self.num_layers = num_layers

    def forward(self, tokens: Tensor, valid_lens: Tensor) -> tuple[Tensor, State]:
        """Outputs (batch, steps, num_hiddens), zeros in the padding, and the last state."""
        packed = nn.utils.rnn.pack_padded_sequence(self.embedding(tokens), valid_lens.cpu(), batch_first=True,
                                                   enforce_sorted=False)
        Y, state = _run(self.rnn.rnn, packed)
        Y = nn.utils.rnn.pad_packed_sequence(Y, batch_first=True, total_length=tokens.shape[1])[0]
        # Of two directions, one beside the other.
        return Y, [s.unflatten(0, (self.num_layers, -1)).transpose(1, 2).flatten(2) for s in state]


class ConvEncoder(nn.Module):
    """Convolutions over the neighbours with gated linear units (Gehring et al. 2016)."""

    def __init__(self, vocab_size: int, embed_size: int, num_hiddens: int, num_layers: int, dropout: float, cell: str,
                 max_len: int, conv_layers: int, kernel_size: int):
        super().__init__()
        self.cell, self.num_layers = cell, num_layers
        self.embedding = nn.Embedding(vocab_size, embed_size)
        self.pos_encoding = PositionalEncoding(embed_size, dropout, max_len, 'learned')
        self.input = nn.Linear(embed_size, num_hiddens)
        self.convs = nn.ModuleList(nn.Conv1d(num_hiddens, 2 * num_hiddens, kernel_size, padding=kernel_size // 2)
                                   for _ in range(conv_layers))
        self.dropout = nn.Dropout(dropout)
        self.bridge = nn.Linear(num_hiddens, num_layers * num_hiddens)

    def forward(self, tokens: Tensor, valid_lens: Tensor) -> tuple[Tensor, State]:
        valid = (torch.arange(tokens.shape[1], device=tokens.device) < valid_lens.unsqueeze(1)).unsqueeze(-1)
        X = self.input(self.pos_encoding(self.embedding(tokens))).masked_fill(~valid, 0)
        for conv in self.convs:
            Y = nn.functional.glu(conv(self.dropout(X).transpose(1, 2)), 1).transpose(1, 2)
            X = ((X + Y) * math.sqrt(0.5)).masked_fill(~valid, 0)
        mean = X.sum(1) / valid_lens.clamp_min(1).unsqueeze(1)
        h = torch.tanh(self.bridge(mean)).unflatten(-1, (self.num_layers, -1)).transpose(0, 1).contiguous()
        return X, [h, torch.zeros_like(h)] if self.cell == 'lstm' else [h]


class Seq2SeqDecoder(nn.Module):
    """Begins with the encoder's state; sees its last output at each step too if `at_each_step` (d2l 10.7)."""

    def __init__(self, vocab_size: int, embed_size: int, num_hiddens: int, num_layers: int, dropout: float, cell: str,
                 at_each_step: bool):
        super().__init__()
        self.at_each_step = at_each_step
        self.embedding = nn.Embedding(vocab_size, embed_size)
        self.rnn = RNN(cell, embed_size + (num_hiddens if at_each_step else 0), num_hiddens, num_layers, dropout)
        self.dense = nn.Linear(num_hiddens, vocab_size)

    def forward(self, tokens: Tensor, encoded: tuple[Tensor, State], valid_lens: Tensor,
                cache: Optional[list] = None) -> Tensor:
        """As TransformerDecoder.forward."""
        X, state = self.embedding(tokens), cache or encoded[1]
        if self.at_each_step:
            context = encoded[1][0][-1].unsqueeze(1)
            X = torch.cat((X, context.expand(-1, X.shape[1], -1)), -1)
        Y, state = _run(self.rnn.rnn, X, state)
        if cache is not None:
            cache[:] = state
        return self.dense(Y)


class Seq2SeqAttentionDecoder(nn.Module):
    """At each step the last layer's state asks all of the encoder's outputs (Bahdanau et al. 2014; d2l 11.4)."""

    def __init__(self, vocab_size: int, embed_size: int, num_hiddens: int, num_layers: int, dropout: float, cell: str,
                 max_len: int, score: str, score_weights: str, local_width: int):
        super().__init__()
        self.attention = ScoredAttention(num_hiddens, num_hiddens, score, score_weights, local_width, max_len, dropout)
        self.embedding = nn.Embedding(vocab_size, embed_size)
        self.rnn = _recurrent(cell, num_hiddens + embed_size, num_hiddens, num_layers, dropout)
        self.dense = nn.Linear(num_hiddens, vocab_size)

    def forward(self, tokens: Tensor, encoded: tuple[Tensor, State], valid_lens: Tensor,
                cache: Optional[list] = None) -> Tensor:
        """As TransformerDecoder.forward."""
        values, state = encoded[0], cache or encoded[1]
        keys, outputs = self.attention.project_keys(values), []
        for x in self.embedding(tokens).unbind(1):
            context, _ = self.attention.attend(state[0][-1].unsqueeze(1), keys, values, valid_lens)
            Y, state = _run(self.rnn, torch.cat((context, x.unsqueeze(1)), -1), state)
            outputs.append(Y)
        if cache is not None:
            cache[:] = state
        return self.dense(torch.cat(outputs, 1))


class Seq2Seq(Translator, nn.Module):
    """A recurrent translator. The defaults are those of d2l 11.4."""

    def __init__(self, source_vocab_size: int, target_vocab_size: int, cell: str = 'gru', context: str = 'attention',
                 score: str = 'additive', score_weights: str = 'softmax', local_width: int = 0,
                 encoder: str = 'recurrent', bidirectional: bool = False, conv_layers: int = 4, kernel_size: int = 3,
                 embed_size: int = 256, num_hiddens: int = 256, num_layers: int = 2, dropout: float = 0.2,
                 max_len: int = 1000):
        super().__init__()
        check_choice('context', context, ('initial', 'each_step', 'attention'))
        check_choice('encoder', encoder, ('recurrent', 'convolutional'))
        sizes = embed_size, num_hiddens, num_layers, dropout, cell
        if encoder == 'recurrent':
            self.encoder = Seq2SeqEncoder(source_vocab_size, *sizes, bidirectional)
        else:
            self.encoder = ConvEncoder(source_vocab_size, *sizes, max_len, conv_layers, kernel_size)
        if context == 'attention':
            self.decoder = Seq2SeqAttentionDecoder(target_vocab_size, *sizes, max_len, score, score_weights,
                                                   local_width)
        else:
            self.decoder = Seq2SeqDecoder(target_vocab_size, *sizes, context == 'each_step')

    def forward(self, source: Tensor, target: Tensor, source_valid_lens: Tensor) -> Tensor:
        """As Transformer.forward."""
        return self.decoder(target, self.encoder(source, source_valid_lens), source_valid_lens)
