"""`fovea inspect`: what is in data before a training, of each kind."""

import json
import random

import pytest
from conftest import CLASSES, make_images, tiny_pairs, write_lines, write_tsv
from PIL import Image


def inspected(fovea, *args):
    return json.loads(fovea('inspect', *args, '--json', expect=0).stdout)


def test_a_corpus(fovea, tmp_path):
    pairs = [(f'the cat number {i} sits here.', f'le chat numéro {i} est assis ici.') for i in range(60)]
    pairs[7] = ('same same same', 'same same same')
    pairs[11] = ('a sentence of a few words', 'коротко говоря по русски')
    pairs[13] = ('short one', 'une phrase qui est vraiment bien plus longue que ce que dit sa source, et de loin')
    pairs[20] = pairs[19]
    write_tsv(tmp_path / 'corpus.tsv', [*pairs[:5], ('', ''), *pairs[5:], ('alone', '')])
    found = inspected(fovea, 'corpus.tsv')
    assert found['task'] == 'translation' and found['pairs'] == 60 and found['lines'] == 62
    assert found['blank_lines'] == 1 and found['one_sided_lines'] == 1 and found['repeated_pairs'] == 1
    assert {pair['line']: pair['why'] for pair in found['doubtful_pairs']} == {
        9: 'same on both sides', 13: 'target in Cyrillic, not Latin', 15: 'target far longer'}
    assert sum(row['count'] for row in found['source_lengths']) == 60
    assert 0 < found['source_coverage'] <= 1
    assert [part['name'] for part in found['parts']][0] == 'train'
    assert all(0 <= part['unknown_source'] <= 1 for part in found['parts'])
    lines = (tmp_path / 'corpus.tsv').read_text(encoding='utf-8').split('\n')
    assert len(found['examples']) == 5
    for example in found['examples']:
        assert lines[example['line'] - 1] == f"{example['source']}\t{example['target']}"
    assert inspected(fovea, 'corpus.tsv')['examples'] == found['examples']
    assert inspected(fovea, 'corpus.tsv', 'seed=2')['examples'] != found['examples']
    assert len(inspected(fovea, 'corpus.tsv', '--list', '2', '--examples', '1')['doubtful_pairs']) == 2
    text = fovea('inspect', 'corpus.tsv', expect=0).stdout
    assert '█' in text and 'same on both sides' in text


def test_a_configuration_and_a_run(fovea, trained, tmp_path):
    write_tsv(tmp_path / 'c.tsv', tiny_pairs(100))
    (tmp_path / 'c.yaml').write_text('model: {name: transformer}\n'
                                     'data: {name: translation, path: c.tsv, num_steps: 8, validation: {size: 10}}\n')
    found = inspected(fovea, 'c.yaml')
    assert {part['name']: part['pairs'] for part in found['parts']} == {'train': 90, 'validation': 10}
    many, few = (inspected(fovea, 'c.yaml', f'data.min_freq={n}')['source_vocabulary'] for n in (1, 35))
    assert few < many
    refused = fovea('inspect', 'c.yaml', 'data.min_freq=1000', expect=0)
    assert 'a training would refuse this' in refused.stderr
    assert inspected(fovea, str(trained))['pairs'] == 150


def test_images_in_folders(fovea, tmp_path):
    images, labels = make_images(100, 4)
    for i, (image, label) in enumerate(zip(images, labels)):
        place = tmp_path / 'photos' / CLASSES[label]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(place / f'{i:03}.png')
    a, b = tmp_path / 'photos' / CLASSES[0], tmp_path / 'photos' / CLASSES[1]
    first = next(a.glob('*.png')).read_bytes()
    (a / 'twin.png').write_bytes(first)
    (b / 'stray.png').write_bytes(first)
    (b / 'bad.png').write_bytes(b'<html>')
    Image.effect_noise((30, 20), 50).save(b / 'large.jpg')
    found = inspected(fovea, 'photos')
    assert found['images'] == 104 and found['damaged'] == 1
    # The first of the three by its path is that of another class.
    assert found['copies'] == 2 and found['copies_of_another_class'] == 2
    assert found['damaged_files'][0]['image'] == f'{CLASSES[1]}/bad.png'
    assert 'HTML' in found['damaged_files'][0]['why']
    assert {(row['height'], row['width']): row['images'] for row in found['sizes']} == {(12, 12): 102, (20, 30): 1}
    assert [row['name'] for row in found['classes']] == sorted(CLASSES)
    for part in ('train', 'validation', 'test'):
        assert sum(row[part] for row in found['classes']) == found[part]
    assert found['train'] + found['validation'] + found['test'] == 103
    assert not list(tmp_path.rglob('*.images'))  # nothing is written


def test_idx_images(fovea, squares):
    found = inspected(fovea, 'squares.yaml')
    assert found['train'] == 130 and found['validation'] == 20 and found['copies'] == 0
    assert inspected(fovea, 'train-images.idx', 'train-labels.idx')['images'] == 150


def test_tables(fovea, tmp_path):
    rng = random.Random(1)
    rows = [f'{rng.random():.9f},7,{i}' for i in range(60)]
    write_lines(tmp_path / 't.csv', ['a,b,y', *rows, rows[0], rows[1].rsplit(',', 1)[0] + ',99'])
    done = fovea('inspect', 't.csv', expect=0)
    assert 'b never changes' in done.stderr
    found = inspected(fovea, 't.csv')
    assert found['rows'] == 62 and found['equal_rows'] == 1 and found['same_features'] == 1
    assert [column['role'] for column in found['columns']] == ['feature', 'feature', 'target']
    assert found['columns'][2]['greatest'] == 99
    (tmp_path / 'n.yaml').write_text('model: {name: nadaraya_watson}\ndata: {name: noisy_function}\n')
    assert inspected(fovea, 'n.yaml')['train'] > 0


@pytest.mark.parametrize('args, said', [([], 'expected data or a configuration'), (['nowhere'], 'no such file'),
                                        (['words.txt'], 'no task knows')])
def test_what_cannot_be_inspected(fovea, tmp_path, args, said):
    write_lines(tmp_path / 'words.txt', ['no tab here'] * 3)
    assert said in fovea('inspect', *args, expect=2).stderr
