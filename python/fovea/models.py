"""The models of fovea as plain torch modules, with the names of Dive into Deep Learning (d2l).

Each takes the settings of `model:` in a config of fovea as arguments of the same names, with the same defaults, and has
the parameters of the C++ model: `state_dict()` has the keys of a run's model.safetensors. fovea.load() makes them.
"""

import math
from typing import Optional, Sequence

import torch
from torch import Tensor, nn

from fovea._attention import attention
from fovea._tasks import Classifier, Regressor, Translator


class MultiHeadAttention(nn.Module):
    """d2l 11.5: (batch, queries, num_hiddens) over keys and values of (batch, keys, num_hiddens)."""

    def __init__(self, num_hiddens: int, num_heads: int, dropout: float = 0.0, use_bias: bool = False):
        super().__init__()
        if num_hiddens % num_heads != 0:
            raise ValueError(f'num_hiddens must be divisible by num_heads, got {num_hiddens} and {num_heads}')
        self.num_heads, self.dropout = num_heads, dropout
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(num_hiddens, num_hiddens, use_bias) for _ in range(4))

    def split(self, x: Tensor) -> Tensor:
        """(batch, heads, steps, num_hiddens / heads)"""
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def project_keys(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        return self.split(self.W_k(keys)), self.split(self.W_v(values))

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor, **restrictions) -> Tensor:
        """Queries, keys and values are projected and split. `restrictions` are those of fovea.attention."""
        dropout = self.dropout if self.training else 0.0
        out = attention(queries, keys, values, dropout_p=dropout, **restrictions)
        return self.W_o(out.transpose(1, 2).flatten(2))

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor, valid_lens: Optional[Tensor] = None) -> Tensor:
        return self.attend(self.split(self.W_q(queries)), *self.project_keys(keys, values), valid_lens=valid_lens)


# ---- Positions -----------------------------------------------------------------------------------------------------

POSITIONS = ('sinusoidal', 'learned', 'rotary', 'alibi', 't5', 'none')


def sinusoids(max_len: int, num_hiddens: int) -> Tensor:
    """P of Vaswani et al. 2017: (1, max_len, num_hiddens)."""
    even = torch.arange(0, num_hiddens, 2, dtype=torch.float32)
    angle = torch.arange(max_len, dtype=torch.float32).unsqueeze(1) / torch.pow(10000, even / num_hiddens)
    return torch.stack((angle.sin(), angle.cos()), -1).flatten(1)[None, :, :num_hiddens].contiguous()


def rotate(x: Tensor, first: int) -> Tensor:
    """Turns the pairs of the last axis of (..., steps, width) by their positions from `first` on (Su et al. 2021)."""
    width, kind = x.shape[-1], torch.float64 if x.dtype == torch.float64 else torch.float32
    frequencies = torch.exp(torch.arange(width // 2, device=x.device).to(kind) * (-2 * math.log(10000.0) / width))
    places = torch.arange(x.shape[-2], device=x.device) + first
    angle = places.to(kind).unsqueeze(-1) * frequencies  # (steps, width / 2)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


def alibi(num_heads: int, queries: int, keys: int, like: Tensor) -> Tensor:
    """What Press et al. 2022 add to scores: (heads, queries, keys), for queries that are the last of the keys."""
    power = 2 ** int(math.log2(num_heads))
    head = torch.arange(num_heads, device=like.device)
    own, between = (head + 1) * (-8 / power), ((head - power) * 2 + 1) * (-4 / power)
    slopes = torch.exp2(torch.where(head < power, own, between).float())
    keys_at = torch.arange(keys, device=like.device)
    distance = (keys_at[keys - queries:].unsqueeze(1) - keys_at).abs()
    return (distance * -slopes.view(-1, 1, 1)).to(like.dtype)


def t5_buckets(distance: Tensor, both_directions: bool, num_buckets: int = 32, max_distance: int = 128) -> Tensor:
    """The bucket of each key position less query position (Raffel et al. 2020): near ones one by one, far ones by their
    logarithm. Where attention looks back only, keys ahead share the bucket of distance 0."""
    buckets = num_buckets // 2 if both_directions else num_buckets
    near = buckets // 2
    far = distance.abs() if both_directions else (-distance).clamp_min(0)
    logarithm = (far.float().clamp_min(1) / near).log() * ((buckets - near) / math.log(max_distance / near))
    bucket = torch.where(far < near, far, (logarithm.long() + near).clamp_max(buckets - 1))
    return bucket + (distance > 0) * buckets if both_directions else bucket


class PositionalEncoding(nn.Module):
    """d2l 11.6, and other ways to know positions. Rotary ones are handed to self-attention, ALiBi's and T5's as a
    bias. `is_causal`: that attention looks back only, which T5's biases must know."""

    def __init__(self, num_hiddens: int, dropout: float, max_len: int, positions: str = 'sinusoidal',
                 num_heads: int = 1, is_causal: bool = False):
        super().__init__()
        if positions not in POSITIONS:
            raise ValueError(f'positions: expected one of {", ".join(POSITIONS)}, got {positions!r}')
        self.positions, self.max_len, self.num_heads, self.is_causal = positions, max_len, num_heads, is_causal
        self.dropout = nn.Dropout(dropout)
        if positions == 'sinusoidal':
            self.register_buffer('P', sinusoids(max_len, num_hiddens), persistent=False)
        elif positions == 'learned':
            self.P = nn.Parameter(torch.randn(1, max_len, num_hiddens) * 0.02)
        elif positions == 't5':
            self.relative_attention_bias = nn.Parameter(torch.randn(32, num_heads) * 0.02)

    def bias(self, queries: int, keys: int, like: Tensor) -> Optional[Tensor]:
        """What is added to scores: (heads, queries, keys), for queries that are the last of the keys; or None."""
        if self.positions == 'alibi':
            return alibi(self.num_heads, queries, keys, like)
        if self.positions != 't5':
            return None
        keys_at = torch.arange(keys, device=like.device)
        distance = keys_at - keys_at[keys - queries:].unsqueeze(1)
        buckets = t5_buckets(distance, not self.is_causal)
        return self.relative_attention_bias[buckets].permute(2, 0, 1).to(like.dtype)

    def forward(self, X: Tensor, first: int = 0) -> Tensor:
        """X (batch, steps, num_hiddens), whose steps are at the positions from `first` on."""
        if self.positions in ('sinusoidal', 'learned'):
            end = first + X.shape[1]
            if end > self.max_len:
                raise ValueError(f'a sequence has {end} tokens, and there are {self.max_len} positions (model.max_len)')
            X = X + self.P[:, first:end].to(X.dtype)
        return self.dropout(X)


class SelfAttention(MultiHeadAttention):
    """Attention of a sequence to itself, which knows the positions."""

    def __init__(self, num_hiddens: int, num_heads: int, dropout: float, use_bias: bool, positions: str):
        super().__init__(num_hiddens, num_heads, dropout, use_bias)
        if positions == 'rotary' and num_hiddens // num_heads % 2 != 0:
            raise ValueError(f'rotary positions turn pairs: num_hiddens / num_heads must be even, got '
                             f'{num_hiddens // num_heads}')
        self.positions = positions

    def forward(self, X: Tensor, valid_lens: Optional[Tensor] = None, bias: Optional[Tensor] = None,
                is_causal: bool = False,
                past: Optional[tuple[Tensor, Tensor]] = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """`bias`: added to the scores. `past`: keys and values of the steps before X. Returns the output, and the same
        with those of X."""
        first = 0 if past is None else past[0].shape[2]
        queries, (keys, values) = self.split(self.W_q(X)), self.project_keys(X, X)
        if self.positions == 'rotary':
            queries, keys = rotate(queries, first), rotate(keys, first)
        if past is not None:
            keys, values = torch.cat((past[0], keys), 2), torch.cat((past[1], values), 2)
        out = self.attend(queries, keys, values, attn_mask=bias, valid_lens=valid_lens, is_causal=is_causal,
                          lower_right=True)
        return out, (keys, values)


# ---- The Transformer (d2l 11.7) ------------------------------------------------------------------------------------


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


# ---- The vision Transformer (d2l 11.8) -----------------------------------------------------------------------------


class PatchEmbedding(nn.Module):
    def __init__(self, channels: int, patch: tuple[int, int], num_hiddens: int):
        super().__init__()
        self.conv = nn.Conv2d(channels, num_hiddens, patch, patch)

    def forward(self, X: Tensor) -> Tensor:
        return self.conv(X).flatten(2).transpose(1, 2)  # (batch, patches, num_hiddens)


class ViTMLP(nn.Module):
    def __init__(self, num_hiddens: int, mlp_num_hiddens: int, dropout: float):
        super().__init__()
        self.dense1 = nn.Linear(num_hiddens, mlp_num_hiddens)
        self.dropout1 = nn.Dropout(dropout)
        self.dense2 = nn.Linear(mlp_num_hiddens, num_hiddens)
        self.dropout2 = nn.Dropout(dropout)

    def forward(self, X: Tensor) -> Tensor:
        return self.dropout2(self.dense2(self.dropout1(nn.functional.gelu(self.dense1(X)))))


class ViTBlock(nn.Module):
    def __init__(self, num_hiddens: int, mlp_num_hiddens: int, num_heads: int, dropout: float, use_bias: bool):
        super().__init__()
        self.ln1 = nn.LayerNorm(num_hiddens)
        self.attention = MultiHeadAttention(num_hiddens, num_heads, dropout, use_bias)
        self.ln2 = nn.LayerNorm(num_hiddens)
        self.mlp = ViTMLP(num_hiddens, mlp_num_hiddens, dropout)

    def forward(self, X: Tensor, valid_lens: Optional[Tensor] = None) -> Tensor:
        Y = self.ln1(X)
        X = X + self.attention(Y, Y, Y, valid_lens)
        return X + self.mlp(self.ln2(X))


class ViT(Classifier, nn.Module):
    """The vision Transformer: images (batch, channels, height, width), normalised -> logits (batch, num_classes)."""

    def __init__(self, image_shape: Sequence[int], num_classes: int, patch_size: int = 16,
                 patch_width: Optional[int] = None, num_hiddens: int = 512, mlp_num_hiddens: int = 2048,
                 num_heads: int = 8, num_blks: int = 2, emb_dropout: float = 0.1, blk_dropout: float = 0.1,
                 pos_embedding_std: float = 1.0, use_bias: bool = False):
        super().__init__()
        channels, height, width = image_shape
        patch = patch_size, patch_size if patch_width is None else patch_width
        if height % patch[0] != 0 or width % patch[1] != 0:
            raise ValueError(f'patches of {patch[0]} x {patch[1]} do not cut images of {height} x {width}')
        steps = height // patch[0] * (width // patch[1]) + 1
        self.patch_embedding = PatchEmbedding(channels, patch, num_hiddens)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, num_hiddens))
        self.pos_embedding = nn.Parameter(torch.randn(1, steps, num_hiddens) * pos_embedding_std)
        self.dropout = nn.Dropout(emb_dropout)
        self.blks = nn.Sequential()
        for i in range(num_blks):
            self.blks.add_module(f'{i}', ViTBlock(num_hiddens, mlp_num_hiddens, num_heads, blk_dropout, use_bias))
        self.head = nn.Sequential(nn.LayerNorm(num_hiddens), nn.Linear(num_hiddens, num_classes))

    def forward(self, X: Tensor) -> Tensor:
        X = self.patch_embedding(X)
        X = torch.cat((self.cls_token.expand(X.shape[0], -1, -1), X), 1)
        X = self.dropout(X + self.pos_embedding)
        for blk in self.blks:
            X = blk(X)
        return self.head(X[:, 0])


# ---- Without attention ---------------------------------------------------------------------------------------------


class NearestMean(Classifier, nn.Module):
    """Minus the squared distance to each class's mean image, as logits."""

    def __init__(self, image_shape: Sequence[int], num_classes: int):
        super().__init__()
        self.register_buffer('sums', torch.zeros(num_classes, math.prod(image_shape), dtype=torch.float64))
        self.register_buffer('counts', torch.zeros(num_classes, dtype=torch.float64))

    def forward(self, X: Tensor) -> Tensor:
        means = (self.sums / self.counts.clamp_min(1).unsqueeze(1)).float()  # (num_classes, num_pixels)
        X = X.flatten(1)
        distances = X.square().sum(1, True) - 2 * X @ means.t() + means.square().sum(1)
        return torch.where(self.counts > 0, -distances, torch.finfo(torch.float32).min)


class MLP(Regressor, nn.Module):
    """Dense layers with a ReLU between them (d2l 5.1): standardised (rows, features) -> (rows, targets)."""

    def __init__(self, num_inputs: int, num_outputs: int, num_hiddens: Sequence[int] = (64, 64), dropout: float = 0.0):
        super().__init__()
        sizes = [num_inputs, *num_hiddens, num_outputs]
        self.num_layers = len(sizes) - 1
        for i in range(self.num_layers):
            self.add_module(f'dense{i}', nn.Linear(sizes[i], sizes[i + 1]))
        self.dropout = nn.Dropout(dropout)

    def forward(self, X: Tensor) -> Tensor:
        for i in range(self.num_layers - 1):
            X = self.dropout(getattr(self, f'dense{i}')(X).relu())
        return getattr(self, f'dense{self.num_layers - 1}')(X)
