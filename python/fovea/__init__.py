"""fovea in Python: its attention op with the interface of torch's, and its trained runs as torch modules.

>>> import fovea, torch
>>> q, k, v = (torch.randn(8, 4, 100, 64) for _ in range(3))
>>> fovea.attention(q, k, v, is_causal=True).shape
torch.Size([8, 4, 100, 64])
>>> model = fovea.load("runs/quickstart")        # doctest: +SKIP
>>> model.translate(["It's cold in Spain."])     # doctest: +SKIP
['il fait froid en espagne.']
"""

from fovea import _ops, models
from fovea._attention import attention
from fovea._dropout import dropout
from fovea._run import load

__all__ = ['attention', 'dropout', 'load', 'models', '__version__']
__version__ = _ops.version()
