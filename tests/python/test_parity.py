"""Ten steps of SGD in the program and in Python, from the same weights: the losses, the gradients' norms and the last
weights are the same. The modules of the Python package are plain torch: they are the twins of the C++ models."""

import json

import pytest
import torch
import yaml
from conftest import CLASSES, SIDE, Fovea, make_images, make_squares
from package import fovea
from safetensors.torch import load_file, save_file
from torch.nn.functional import cross_entropy

models = fovea.models
STEPS, RATE = 10, 0.05
VIT = {'patch_size': 4, 'num_hiddens': 16, 'mlp_num_hiddens': 24, 'num_heads': 2, 'num_blks': 2, 'emb_dropout': 0.0,
       'blk_dropout': 0.0}
CASES = {
    'vit': (models.ViT, VIT),
    'vit, convolutions before it': (models.ViT, {**VIT, 'stem': 'convolutions', 'use_bias': True}),
    'vit, mean pooling and layer scale': (models.ViT, {**VIT, 'pooling': 'mean', 'layer_scale': 0.1}),
    'vit, local attention': (models.ViT, {**VIT, 'lsa': True, 'patch_size': 3}),
    'vit, sinusoidal positions': (models.ViT, {**VIT, 'positions': 'sinusoidal'}),
    'vit, rotary positions': (models.ViT, {**VIT, 'positions': 'rotary'}),
    'vit, ALiBi, local attention': (models.ViT, {**VIT, 'positions': 'alibi', 'lsa': True}),
    'cct, biases of T5': (models.CCT, {'num_hiddens': 16, 'mlp_num_hiddens': 24, 'blk_dropout': 0.0,
                                       'positions': 't5'}),
    'cct, no positions': (models.CCT, {'num_hiddens': 16, 'mlp_num_hiddens': 24, 'blk_dropout': 0.0,
                                       'positions': 'none'}),
    'deit': (models.DeiT, VIT),
    'swin': (models.Swin, {'patch_size': 1, 'window': 3, 'num_hiddens': 8, 'num_heads': [2, 4], 'num_blks': [2, 2]}),
    'swin, one window': (models.Swin, {'patch_size': 2, 'window': 6, 'num_hiddens': 8, 'mlp_ratio': 2,
                                       'num_heads': [1, 2], 'num_blks': [2, 1]}),
    'cct': (models.CCT, {'num_hiddens': 16, 'mlp_num_hiddens': 24, 'blk_dropout': 0.0}),
    'cct, one convolution': (models.CCT, {'num_convs': 1, 'kernel_size': 5, 'num_hiddens': 12, 'num_heads': 3,
                                          'blk_dropout': 0.0, 'use_bias': False, 'layer_scale': 1.0}),
    'resnet': (models.ResNet, {'channels': [8, 12], 'num_residuals': 1, 'stem': 'large'}),
    'resnet, as published': (models.ResNet, {'channels': [8, 12], 'num_residuals': 1, 'stem': 'small',
                                             'use_bias': False, 'shortcut_norm': True}),
    'resnet, small': (models.ResNet, {'channels': [8, 12], 'stem': 'small'}),
}


def randomise(module):
    """No parameter is left without effect: tokens and biases begin at 0, norms at 1."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)


def numbers_of_training(run):
    lines = [json.loads(line) for line in (run / 'metrics.jsonl').read_text().splitlines()]
    steps = [line for line in lines if line['kind'] == 'train']
    assert [line['step'] for line in steps] == list(range(1, STEPS + 1))
    return steps


@pytest.mark.parametrize('case', CASES)
def test_ten_steps(program, tmp_path, case):
    torch.set_num_threads(1)
    kind, options = CASES[case]
    call = Fovea(program, make_squares(tmp_path))
    torch.manual_seed(0)
    twin = kind((1, SIDE, SIDE), len(CLASSES), **options)
    randomise(twin)
    save_file(twin.state_dict(), tmp_path / 'weights.safetensors')
    teacher = None
    if kind is models.DeiT:
        call('train', 'squares.yaml', '--run-dir', 'teacher', 'train.max_epochs=2', '--quiet', expect=0)
        teacher = fovea.load(tmp_path / 'teacher')
        options = {**options, 'teacher': 'teacher'}
    config = yaml.safe_load((tmp_path / 'squares.yaml').read_text())
    config['model'] = {'name': case.split(',')[0], **options}
    config['data']['validation'] = {'size': 0}
    config['data']['batch_size'] = 150  # all images in each batch: their order is of no matter
    config['optimizer'] = {'name': 'sgd', 'learning_rate': RATE}
    config['train'] = {'max_steps': STEPS, 'log_every': 1, 'clip_norm': 0}
    (tmp_path / 'twin.yaml').write_text(yaml.safe_dump(config))
    call('import', 'twin.yaml', 'weights.safetensors', '-o', 'run', expect=0)
    call('train', '--resume', 'run', '--quiet', expect=0)

    images, labels = make_images(150, 1)
    images, labels = torch.from_numpy(images).unsqueeze(1) / 255, torch.from_numpy(labels).long()
    x = (images - 0.2) / 0.25
    optimizer = torch.optim.SGD(twin.parameters(), RATE)
    for step in numbers_of_training(tmp_path / 'run'):
        optimizer.zero_grad()
        if teacher is None:
            loss = cross_entropy(twin(x), labels)
        else:
            of_labels, of_teacher = twin.heads(x)
            loss = (cross_entropy(of_labels, labels) + cross_entropy(of_teacher, teacher(x).argmax(1))) / 2
        loss.backward()
        norm = torch.stack([p.grad.norm() for p in twin.parameters()]).norm()
        optimizer.step()
        key = 'loss' if teacher is None else 'distilled_loss'
        assert step[key] == pytest.approx(loss.item(), abs=1e-4)
        assert step['gradient_norm'] == pytest.approx(norm.item(), rel=1e-3)
    found = load_file(tmp_path / 'run' / 'checkpoints' / 'last' / 'model.safetensors')
    for name, tensor in twin.state_dict().items():
        torch.testing.assert_close(found[name], tensor, atol=1e-4, rtol=1e-4, msg=lambda m, name=name: f'{name}: {m}')


@pytest.mark.parametrize('halves', [False, True])
def test_residual_blocks_are_d2ls(halves):
    d2l = pytest.importorskip('d2l.torch', reason='d2l is not installed')
    ours = models.Residual(6, 9 if halves else 6, halves, 2 if halves else 1)
    theirs = d2l.Residual(9 if halves else 6, use_1x1conv=halves, strides=2 if halves else 1)
    x = torch.randn(3, 6, 13, 13)
    theirs(x)  # its layers are lazy
    randomise(theirs)
    ours.load_state_dict(theirs.state_dict())
    for mode in (True, False):
        torch.testing.assert_close(ours.train(mode)(x), theirs.train(mode)(x), atol=1e-5, rtol=1e-5)
