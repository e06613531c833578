"""Looking at many runs: `fovea runs` and `fovea compare`."""

import json
import os
import shutil
import time

import pytest
from conftest import lines_of, logged_steps, metrics_of, on_a_terminal, snapshot, wait_for

COLUMNS = ['name', 'model', 'data', 'epochs', 'watched', 'best', 'minutes', 'state']
LONG = ['train.max_epochs=100000', 'train.keep_last=1', 'train.checkpoint_every=1']


@pytest.fixture
def runs(fovea, trained, classifier, tmp_path):
    """A folder of runs: two that are done, one that was stopped, one that is broken."""
    folder = tmp_path / 'runs'
    shutil.copytree(trained.path, folder / 'translator', symlinks=True)
    shutil.copytree(classifier, folder / 'old/squares', symlinks=True)
    shutil.copytree(trained.path, folder / 'stopped', symlinks=True)
    config = folder / 'stopped/config.yaml'
    config.write_text(config.read_text().replace('max_epochs: 40', 'max_epochs: 50'))
    shutil.copytree(trained.path, folder / 'broken', symlinks=True)
    (folder / 'broken/checkpoints/last/state.json').write_text('{}')
    return folder


def states(listed):
    return {run['name']: run['state'] for run in listed}


def test_the_table(fovea, runs, trained):
    done = fovea('runs', expect=0)
    lines = [text.split() for text in lines_of(done.stdout)]
    assert lines[0] == COLUMNS
    rows = {line[0]: line for line in lines[2:]}
    assert list(rows) == ['broken', 'old/squares', 'stopped', 'translator']
    assert rows['translator'][1:5] == ['transformer', 'translation', '40/40', 'loss']
    assert rows['old/squares'][1:5] == ['vit', 'idx_images', '12/12', 'accuracy']
    assert [row[-1] for row in rows.values()] == ['broken', 'done', 'stopped', 'done']
    losses = [line['loss'] for line in metrics_of(trained.path) if line['kind'] == 'validation']
    assert float(rows['translator'][5]) == pytest.approx(min(losses), rel=1e-3)
    assert 'warning: runs/broken/checkpoints/' in done.stderr and 'state.json' in done.stderr
    assert done.stderr.count('\n') == 1


def test_json(fovea, runs):
    listed = fovea.json('runs', runs)
    assert states(listed) == {'broken': 'broken', 'old/squares': 'done', 'stopped': 'stopped', 'translator': 'done'}
    assert 'state.json' in listed[0]['problem'] and listed[0]['best'] is None
    assert listed[3]['epochs'] == listed[3]['max_epochs'] == 40 and listed[3]['minutes'] > 0
    assert listed[3]['path'] == str(runs / 'translator')


@pytest.mark.parametrize('args, names', [
    (['--filter', 'state=done'], ['old/squares', 'translator']),
    (['--filter', 'done'], ['old/squares', 'translator']),
    (['--filter', 'model=vit'], ['old/squares']),
    (['--filter', 'transformer', '--filter', 'stopped'], ['stopped']),
    (['--filter', 'optimizer.learning_rate=0.0050'], ['old/squares']),
    (['--filter', 'seed=3', '--filter', 'train.max_epochs=50'], ['stopped']),
    (['--filter', 'nothing'], []),
    (['--sort', 'epochs'], ['broken', 'old/squares', 'stopped', 'translator']),
    (['--sort', 'model', '--reverse', '--filter', 'done'], ['old/squares', 'translator']),
])
def test_sorted_and_filtered(fovea, runs, args, names):
    assert [run['name'] for run in fovea.json('runs', *args)] == names
    table = lines_of(fovea('runs', *args, expect=0).stdout)
    assert [text.split()[0] for text in table[2:]] == names


def test_sorted_by_score(fovea, runs):
    scores = [run['best'] for run in fovea.json('runs', '--sort', 'best')]
    assert scores[:-1] == sorted(scores[:-1]) and scores[-1] is None
    scores = [run['best'] for run in fovea.json('runs', '--sort', 'best', '--reverse')]
    assert scores[:-1] == sorted(scores[:-1], reverse=True) and scores[-1] is None  # nothing is known: the last


@pytest.mark.parametrize('args, said', [
    (['--sort', 'bset'], "--sort: expected one of name, model"),
    (['--filter', 'stat=done'], "'stat' is no column and no setting of any run; did you mean 'state'?"),
    (['none'], 'none: expected a directory of runs'),
])
def test_mistakes_are_said(fovea, runs, args, said):
    assert said in fovea('runs', *args, expect=2).stderr


def test_no_runs(fovea, tmp_path):
    assert 'runs: expected a directory of runs' in fovea('runs', expect=2).stderr
    (tmp_path / 'runs').mkdir()
    assert lines_of(fovea('runs', expect=0).stdout)[0].split() == COLUMNS
    assert fovea.json('runs') == []


def test_a_run_itself_and_several_directories(fovea, runs):
    assert [run['name'] for run in fovea.json('runs', 'runs/translator')] == ['runs/translator']
    names = [run['name'] for run in fovea.json('runs', 'runs/old', 'runs/stopped')]
    assert names == ['runs/old/squares', 'runs/stopped']


def test_looking_changes_nothing(fovea, runs):
    before = snapshot(runs)
    fovea('runs', expect=0)
    fovea('compare', 'runs/translator', 'runs/stopped', expect=0)
    assert snapshot(runs) == before


def test_a_run_that_is_being_trained_and_killed(fovea, tiny):
    process = fovea.start('train', 'tiny.yaml', *LONG, '--run-dir', 'runs/alive')
    try:
        assert wait_for(lambda: logged_steps(tiny / 'runs/alive') > 3, process)
        for _ in range(10):  # while checkpoints come and go
            done = fovea('runs', '--json', expect=0)
            assert states(json.loads(done.stdout)) == {'alive': 'training'} and done.stderr == ''
        assert fovea('plot', 'runs/alive', expect=0).stdout
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
    killed, = fovea.json('runs')
    assert killed['state'] == 'stopped' and killed['max_epochs'] == 100000 and killed['minutes'] > 0
    done = fovea('plot', 'runs/alive', expect=0)
    assert 'alive, training' in done.stdout and done.stderr == ''
    fovea('train', '--resume', 'runs/alive', f'train.max_epochs={killed["epochs"] + 1}', expect=0)
    assert states(fovea.json('runs')) == {'alive': 'done'}


def test_damage_of_every_kind_is_a_row(fovea, runs):
    def damaged(name, change):
        shutil.copytree(runs / 'translator', runs / name, symlinks=True)
        change(runs / name)

    damaged('1', lambda run: (run / 'config.yaml').write_bytes(b'\xff\xfe\0'))
    damaged('2', lambda run: (run / 'config.yaml').unlink())
    damaged('3', lambda run: (run / 'checkpoints/last/manifest.json').unlink())
    damaged('4', lambda run: os.truncate(run / 'checkpoints/last/model.safetensors', 10))
    damaged('5', lambda run: (run / 'config.yaml').write_text('- a\n- list\n'))
    listed = {run['name']: run for run in fovea.json('runs')}
    for name in '12345':
        assert listed[name]['state'] == 'broken', name
        assert f'runs/{name}/' in listed[name]['problem']
    damaged('6', lambda run: (run / 'metrics.jsonl').write_text('{{{'))
    damaged('7', lambda run: (run / 'metrics.jsonl').unlink())
    damaged('8', lambda run: (run / 'checkpoints/last').unlink())  # a copy without links
    listed = states(fovea.json('runs'))
    assert [listed[name] for name in '678'] == ['done'] * 3


def test_a_thousand_runs(fovea, runs, tmp_path):
    many = tmp_path / 'many'
    for i in range(1000):
        shutil.copytree(runs / 'translator', many / f'{i:04}', symlinks=True, copy_function=os.link)
    started = time.monotonic()
    assert len(fovea.json('runs', many)) == 1000
    assert time.monotonic() - started < 10


def test_tables_fit(fovea, runs):
    for width in (60, 80):
        for args in (['runs'], ['compare', 'runs/translator', 'runs/old/squares']):
            text = fovea(*args, env={'COLUMNS': str(width)}, expect=0).stdout
            assert text and all(len(line) <= width for line in lines_of(text))


def test_compare(fovea, trained, classifier, runs):
    found = fovea.json('compare', 'runs/translator', 'runs/stopped', 'runs/old/squares')
    assert found['runs'] == ['translator', 'stopped', 'squares']
    assert found['settings']['train.max_epochs'] == ['40', '50', '12']
    assert found['settings']['model.name'] == ['transformer', 'transformer', 'vit']
    assert found['settings']['model.patch_size'][:2] == [None, None]
    assert 'seed' not in found['settings']  # the same in all
    validations = [line for line in metrics_of(trained.path) if line['kind'] == 'validation']
    assert found['scores']['loss'][0] == min(line['loss'] for line in validations)
    accuracies = [line['accuracy'] for line in metrics_of(classifier) if line['kind'] == 'validation']
    assert found['scores']['accuracy'] == [None, None, max(accuracies)]
    assert found['training']['epochs'] == [40, 40, 12]
    assert found['training']['state'] == ['done', 'stopped', 'done']
    assert found['training']['tokens_per_second'][0] > 0 and found['training']['images_per_second'][0] is None
    table = lines_of(fovea('compare', 'runs/translator', 'runs/stopped', expect=0).stdout)
    assert table[0].split() == ['translator', 'stopped']
    assert [text.split() for text in table if text.startswith('train.')] == [['train.max_epochs', '40', '50']]
    said = on_a_terminal(fovea, 'train', '--resume', trained.path, '--dry-run', width=80)
    parameters = found['training']['parameters'][0]
    assert f'parameters' in said and str(parameters) in said


def test_compare_needs_whole_runs(fovea, runs):
    assert 'expected two runs or more' in fovea('compare', 'runs/stopped', expect=2).stderr
    (runs / 'translator/config.yaml').write_text('model: {name: nothing}\n')
    assert 'runs/translator/config.yaml' in fovea('compare', 'runs/stopped', 'runs/translator', expect=2).stderr
    assert fovea('compare', 'runs/stopped', 'runs/broken', expect=0).stdout
