"""Learning curves: pictures by gnuplot, and charts in the terminal."""

import json
import re
import shutil
import subprocess
import xml.etree.ElementTree

import pytest
from conftest import ROOT, lines_of, on_a_terminal

BLUE, VERMILLION = 'rgb(  0, 114, 178)', 'rgb(213,  94,   0)'
needs_gnuplot = pytest.mark.skipif(shutil.which('gnuplot') is None, reason='gnuplot is not installed')


def texts_of(svg):
    root = xml.etree.ElementTree.parse(svg).getroot()
    return [''.join(node.itertext()).strip() for node in root.iter('{http://www.w3.org/2000/svg}text')]


def curves_of(svg, colour):
    """The numbers of points of the lines of that colour, without the three of a sample in the legend."""
    paths = re.findall(r"<path stroke='([^']*)'[^>]* d='([^']*)'", svg.read_text())
    return sorted(len(re.findall(r'[ML]', path)) for stroke, path in paths if stroke == colour and path.count('L') > 2)


def fake_run(folder, name, lines, config='model: {name: mlp}\ndata: {name: table}\ntrain: {watch: validation}\n'):
    run = folder / name
    run.mkdir(parents=True)
    (run / 'config.yaml').write_text(config)
    (run / 'metrics.jsonl').write_text(''.join(json.dumps(line) + '\n' for line in lines))
    return run


def line(kind, step, epoch=1, **values):
    return {'kind': kind, 'step': step, 'epoch': epoch, **values}


def falling(count, scale=1.0):
    """Training lines, each fifth with a validation behind it."""
    lines = []
    for step in range(1, count + 1):
        lines.append(line('train', step, loss=scale / step, seconds=step))
        if step % 5 == 0:
            lines.append(line('epoch', step, step // 5, loss=scale / step))
            lines.append(line('validation', step, step // 5, loss=scale / step + 0.1, accuracy=1 - 1 / step))
    return lines


@needs_gnuplot
def test_a_picture_of_one_run(fovea, trained, tmp_path):
    fovea('plot', trained, '-o', 'curves.svg', expect=0)
    svg = tmp_path / 'curves.svg'
    texts = texts_of(svg)
    assert 'run, training (smoothed)' in texts and 'run, validation' in texts
    assert 'loss' in texts and 'optimizer steps' in texts
    lines = [json.loads(text) for text in (trained.path / 'metrics.jsonl').read_text().splitlines()]
    for colour, kind in ((BLUE, 'train'), (VERMILLION, 'validation')):
        points, = curves_of(svg, colour)
        count = sum(one['kind'] == kind for one in lines)
        assert 0.9 * count <= points <= count  # those that fall on a line are left out
    assert not list(tmp_path.glob('.*partial'))


@needs_gnuplot
def test_several_runs_and_measures(fovea, tmp_path):
    fake_run(tmp_path, 'runs/a_b', falling(20))
    fake_run(tmp_path, "runs/it's", falling(30, 2))
    fake_run(tmp_path, 'runs/c', falling(10, 3))
    fovea('plot', 'runs/a_b', "runs/it's", 'runs/c', '--measure', 'loss,accuracy', '-o', 'curves.svg', expect=0)
    texts = texts_of(tmp_path / 'curves.svg')
    for name in ('a_b, training', 'a_b, validation', "it's, training", "it's, validation", 'c, training'):
        assert name in texts
    assert 'loss' in texts and 'accuracy' in texts
    assert curves_of(tmp_path / 'curves.svg', BLUE) == [4, 4, 20]  # accuracy, loss in validation and in training
    assert curves_of(tmp_path / 'curves.svg', VERMILLION) == [6, 6, 30]


@needs_gnuplot
def test_other_formats(fovea, trained, tmp_path):
    fovea('plot', trained, '-o', 'curves.png', expect=0)
    assert (tmp_path / 'curves.png').read_bytes().startswith(b'\x89PNG')
    fovea('plot', trained, '-o', 'curves.pdf', '--x', 'epoch', expect=0)
    assert (tmp_path / 'curves.pdf').read_bytes().startswith(b'%PDF')


@needs_gnuplot
def test_the_watched_measure_has_axes_of_its_own(fovea, classifier, tmp_path):
    fovea('plot', classifier, '-o', 'curves.svg', expect=0)
    assert {'loss', 'accuracy'} <= set(texts_of(tmp_path / 'curves.svg'))


def test_without_gnuplot(fovea, trained, tmp_path):
    empty = tmp_path / 'empty'
    empty.mkdir()
    for path in (str(empty), ''):
        done = fovea('plot', trained, '-o', 'curves.svg', env={'PATH': path}, expect=1)
        assert 'gnuplot' in done.stderr and 'apt install gnuplot-nox' in done.stderr
    assert not (tmp_path / 'curves.svg').exists()
    assert fovea('plot', trained, '--terminal', env={'PATH': str(empty)}, expect=0).stdout


def test_a_gnuplot_that_fails_changes_nothing(fovea, trained, tmp_path):
    programs = tmp_path / 'programs'
    programs.mkdir()
    (programs / 'gnuplot').write_text('#!/bin/sh\necho "line 3: no such terminal" >&2\nexit 1\n')
    (programs / 'gnuplot').chmod(0o755)
    (tmp_path / 'curves.svg').write_text('old')
    done = fovea('plot', trained, '-o', 'curves.svg', '--overwrite', env={'PATH': str(programs)}, expect=1)
    assert 'curves.svg: gnuplot failed: line 3: no such terminal' in done.stderr
    assert (tmp_path / 'curves.svg').read_text() == 'old'
    (programs / 'gnuplot').write_text('#!/bin/sh\nexit 0\n')
    assert 'wrote nothing' in fovea('plot', trained, '-o', 'x.svg', env={'PATH': str(programs)}, expect=1).stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ['curves.svg', 'programs']


@pytest.mark.parametrize('args, said', [
    (['-o', 'curves.jpg'], 'expected a name that ends in .svg, .png or .pdf'),
    (['-o', 'none/curves.svg'], 'there is no directory none'),
    (['-o', 'there.svg'], 'already exists; replace it with --overwrite'),
    (['--measure', 'los'], "--measure: 'los' is in no run; did you mean 'loss'?"),
    (['--smooth', '1'], '--smooth: expected a number from 0 to below 1'),
    (['--x', 'hours'], '--x: expected step or epoch'),
    (['--overwrite'], '--overwrite needs --output'),
    (['-o', 'curves.svg', '--terminal'], '--terminal'),
])
def test_mistakes_are_said(fovea, trained, tmp_path, args, said):
    (tmp_path / 'there.svg').write_text('')
    assert said in fovea('plot', trained, *args, expect=2).stderr
    assert [path.name for path in tmp_path.iterdir()] == ['there.svg']


def test_what_is_no_run(fovea, tmp_path):
    fake_run(tmp_path, 'runs/a', falling(10))
    assert 'runs: holds no run' in fovea('plot', 'runs', expect=2).stderr
    assert 'no such run directory' in fovea('plot', 'runs/a', 'none', expect=2).stderr
    assert 'expected the directories of runs' in fovea('plot', expect=2).stderr


def test_damaged_and_empty_metrics(fovea, tmp_path):
    run = fake_run(tmp_path, 'a', falling(10))
    with open(run / 'metrics.jsonl', 'a') as file:
        file.write('{"kind": "tra\n{"kind": 1}\n{"kind": "train", "step"')
    done = fovea('plot', 'a', expect=0)
    assert 'metrics.jsonl:15: expected a line of metrics' in done.stderr and '2 such lines are left out' in done.stderr
    fake_run(tmp_path, 'empty', [])
    assert 'empty/metrics.jsonl: there is nothing to draw' in fovea('plot', 'empty', expect=2).stderr
    done = fovea('plot', 'empty', 'a', expect=0)
    assert 'warning: empty/metrics.jsonl: there is nothing to draw' in done.stderr and 'a, training' in done.stdout
    (tmp_path / 'empty/metrics.jsonl').unlink()
    assert 'the run has no metrics.jsonl' in fovea('plot', 'empty', expect=2).stderr
    fake_run(tmp_path, 'lost', [line('train', 1, loss=None), line('train', 2, loss=None)])
    done = fovea('plot', 'lost', expect=2)
    assert 'loss: there is nothing to draw, no value is finite' in done.stderr
    fake_run(tmp_path, 'young', [line('train', step, loss=step) for step in (1, 2)])
    assert 'as long as no epoch is done' in fovea('plot', 'young', '--x', 'epoch', expect=2).stderr
    done = fovea('plot', 'a', 'young', '--measure', 'accuracy', expect=0)
    assert 'warning: young: has no accuracy' in done.stderr


def test_in_the_terminal(fovea, trained):
    for width in (40, 80, 132):
        plain = fovea('plot', trained, '--terminal', env={'COLUMNS': str(width)}, expect=0).stdout
        assert plain.isascii() and all(len(one) <= width for one in lines_of(plain))
        assert re.search(r'^\* run, training', plain, re.M) and '+ run, validation' in plain.replace('\n', ' ')
    assert '│' in fovea('plot', trained, env={'LC_ALL': 'C.UTF-8'}, expect=0).stdout
    one = fovea('plot', trained, '--measure', 'learning_rate', '--smooth', '0.5', env={'LC_ALL': 'C.UTF-8'}, expect=0)
    assert re.search('[\u2801-\u28ff]', one.stdout) and 'smoothed' in one.stdout
    assert fovea('plot', trained, expect=0).stdout == fovea('plot', trained, '--terminal', expect=0).stdout


def test_over_epochs(fovea, tmp_path):
    fake_run(tmp_path, 'a', falling(20))
    text = fovea('plot', 'a', '--x', 'epoch', expect=0).stdout
    axis = lines_of(text)[-2]
    assert axis.split()[-1] == 'epochs' and axis.split()[:-1] == ['0.5', '1', '1.5', '2', '2.5', '3', '3.5'], axis


def test_a_curve_above_the_progress_bar(fovea, tiny):
    args = ['train', 'tiny.yaml', 'train.max_epochs=4']
    screen = on_a_terminal(fovea, *args, '--run-dir', 'a', '--plot', width=80, LC_ALL='C.UTF-8', NO_COLOR='1')
    assert '* training  + validation' in screen and '\x1b[12A\x1b[J' in screen
    assert 'epoch   4' in screen.rsplit('\x1b[J', 1)[1] or 'all epochs done' in screen
    without = on_a_terminal(fovea, *args, '--run-dir', 'b', width=80, LC_ALL='C.UTF-8', NO_COLOR='1')
    assert 'training  + validation' not in without
    fovea('train', '--resume', 'a', 'train.max_epochs=5', '--plot', expect=0)  # no terminal: nothing changes
    log = (tiny / 'a' / 'train.log').read_text()
    assert 'validation loss' in log and '+ validation' not in log


def test_a_resumed_run_shows_what_was_before(fovea, tiny):
    fovea('train', 'tiny.yaml', 'train.max_epochs=2', '--run-dir', 'a', expect=0)
    screen = on_a_terminal(fovea, 'train', '--resume', 'a', 'train.max_epochs=3', '--plot', width=80, LC_ALL='C',
                           NO_COLOR='1')
    first = screen.split('* training')[0]
    assert '+' in first.split('loss')[-1]  # the validations of the epochs before


@needs_gnuplot
def test_the_picture_is_one(trained, tmp_path, program):
    """As people look at it: nothing outside the page, and gnuplot said nothing."""
    done = subprocess.run([program, 'plot', trained.path, '-o', tmp_path / 'c.svg'], capture_output=True, check=True,
                          cwd=ROOT)
    assert done.stdout == b'' and done.stderr == b''
    root = xml.etree.ElementTree.parse(tmp_path / 'c.svg').getroot()
    width, height = map(float, root.get('viewBox').split()[2:])
    for x, y in re.findall(r'translate\(([-\d.]+),([-\d.]+)\)', (tmp_path / 'c.svg').read_text()):
        assert 0 <= float(x) <= width and 0 <= float(y) <= height
