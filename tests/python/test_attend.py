"""`fovea attend`: what a model looks at, as a table, as numbers and as pictures."""

import json
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from conftest import Fovea, make_images
from PIL import Image

CURVE_YAML = """\
model: {name: nadaraya_watson}
data: {name: noisy_function, num_points: 20}
train: {max_epochs: 1}
runtime: {device: cpu, threads: 1}
"""


@pytest.fixture(scope='module')
def aligned(program, tmp_path_factory, trained):
    """A recurrent translator with attention."""
    folder = tmp_path_factory.mktemp('aligned')
    text = (trained.folder / 'tiny.yaml').read_text()
    model = text.index('model:')
    data = text.index('data:')
    (folder / 'rnn.yaml').write_text(
        text[:model] + 'model: {name: seq2seq, context: attention, num_hiddens: 16, embed_size: 16, num_layers: 1}\n' +
        text[data:])
    for name in ('corpus.tsv', 'test.tsv'):
        (folder / name).write_bytes((trained.folder / name).read_bytes())
    Fovea(program, folder)('train', 'rnn.yaml', '--run-dir', 'run', expect=0)
    return folder / 'run'


def weights_of(fovea, *args):
    found = json.loads(fovea('attend', *args, '--json', expect=0).stdout)
    for attention in found['attention']:
        weights = np.array(attention['weights'])
        assert weights.shape[1:] == (len(attention['queries']), len(attention['keys']))
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
        assert weights.min() >= 0
    return found


def test_a_translators_heads(fovea, trained):
    found = weights_of(fovea, trained, 'ba ki gu.')
    groups = [(a['group'], a['name']) for a in found['attention']]
    assert groups == [('encoder', 'encoder.blks.block0.attention'), ('decoder', 'decoder.blks.block0.attention1'),
                      ('cross', 'decoder.blks.block0.attention2')]
    encoder, decoder, cross = found['attention']
    assert encoder['keys'] == encoder['queries'] == cross['keys']
    assert encoder['keys'][-1] == '<eos>' and '<pad>' not in encoder['keys']
    assert decoder['keys'][0] == '<bos>' and decoder['queries'][-1] == '<eos>'
    assert decoder['keys'][1:] == decoder['queries'][:-1] and cross['queries'] == decoder['queries']
    assert len(cross['weights']) == 2  # heads
    assert np.triu(np.array(decoder['weights']), 1).max() == 0  # nothing is read before it is written


def test_the_weights_are_those_of_a_given_target(fovea, trained):
    own = weights_of(fovea, trained, 'ba ki gu.')
    again = weights_of(fovea, trained, 'ba ki gu.', '--target', own['translation'])
    assert again['attention'] == own['attention']
    other = weights_of(fovea, trained, 'ba ki gu.', '--target', 'ba-ba.')
    assert other['attention'][2]['queries'] == ['ba-ba', '.', '<eos>']


def test_an_alignment(fovea, aligned):
    found = weights_of(fovea, aligned, 'ba ki gu.')
    assert [a['group'] for a in found['attention']] == ['cross']
    assert found['attention'][0]['keys'] == ['ba', 'ki', 'gu', '.', '<eos>']


def test_heads_over_an_image(fovea, classifier, pictures):
    name = next(iter(pictures.values()))
    found = weights_of(fovea, classifier, name)
    assert [a['group'] for a in found['attention']] == ['image', 'image', 'roll-out', 'relevance']
    for attention in found['attention']:
        assert attention['keys'][:2] == ['class', '1,1'] and attention['grid'] == [3, 3]
        assert len(attention['keys']) == 1 + 9
    other = weights_of(fovea, classifier, name, '--class', 'left')
    assert other['shown_class' if found['class'] != 'left' else 'class'] == 'left'
    assert 'did you mean' in fovea('attend', classifier, name, '--class', 'topp', expect=2).stderr


def test_relevance_finds_the_square(fovea, classifier, tmp_path):
    """The class is told by one of nine patches: of the relevance it has far more than a ninth."""
    shares = []
    for image, label in zip(*make_images(12, 9)):
        Image.fromarray(image).save(tmp_path / 'x.png')
        relevance = weights_of(fovea, classifier, 'x.png')['attention'][-1]
        shares.append(relevance['weights'][0][0][1 + int(label)])  # the squares of the classes are the first patches
    assert np.mean(shares) > 2 / 9


def test_the_kernel_over_the_points(fovea, tmp_path):
    (tmp_path / 'curve.yaml').write_text(CURVE_YAML)
    fovea('train', 'curve.yaml', '--run-dir', 'run', expect=0)
    found = weights_of(fovea, 'run', '3', '1')
    [attention] = found['attention']
    assert attention['queries'] == ['1', '3'] and len(attention['keys']) == 20
    keys = [float(key) for key in attention['keys']]
    assert keys == sorted(keys)
    for query, row in zip(attention['queries'], attention['weights'][0]):
        assert int(np.argmax(row)) == int(np.argmin(np.abs(np.array(keys) - float(query))))  # the nearest point


def test_pictures(fovea, trained, classifier, pictures, tmp_path):
    said = fovea('attend', trained, 'ba ki <mo> & "a".', '-o', 'heads.svg', expect=0).stdout
    assert 'decoder.blks.block0.attention2   cross' in said
    texts = [''.join(e.itertext()).strip() for e in ElementTree.parse(tmp_path / 'heads.svg').iter() if e.tag.endswith('text')]
    assert {'ba', 'ki', '<eos>', 'head 1', 'head 2', 'weight'} <= set(texts)
    assert texts.count('head 1') == 3
    fovea('attend', trained, 'ba ki.', '--group', 'cross', '--head', '2', '-o', 'one.svg', expect=0)
    assert (tmp_path / 'one.svg').read_text().count('head ') == 1
    fovea('attend', classifier, next(iter(pictures.values())), '-o', 'heads.png', expect=0)
    picture = np.array(Image.open(tmp_path / 'heads.png').convert('RGB'))
    assert (picture != 255).any(-1).mean() > 0.05
    fovea('attend', trained, 'ba ki.', '-o', 'heads.json', expect=0)
    assert json.loads((tmp_path / 'heads.json').read_text())['attention']
    fovea('attend', trained, 'ba ki.', '-o', 'heads.pdf', expect=0)
    assert (tmp_path / 'heads.pdf').read_bytes().startswith(b'%PDF')


@pytest.mark.parametrize('args, said', [
    (['ba', 'ki', '-o', 'x.png'], 'one sentence at a time, got 2'),
    ([' '], 'blank'),
    (['ba', '-o', 'x.bmp'], 'expected a name that ends in .svg, .png or .pdf'),
    (['ba', '-o', 'nowhere/x.png'], 'nowhere'),
    (['ba', '--layer', '7', '-o', 'x.png'], 'there are'),
    (['ba', '--target', 'ba ' * 20], 'too many'),
    (['ba', '--class', 'left'], '--class'),
    ([], 'expected a run and an input'),
])
def test_what_cannot_be_shown(fovea, trained, tmp_path, args, said):
    assert said in fovea('attend', trained, *args, expect=2).stderr
    assert not (tmp_path / 'x.png').exists()


def test_a_model_without_attention(fovea, tmp_path, trained, aligned):
    for name in ('corpus.tsv', 'test.tsv'):
        (tmp_path / name).write_bytes((trained.folder / name).read_bytes())
    text = (aligned.parent / 'rnn.yaml').read_text().replace('context: attention', 'context: initial')
    (tmp_path / 'blind.yaml').write_text(text)
    done = fovea('train', 'blind.yaml', '--run-dir', 'blind')
    assert done.returncode == 0, done.stderr
    assert 'has no attention to show' in fovea('attend', 'blind', 'ba ki.', expect=2).stderr


def test_a_picture_needs_gnuplot(fovea, trained, tmp_path):
    (tmp_path / 'empty').mkdir()
    done = fovea('attend', trained, 'ba ki.', '-o', 'x.png', env={'PATH': str(tmp_path / 'empty')}, expect=1)
    assert 'apt install gnuplot-nox' in done.stderr
    assert list(tmp_path.glob('*x.png*')) == []
