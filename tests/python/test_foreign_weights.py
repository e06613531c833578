"""Weights of torchvision and with timm's names, through the name maps that ship: they compute the same here."""

import numpy as np
import pytest
import torch
import yaml
from conftest import CLASSES, ROOT, Fovea, write_idx
from package import fovea

MAPS = ROOT / 'configs' / 'maps'
SIDE = 32
VIT = {'name': 'vit', 'patch_size': 8, 'num_hiddens': 16, 'mlp_num_hiddens': 24, 'num_heads': 2, 'num_blks': 2,
       'use_bias': True}
RESNET = {'name': 'resnet', 'use_bias': False, 'shortcut_norm': True}


def imported(program, folder, model, weights, name_map):
    """The run that the weights became, for colour images, as a module."""
    rng = np.random.default_rng(0)
    write_idx(folder / 'images.idx', rng.integers(0, 256, (20, 3, SIDE, SIDE), dtype=np.uint8))
    write_idx(folder / 'labels.idx', rng.integers(0, len(CLASSES), 20, dtype=np.uint8))
    config = {'model': model, 'data': {'name': 'idx_images', 'train_images': 'images.idx', 'train_labels': 'labels.idx',
                                       'test_images': 'images.idx', 'test_labels': 'labels.idx', 'classes': CLASSES,
                                       'mean': [0.5, 0.4, 0.3], 'std': [0.2, 0.3, 0.25]}}
    (folder / 'foreign.yaml').write_text(yaml.safe_dump(config))
    torch.save(weights, folder / 'weights.pth')
    call = Fovea(program, folder)
    call('import', 'foreign.yaml', 'weights.pth', '--map', MAPS / name_map, '-o', 'run', expect=0)
    assert call.json('evaluate', 'run')['images'] == 20
    return fovea.load(folder / 'run')


def randomised(module):
    torch.manual_seed(0)
    with torch.no_grad():
        for tensor in module.state_dict().values():
            if tensor.is_floating_point():
                tensor.add_(torch.rand_like(tensor) * 0.1)  # variances stay above 0
    return module.eval()


def torchvision():
    return pytest.importorskip('torchvision', reason='torchvision is not installed').models


def test_torchvision_vit(program, tmp_path):
    theirs = randomised(torchvision().VisionTransformer(SIDE, 8, 2, 2, 16, 24, num_classes=len(CLASSES)))
    ours = imported(program, tmp_path, VIT, theirs.state_dict(), 'torchvision_vit.map')
    for module in theirs.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 1e-5  # torch's own default and ours; torchvision and timm have 1e-6 here
    x = torch.randn(3, 3, SIDE, SIDE)
    torch.testing.assert_close(ours(x), theirs(x))


def test_torchvision_resnet(program, tmp_path):
    theirs = randomised(torchvision().resnet18(num_classes=len(CLASSES)))
    ours = imported(program, tmp_path, RESNET, theirs.state_dict(), 'timm_resnet.map')
    x = torch.randn(3, 3, SIDE, SIDE)
    torch.testing.assert_close(ours(x), theirs(x), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize('is_distilled', [False, True])
def test_names_of_timm(program, tmp_path, is_distilled):
    options = {key: value for key, value in VIT.items() if key != 'name'}
    kind = fovea.models.DeiT if is_distilled else fovea.models.ViT
    module = randomised(kind((3, SIDE, SIDE), len(CLASSES), layer_scale=0.1, **options))
    theirs = {}
    for name, tensor in module.state_dict().items():
        for ours, timms in [('pos_embedding', 'pos_embed'), ('patch_embedding.conv', 'patch_embed.proj'),
                            ('blks', 'blocks'), ('ln1', 'norm1'), ('ln2', 'norm2'), ('attention.W_o', 'attn.proj'),
                            ('dense', 'fc'), ('head.0', 'norm'), ('head.1', 'head')]:
            name = name.replace(ours, timms)
        if '.W_q.' in name:
            q = name.replace('attn', 'attention')
            name = name.replace('attention.W_q', 'attn.qkv')
            tensor = torch.cat([module.state_dict()[q.replace('blocks', 'blks').replace('W_q', w)]
                                for w in ('W_q', 'W_k', 'W_v')])
        if '.W_' not in name:
            theirs[name] = tensor
    assert 'blocks.1.attn.qkv.bias' in theirs and 'blocks.0.mlp.fc2.weight' in theirs
    model = {**VIT, 'name': 'deit' if is_distilled else 'vit', 'layer_scale': 0.1}
    ours = imported(program, tmp_path, model, theirs, 'timm_vit.map')
    x = torch.randn(3, 3, SIDE, SIDE)
    torch.testing.assert_close(ours(x), module(x))
