"""Numbers out of numbers, from the command line: train, evaluate, predict, export."""

import json
import math
import subprocess
import sys

import pytest
from conftest import lines_of, metrics_of


@pytest.fixture
def table(tmp_path):
    """y = 2 sin(x) + x / 2, with a header, separated by commas."""
    rows = [(6 * (i * 37 % 150) / 150,) for i in range(150)]
    lines = ['x,y'] + [f'{x:.5f},{2 * math.sin(x) + x / 2:.5f}' for (x,) in rows]
    (tmp_path / 'sine.csv').write_text('\n'.join(lines) + '\n')
    (tmp_path / 'sine.yaml').write_text(
        '# A curve.\nseed: 1\nmodel: {name: mlp, num_hiddens: [32, 32]}\n'
        'data: {name: table, path: sine.csv, validation: {size: 20}, test: {size: 30}, batch_size: 16}\n'
        'optimizer: {name: adam, learning_rate: 0.01}\nschedule: {name: cosine}\n'
        'train: {max_epochs: 60, watch: r2, evaluate_every: 20, keep_last: 1, validate_every: 10}\n'
        'runtime: {device: cpu, threads: 1}\n')
    return tmp_path


def test_train_evaluate_predict_export(fovea, table):
    said = fovea('train', 'sine.yaml', '--run-dir', 'r', expect=0).stderr
    assert 'table' in said and '150 rows of 2 columns' in said and 'best r2' in said
    assert [line['epoch'] for line in metrics_of(table / 'r') if 'r2' in line] == [20, 40, 60]
    report = fovea.json('evaluate', 'r')
    assert report['rows'] == 30 and report['r2'] > 0.97 > report['straight_line_r2']
    assert 'R2 of a straight line' in fovea('evaluate', 'r', expect=0).stdout

    values = [float(line) for line in lines_of(fovea('predict', 'r', '1.5', '2.5', expect=0).stdout)]
    assert all(abs(y - (2 * math.sin(x) + x / 2)) < 0.3 for x, y in zip((1.5, 2.5), values))
    assert [float(line) for line in lines_of(fovea('predict', 'r', input='1.5\n2.5\n', expect=0).stdout)] == values
    mixed = fovea('predict', 'r', '1.5', 'one', '--json', expect=2)
    objects = [json.loads(line) for line in lines_of(mixed.stdout)]
    assert objects[0]['input'] == [1.5] and 'expected a number' in objects[1]['error'] and 'error: ' in mixed.stderr
    assert 'the model of this run is mlp (regression); use fovea predict' in fovea('translate', 'r', 'hello', expect=2).stderr

    fovea('export', 'r', '-o', 'line.pt', expect=0)
    code = 'import torch; print(torch.jit.load("line.pt")(torch.tensor([[1.5], [2.5]])).flatten().tolist())'
    done = subprocess.run([sys.executable, '-c', code], cwd=table, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == pytest.approx(values, abs=1e-4)
    for dtype, tolerance in (('double', 1e-4), ('half', 0.1)):  # C58
        other = code.replace('("line.pt")', f'("line.pt").{dtype}()')
        done = subprocess.run([sys.executable, '-c', other], cwd=table, capture_output=True, text=True, check=True)
        assert json.loads(done.stdout) == pytest.approx(values, abs=tolerance)


def test_what_is_no_table_is_refused_before_a_run_is_made(fovea, table):
    (table / 'sine.csv').write_text('x,y\n1,2\n3,four\n')
    assert 'sine.csv:3: column 2' in fovea('train', 'sine.yaml', '--run-dir', 'r', expect=2).stderr
    (table / 'sine.csv').write_text('1\n2\n')
    assert 'data.num_targets' in fovea('train', 'sine.yaml', '--run-dir', 'r', expect=2).stderr
    assert not (table / 'r').exists()


def test_predictions_keep_the_lines_of_their_inputs(fovea, table):
    fovea('train', 'sine.yaml', '--run-dir', 'r', 'train.max_epochs=1', expect=0)
    (table / 'rows.txt').write_bytes(b'1\n2\nthree\n4\n\xff\n5\n')
    done = fovea('predict', 'r', '--input', 'rows.txt', expect=2)
    assert 'error: rows.txt:3: column 1: expected a number, found "three"' in done.stderr
    assert 'error: rows.txt:5: column 1: expected a number' in done.stderr
    lines = done.stdout.split('\n')
    assert len(lines) == 7 and lines[2] == '' and float(lines[3]) and lines[4] == '' and float(lines[5])


def test_what_a_table_begins_with_is_said_and_numbers_that_overflow_are_refused(fovea, table):
    said = fovea('train', 'sine.yaml', '--run-dir', 'r', 'train.max_epochs=1', expect=0).stderr
    assert 'its first line has names: x, y' in said
    (table / 'sine.csv').write_text('1,2\n3,1e300\n' + '5,6\n' * 100)
    done = fovea('train', 'sine.yaml', '--run-dir', 'huge', 'data.validation.size=0', 'data.test.size=0',
                 'train.watch=train', expect=2)
    assert 'column 2: its numbers are too large' in done.stderr and not (table / 'huge').exists()


def test_columns_have_names_of_their_own_and_the_same_in_every_file(fovea, tmp_path):
    for name, header in (('train', 'a,b,y'), ('swapped', 'b,a,y'), ('twice', 'a,a,y'), ('bare', None)):
        rows = [f'{i},{i % 3},{i}' for i in range(60)]
        (tmp_path / f'{name}.csv').write_text('\n'.join(([header] if header else []) + rows) + '\n')
    (tmp_path / 't.yaml').write_text('model: {name: mlp}\ndata: {name: table, path: train.csv}\n')
    done = fovea('train', 't.yaml', 'data.validation.path=swapped.csv', '--dry-run', expect=2)
    assert 'swapped.csv: column 1 is "b"; expected "a" as in ' in done.stderr
    assert 'twice.csv:1: two columns are named "a"' in fovea('train', 't.yaml', 'data.path=twice.csv', '--dry-run').stderr
    fovea('train', 't.yaml', 'data.validation.path=bare.csv', '--dry-run', expect=0)
