"""The models of fovea as plain torch modules, with the names of Dive into Deep Learning (d2l).

Each takes the settings of `model:` in a config of fovea as arguments of the same names, with the same defaults, and has
the parameters of the C++ model: `state_dict()` has the keys of a run's model.safetensors. fovea.load() makes them.
"""

from fovea.models.attention import MultiHeadAttention, PositionalEncoding, SelfAttention
from fovea.models.attention_pooling import AttentionPooling, NadarayaWatson, Pooling
from fovea.models.baselines import MLP, NearestMean
from fovea.models.cct import CCT
from fovea.models.resnet import Residual, ResNet
from fovea.models.seq2seq import (ConvEncoder, ScoredAttention, Seq2Seq, Seq2SeqAttentionDecoder, Seq2SeqDecoder,
                                  Seq2SeqEncoder)
from fovea.models.swin import Swin, SwinBlock, WindowAttention
from fovea.models.transformer import (AddNorm, PositionWiseFFN, Transformer, TransformerDecoder,
                                      TransformerDecoderBlock, TransformerEncoder, TransformerEncoderBlock)
from fovea.models.vit import ConvStem, DeiT, PatchEmbedding, ViT, ViTBlock, ViTMLP

__all__ = [
    'CCT', 'MLP', 'AddNorm', 'AttentionPooling', 'ConvEncoder', 'ConvStem', 'DeiT', 'MultiHeadAttention',
    'NadarayaWatson', 'NearestMean', 'PatchEmbedding', 'Pooling', 'PositionWiseFFN', 'PositionalEncoding', 'ResNet',
    'Residual', 'ScoredAttention', 'SelfAttention', 'Seq2Seq', 'Seq2SeqAttentionDecoder', 'Seq2SeqDecoder',
    'Seq2SeqEncoder', 'Swin', 'SwinBlock', 'Transformer', 'TransformerDecoder', 'TransformerDecoderBlock',
    'TransformerEncoder', 'TransformerEncoderBlock', 'ViT', 'ViTBlock', 'ViTMLP', 'WindowAttention',
]
