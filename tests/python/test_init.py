"""`fovea init`: a configuration that fits files of a user's own."""

import gzip
import os
import pty
import re
import shlex
import shutil

import numpy as np
import pytest
from conftest import TIMEOUT, metrics_of, tiny_pairs, write_idx, write_lines, write_tsv


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
    assert b'nowhere.tsv: there is no such file; once more' in err and b'fovea train pairs.yaml' in out


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


# C48: a name that is not UTF-8 can stand in no configuration; said before anything is written.
def test_c48_init_refuses_names_that_yaml_cannot_hold(fovea, tmp_path):
    write_tsv(tmp_path / 'pairs.tsv', tiny_pairs(50))
    latin = os.fsdecode(b'caf\xe9.tsv')
    shutil.copy(tmp_path / 'pairs.tsv', tmp_path / latin)
    folder = tmp_path / os.fsdecode(b'd\xe9')
    folder.mkdir()
    shutil.copy(tmp_path / 'pairs.tsv', folder / 'pairs.tsv')
    for args in ([latin, '-o', 'x.yaml'], ['pairs.tsv', '--test', latin, '-o', 'x.yaml'],
                 [str(folder / 'pairs.tsv'), '-o', 'x.yaml'], ['pairs.tsv', '-o', os.fsdecode(b'\xe9.yaml')]):
        assert 'is not UTF-8' in fovea('init', *args, expect=2).stderr
    assert not list(tmp_path.glob('*.yaml'))


# C49: paths as the other commands take them.
def test_c49_init_knows_home_and_says_what_is_no_path(fovea, tmp_path):
    write_tsv(tmp_path / 'pairs.tsv', tiny_pairs(200))
    env = {**os.environ, 'HOME': str(tmp_path)}
    done = fovea('init', '~/pairs.tsv', '--test=~/pairs.tsv', '--validation=~/pairs.tsv', '--output=~/mine.yaml',
                 env=env, expect=0)
    assert 'mine.yaml' in done.stdout and not (tmp_path / '~').exists()
    assert 'pairs.tsv' in (tmp_path / 'mine.yaml').read_text()
    for args in (['https://x.org/pairs.tsv'], ['pairs.tsv', '--test', 'https://x.org/t.tsv'],
                 ['pairs.tsv', '-o', 'https://x.org/t.yaml']):
        assert 'is a web address' in fovea('init', *args, expect=2).stderr
    for args in (['*.csv'], ['pairs.tsv', '--validation', '*.csv'], ['pairs.tsv', '-o', '*.yaml']):
        assert "'*' stands for nothing here" in fovea('init', *args, expect=2).stderr


def test_a_link_stays_and_what_it_names_is_written(fovea, tmp_path):
    write_tsv(tmp_path / 'pairs.tsv', tiny_pairs(50))
    (tmp_path / 'x.yaml').symlink_to('real.yaml')
    fovea('init', 'pairs.tsv', '-o', 'x.yaml')
    assert (tmp_path / 'x.yaml').is_symlink() and 'model:' in (tmp_path / 'real.yaml').read_text()
    assert 'already exists' in fovea('init', 'pairs.tsv', '-o', 'x.yaml', expect=2).stderr


def test_parts_of_their_own_are_looked_at(fovea, squares, tmp_path):
    write_tsv(tmp_path / 'pairs.tsv', tiny_pairs(50))
    write_lines(tmp_path / 'plain.txt', ['no tab here'] * 3)
    write_lines(tmp_path / 'table.csv', ['a,b,y'] + [f'{i},{i},{i}' for i in range(60)])
    write_lines(tmp_path / 'narrow.csv', ['a,y'] + [f'{i},{i}' for i in range(60)])
    write_lines(tmp_path / 'renamed.csv', ['b,a,y'] + [f'{i},{i},{i}' for i in range(60)])
    (tmp_path / 'empty.tsv').touch()
    images = ['train-images.idx', 'train-labels.idx']
    cases = [(['pairs.tsv'], ['missing.tsv'], 'missing.tsv: there is no such file'),
             (['pairs.tsv'], ['empty.tsv'], 'empty.tsv: expected data, found nothing'),
             (['pairs.tsv'], ['plain.txt'], 'found no tab'),
             (['pairs.tsv'], ['table.csv'], 'found no tab'),
             (['pairs.tsv'], ['test-images.idx'], 'test-images.idx'),
             (['table.csv'], ['narrow.csv'], 'expected 3 columns as in table.csv, found 2'),
             (['table.csv'], ['renamed.csv'], 'column 1 is "b"; expected "a" as in table.csv'),
             (['table.csv'], ['plain.txt'], 'plain.txt')]
    for files, part, said in cases:
        for option in ('--test', '--validation'):
            done = fovea('init', *files, option, *part, '-o', 'x.yaml')
            assert done.returncode in (1, 2) and said in done.stderr, (files, part, done.stderr)
    for part, said in ((['test-images.idx'], '--test: expected an IDX file of images and one of labels, got 1 file'),
                       (['pairs.tsv', 'plain.txt'], '--test: expected IDX files of bytes, found in pairs.tsv')):
        assert said in fovea('init', *images, '--test', *part, '-o', 'x.yaml', expect=2).stderr
    assert not (tmp_path / 'x.yaml').exists()


def test_the_next_commands_can_be_pasted(fovea, tmp_path):
    write_tsv(tmp_path / "it's & mine.tsv", tiny_pairs(400))
    said = init(fovea, "it's & mine.tsv").stdout
    commands = [shlex.split(line) for line in said.replace('\\\n', ' ').splitlines() if line.startswith('  fovea ')]
    assert commands[0] == ['fovea', 'train', "it's & mine.yaml"]
    assert commands[1] == ['fovea', 'evaluate', "runs/it's & mine"]
    assert commands[2][:3] == ['fovea', 'translate', "runs/it's & mine"] and len(commands[2]) == 4


def test_each_task_says_why_it_does_not_take_the_files(fovea, squares, pictures, tmp_path):
    picture = next(iter(pictures.values()))
    write_lines(tmp_path / 'plain.txt', ['no tab here'] * 3)
    write_lines(tmp_path / 'quoted.csv', ['"a","b"'] + [f'"{i}","{i}"' for i in range(9)])
    (tmp_path / 'blank.txt').write_text('\n\n')
    for files, reasons in (
            (['plain.txt'], ['translation: 0 of 3 lines in plain.txt have a tab', 'name both of two parallel files',
                             'classification: expected IDX files of bytes, found in plain.txt text',
                             'regression: 0 of the first 3 lines in plain.txt hold two numbers or more']),
            (['quoted.csv'], ['numbers stand without quotes']),
            (['blank.txt'], ['blank.txt holds blank lines only']),
            (['train-images.idx'], ['classification: expected an IDX file of images and one of labels, got 1 file']),
            (['train-labels.idx', 'test-labels.idx'], ['test-labels.idx both hold labels']),
            (['plain.txt', 'quoted.csv', 'blank.txt'], ['or two parallel files, got 3', 'got 3 files']),
            ([picture], [f'translation: expected text, found in {picture} a PNG image'])):
        said = fovea('init', *files, expect=2).stderr
        assert 'no task knows what to do with that' in said
        for reason in reasons:
            assert reason in said, said


def test_what_is_evidently_no_data_is_named(fovea, trained, tmp_path):
    (tmp_path / 'empty.tsv').touch()
    (tmp_path / 'x.yaml').write_text('model: {name: transformer}\n')
    (tmp_path / 'w.safetensors').write_bytes(b'12345678')
    (tmp_path / 'folder').mkdir()
    for name, said in (('empty.tsv', 'it is empty'), ('x.yaml', 'train it: fovea train x.yaml'),
                       ('w.safetensors', 'fovea import w.safetensors'), ('folder', 'expected a folder for each class'),
                       (str(trained), 'is a run, not data')):
        assert said in fovea('init', name, expect=2).stderr


# One of a thing is not many of it.
def test_one_is_singular(fovea, tmp_path):
    (tmp_path / 'pair.tsv').write_text('go\tva\n')
    (tmp_path / 'blank.tsv').write_text('go .\tva !\n\n')
    (tmp_path / 'row.csv').write_text('1,2\n')
    (tmp_path / 'text.txt').write_text('text\n')
    (tmp_path / 'two.txt').write_text('text\ntext\n')
    write_idx(tmp_path / 'images.idx', np.full((1, 8, 8), 7, np.uint8))
    write_idx(tmp_path / 'labels.idx', np.zeros(1, np.uint8))
    said = []
    for files in (['pair.tsv'], ['blank.tsv'], ['row.csv'], ['text.txt'], ['images.idx', 'labels.idx'],
                  ['text.txt', 'two.txt'], ['images.idx']):
        done = fovea('init', *files, '-o', 'x.yaml', '--overwrite')
        said.append(done.stdout + done.stderr)
        if done.returncode == 0:
            said.append((tmp_path / 'x.yaml').read_text())
            said.append(fovea('train', 'x.yaml', '--dry-run').stderr)
    said.append(fovea('score', 'text.txt', 'two.txt', expect=2).stderr)
    said.append(fovea('config', 'validate', 'x.yaml', 'optimizer.betas=[0.9]', expect=2).stderr)
    text = '\n'.join(said)
    assert len(re.findall(r'\b1 (?:pair|row|image|class|word|line)\b', text)) > 10, text
    assert re.findall(r'.*\b1 (?!class\b|is\b|has\b)[a-z]+s\b.*', text) == [], text
