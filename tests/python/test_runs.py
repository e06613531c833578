"""Who may write a run, and when its data, its files and its input are what they were taken for (C43 to C50, C54, C62)."""

import gzip
import json
import os
import re
import resource
import shutil
import subprocess
import time

import pytest
from conftest import (TIMEOUT, final_weights, lines_of, logged_steps, metrics_of, snapshot, tiny_pairs, wait_for,
                      write_tsv)

LONG = ['train.max_epochs=100000', 'train.keep_last=1', 'train.checkpoint_every=1']
ONE_STEP = ['train.max_steps=1']


@pytest.fixture
def alive(fovea, tiny):
    """A run that is being trained."""
    process = fovea.start('train', 'tiny.yaml', *LONG, '--run-dir', 'r')
    wait_for(lambda: logged_steps(tiny / 'r') > 3, process)
    yield tiny / 'r'
    assert process.poll() is None, 'it should still be training'
    process.kill()
    process.wait()


def config_and_events(run):
    return {p.name: p.read_bytes() for p in run.iterdir() if p.name == 'config.yaml'}, sorted(
        p.name for p in run.iterdir())


# C43: one process writes a run.


@pytest.mark.parametrize('args', [
    ['train', '--resume', 'r', 'train.max_epochs=7'], ['train', 'tiny.yaml', '--run-dir', 'r', '--overwrite', 'seed=9'],
    ['train', 'tiny.yaml', '--run-dir', 'r'], ['import', 'tiny.yaml', 'weights.safetensors', '-o', 'r', '--overwrite'],
], ids=['resume', 'overwrite', 'again', 'import'])
def test_c43_a_run_that_is_alive_has_one_writer(fovea, alive, trained, args):
    shutil.copy(trained.path / 'checkpoints/last/model.safetensors', alive.parent / 'weights.safetensors')
    before = config_and_events(alive)
    done = fovea(*args)
    assert done.returncode in (1, 2)
    assert 'another process' in done.stderr or 'already exists' in done.stderr
    assert done.stderr.count('\n') == 1  # nothing but the error
    assert config_and_events(alive) == before


def test_c43_four_starts_at_once(fovea, tiny):
    processes = [fovea.start('train', 'tiny.yaml', 'train.max_epochs=30', '--run-dir', 'r') for _ in range(4)]
    said = [process.communicate(timeout=TIMEOUT)[1].decode() for process in processes]
    winners = [process for process in processes if process.returncode == 0]
    assert len(winners) == 1, said
    for process, text in zip(processes, said):
        assert process.returncode == 0 or 'another process' in text or 'already exists' in text
    assert len(list((tiny / 'r').glob('events.*'))) == 1
    fovea('train', 'tiny.yaml', 'train.max_epochs=30', '--run-dir', 'alone', expect=0)
    assert final_weights(tiny / 'r') == final_weights(tiny / 'alone')
    assert metrics_of(tiny / 'r', timing=False) == metrics_of(tiny / 'alone', timing=False)


def test_c43_a_killed_process_gives_the_run_up(fovea, tiny):
    process = fovea.start('train', 'tiny.yaml', *LONG, '--run-dir', 'r')
    wait_for(lambda: logged_steps(tiny / 'r') > 3, process)
    process.kill()
    process.wait()
    fovea('train', '--resume', 'r', 'train.max_steps=1', expect=0)
    assert not (tiny / 'r/.lock').exists()


def test_c43_a_reader_looks_again_while_checkpoints_are_removed(fovea, alive):
    for which in ([], ['--checkpoint', 'last']) * 4:
        assert len(fovea.translate(alive, *which, 'Ba ce.')) == 1


def test_c43_a_start_that_fails_leaves_nothing(fovea, tiny):
    before = snapshot(tiny)
    fovea('train', 'tiny.yaml', 'data.path=missing.tsv', '--run-dir', 'a/b/r', expect=2)
    assert snapshot(tiny) == before and not (tiny / 'a').exists()


# C44: the data must be what the run was trained with.


def change(text, how):
    lines = text.splitlines(keepends=True)
    if how == 'put in front':
        return ''.join([lines[3], *lines])
    if how == 'deleted':
        return ''.join(lines[5:])
    sources, targets = zip(*(line.rstrip('\n').split('\t') for line in lines))
    return ''.join(f'{s}\t{t}\n' for s, t in zip(sources, targets[1:] + targets[:1]))


@pytest.mark.parametrize('how', ['put in front', 'deleted', 'shifted'])
@pytest.mark.parametrize('split, file', [('test', 'test.tsv'), ('train', 'corpus.tsv')])
def test_c44_a_part_that_changed_is_not_evaluated(fovea, tiny, split, file, how):
    fovea('train', 'tiny.yaml', *ONE_STEP, '--run-dir', 'r', expect=0)
    (tiny / file).write_text(change((tiny / file).read_text(), how))
    done = fovea('evaluate', 'r', '--split', split, expect=2)
    assert f'the {split} part is not what it was' in done.stderr and file in done.stderr and done.stdout == ''
    done = fovea('evaluate', 'r', '--split', split, '--allow-changed-data', expect=0)
    assert 'warning' in done.stderr and 'BLEU' in done.stdout
    fovea('evaluate', 'r', '--input', file, expect=0)


@pytest.mark.parametrize('how', ['put in front', 'deleted', 'shifted'])
def test_c44_what_counts_is_the_part_that_is_asked_for(fovea, tiny, how):
    fovea('train', 'tiny.yaml', *ONE_STEP, '--run-dir', 'r', expect=0)
    expected = fovea.json('evaluate', 'r', '--split', 'validation')
    (tiny / 'corpus.tsv').write_text(change((tiny / 'corpus.tsv').read_text(), how))
    if how == 'shifted':
        assert 'the validation part' in fovea('evaluate', 'r', '--split', 'validation', expect=2).stderr
    else:  # the lines that came and went are trained on, and which ones are held out does not depend on them
        assert fovea.json('evaluate', 'r', '--split', 'validation') == expected


def test_c44_moved_data_and_a_moved_run_are_the_same(fovea, tiny):
    fovea('train', 'tiny.yaml', *ONE_STEP, '--run-dir', 'r', expect=0)
    expected = fovea.json('evaluate', 'r')
    (tiny / 'elsewhere').mkdir()
    (tiny / 'r').rename(tiny / 'elsewhere/run')
    (tiny / 'elsewhere/test.tsv.gz').write_bytes(gzip.compress((tiny / 'test.tsv').read_bytes()))
    (tiny / 'corpus.tsv').rename(tiny / 'elsewhere/corpus.tsv')
    assert fovea.json('evaluate', 'elsewhere/run') == {**expected, 'run': 'elsewhere/run'}  # the corpus is not needed
    (tiny / 'test.tsv').unlink()
    done = fovea('evaluate', 'elsewhere/run', expect=2)
    assert 'test.tsv' in done.stderr and 'elsewhere now' in done.stderr
    moved = ['data.test.path=elsewhere/test.tsv.gz', 'data.path=elsewhere/corpus.tsv']
    assert fovea.json('evaluate', 'elsewhere/run', *moved) == {**expected, 'run': 'elsewhere/run'}
    fovea('train', '--resume', 'elsewhere/run', *moved, 'train.max_steps=2', expect=0)
    done = fovea('evaluate', 'elsewhere/run', 'data.num_steps=4', expect=2)
    assert 'data.num_steps' in done.stderr


def test_c44_another_corpus_is_refused_on_resume_whatever_its_path(fovea, tiny):
    fovea('train', 'tiny.yaml', *ONE_STEP, '--run-dir', 'r', expect=0)
    shifted = change((tiny / 'corpus.tsv').read_text(), 'shifted')
    (tiny / 'other.tsv').write_text(shifted)
    before = snapshot(tiny / 'r')
    done = fovea('train', '--resume', 'r', 'data.path=other.tsv', 'train.max_steps=2', expect=2)
    assert 'corpus changed' in done.stderr
    assert snapshot(tiny / 'r') == before
    (tiny / 'test.tsv').write_text(shifted)  # training does not look at it
    fovea('train', '--resume', 'r', 'train.max_steps=2', expect=0)
    assert 'the test part' in fovea('evaluate', 'r', expect=2).stderr


def test_c44_images_whose_labels_were_shifted(fovea, squares, classifier):
    shutil.copytree(classifier, squares / 'run', symlinks=True)
    where = [f'data.{part}_{kind}={part}-{kind}.idx' for part in ('train', 'test') for kind in ('images', 'labels')]
    expected = fovea.json('evaluate', 'run', *where)
    assert expected['accuracy'] > 0.8
    for name in ('train-images.idx', 'train-labels.idx'):
        (squares / name).unlink()
    assert fovea.json('evaluate', 'run', *where) == expected
    labels = (squares / 'test-labels.idx').read_bytes()
    (squares / 'test-labels.idx').write_bytes(labels[:8] + labels[9:] + labels[8:9])
    assert 'the test part' in fovea('evaluate', 'run', *where, expect=2).stderr


def test_c44_a_table_that_changed(fovea, tmp_path):
    rows = [f'{i}\t{2 * i}\n' for i in range(30)]
    (tmp_path / 'rows.tsv').write_text(''.join(rows))
    (tmp_path / 'held.tsv').write_text(''.join(rows[:10]))
    (tmp_path / 'x.yaml').write_text('{model: {name: mlp, num_hiddens: [4]}, train: {max_steps: 1}, '
                                     'data: {name: table, path: rows.tsv, test: {path: held.tsv}}}')
    fovea('train', 'x.yaml', '--run-dir', 'r', expect=0)
    expected = fovea.json('evaluate', 'r')
    (tmp_path / 'rows.tsv').unlink()
    alone = fovea.json('evaluate', 'r')
    assert alone == {key: value for key, value in expected.items() if key != 'straight_line_r2'}
    (tmp_path / 'held.tsv').write_text(''.join(rows[:9]))
    assert 'the test part' in fovea('evaluate', 'r', expect=2).stderr


# What costs nothing is checked first; what is said is said once.


def test_a_run_that_exists_is_found_before_the_data_are_read(fovea, tiny):
    fovea('train', 'tiny.yaml', *ONE_STEP, '--run-dir', 'r', expect=0)
    (tiny / 'corpus.tsv').unlink()
    done = fovea('train', 'tiny.yaml', *ONE_STEP, '--run-dir', 'r', expect=2)
    assert 'already exists' in done.stderr and done.stderr.count('\n') == 1


@pytest.mark.parametrize('setting', ['train.watch=nothing', 'data.path=missing.tsv', 'data.validation.size=1000'])
def test_settings_do_not_come_before_an_error(fovea, tiny, setting):
    done = fovea('train', 'tiny.yaml', setting, '--run-dir', 'r')
    assert done.returncode != 0 and 'model.num_hiddens' not in done.stderr


def test_the_start_shows_what_differs_from_the_defaults(fovea, tiny):
    lean = fovea('train', 'tiny.yaml', *ONE_STEP, '--run-dir', 'r', expect=0).stderr
    assert 'model.num_hiddens' in lean and 'model.name' in lean and 'optimizer.beta1' not in lean
    assert 'more settings have their defaults' in lean
    full = fovea('train', 'tiny.yaml', *ONE_STEP, '--run-dir', 's', '--verbose', expect=0).stderr
    assert 'train.clip_norm' in full and 'more settings' not in full
    assert 'train.clip_norm' not in lean and 'clip_norm' in (tiny / 'r/config.yaml').read_text()


def test_train_log_is_what_a_file_would_get(fovea, tiny):
    quiet = fovea('train', 'tiny.yaml', 'train.max_epochs=2', 'schedule.name=cosine', 'schedule.total_steps=3',
                  '--run-dir', 'q', '--quiet', expect=0)
    loud = fovea('train', 'tiny.yaml', 'train.max_epochs=2', 'schedule.name=cosine', 'schedule.total_steps=3',
                 '--run-dir', 'r', expect=0)

    def untimed(text):
        return re.sub(r'\d+ s\b|[\d.]+[kM]? tokens/s|eta [\d:-]+|\br$|\bq$', '', text, flags=re.MULTILINE)

    log = (tiny / 'r/train.log').read_text()
    assert untimed(log) == untimed(loud.stderr)
    assert untimed((tiny / 'q/train.log').read_text()).replace(' q', ' r') == untimed(log)
    assert 'epoch   2' in log and 'model.name' in log
    fovea('train', '--resume', 'r', 'train.max_epochs=3', 'train.log_every=2', expect=0)
    longer = (tiny / 'r/train.log').read_text()
    assert longer.startswith(log) and 'continuing from' in longer[len(log):]
    done = fovea('train', '--resume', 'r', 'train.max_epochs=4', 'optimizer.learning_rate=1', expect=2)
    assert (tiny / 'r/train.log').read_text() == longer and 'optimizer.learning_rate' in done.stderr


# C54: how a training ended and what goes on.


@pytest.mark.parametrize('settings, key', [
    (['train.max_steps=4'], 'train.max_steps=8'), (['train.max_epochs=1'], 'train.max_epochs=2'),
    (['train.max_minutes=0.0001'], 'train.max_minutes='),
    (['train.patience=1', 'optimizer.learning_rate=1e-12', 'train.max_epochs=50'], 'train.patience='),
], ids=['steps', 'epochs', 'minutes', 'patience'])
def test_c54_the_advice_goes_on(fovea, tiny, settings, key):
    said = fovea('train', 'tiny.yaml', *settings, '--run-dir', 'r', expect=0).stderr
    lines = metrics_of(tiny / 'r')
    assert lines[-1]['kind'] == 'validation' or lines[-1]['step'] == [
        line for line in lines if line['kind'] == 'validation'][-1]['step']
    advice = re.search(r'to train longer: fovea (.*)', said)[1].split()
    assert any(part.startswith(key) for part in advice)
    again = fovea('train', '--resume', 'r', expect=0).stderr
    assert 'nothing was left to do' in again and key in again
    last = metrics_of(tiny / 'r')[-1]['step']
    fovea(*advice, expect=0)
    assert metrics_of(tiny / 'r')[-1]['step'] > last


# C45: input that can be read once.


def pipe(fovea, command, **kwargs):
    return subprocess.run(['bash', '-c', command], cwd=fovea.cwd, env={**fovea.env, 'FOVEA': str(fovea.path)},
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT, check=False,
                          **kwargs)


@pytest.mark.parametrize('command', [
    '$FOVEA train tiny.yaml train.max_steps=1 --run-dir r data.path=<(zcat corpus.tsv.gz)',
    'zcat corpus.tsv.gz | $FOVEA train tiny.yaml train.max_steps=1 --run-dir r data.path=/dev/stdin',
    'mkfifo f; (sleep 0.5; zcat corpus.tsv.gz > f) & $FOVEA train tiny.yaml train.max_steps=1 --run-dir r data.path=f',
], ids=['process', 'stdin', 'fifo'])
def test_c45_a_corpus_that_can_be_read_once(fovea, tiny, command):
    (tiny / 'corpus.tsv.gz').write_bytes(gzip.compress((tiny / 'corpus.tsv').read_bytes()))
    done = pipe(fovea, command)
    assert done.returncode == 0, done.stderr
    assert 'can be read only once' in done.stderr and 'data.path=FILE' in done.stderr
    fovea('train', 'tiny.yaml', *ONE_STEP, '--run-dir', 'plain', expect=0)
    assert final_weights(tiny / 'r') == final_weights(tiny / 'plain')
    fovea('train', '--resume', 'r', 'data.path=corpus.tsv.gz', 'train.max_steps=2', expect=0)


def test_c45_a_configuration_that_can_be_read_once(fovea, tiny):
    done = pipe(fovea, '$FOVEA train <(cat tiny.yaml) train.max_steps=1')
    assert done.returncode == 2 and '--run-dir' in done.stderr and not (tiny / 'runs').exists()
    done = pipe(fovea, '$FOVEA train <(cat tiny.yaml) train.max_steps=1 --run-dir r')
    assert done.returncode == 0, done.stderr
    fovea('evaluate', 'r', expect=0)
    done = pipe(fovea, '$FOVEA train /dev/stdin train.max_steps=1 < tiny.yaml')
    assert done.returncode == 2 and '--run-dir' in done.stderr and not (tiny / 'runs').exists()


def test_c45_a_pipe_that_nobody_writes_to_is_not_waited_for(fovea, tiny):
    os.mkfifo(tiny / 'f')
    began = time.monotonic()
    done = fovea('train', 'tiny.yaml', 'data.path=f', '--run-dir', 'r', expect=2)
    assert 'nobody writes' in done.stderr and time.monotonic() - began < 60 and not (tiny / 'r').exists()


# C46: no symbolic links.

NO_LINKS = '#include <errno.h>\nint symlink(const char* a, const char* b) { (void)a; (void)b; errno = EPERM; return -1; }\n'


def test_c46_a_file_system_without_links(fovea, tiny):
    (tiny / 'no_links.c').write_text(NO_LINKS)
    subprocess.run(['cc', '-shared', '-fPIC', '-o', 'no_links.so', 'no_links.c'], cwd=tiny, check=True)
    env = {'LD_PRELOAD': str(tiny / 'no_links.so')}
    fovea('train', 'tiny.yaml', 'train.max_epochs=2', '--run-dir', 'r', env=env, expect=0)
    assert (tiny / 'r/checkpoints/last').read_text() == 'step-18\n' and not (tiny / 'r/checkpoints/last').is_symlink()
    fovea('train', '--resume', 'r', 'train.max_epochs=3', env=env, expect=0)
    fovea('train', 'tiny.yaml', 'train.max_epochs=3', '--run-dir', 'linked', expect=0)
    names = [os.readlink(tiny / 'linked/checkpoints' / mark) for mark in ('last', 'best')]
    assert [(tiny / 'r/checkpoints' / mark).read_text().strip() for mark in ('last', 'best')] == names
    assert fovea.json('evaluate', 'r') == {**fovea.json('evaluate', 'linked'), 'run': 'r'}


def test_c46_links_that_were_lost_are_said(fovea, run_copy):
    steps = sorted(int(p.name[5:]) for p in (run_copy / 'checkpoints').glob('step-*'))
    for mark in ('last', 'best'):
        (run_copy / 'checkpoints' / mark).unlink()
    done = fovea('evaluate', 'copy', expect=0)
    assert f'step-{steps[-1]} is used' in done.stderr and 'best is not known' in done.stderr


# C47: a full disk.


def limited(fovea, *args):
    """A call that may write no file above ten kilobytes, and what it ended with."""
    return subprocess.run([fovea.path, *map(str, args)], cwd=fovea.cwd, env=fovea.env, capture_output=True, text=True,
                          timeout=TIMEOUT, check=False,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000)))


@pytest.mark.parametrize('name, options', [('m.pt', []), ('m.safetensors', []), ('m', ['--format', 'safetensors'])])
@pytest.mark.parametrize('there', [False, True], ids=['new', 'old'])
def test_c47_a_limit_on_files_during_an_export(fovea, trained, tmp_path, name, options, there):
    if there:
        fovea('export', trained, '-o', name, *options, expect=0)
    before = {k: v for k, v in snapshot(tmp_path).items()}
    done = limited(fovea, 'export', trained.path, '-o', name, '--overwrite', *options)
    assert done.returncode == 1 and 'File too large' in done.stderr, done
    assert snapshot(tmp_path) == before
    assert [p.name for p in tmp_path.iterdir()] == ([name] if there else [])


@pytest.mark.parametrize('there', [False, True], ids=['new', 'old'])
def test_c47_an_import_that_fails_leaves_what_was_there(fovea, tiny, trained, there):
    weights = trained.path / 'checkpoints/last/model.safetensors'
    (tiny / 'bad.safetensors').write_bytes(weights.read_bytes()[:-1])
    if there:
        fovea('train', 'tiny.yaml', *ONE_STEP, '--run-dir', 'in/r', expect=0)
    before = snapshot(tiny)
    done = limited(fovea, 'import', 'tiny.yaml', weights, '-o', 'in/r', '--overwrite')
    assert done.returncode == 1 and 'File too large' in done.stderr, done
    fovea('import', 'tiny.yaml', 'bad.safetensors', '-o', 'in/r', '--overwrite', expect=2)
    assert snapshot(tiny) == before and (tiny / 'in').exists() == there
    resumed = fovea('train', '--resume', 'in/r', 'train.max_steps=2')
    assert resumed.returncode == (0 if there else 2)
    fovea('import', 'tiny.yaml', weights, '-o', 'in/r', '--overwrite', expect=0)
    assert {p.name for p in (tiny / 'in/r').iterdir()} == {'config.yaml', 'checkpoints'}
    assert fovea.translate('in/r', 'Ba ce.') == fovea.translate(trained, '--checkpoint', 'last', 'Ba ce.')


def test_c47_an_import_that_was_killed_is_no_run(fovea, tiny, trained):
    made = tiny / 'r/.run.partial'
    (made / 'checkpoints').mkdir(parents=True)
    shutil.copy(trained.path / 'config.yaml', made)
    assert 'holds no run' in fovea('train', '--resume', 'r', expect=2).stderr
    fovea('import', 'tiny.yaml', trained.path / 'checkpoints/last/model.safetensors', '-o', 'r', expect=0)
    assert {p.name for p in (tiny / 'r').iterdir()} == {'config.yaml', 'checkpoints'}


def test_c47_exports_replace_files_only_and_keep_links(fovea, trained, tmp_path):
    os.mkfifo(tmp_path / 'pipe.pt')
    (tmp_path / 'link.safetensors').symlink_to('there.safetensors')
    (tmp_path / 'linked').symlink_to('dir')
    for name, said in (('pipe.pt', 'is a pipe'), ('/dev/null', 'is a device'), ('-', 'name a file')):
        done = fovea('export', trained, '-o', name, '--overwrite', expect=2)
        assert said in done.stderr and '--output' in done.stderr
    assert (tmp_path / 'pipe.pt').is_fifo()
    for _ in range(2):
        fovea('export', trained, '-o', 'link.safetensors', '--overwrite', expect=0)
        fovea('export', trained, '-o', 'linked/', '--format', 'safetensors', '--overwrite', expect=0)
    assert (tmp_path / 'link.safetensors').is_symlink() and (tmp_path / 'there.safetensors').is_file()
    assert (tmp_path / 'linked').is_symlink() and (tmp_path / 'dir/model.safetensors').is_file()
    assert len(list(tmp_path.iterdir())) == 5


# One rule of exit statuses: 2 for what was given, 1 for the work, whichever command it is.


def test_a_mistake_has_one_status_in_every_command(fovea, tiny, trained, classifier):
    (tiny / 'no_tab.tsv').write_text('no tab here\n' * 20)
    (tiny / 'latin.txt').write_bytes(b'caf\xe9\n')
    (tiny / 'two.txt').write_text('ba\nce\n')
    (tiny / 'one.txt').write_text('ba\n')
    (tiny / 'empty').mkdir()
    import_tiny = ['import', 'tiny.yaml']
    mistakes = {
        'a file that is missing': [['train', 'none'], ['train', 'tiny.yaml', 'data.path=none'], ['init', 'none'],
                                   ['translate', trained, '--input', 'none'], ['classify', classifier, 'none'],
                                   ['classify', classifier, '--input', 'none'], ['score', 'none', 'none'],
                                   ['evaluate', trained, '--input', 'none'], [*import_tiny, 'none', '-o', 'x'],
                                   ['config', 'show', 'none'], ['config', 'validate', 'none'],
                                   ['import', 'tiny.yaml', 'one.txt', '-o', 'x', '--map', 'none']],
        'a run that is missing': [[command, 'none'] for command in ('translate', 'evaluate', 'predict')] + [
            ['classify', 'none', 'x.png'], ['export', 'none', '-o', 'x.pt'], ['train', '--resume', 'none'],
            ['train', 'tiny.yaml', '--init-from', 'none']],
        'a checkpoint that is missing': [[*command, '--checkpoint', 'step-9'] for command in (
            ['translate', trained, 'ba'], ['evaluate', trained], ['export', trained, '-o', 'x.pt'],
            ['classify', classifier, 'x.png'], ['train', '--resume', trained])],
        'no tab': [['train', 'tiny.yaml', 'data.path=no_tab.tsv'], ['init', 'no_tab.tsv'],
                   ['evaluate', trained, '--input', 'no_tab.tsv']],
        'lines that are no pairs': [['evaluate', trained, '--input', 'one.txt', 'two.txt'],
                                    ['score', 'one.txt', 'two.txt'], ['init', 'one.txt', 'two.txt']],
        'no UTF-8': [['translate', trained, '--input', 'latin.txt'], ['score', 'latin.txt', 'latin.txt'],
                     ['train', 'tiny.yaml', 'data.path=latin.txt'], ['init', 'latin.txt'],
                     ['evaluate', trained, '--input', 'latin.txt', 'one.txt']],
        'something else': [[*import_tiny, 'two.txt', '-o', 'x'], ['classify', classifier, 'one.txt'],
                           ['train', 'tiny.yaml', 'data.path=empty'], ['translate', trained, '--input', 'empty'],
                           ['score', 'empty', 'empty'], ['evaluate', trained, '--input', 'empty']],
        'a setting': [['train', 'tiny.yaml', 'train.watch=nothing'], ['config', 'validate', 'tiny.yaml', 'seed=-1'],
                      ['train', 'tiny.yaml', 'model.positions=rotary', 'model.num_heads=16'],
                      ['evaluate', trained, 'runtime.threads=-1']],
        'a place to write': [['export', trained, '-o', 'no/x.pt'], ['init', 'corpus.tsv', '-o', 'no/x.yaml'],
                             ['evaluate', trained, '--write-pairs', 'no/x.tsv'], ['man', '--directory', 'one.txt']],
    }
    wrong = [(mistake, args, done.returncode, done.stderr) for mistake, calls in mistakes.items() for args in calls
             for done in [fovea(*args)] if done.returncode != 2 or 'unexpected' in done.stderr]
    assert not wrong, wrong
    assert limited(fovea, 'export', trained.path, '-o', 'x.pt').returncode == 1
    with open('/dev/full', 'wb') as full:
        for args in (['translate', trained, 'ba'], ['score', 'one.txt', 'one.txt'], ['info'], ['config', 'list']):
            process = fovea.start(*args, stdout=full)
            assert process.communicate(timeout=TIMEOUT) and process.returncode == 1, args


# C48: names are bytes.


def test_c48_names_that_are_no_utf8(fovea, tiny, trained):
    odd = os.fsencode(tiny) + b'/caf\xe9'
    os.mkdir(odd)
    run = odd + b'/run'
    shutil.copytree(os.fsencode(trained.path), run, symlinks=True)
    shutil.copy(os.fsencode(tiny / 'test.tsv'), odd + b'/t\xff.tsv')
    assert json.loads(fovea(b'evaluate', run, b'--json', b'--input', odd + b'/t\xff.tsv', expect=0).stdout)['bleu'] > 0
    assert len(lines_of(fovea(b'translate', run, b'Ba ce.', b'--json', expect=0).stdout)) == 1
    for output in (b'/m\xe9.pt', b'/m\xe9.safetensors'):
        fovea(b'export', run, b'-o', odd + output, expect=0)
    fovea(b'train', b'tiny.yaml', b'train.max_steps=1', b'--run-dir', odd + b'/new', expect=0)
    fovea(b'train', b'--resume', odd + b'/new', b'train.max_steps=2', expect=0)
    # A run keeps these paths in a text file, so they are refused before anything is done.
    shutil.copy(tiny / 'corpus.tsv', odd + b'/corpus.tsv')
    done = fovea(b'train', b'tiny.yaml', b'data.path=' + odd + b'/corpus.tsv', b'--run-dir', b'no', expect=2)
    assert 'UTF-8' in done.stderr and not (tiny / 'no').exists()
    shutil.copy(tiny / 'tiny.yaml', odd + b'/tiny.yaml')
    done = fovea(b'train', odd + b'/tiny.yaml', b'--run-dir', b'no', expect=2)
    assert 'UTF-8' in done.stderr and not (tiny / 'no').exists()


# C49: what a shell did not expand.


def test_c49_a_tilde_is_the_home(fovea, tiny):
    home = tiny / 'home'
    home.mkdir()
    shutil.copy(tiny / 'corpus.tsv', home)
    env = {'HOME': str(home)}
    fovea('train', 'tiny.yaml', *ONE_STEP, '--run-dir=~/r', 'data.path=~/corpus.tsv', env=env, expect=0)
    assert (home / 'r/config.yaml').exists() and not (tiny / '~').exists()
    fovea('evaluate', '~/r', '--input', '~/corpus.tsv', env=env, expect=0)
    fovea('export', '~/r', '-o', '~/m.safetensors', env=env, expect=0)
    assert (home / 'm.safetensors').exists()
    assert 'another user' in fovea('train', 'tiny.yaml', '--run-dir', '~nobody/r', env=env, expect=2).stderr


@pytest.mark.parametrize('path, said', [('https://example.org/x.tsv', 'web address'), ('*.tsv', "'*' stands for nothing")])
def test_c49_addresses_and_stars_are_said(fovea, tiny, trained, path, said):
    for args in (['train', 'tiny.yaml', f'data.path={path}'], ['train', path], ['evaluate', trained, '--input', path],
                 ['translate', trained, '--input', path]):
        assert said in fovea(*args, expect=2).stderr
    assert not (tiny / 'runs').exists()


# C50: one reader.


@pytest.mark.parametrize('how', ['file', 'stdin', 'plain name'])
def test_c50_gzip_is_read_wherever_text_is(fovea, tiny, trained, how):
    text = ''.join(source + '\n' for source in trained.sources)
    packed = gzip.compress(text.encode())
    plain = fovea.translate(trained, '--input', '-', input=text)
    name = 'in.txt' if how == 'plain name' else 'in.txt.gz'
    (tiny / name).write_bytes(packed)
    if how == 'stdin':
        assert fovea.translate(trained, input=packed) == plain
    else:
        assert fovea.translate(trained, '--input', name) == plain
    (tiny / 'packed.yaml.gz').write_bytes(gzip.compress((tiny / 'tiny.yaml').read_bytes()))
    fovea('train', 'packed.yaml.gz', *ONE_STEP, expect=0)
    assert (tiny / 'runs/packed/config.yaml').exists()


@pytest.mark.parametrize('magic, said', [(b'\xfd7zXZ\x00', 'xz data'), (b'\x28\xb5\x2f\xfd', 'zstd data'),
                                         (b'BZh91AY&SY', 'bzip2 data'), (b'PK\x03\x04', 'a zip archive')])
def test_c50_other_archives_are_named(fovea, tiny, trained, magic, said):
    (tiny / 'in').write_bytes(magic + bytes(100))
    for args in (['translate', trained, '--input', 'in'], ['train', 'in'], ['score', 'in', 'in'],
                 ['evaluate', trained, '--input', 'in'], ['train', 'tiny.yaml', 'data.path=in']):
        done = fovea(*args)
        assert done.returncode in (1, 2) and said in done.stderr, done


# C62: weights from elsewhere can be trained on, or import says no.


def test_c62_what_import_makes_can_be_trained_on(fovea, tiny, trained):
    weights = trained.path / 'checkpoints/last/model.safetensors'
    fovea('import', trained.folder / 'tiny.yaml', weights, '-o', 'same', expect=0)
    fovea('train', '--resume', 'same', 'train.max_steps=2', expect=0)
    # Another vocabulary: import says no, and train.init_from takes over the words that both have.
    write_tsv(tiny / 'corpus.tsv', [(s.replace('ba', 'ab'), t) for s, t in tiny_pairs(150)] + [('new word', 'new word')])
    before = snapshot(tiny)
    done = fovea('import', 'tiny.yaml', weights, '-o', 'other', expect=2)
    assert 'the weights do not fit' in done.stderr and 'embedding' in done.stderr
    assert snapshot(tiny) == before and not (tiny / 'other').exists()
    done = fovea('train', 'tiny.yaml', '--init-from', trained, *ONE_STEP, '--run-dir', 'tuned', expect=0)
    assert 'rows by name' in done.stderr


def test_c62_import_with_the_vocabulary_of_the_weights(fovea, tiny, trained):
    weights, assets = trained.path / 'checkpoints/last/model.safetensors', trained.path / 'checkpoints/last'
    write_tsv(tiny / 'corpus.tsv', [(s.replace('ba', 'ab'), t) for s, t in tiny_pairs(150)])
    fovea('import', 'tiny.yaml', weights, '-o', 'without', expect=2)
    # The vocabulary is that of the weights, and not that of the data: the run can be used, and is not trained on.
    done = fovea('import', 'tiny.yaml', weights, '--assets', assets, '-o', 'r', expect=0)
    assert 'not trained on' in done.stderr and 'fovea train CONFIG.yaml --init-from r\n' in done.stderr
    assert fovea.translate('r', 'Ba ce.') == fovea.translate(trained, 'Ba ce.', '--checkpoint', 'last')
    before = snapshot(tiny / 'r' / 'checkpoints')
    done = fovea('train', '--resume', 'r', 'train.max_epochs=9')
    assert done.returncode != 0 and 'vocabulary is not that of the checkpoint' in done.stderr
    assert snapshot(tiny / 'r' / 'checkpoints') == before
    done = fovea('train', 'tiny.yaml', '--init-from', 'r', *ONE_STEP, '--run-dir', 'tuned', expect=0)
    assert 'rows by name' in done.stderr
    # With the data of the vocabulary it can be trained on.
    shutil.copy(trained.folder / 'corpus.tsv', tiny / 'corpus.tsv')
    done = fovea('import', 'tiny.yaml', weights, '--assets', assets, '-o', 'same', expect=0)
    assert 'not trained on' not in done.stderr
    fovea('train', '--resume', 'same', *ONE_STEP, expect=0)


def test_c62_another_number_of_classes(fovea, squares, classifier):
    weights = classifier / 'checkpoints/best/model.safetensors'
    yaml = (squares / 'squares.yaml').read_text().replace('[top left, top, top right, left]',
                                                          '[top left, top, top right, left, right]')
    (squares / 'squares.yaml').write_text(yaml)
    done = fovea('import', 'squares.yaml', weights, '-o', 'five', expect=2)
    assert 'the weights do not fit' in done.stderr and not (squares / 'five').exists()
    done = fovea('train', 'squares.yaml', '--init-from', classifier, *ONE_STEP, '--run-dir', 'tuned', expect=0)
    assert '4 of 5 rows by name' in done.stderr
