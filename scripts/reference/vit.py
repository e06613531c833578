"""The Python twin of fovea's vision Transformer: chapter 11.8, which d2l's package lacks, on d2l's own attention.

Attribute names are the book's, therefore `state_dict()` keys are the parameter names of the C++ model
(`patch_embedding.conv.weight`, `cls_token`, `blks.0.attention.W_q.weight`, `blks.1.mlp.dense2.bias`, `head.1.weight`).
"""

import torch
from d2l import torch as d2l
from torch import nn


def pair(size):
    """(height, width) of a size given as one number or as two."""
    return tuple(size) if isinstance(size, (tuple, list)) else (size, size)


class PatchEmbedding(nn.Module):
    """(batch_size, channels, height, width) -> (batch_size, num_patches, num_hiddens), patches row by row."""

    def __init__(self, img_size=96, patch_size=16, num_hiddens=512, num_channels=1):
        super().__init__()
        (height, width), (patch_height, patch_width) = pair(img_size), pair(patch_size)
        self.num_patches = (height // patch_height) * (width // patch_width)
        self.conv = nn.Conv2d(num_channels, num_hiddens, kernel_size=pair(patch_size), stride=pair(patch_size))

    def forward(self, X):
        return self.conv(X).flatten(2).transpose(1, 2)


class ViTMLP(nn.Module):
    def __init__(self, num_hiddens, mlp_num_hiddens, mlp_num_outputs, dropout=0.5):
        super().__init__()
        self.dense1 = nn.Linear(num_hiddens, mlp_num_hiddens)
        self.gelu = nn.GELU()
        self.dropout1 = nn.Dropout(dropout)
        self.dense2 = nn.Linear(mlp_num_hiddens, mlp_num_outputs)
        self.dropout2 = nn.Dropout(dropout)

    def forward(self, X):
        return self.dropout2(self.dense2(self.dropout1(self.gelu(self.dense1(X)))))


class ViTBlock(nn.Module):
    """Pre-norm: the norms stand before attention and dense layers, the residual connections pass both by."""

    def __init__(self, num_hiddens, mlp_num_hiddens, num_heads, dropout, use_bias=False):
        super().__init__()
        self.ln1 = nn.LayerNorm(num_hiddens)
        self.attention = d2l.MultiHeadAttention(num_hiddens, num_heads, dropout, use_bias)
        self.ln2 = nn.LayerNorm(num_hiddens)
        self.mlp = ViTMLP(num_hiddens, mlp_num_hiddens, num_hiddens, dropout)

    def forward(self, X, valid_lens=None):
        normed = self.ln1(X)
        X = X + self.attention(normed, normed, normed, valid_lens)
        return X + self.mlp(self.ln2(X))


class ViT(nn.Module):
    def __init__(self, img_size=96, patch_size=16, num_hiddens=512, mlp_num_hiddens=2048, num_heads=8, num_blks=2,
                 emb_dropout=0.1, blk_dropout=0.1, use_bias=False, num_classes=10, num_channels=1):
        super().__init__()
        self.patch_embedding = PatchEmbedding(img_size, patch_size, num_hiddens, num_channels)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, num_hiddens))
        num_steps = self.patch_embedding.num_patches + 1
        self.pos_embedding = nn.Parameter(torch.randn(1, num_steps, num_hiddens))
        self.dropout = nn.Dropout(emb_dropout)
        self.blks = nn.Sequential()
        for i in range(num_blks):
            self.blks.add_module(f'{i}', ViTBlock(num_hiddens, mlp_num_hiddens, num_heads, blk_dropout, use_bias))
        self.head = nn.Sequential(nn.LayerNorm(num_hiddens), nn.Linear(num_hiddens, num_classes))
        with torch.no_grad():  # gives d2l's lazy layers their sizes
            self(torch.zeros(1, num_channels, *pair(img_size)))

    def forward(self, X, valid_lens=None):
        """valid_lens (batch_size,), not in the book: how many patches, the first ones, may be looked at."""
        X = self.patch_embedding(X)
        X = torch.cat((self.cls_token.expand(X.shape[0], -1, -1), X), 1)
        X = self.dropout(X + self.pos_embedding)
        key_lens = None if valid_lens is None else valid_lens + 1  # the class token
        for blk in self.blks:
            X = blk(X, key_lens)
        return self.head(X[:, 0])

    @property
    def attention_weights(self):
        return [blk.attention.attention.attention_weights for blk in self.blks]
