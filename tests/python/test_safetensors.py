"""The weights of a run, as Python's safetensors reads them: the tensors of the Python twin, by name."""

import sys

import pytest
import torch
from conftest import ROOT
from safetensors import safe_open
from safetensors.torch import load_file

sys.path.insert(0, str(ROOT / 'scripts' / 'reference'))

from transformer import make_translator  # noqa: E402

CHECKPOINTS = ['best', 'last']


def sizes(tensors):
    """Those of the two vocabularies."""
    return [tensors[f'{side}.embedding.weight'].shape[0] for side in ('encoder', 'decoder')]


@pytest.mark.parametrize('checkpoint', CHECKPOINTS)
def test_keys_and_shapes_are_the_twins(trained, checkpoint):
    tensors = load_file(trained.path / 'checkpoints' / checkpoint / 'model.safetensors')
    twin = make_translator(*sizes(tensors), 0, num_hiddens=16, ffn_num_hiddens=32, num_heads=2, num_blks=1).state_dict()
    assert {k: (v.shape, v.dtype) for k, v in tensors.items()} == {k: (v.shape, v.dtype) for k, v in twin.items()}
    assert all(torch.isfinite(tensor).all() for tensor in tensors.values())


def test_biases_and_more_blocks_too(fovea, tiny):
    fovea('train', 'tiny.yaml', 'model.use_bias=true', 'model.num_blks=2', 'train.max_steps=1', '--run-dir', 'r',
          expect=0)
    tensors = load_file(tiny / 'r/checkpoints/last/model.safetensors')
    twin = make_translator(*sizes(tensors), 0, num_hiddens=16, ffn_num_hiddens=32, num_heads=2, num_blks=2,
                           use_bias=True)
    twin.load_state_dict(tensors)  # strict


def test_the_file_is_in_order_and_holds_no_time(trained):
    path = trained.path / 'checkpoints/last/model.safetensors'
    with safe_open(path, 'pt') as file:
        metadata = file.metadata()
        keys = list(file.keys())
    assert metadata == {'format': 'fovea-checkpoint-1'}
    assert keys == sorted(keys)
    assert int.from_bytes(path.read_bytes()[:8], 'little') % 8 == 0  # tensors are aligned


def test_optimizer_state_reads_too(trained):
    state = load_file(trained.path / 'checkpoints/last/optimizer.safetensors')
    weights = load_file(trained.path / 'checkpoints/last/model.safetensors')
    for name in weights:
        assert sum(name in key for key in state) >= 2, name  # Adam's two averages
