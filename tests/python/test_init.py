"""`fovea init`: a configuration that fits files of a user's own."""

import gzip
import os
import pty

import pytest
from conftest import TIMEOUT, metrics_of, tiny_pairs, write_lines, write_tsv


def init(fovea, *args):
    return fovea('init', *args, expect=0)


def lines_of_yaml(path):
    return {line.split('#')[0].strip() for line in path.read_text().splitlines()}


def test_init_of_pairs_validates_and_trains(fovea, tmp_path):
    write_tsv(tmp_path / 'pairs.tsv', tiny_pairs(400))
    said = init(fovea, 'pairs.tsv').stdout
    assert 'fovea train pairs.yaml' in said and 'fovea evaluate runs/pairs' in said and 'fovea translate' in said
    assert fovea('config', 'validate', 'pairs.yaml', expect=0).stdout == 'pairs.yaml: ok\n'
    lines = lines_of_yaml(tmp_path / 'pairs.yaml')
    assert {'name: translation', 'path: pairs.tsv', 'num_steps: 8', 'size: 20', 'size: 40', 'min_freq: 5'} <= lines
    fovea('train', 'pairs.yaml', 'train.max_steps=2', 'model.num_hiddens=16', '--quiet', expect=0)
    assert metrics_of(tmp_path / 'runs/pairs')
    fovea('evaluate', 'runs/pairs', expect=0)


def test_init_of_parallel_files_with_a_test_of_their_own(fovea, tmp_path):
    pairs = tiny_pairs(300)
    for name, part in (('train', pairs[:250]), ('test', pairs[250:])):
        write_lines(tmp_path / f'{name}.en', [source for source, _ in part])
        write_lines(tmp_path / f'{name}.fr', [target for _, target in part])
    init(fovea, 'train.en', 'train.fr', '--test', 'test.en', 'test.fr', '-o', 'mine.yaml')
    assert {'source_path: train.en', 'target_path: train.fr', 'source_path: test.en', 'target_path: test.fr'} <= \
        lines_of_yaml(tmp_path / 'mine.yaml')
    assert '50 pairs' in fovea('train', 'mine.yaml', '--dry-run', expect=0).stderr


def test_init_finds_sizes_by_the_amount(fovea, tmp_path):
    write_tsv(tmp_path / 'few.tsv', tiny_pairs(200))
    write_tsv(tmp_path / 'many.tsv', [(f'{s} {i % 997}', t) for i, (s, t) in enumerate(tiny_pairs(60000))])
    init(fovea, 'few.tsv')
    init(fovea, 'many.tsv')
    few, many = lines_of_yaml(tmp_path / 'few.yaml'), lines_of_yaml(tmp_path / 'many.yaml')
    assert 'num_hiddens: 192' in few and 'num_hiddens: 256' in many
    assert 'batch_size: 16' in few and 'batch_size: 128' in many
    assert 'warning: ' in (tmp_path / 'few.yaml').read_text()


def test_init_of_text_without_spaces_takes_characters(fovea, tmp_path):
    pairs = [(source, '東京は大きい町です' * (1 + len(source) % 3)) for source, _ in tiny_pairs(60)]
    write_tsv(tmp_path / 'zh.tsv', pairs)
    init(fovea, 'zh.tsv')
    assert 'tokenizer: {name: characters}' in lines_of_yaml(tmp_path / 'zh.yaml')
    fovea('train', 'zh.yaml', '--dry-run', expect=0)


def test_init_of_a_table(fovea, tmp_path):
    rows = ['width,height,price'] + [f'{i % 7},{i % 5},{2 * (i % 7) + 3 * (i % 5)}' for i in range(300)]
    write_lines(tmp_path / 'houses.csv', rows)
    said = init(fovea, 'houses.csv').stdout
    assert 'price' in said and 'to be predicted' in said
    fovea('train', 'houses.yaml', '--quiet', expect=0)
    assert fovea.json('evaluate', 'runs/houses')['r2'] > 0.9
    (prediction,) = fovea('predict', 'runs/houses', '2,3', expect=0).stdout.split()
    assert float(prediction) == pytest.approx(13, abs=2)


def test_init_of_images(fovea, squares, tmp_path):
    init(fovea, 'train-labels.idx', 'train-images.idx', '--test', 'test-images.idx', 'test-labels.idx', '-o', 's.yaml')
    lines = lines_of_yaml(tmp_path / 's.yaml')
    assert {'name: idx_images', 'train_images: train-images.idx', 'test_labels: test-labels.idx',
            'classes: ["class 0", "class 1", "class 2", "class 3"]'} <= lines
    fovea('train', 's.yaml', 'train.max_steps=2', '--quiet', expect=0)
    assert 'accuracy' in fovea.json('evaluate', 'runs/s')


def test_init_reads_gzip_and_writes_paths_that_hold(fovea, tmp_path):
    (tmp_path / 'data').mkdir()
    (tmp_path / 'configs').mkdir()
    text = ''.join(f'{source}\t{target}\n' for source, target in tiny_pairs(50)).encode()
    (tmp_path / 'data/a b.tsv.gz').write_bytes(gzip.compress(text))
    init(fovea, 'data/a b.tsv.gz', '-o', 'configs/x.yaml')
    assert 'path: "../data/a b.tsv.gz"' in lines_of_yaml(tmp_path / 'configs/x.yaml')
    fovea('train', 'configs/x.yaml', '--dry-run', expect=0)


def test_init_refuses_what_it_does_not_know(fovea, tmp_path):
    write_tsv(tmp_path / 'pairs.tsv', tiny_pairs(50))
    (tmp_path / 'noise.bin').write_bytes(bytes(range(256)))
    (tmp_path / 'latin.tsv').write_bytes('a\tb\ncaf\u00e9\tc\n'.encode('latin-1'))
    for args, said in ((['missing.tsv'], 'missing.tsv'), (['noise.bin'], 'translation'), ([], 'fovea init'),
                       (['latin.tsv'], 'latin.tsv:2'), (['pairs.tsv', '-o', 'x.txt'], '.yaml')):
        done = fovea('init', *args)
        assert done.returncode in (1, 2) and said in done.stderr and done.stderr.startswith('error: ')
    init(fovea, 'pairs.tsv')
    (tmp_path / 'pairs.yaml').write_text('seed: 9\n')
    assert 'already exists' in fovea('init', 'pairs.tsv', expect=2).stderr
    assert (tmp_path / 'pairs.yaml').read_text() == 'seed: 9\n'
    init(fovea, 'pairs.tsv', '--overwrite')
    assert 'seed: 1' in (tmp_path / 'pairs.yaml').read_text()


def test_init_asks_on_a_terminal(fovea, tmp_path):
    write_tsv(tmp_path / 'pairs.tsv', tiny_pairs(50))
    main, side = pty.openpty()
    process = fovea.start('init', stdin=side)
    os.close(side)
    os.write(main, b'nowhere.tsv\npairs.tsv\n\n')
    out, err = process.communicate(timeout=TIMEOUT)
    os.close(main)
    assert process.returncode == 0, err
    assert b'there is no such file: nowhere.tsv' in err and b'fovea train pairs.yaml' in out


def test_data_are_not_replaced_by_their_configuration(fovea, tmp_path):
    pairs = ''.join(f'word {i}\tmot {i}\n' for i in range(40))
    (tmp_path / 'own.yaml').write_text(pairs)
    done = fovea('init', 'own.yaml', '--overwrite', expect=2)
    assert 'is read here, so it cannot be written' in done.stderr
    assert (tmp_path / 'own.yaml').read_text() == pairs


def test_nothing_is_evaluated_where_nothing_is_held_out(fovea, tmp_path):
    (tmp_path / 'three.tsv').write_text('a b c\td e f\ng h i\tj k l\nm n o\tp q r\n')
    done = fovea('init', 'three.tsv', expect=0)
    assert 'fovea evaluate' not in done.stdout and 'too few to hold some out' in done.stderr
    assert 'the longest 3' in done.stdout
    assert '# words per sentence, its end counted' in (tmp_path / 'three.yaml').read_text()
