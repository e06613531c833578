"""`fovea picture`: the book's pictures that need no trained model."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from PIL import Image

NAMES = ['identity', 'kernels', 'kernel-fits', 'kernel-weights', 'bandwidth-fits', 'bandwidth-weights', 'masked-softmax',
         'additive', 'positions', 'position-codes']


def texts_of(path):
    return [''.join(e.itertext()).strip() for e in ElementTree.parse(path).iter() if e.tag.endswith('text')]


def test_all_are_listed(fovea):
    lines = fovea('picture', expect=0).stdout.splitlines()[2:]
    assert [line.split()[0] for line in lines] == NAMES


@pytest.mark.parametrize('name, words', [
    ('identity', {'0', '9', 'weight'}),
    ('kernels', {'gaussian', 'boxcar', 'constant', 'epanechikov', 'distance of query and key'}),
    ('kernel-fits', {'data', 'curve', 'fit', 'epanechikov'}),
    ('kernel-weights', {'gaussian', 'boxcar', 'constant', 'epanechikov', 'weight'}),
    ('bandwidth-fits', {'width 0.1', 'width 0.2', 'width 0.5', 'width 1'}),
    ('bandwidth-weights', {'width 0.1', 'width 0.2', 'width 0.5', 'width 1'}),
    ('masked-softmax', {'2 valid keys', '6 valid keys'}),
    ('additive', {'2 valid keys', '6 valid keys'}),
    ('positions', {'column 6', 'column 9', 'position'}),
    ('position-codes', {'positional encoding', 'binary numbers', 'value'}),
])
def test_a_picture_names_what_it_shows(fovea, tmp_path, name, words):
    assert fovea('picture', name, expect=0).stdout == f'{name}.svg\n'
    assert words <= set(texts_of(tmp_path / f'{name}.svg'))


def test_as_many_cells_are_coloured_as_keys_count(fovea, tmp_path):
    """Of the first sentence two keys count, of the second six."""
    fovea('picture', 'additive', '-o', 'x.png', expect=0)
    pixels = np.array(Image.open(tmp_path / 'x.png').convert('RGB')).astype(int)
    colours, counts = np.unique(pixels.reshape(-1, 3), axis=0, return_counts=True)
    count_of = {tuple(colour): count for colour, count in zip(colours.tolist(), counts)}
    dark = count_of[(8, 38, 86)]
    pale = max(count for (red, _, blue), count in count_of.items() if 150 < red < 200 and blue > 220)
    assert 2.7 < pale / dark < 3.2  # six cells against two; a little is hidden below the frame


def test_what_is_no_picture(fovea, tmp_path):
    assert "did you mean 'kernels'" in fovea('picture', 'kernel', expect=2).stderr.replace('\n', ' ')
    fovea('picture', 'kernels', expect=0)
    assert '--overwrite' in fovea('picture', 'kernels', expect=2).stderr
    assert '.svg, .png or .pdf' in fovea('picture', 'kernels', '-o', 'x.gif', expect=2).stderr
