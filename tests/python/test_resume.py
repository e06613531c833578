"""A run that was stopped, or killed, goes on as if nothing had happened; what cannot go on says why."""

import json
import random
import re
import shutil
import signal

import pytest
from conftest import (TIMEOUT, final_weights, logged_steps, metrics_of, snapshot, stop_at, tiny_pairs, train_once,
                      wait_for, write_tsv)

SETTINGS = ['model.dropout=0.2', 'train.max_epochs=12', 'train.checkpoint_every=4']
STEPS = 12 * 9


@pytest.fixture(scope='module')
def undisturbed(program, tmp_path_factory):
    return train_once(program, tmp_path_factory, 'undisturbed', *SETTINGS)


def assert_same_run(run_dir, undisturbed):
    assert final_weights(run_dir) == final_weights(undisturbed.path)
    assert metrics_of(run_dir, timing=False) == metrics_of(undisturbed.path, timing=False)


def start(fovea, run_dir='r'):
    return fovea.start('train', 'tiny.yaml', *SETTINGS, '--run-dir', run_dir)


def resumed(fovea, *settings, run_dir='r', expect=0):
    return fovea('train', '--resume', run_dir, *settings, expect=expect)


def checkpoints(run_dir):
    steps = [int(m[1]) for p in (run_dir / 'checkpoints').iterdir() if (m := re.fullmatch(r'step-(\d+)', p.name))]
    return sorted(steps)


def state(run_dir):
    return json.loads((run_dir / 'checkpoints' / 'last' / 'state.json').read_text())


@pytest.mark.parametrize('lines', [1, 3, 9, 11, 13, 122], ids=[
    'the first step', 'before a checkpoint', 'the end of an epoch', 'the next epoch', 'a checkpoint', 'the last epoch'])
def test_c33_killed_once(fovea, tiny, undisturbed, lines):
    process = start(fovea)
    assert stop_at(process, tiny / 'r', lines) or lines > 120  # it may be done by then
    resumed(fovea)
    assert_same_run(tiny / 'r', undisturbed)


def test_c33_c35_killed_again_and_again(fovea, tiny, undisturbed):
    rng = random.Random(0)
    process = start(fovea)
    kills = 0
    for _ in range(8):
        lines = logged_steps(tiny / 'r') + rng.randint(1, 20)
        if not stop_at(process, tiny / 'r', lines, delay=rng.random() * 0.02):
            break
        kills += 1
        process = fovea.start('train', '--resume', 'r')
    process.wait(TIMEOUT)
    if process.returncode != 0:
        print(process.stderr.read().decode())
        resumed(fovea)
    assert kills >= 4
    assert_same_run(tiny / 'r', undisturbed)
    left = [p.name for p in (tiny / 'r/checkpoints').iterdir()]
    assert sorted(name for name in left if not name.startswith('step-')) == ['best', 'last']


@pytest.mark.parametrize('name, status', [('SIGINT', 130), ('SIGTERM', 143)])
def test_c33_signals_save_and_have_a_status(fovea, tiny, undisturbed, name, status):
    process = start(fovea)
    assert stop_at(process, tiny / 'r', 31, getattr(signal, name))
    said = process.stderr.read().decode()
    assert process.returncode == status
    assert f'interrupted by {name}' in said and 'fovea train --resume r' in said
    last = [line for line in metrics_of(tiny / 'r') if line['kind'] == 'train'][-1]['step']
    assert state(tiny / 'r')['step'] == last < STEPS  # the step was finished and nothing after it done
    resumed(fovea)
    assert_same_run(tiny / 'r', undisturbed)


def test_c33_a_second_signal_does_not_wait(fovea, tiny):
    process = start(fovea)
    wait_for(lambda: logged_steps(tiny / 'r') >= 5, process)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    assert process.wait(TIMEOUT) in (130, -signal.SIGINT)


def test_c33_longer_in_two_parts_is_the_same(fovea, tiny, undisturbed):
    fovea('train', 'tiny.yaml', *SETTINGS, 'train.max_steps=31', '--run-dir', 'r', expect=0)
    said = resumed(fovea, 'train.max_steps=null').stderr
    assert 'changed: train.max_steps from 31 to null' in said and 'continuing from' in said and 'step-31' in said
    assert_same_run(tiny / 'r', undisturbed)


@pytest.mark.parametrize('name', ['adamw', 'muon', 'sgd'])
def test_c33_other_optimizers_in_two_parts_are_the_same(fovea, tiny, name):
    settings = [*SETTINGS, f'optimizer.name={name}', 'train.max_epochs=3']
    fovea('train', 'tiny.yaml', *settings, '--run-dir', 'whole', expect=0)
    fovea('train', 'tiny.yaml', *settings, 'train.max_steps=11', '--run-dir', 'r', expect=0)
    resumed(fovea, 'train.max_steps=null')
    assert final_weights(tiny / 'r') == final_weights(tiny / 'whole')


def test_a_finished_run_says_so(fovea, tiny, run_copy):
    before = snapshot(run_copy / 'checkpoints')
    done = resumed(fovea, run_dir='copy')
    assert 'all epochs done' in done.stderr and done.stdout == ''
    assert snapshot(run_copy / 'checkpoints') == before


# C34: what may change when a run goes on.


@pytest.mark.parametrize('setting', [
    'optimizer.learning_rate=0.1', 'optimizer.name=adamw', 'schedule.warmup_steps=5', 'seed=4', 'model.dropout=0.3',
    'model.num_hiddens=32', 'data.batch_size=8', 'data.num_steps=9', 'train.accumulate=2',
    'train.clip_norm=2',
])
def test_c34_a_forbidden_change_is_refused(fovea, tiny, run_copy, setting):
    before = snapshot(run_copy)
    error = resumed(fovea, setting, run_dir='copy', expect=2).stderr
    key, value = setting.split('=')
    assert key in error and value in error and 'train.max_epochs' in error
    assert snapshot(run_copy) == before


def test_c34_another_optimizer_or_schedule_is_refused(fovea, tiny, run_copy):
    before = snapshot(run_copy)
    for name in ('optimizer.name=sgd', 'schedule.name=inverse_sqrt'):
        resumed(fovea, name, run_dir='copy', expect=2)
    error = resumed(fovea, 'schedule.name=inverse_sqrt', 'schedule.warmup_steps=9', run_dir='copy', expect=2).stderr
    assert 'schedule.name' in error and 'constant' in error and 'inverse_sqrt' in error
    assert snapshot(run_copy) == before


def test_c34_an_allowed_change_is_applied_and_said(fovea, tiny, run_copy):
    done = resumed(fovea, 'train.max_epochs=41', 'train.log_every=3', 'runtime.threads=2', run_dir='copy')
    assert 'changed: train.max_epochs from 40 to 41' in done.stderr
    assert 'changed: train.log_every from 1 to 3' in done.stderr
    lines = [line for line in metrics_of(run_copy) if line['epoch'] == 41 and line['kind'] == 'train']
    assert [line['step'] for line in lines] == [363, 366, 369]
    shown = fovea('config', 'show', 'copy/config.yaml', expect=0).stdout
    assert 'max_epochs: 41' in shown and 'log_every: 3' in shown  # the next resume knows it
    assert 'all epochs done' in resumed(fovea, run_dir='copy').stderr


def test_c34_unknown_keys_are_errors_here_too(fovea, tiny, run_copy):
    assert 'max_epochs' in resumed(fovea, 'train.max_epoch=50', run_dir='copy', expect=2).stderr


@pytest.mark.parametrize('args, said', [
    (['--resume', 'copy', 'tiny.yaml'], 'tiny.yaml'), (['--resume', 'copy', '--run-dir', 'x'], '--run-dir'),
    (['--resume', 'copy', '--overwrite'], '--overwrite'), (['--resume', 'nowhere'], 'nowhere'),
    (['--resume', '.'], 'holds runs; give one of them'), (['--checkpoint', 'best', 'tiny.yaml'], '--resume'),
    (['--resume', 'copy', '--checkpoint', 'first'], 'first'),
])
def test_resume_is_used_wrongly(fovea, tiny, run_copy, args, said):
    before = snapshot(run_copy)
    assert said in fovea('train', *args, expect=2).stderr
    assert snapshot(run_copy) == before


# C36: another corpus, another model.


def change_corpus(folder, change):
    path = folder / 'corpus.tsv'
    path.write_text(change(path.read_text(encoding='utf-8')), encoding='utf-8')


@pytest.mark.parametrize('name, change', [
    ('one word more', lambda text: text + 'zu.\tzu-zu.\n' * 20),
    ('two words swapped', lambda text: text.replace('ba-ba', 'xx').replace('ce-ce', 'ba-ba').replace('xx', 'zz-zz')),
    ('one word fewer', lambda text: re.sub(r"(?i)ki-ki|\bki\b", 'je', text)),
])
def test_c36_a_changed_vocabulary_is_refused(fovea, tiny, name, change):
    fovea('train', 'tiny.yaml', 'train.max_steps=2', '--run-dir', 'r', expect=0)
    change_corpus(tiny, change)
    before = snapshot(tiny / 'r')
    done = fovea('train', '--resume', 'r', 'train.max_steps=4')
    assert done.returncode in (1, 2)
    assert 'vocabulary' in done.stderr and 'corpus changed' in done.stderr
    assert snapshot(tiny / 'r') == before


def test_c36_a_missing_corpus_is_named(fovea, tiny):
    fovea('train', 'tiny.yaml', 'train.max_steps=2', '--run-dir', 'r', expect=0)
    (tiny / 'corpus.tsv').unlink()
    assert 'corpus.tsv' in fovea('train', '--resume', 'r', expect=2).stderr
    assert len(fovea.translate('r', 'Ba ce.')) == 1  # using a run needs no corpus


# C35: damage.


def damage(path, how):
    data = path.read_bytes()
    if how == 'gone':
        path.unlink()
    elif how == 'flipped':
        path.write_bytes(data[:len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1:])
    else:
        path.write_bytes(data[:len(data) * how // 100])


@pytest.mark.parametrize('file', ['model.safetensors', 'optimizer.safetensors', 'state.json', 'config.yaml',
                                  'source.vocab', 'manifest.json'])
@pytest.mark.parametrize('how', ['gone', 'flipped', 0, 50, 99])
def test_c35_damage_is_named_and_there_is_a_way_out(fovea, tiny, run_copy, file, how):
    last = (run_copy / 'checkpoints' / 'last').resolve()
    damage(last / file, how)
    others = [step for step in checkpoints(run_copy) if last.name != f'step-{step}']
    error = resumed(fovea, 'train.max_epochs=41', run_dir='copy', expect=2).stderr
    assert f'{last.name}/{file}' in error
    assert f'--checkpoint step-{others[-1]}' in error


def test_c35_the_way_out_leads_to_the_same_weights(fovea, tiny, undisturbed):
    fovea('train', 'tiny.yaml', *SETTINGS, 'train.max_steps=52', '--run-dir', 'r', expect=0)
    damage(tiny / 'r/checkpoints/step-52/optimizer.safetensors', 'flipped')
    error = resumed(fovea, 'train.max_steps=null', expect=2).stderr
    other = re.search(r'--checkpoint (step-\d+)', error)[1]
    resumed(fovea, 'train.max_steps=null', '--checkpoint', other)
    assert_same_run(tiny / 'r', undisturbed)


def test_c35_translating_with_another_checkpoint(fovea, run_copy):
    best = (run_copy / 'checkpoints' / 'best').resolve()
    damage(best / 'model.safetensors', 'flipped')
    done = fovea('translate', 'copy', 'Ba ce.', expect=2)
    other = re.search(r'--checkpoint (step-\d+)', done.stderr)[1]
    assert f'{best.name}/model.safetensors' in done.stderr and other != best.name
    assert len(fovea.translate('copy', '--checkpoint', other, 'Ba ce.')) == 1


def test_c35_an_extra_file_and_a_foreign_one(fovea, run_copy, trained):
    last = (run_copy / 'checkpoints' / 'last').resolve()
    (last / 'extra.bin').write_text('?')
    assert 'extra.bin' in fovea('translate', 'copy', '--checkpoint', 'last', 'Ba.', expect=2).stderr
    (last / 'extra.bin').unlink()
    shutil.copy(trained.path / 'checkpoints/best/model.safetensors', last / 'model.safetensors')
    if (trained.path / 'checkpoints/best').resolve().name != last.name:
        assert 'model.safetensors' in fovea('translate', 'copy', '--checkpoint', 'last', 'Ba.', expect=2).stderr


def test_c42_validating_200_times_keeps_memory_flat(fovea, tiny):
    write_tsv(tiny / 'few.tsv', tiny_pairs(20))
    process = fovea.start('train', 'tiny.yaml', 'data.path=few.tsv', 'data.validation.size=4', 'train.max_epochs=220',
                          '--run-dir', 'r', '--quiet')

    def memory_at(epochs):
        wait_for(lambda: logged_steps(tiny / 'r') >= 3 * epochs, process)
        with open(f'/proc/{process.pid}/status') as status:
            return next(int(line.split()[1]) for line in status if line.startswith('VmRSS'))

    early, late = memory_at(20), memory_at(200)
    assert process.wait(TIMEOUT) == 0
    assert late - early < 4096, (early, late)


# What an audit found: each once did harm in silence.


@pytest.mark.parametrize('old, new', [('dropout: 0.1', 'dropout: 0.4'), ('seed: 3', 'seed: 4'),
                                      ('learning_rate: 0.01', 'learning_rate: 0.5')])
def test_c34_an_edited_config_in_the_run_is_refused(fovea, tiny, run_copy, old, new):
    config = run_copy / 'config.yaml'
    text = config.read_text()
    key = old.split(':')[0]
    config.write_text(re.sub(rf'\b{key}: \S+', new, text, count=1))
    error = resumed(fovea, 'train.max_epochs=41', run_dir='copy', expect=2).stderr
    assert key in error and 'cannot be changed' in error


@pytest.mark.parametrize('change', [lambda lines: lines[::-1], lambda lines: lines + lines[:3]],
                         ids=['another order', 'pairs twice'])
def test_c36_other_pairs_with_the_same_words_are_refused(fovea, tiny, change):
    fovea('train', 'tiny.yaml', 'train.max_steps=2', '--run-dir', 'r', expect=0)
    change_corpus(tiny, lambda text: '\n'.join(change(text.splitlines())) + '\n')
    done = fovea('train', '--resume', 'r', 'train.max_steps=4', expect=2)
    assert 'corpus changed' in done.stderr


def test_metrics_that_are_gone_are_said_and_do_not_stop_a_resume(fovea, tiny, run_copy):
    (run_copy / 'metrics.jsonl').unlink()
    done = resumed(fovea, 'train.max_epochs=41', run_dir='copy')
    assert 'earlier lines are missing' in done.stderr
    assert {line['epoch'] for line in metrics_of(run_copy)} == {41}


def test_a_dry_run_changes_nothing(fovea, tiny, run_copy):
    before = snapshot(run_copy)
    resumed(fovea, 'train.max_epochs=41', '--dry-run', run_dir='copy')
    assert snapshot(run_copy) == before


def test_a_copy_that_followed_links_can_be_resumed(fovea, tiny, trained, tmp_path):
    shutil.copytree(trained.path, tmp_path / 'followed', symlinks=False)
    resumed(fovea, 'train.max_epochs=41', run_dir='followed')
    assert (tmp_path / 'followed/checkpoints/last').is_symlink()


def test_c33_killed_at_step_0(fovea, tiny, undisturbed):
    (tiny / 'r').mkdir()
    (tiny / 'r/.config.yaml.partial').write_text('seed: ')  # killed while the run was being made
    fovea('train', 'tiny.yaml', *SETTINGS, 'train.max_steps=1', '--run-dir', 'r', expect=0)
    shutil.rmtree(tiny / 'r/checkpoints')  # killed after config.yaml, before any checkpoint
    resumed(fovea, 'train.max_steps=null')
    assert_same_run(tiny / 'r', undisturbed)


def test_two_processes_cannot_train_one_run(fovea, tiny):
    process = start(fovea)
    wait_for(lambda: logged_steps(tiny / 'r') > 0, process)
    done = fovea('train', '--resume', 'r')
    process.kill()
    process.wait()
    assert done.returncode == 1 and 'another process' in done.stderr


def test_weights_that_are_not_finite_are_never_saved(fovea, tiny):
    done = fovea('train', 'tiny.yaml', 'optimizer.name=sgd', 'optimizer.learning_rate=1e39', 'train.clip_norm=0',
                 'train.checkpoint_every=1', '--run-dir', 'r', expect=1)
    assert 'step 1' in done.stderr and 'not finite' in done.stderr
    assert not (tiny / 'r/checkpoints').exists() or not checkpoints(tiny / 'r')
