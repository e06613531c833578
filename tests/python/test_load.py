"""fovea.load: what the program trained gives the same numbers in Python, whatever the task and the settings."""

import json
import re
import shutil

import numpy as np
import pytest
import torch
import yaml
from conftest import CLASSES, ROOT, Fovea, make_images, make_squares, make_tiny, write_lines
from package import fovea
from PIL import Image
from safetensors.torch import load_file

TINY = ['train.max_epochs=8', '--quiet']
LINES = ['Ba ce, di fo!', "  l'o   ÉL ba .", 'unbekannt ba <eos> ce', '', 'ba?', 'BaBa',
         'b\u00ada l\u2019o \u200bce\ufeff', '\u200b', '\u2018ba ce\u2019 l\u2019o', 'ba ce di fo gu ha je ki ba']


@pytest.fixture
def fovea_call(program, tmp_path):
    """The program in a folder of its own; `fovea` is the package here."""
    return Fovea(program, tmp_path)


def one_thread():
    torch.set_num_threads(1)


def train(call, yaml, run, *settings):
    call('train', yaml, '--run-dir', run, *settings, expect=0)
    return call.cwd / run


def saved_keys(run, checkpoint='best'):
    return set(load_file(run / 'checkpoints' / checkpoint / 'model.safetensors'))


def loss_of(model, pairs):
    """The cross-entropy over target tokens, and how many there are."""
    source, target = model.source_vocab, model.target_vocab
    total = count = 0.0
    for a, b in pairs:
        ids, label = source.encode(a) + [source.eos], target.encode(b) + [target.eos]
        logits = model(torch.tensor([ids]), torch.tensor([[target.bos, *label[:-1]]]), torch.tensor([len(ids)]))
        total += torch.nn.functional.cross_entropy(logits[0], torch.tensor(label), reduction='sum').item()
        count += len(label)
    return total / count, count


@pytest.mark.parametrize('settings', [
    ['model.positions=sinusoidal'], ['model.positions=learned', 'model.use_bias=true'], ['model.positions=rotary'],
    ['model.positions=alibi', 'model.num_heads=4', 'model.num_blks=2'], ['model.positions=none'],
    ['model.positions=t5', 'model.num_heads=2', 'model.num_blks=2'],
    ['data.lowercase=false', 'model.label_smoothing=0.1', 'train.ema_decay=0.9'],
    ['data.tokenizer.name=characters', 'data.num_steps=40', 'data.min_freq=2']])
def test_transformers(fovea_call, tmp_path, settings):
    one_thread()
    make_tiny(tmp_path)
    assert isinstance(check_translator(fovea_call, tmp_path, settings), fovea.models.Transformer)


def check_translator(fovea_call, tmp_path, settings):
    run = train(fovea_call, 'tiny.yaml', 'run', *TINY, *settings)
    model = fovea.load(run)
    assert not model.training
    assert set(model.state_dict()) == saved_keys(run)
    pairs = [line.split('\t') for line in (tmp_path / 'test.tsv').read_text(encoding='utf-8').splitlines()]
    said = fovea_call.json('evaluate', 'run')
    loss, count = loss_of(model, pairs)
    assert said['tokens'] == count and said['loss'] == pytest.approx(loss, abs=1e-4)
    lines = [source for source, _ in pairs] + LINES
    write_lines(tmp_path / 'in.txt', lines)
    translations = model.translate(lines)
    assert translations == fovea_call.translate('run', '--input', 'in.txt')
    assert len(set(translations)) > 3
    return model


@pytest.mark.parametrize('settings', [
    'bidirectional: true, num_layers: 1', 'context: each_step, cell: lstm', 'context: initial, dropout: 0',
    'cell: lstm, score: general, score_weights: relu', 'score: cosine, local_width: 3', 'score: location',
    'score: scaled_dot, score_weights: hard', 'encoder: convolutional, conv_layers: 2, score: dot',
    'encoder: convolutional, cell: lstm, context: each_step, kernel_size: 5'])
def test_recurrent_translators(fovea_call, tmp_path, settings):
    one_thread()
    make_tiny(tmp_path)
    config = yaml.safe_load((tmp_path / 'tiny.yaml').read_text())
    config['model'] = {'name': 'seq2seq', 'embed_size': 16, 'num_hiddens': 24, **yaml.safe_load(f'{{{settings}}}')}
    (tmp_path / 'tiny.yaml').write_text(yaml.safe_dump(config))
    check_translator(fovea_call, tmp_path, [])


def test_a_translator(trained):
    one_thread()
    model = fovea.load(trained.path)
    assert model.config['model']['name'] == 'transformer' and model.num_steps == 8
    assert model.source_vocab['BA'.lower()] > 3 and model.source_vocab['<eos>'] == model.source_vocab.unk
    assert model.target_vocab.tokens[model.target_vocab.eos] == '<eos>'
    assert model.translate('Ba ce.') == model.translate(['Ba ce.'], batch_size=1)
    # Step by step as all at once.
    source, target = torch.randint(4, 9, (3, 6)), torch.randint(4, 9, (3, 5))
    lens, cache = torch.tensor([6, 2, 4]), []
    whole = model(source, target, lens)
    encoded = model.encoder(source, lens)
    steps = [model.decoder(target[:, i:i + 1], encoded, lens, cache) for i in range(5)]
    torch.testing.assert_close(torch.cat(steps, 1), whole)
    compiled = torch.compile(model, fullgraph=True, backend='aot_eager')
    torch.testing.assert_close(compiled(source, target, lens), whole)
    # It is a module like any other: it trains on.
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    losses = []
    for _ in range(20):
        loss = torch.nn.functional.cross_entropy(model(source, target, lens).flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_checkpoints_of_a_run(trained, run_copy, tmp_path):
    assert {str(p) for p in fovea.load(trained.path, 'last').state_dict()} == saved_keys(trained.path, 'last')
    step = (run_copy / 'checkpoints' / 'last').resolve().name
    fovea.load(run_copy, step), fovea.load(run_copy / 'checkpoints' / step)
    with pytest.raises(FileNotFoundError, match='step-7.*' + step):
        fovea.load(run_copy, 'step-7')
    with pytest.raises(FileNotFoundError, match='nothing there'):
        fovea.load(tmp_path / 'nowhere')
    (tmp_path / 'a.yaml').touch()
    with pytest.raises(FileNotFoundError, match='a directory with checkpoints; found a file'):
        fovea.load(tmp_path / 'a.yaml')
    with pytest.raises(FileNotFoundError, match='none there'):
        fovea.load(tmp_path)
    folder = run_copy / 'checkpoints' / step
    for name in ('best', 'last'):  # links get lost in copies
        (run_copy / 'checkpoints' / name).unlink()
    with pytest.warns(UserWarning, match='step-'):
        fovea.load(run_copy)
    (run_copy / 'checkpoints' / 'best').write_text(f'{step}\n')  # where the file system has none
    fovea.load(run_copy)
    for other in (run_copy / 'checkpoints').glob('step-*'):
        if other.name != step:
            shutil.rmtree(other)
    weights = bytearray((folder / 'model.safetensors').read_bytes())
    weights[-1] ^= 1
    (folder / 'model.safetensors').write_bytes(weights)
    with pytest.raises(ValueError, match='model.safetensors.*damaged'):
        fovea.load(run_copy)
    (folder / 'model.safetensors').write_bytes(weights[:-4])
    with pytest.raises(ValueError, match='model.safetensors.*bytes'):
        fovea.load(run_copy)
    (folder / 'source.vocab').unlink()
    (folder / 'manifest.json').unlink()
    with pytest.raises(FileNotFoundError, match='source.vocab'):
        fovea.load(run_copy)


def test_what_is_not_known_is_refused(run_copy):
    folder = (run_copy / 'checkpoints' / 'best').resolve()
    (folder / 'manifest.json').unlink()
    text = (folder / 'config.yaml').read_text()
    for old, new, message in [('  num_blks: 1', '  num_blks: 1\n  pre_norm: true', 'model.pre_norm'),
                              ('name: transformer', 'name: lstm', "model.name.*'lstm'"),
                              ('positions: sinusoidal', 'positions: relative', "'relative'"),
                              ('num_blks: 1', 'num_blks: 2', 'model.safetensors.*not the weights'),
                              ('name: words', 'name: bpe', "data.tokenizer.*'bpe'")]:
        assert old in text
        (folder / 'config.yaml').write_text(text.replace(old, new, 1))
        with pytest.raises(ValueError, match=message):
            fovea.load(run_copy)
    (folder / 'config.yaml').write_text(text)
    (folder / 'target.vocab').write_text((folder / 'target.vocab').read_text().replace('\nba-ba\n', '\nba-bu\n'))
    with pytest.raises(ValueError, match='target.vocab.*changed'):
        fovea.load(run_copy)


def test_a_run_of_version_0_1_and_a_package(fovea_call, tmp_path):
    run = ROOT / 'tests' / 'fixtures' / 'v0.1' / 'run'
    model = fovea.load(run)
    lines = ['ha di ha', 'fo', 'ba di fo ha']
    assert model.translate(lines) == fovea_call.translate(run, *lines)
    fovea_call('export', run, '-o', 'package', '--format', 'safetensors', expect=0)
    again = fovea.load(tmp_path / 'package')
    assert all(torch.equal(a, b) for a, b in zip(again.state_dict().values(), model.state_dict().values()))


@pytest.mark.parametrize('settings', [
    [], ['model.patch_width=3', 'model.use_bias=true', 'model.label_smoothing=0.1', 'train.ema_decay=null'],
    ['data.resize=[8, 16]', 'model.patch_size=8'],
    ['model.stem=convolutions', 'model.pooling=mean', 'model.layer_scale=0.1', 'model.lsa=true']])
def test_vision_transformers(fovea_call, tmp_path, settings):
    make_squares(tmp_path)
    check_classifier(fovea_call, tmp_path, settings)


@pytest.mark.parametrize('model', [
    '{name: nearest_mean}', '{name: cct, num_hiddens: 16, num_convs: 1, stochastic_depth: 0.1}',
    '{name: resnet, channels: [8, 12], stem: small}', '{name: swin, num_hiddens: 8, window: 3, num_heads: [1, 2]}',
    '{name: deit, patch_size: 4, num_hiddens: 16, mlp_num_hiddens: 16, num_heads: 2, teacher: teacher}'])
def test_classifiers(fovea_call, tmp_path, model):
    make_squares(tmp_path)
    if 'teacher' in model:
        train(fovea_call, 'squares.yaml', 'teacher', '--quiet')
    text = (tmp_path / 'squares.yaml').read_text().splitlines()
    dropped = ('model:', 'train:') if 'nearest' in model else ('model:',)  # it makes no steps
    text = [line for line in text if not line.startswith(dropped)]
    (tmp_path / 'squares.yaml').write_text('\n'.join([*text, f'model: {model}', '']))
    check_classifier(fovea_call, tmp_path, [])


def check_classifier(fovea_call, tmp_path, settings):
    one_thread()
    run = train(fovea_call, 'squares.yaml', 'run', '--quiet', *settings)
    model = fovea.load(run)
    assert set(model.state_dict()) == saved_keys(run) and not model.training
    assert model.class_names == CLASSES
    images, labels = make_images(60, 2)
    images, labels = torch.from_numpy(images).unsqueeze(1), torch.from_numpy(labels).long()
    x = model.preprocess(images)
    logits = model(x)
    said = fovea_call.json('evaluate', 'run')
    accuracy = (logits.argmax(1) == labels).double().mean().item()
    assert said['accuracy'] == pytest.approx(accuracy, abs=1e-6)
    if 'loss' in said and not isinstance(model, fovea.models.NearestMean):
        assert said['loss'] == pytest.approx(torch.nn.functional.cross_entropy(logits, labels).item(), abs=1e-4)
    # Images of other sizes, through files.
    rng = np.random.default_rng(0)
    for i, size in enumerate([(12, 12), (30, 17), (5, 40), (12, 13)]):
        image = rng.integers(0, 256, size, dtype=np.uint8)
        Image.fromarray(image).save(tmp_path / f'{i}.png')
        (name, probability), = model.classify(torch.from_numpy(image).unsqueeze(0))
        line = fovea_call('classify', 'run', f'{i}.png', expect=0).stdout.rstrip('\n').split('\t')
        assert line[1] == name and float(line[2]) == pytest.approx(probability, abs=1e-4)
    compiled = torch.compile(model, fullgraph=True, backend='aot_eager')
    torch.testing.assert_close(compiled(x), logits)


def test_a_classifier_says_what_it_takes(classifier):
    model = fovea.load(classifier)
    assert model.image_shape == (1, 12, 12) and model.mean == (0.2,) and model.std == (0.25,)
    images = torch.randint(256, (2, 1, 12, 12), dtype=torch.uint8)
    torch.testing.assert_close(model.preprocess(images), model.preprocess(images / 255))
    for error, message, given in [(ValueError, r'\(2, 3, 12, 12\)', torch.zeros(2, 3, 12, 12)),
                                  (TypeError, 'int64', images.long()), (ValueError, 'from 0 to 1, got', images.float()),
                                  (ValueError, 'nan', torch.full((1, 1, 12, 12), torch.nan))]:
        with pytest.raises(error, match=message):
            model.classify(given)
    with pytest.raises(RuntimeError, match='fovea.load'):
        fovea.models.ViT((1, 12, 12), 4, patch_size=4).classify(images)


@pytest.mark.parametrize('settings', [[], ['model.num_hiddens=[]'], ['data.num_targets=2', 'data.standardise=false'],
                                      ['model.dropout=0.2', 'train.ema_decay=0.9']])
def test_mlps(fovea_call, tmp_path, settings):
    check_regressor(fovea_call, tmp_path, {'name': 'mlp', 'num_hiddens': [16, 8]}, settings)


@pytest.mark.parametrize('model', [
    {'name': 'nadaraya_watson', 'learn_width': True}, {'name': 'nadaraya_watson', 'bandwidth': 0.5},
    {'name': 'nadaraya_watson', 'kernel': 'epanechikov'}, {'name': 'nadaraya_watson', 'kernel': 'boxcar'},
    {'name': 'nadaraya_watson', 'kernel': 'constant'}, {'name': 'pooling'}, {'name': 'pooling', 'kind': 'max'},
    {'name': 'pooling', 'kind': 'fully_connected'}])
def test_attention_pooling(fovea_call, tmp_path, model):
    check_regressor(fovea_call, tmp_path, model, [])


def check_regressor(fovea_call, tmp_path, model, settings):
    one_thread()
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 5, (150, 3))
    table = np.column_stack([x, 100 + 7 * x[:, 0] - x[:, 1] * x[:, 2]])
    write_lines(tmp_path / 'table.tsv', ['\t'.join(f'{value:.6f}' for value in row) for row in table])
    write_lines(tmp_path / 'rows.yaml', [
        'seed: 1', f'model: {json.dumps(model)}',
        'data: {name: table, path: table.tsv, validation: {size: 20}, test: {size: 20}}',
        'optimizer: {name: adam, learning_rate: 0.01}', 'train: {max_epochs: 5}', 'runtime: {device: cpu, threads: 1}'])
    run = train(fovea_call, 'rows.yaml', 'run', '--quiet', *settings)
    model = fovea.load(run)
    assert set(model.state_dict()) == saved_keys(run) and not model.training
    features = len(model.feature_mean)
    rows = [[0.5, -1.0, 2.0][:features], [4.0, 3.0, 1.5][:features]]
    found = model.predict(rows)
    for row, y in zip(rows, found.tolist()):
        said = fovea_call('predict', 'run', input=','.join(map(str, row)) + '\n', expect=0).stdout
        assert [float(value) for value in re.split(r'[\t ,]', said)] == pytest.approx(y, rel=1e-4)
    with pytest.raises(ValueError, match=f'rows of {features} numbers.*7'):
        model.predict([[1.0] * 7])
    x = torch.randn(5, features)
    torch.testing.assert_close(torch.compile(model, fullgraph=True, backend='aot_eager')(x), model(x))

