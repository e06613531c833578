"""The command line: exit statuses, messages, configuration, and what a new run may and may not touch."""

import os
import re
import shutil
import subprocess

import pytest
from conftest import ROOT, TIMEOUT, metrics_of, on_a_terminal, snapshot

CONFIGS = sorted((ROOT / 'configs').glob('*.yaml'))
ONE_STEP = ['train.max_steps=1', 'train.max_epochs=1']


def refused(fovea, *args, expect=2, **kwargs):
    """The one error that a call ends with."""
    done = fovea(*args, expect=expect, **kwargs)
    assert done.stdout == ''
    errors = [line for line in done.stderr.splitlines() if line.startswith('error: ')]
    assert len(errors) == 1, done.stderr
    return done.stderr[done.stderr.index('error: '):]


# Usage.


def test_help_and_version(fovea):
    for args in ([], ['train'], ['translate'], ['evaluate'], ['score'], ['info'], ['config'], ['config', 'explain']):
        done = fovea(*args, '--help', expect=0)
        assert 'Usage' in done.stdout and done.stderr == ''
    assert fovea('--version', expect=0).stdout.startswith('fovea ')
    assert 'Exit status' in fovea('--help').stdout


@pytest.mark.parametrize('args', [[], ['train', '--no-such-option'], ['translate'], ['evaluate'], ['train'], ['config'],
                                  ['translate', 'run', '--beam', 'many'], ['score', 'one-file'], ['train', 'a', 'b']])
def test_wrong_usage_is_status_2(fovea, args):
    done = fovea(*args, expect=2)
    assert done.stdout == '' and done.stderr != ''


def test_unknown_command_is_named(fovea):
    assert "'trian'" in fovea('trian', 'x.yaml', expect=2).stderr


def test_info(fovea):
    info = fovea.json('info')
    assert info['fovea'] and info['LibTorch'].startswith('2.') and info['CPU capability']
    text = fovea('info', expect=0).stdout
    for key, value in info.items():
        assert key in text and str(value) in text


# Settings.


def test_c30_unknown_key_on_the_command_line(fovea, tiny):
    error = refused(fovea, 'train', 'tiny.yaml', 'model.num_head=4')
    assert 'model.num_head=4' in error and 'num_heads' in error
    assert 'droput' in refused(fovea, 'train', 'tiny.yaml', 'model.droput=0.1')
    assert sorted(p.name for p in tiny.iterdir()) == ['corpus.tsv', 'test.tsv', 'tiny.yaml']


def test_c30_unknown_key_in_the_file(fovea, tiny):
    text = (tiny / 'tiny.yaml').read_text()
    line = text.splitlines().index('  num_heads: 2') + 1
    (tiny / 'tiny.yaml').write_text(text.replace('num_heads: 2', 'num_head: 2'))
    error = refused(fovea, 'train', 'tiny.yaml')
    assert f'tiny.yaml:{line}' in error and 'model.num_head' in error and "'num_heads'" in error


@pytest.mark.parametrize('yaml', [
    '', '- a\n- b\n', 'model:\n\tname: transformer\n', 'model: {name: transformer}\n', 'base: &b {seed: 1}\n<<: *b\n',
    'seed: 1\nseed: 2\n', 'optimizer:\n  learning_rate:\n',
])
def test_c28_c30_broken_yaml(fovea, tiny, yaml):
    (tiny / 'broken.yaml').write_text(yaml)
    assert 'broken.yaml' in refused(fovea, 'train', 'broken.yaml')
    assert 'broken.yaml' in fovea('config', 'validate', 'broken.yaml', expect=2).stderr


@pytest.mark.parametrize('setting, said', [
    ('seed=-1', ['seed', 'at least 0', '-1']),
    ('train.max_epochs=3.5', ['train.max_epochs', 'whole number', '3.5']),
    ('train.max_epochs=', ['train.max_epochs']),
    ('model.dropout=1.5', ['model.dropout', 'below 1', '1.5']),
    ('model.dropout=-0.1', ['model.dropout', 'at least 0', '-0.1']),
    ('optimizer.learning_rate=1e400', ['optimizer.learning_rate', '1e400']),
    ('optimizer.learning_rate=nan', ['optimizer.learning_rate', 'nan']),
    ('model.num_heads=3', ['num_heads', 'num_hiddens', '16', '3']),
    ('runtime.device=tpu', ['runtime.device', 'cuda', 'tpu']),
    ('model.name=transfomer', ['transfomer', 'transformer']),
])
def test_c09_c29_c32_values_out_of_range(fovea, tiny, setting, said):
    error = refused(fovea, 'train', 'tiny.yaml', setting)
    assert all(part in error for part in said), error
    assert not (tiny / 'runs').exists()


def test_c29_numbers_are_equal_however_written(fovea, tiny):
    shown = {fovea('config', 'show', 'tiny.yaml', f'optimizer.learning_rate={text}', expect=0).stdout
             for text in ('1e-3', '1.0e-3', '1E-3', '.001', '0.001')}
    assert len(shown) == 1
    done = fovea('config', 'show', 'tiny.yaml', 'train.max_epochs=010')
    assert done.returncode == 2 or 'max_epochs: 10\n' in done.stdout  # never 8


def test_c32_settings_in_any_place_and_order(fovea, tiny):
    orders = [['tiny.yaml', 'seed=5', 'train.max_epochs=7'], ['seed=5', 'tiny.yaml', 'train.max_epochs=7'],
              ['train.max_epochs=7', 'seed=5', 'tiny.yaml']]
    shown = {fovea('config', 'show', *order, expect=0).stdout for order in orders}
    assert len(shown) == 1
    assert 'seed: 5\n' in shown.pop()
    run = fovea('train', 'seed=5', '--dry-run', 'tiny.yaml', '--run-dir', 'r', 'train.max_epochs=7', expect=0).stderr
    settings = dict(line.split(maxsplit=1) for line in run.splitlines() if len(line.split(maxsplit=1)) == 2)
    assert settings['seed'] == '5' and settings['train.max_epochs'] == '7'


def test_c32_paths_are_relative_to_the_file_or_to_the_working_directory(fovea, tiny, tmp_path):
    elsewhere = tmp_path / 'elsewhere'
    elsewhere.mkdir()
    shown = fovea('config', 'show', '../tiny.yaml', cwd=elsewhere, expect=0).stdout
    assert f'path: {tiny / "corpus.tsv"}\n' in shown
    shown = fovea('config', 'show', '../tiny.yaml', 'data.path=mine.tsv', cwd=elsewhere, expect=0).stdout
    assert f'path: {elsewhere / "mine.tsv"}\n' in shown
    shutil.copy(tiny / 'corpus.tsv', elsewhere / 'mine.tsv')
    fovea('train', '../tiny.yaml', 'data.path=mine.tsv', '--dry-run', cwd=elsewhere, expect=0)


# `fovea config`.


def keys_of(yaml):
    """The key paths of a configuration as the program dumps it: two spaces of indentation per level."""
    path = []
    for line in yaml.splitlines():
        key, value = line.split(':', 1)
        level = (len(key) - len(key.lstrip())) // 2
        path[level:] = [key.strip()]
        if value:
            yield '.'.join(path)


def test_config_list(fovea):
    text = fovea('config', 'list', cwd=ROOT, expect=0).stdout
    assert all(f'configs/{path.name}' in text for path in CONFIGS)
    assert 'transformer' in text and 'translation' in text and '11.7' in text
    assert 'nowhere' in refused(fovea, 'config', 'list', 'nowhere')


@pytest.mark.parametrize('config', CONFIGS, ids=lambda path: path.stem)
def test_c30_every_config_validates_and_says_what_it_is(fovea, config):
    assert fovea('config', 'validate', config, expect=0).stdout == f'{config}: ok\n'
    header = config.read_text().splitlines()
    assert header[0].startswith('# ') and any(f'fovea train configs/{config.name}' in line for line in header)


def test_c30_validate_goes_on_after_an_error(fovea, tiny):
    (tiny / 'bad.yaml').write_text('sed: 1\n')
    done = fovea('config', 'validate', 'bad.yaml', 'missing.yaml', 'tiny.yaml', expect=2)
    assert done.stdout == 'tiny.yaml: ok\n'
    assert 'bad.yaml:1' in done.stderr and 'missing.yaml' in done.stderr


@pytest.mark.parametrize('config', CONFIGS, ids=lambda path: path.stem)
def test_config_show_reads_back(fovea, tmp_path, config):
    shown = fovea('config', 'show', config, 'optimizer.learning_rate=3.0e-9', 'train.max_minutes=0.1', expect=0).stdout
    (tmp_path / 'again.yaml').write_text(shown)
    assert fovea('config', 'show', 'again.yaml', expect=0).stdout == shown


def test_config_explain_names_every_key(fovea, tiny):
    text = fovea('config', 'explain', expect=0).stdout
    shown = fovea('config', 'show', 'tiny.yaml', expect=0).stdout
    explained = {line.split(' ')[0] for line in text.splitlines()}
    assert set(keys_of(shown)) <= explained
    only = fovea('config', 'explain', 'train', expect=0).stdout
    assert 'train.max_epochs' in only and 'runtime.threads' not in only
    assert 'momentun' in refused(fovea, 'config', 'explain', 'momentun')


# A new run.


def test_c32_missing_files_are_found_before_anything_is_made(fovea, tiny):
    before = snapshot(tiny)
    assert 'missing.yaml' in refused(fovea, 'train', 'missing.yaml', '--run-dir', 'r')
    assert 'missing.tsv' in refused(fovea, 'train', 'tiny.yaml', 'data.path=missing.tsv', '--run-dir', 'r')
    assert 'missing.tsv' in refused(fovea, 'train', 'tiny.yaml', 'data.test.path=missing.tsv', '--run-dir', 'r')
    assert snapshot(tiny) == before and not (tiny / 'r').exists()


def test_c32_run_directories(fovea, tiny):
    fovea('train', 'tiny.yaml', *ONE_STEP, '--run-dir', 'a/b/c', expect=0)
    assert (tiny / 'a/b/c/checkpoints/last/model.safetensors').is_file()
    fovea('train', 'tiny.yaml', *ONE_STEP, expect=0)
    assert (tiny / 'runs/tiny/config.yaml').is_file()


def test_c32_an_existing_run_is_kept_unless_told_otherwise(fovea, tiny):
    fovea('train', 'tiny.yaml', *ONE_STEP, '--run-dir', 'r', expect=0)
    before = snapshot(tiny / 'r')
    error = refused(fovea, 'train', 'tiny.yaml', *ONE_STEP, '--run-dir', 'r')
    assert '--resume r' in error and '--overwrite' in error and '--run-dir' in error
    assert snapshot(tiny / 'r') == before
    # A call that cannot train does not cost the run that is there.
    refused(fovea, 'train', 'tiny.yaml', 'data.path=missing.tsv', '--run-dir', 'r', '--overwrite')
    assert snapshot(tiny / 'r') == before
    fovea('train', 'tiny.yaml', *ONE_STEP, 'seed=9', '--run-dir', 'r', '--overwrite', expect=0)
    assert snapshot(tiny / 'r') != before
    assert len(metrics_of(tiny / 'r')) == len(before[next(p for p in before if p.name == 'metrics.jsonl')].splitlines())


@pytest.mark.parametrize('holds', [{'notes.txt': 'mine'}, {'config.yaml': 'a: web server\n', 'notes.txt': 'mine'},
                                   {'config.yaml': 'a: web server\n', 'src/main.c': 'int main;'}])
def test_c32_a_directory_that_holds_other_things_is_never_removed(fovea, tiny, holds):
    for name, text in holds.items():
        (tiny / 'home' / name).parent.mkdir(parents=True, exist_ok=True)
        (tiny / 'home' / name).write_text(text)
    before = snapshot(tiny / 'home')
    for option in ([], ['--overwrite']):
        error = refused(fovea, 'train', 'tiny.yaml', *ONE_STEP, '--run-dir', 'home', *option)
        assert 'home' in error
        assert snapshot(tiny / 'home') == before


def test_c32_overwriting_a_run_spares_what_is_not_the_runs(fovea, tiny):
    fovea('train', 'tiny.yaml', *ONE_STEP, '--run-dir', 'r', expect=0)
    (tiny / 'r/notes.txt').write_text('mine')
    fovea('train', 'tiny.yaml', *ONE_STEP, '--run-dir', 'r', '--overwrite')  # done or refused
    assert (tiny / 'r/notes.txt').read_text() == 'mine'


def test_a_file_is_no_run_directory(fovea, tiny):
    (tiny / 'r').write_text('mine')
    assert 'r:' in refused(fovea, 'train', 'tiny.yaml', *ONE_STEP, '--run-dir', 'r', '--overwrite')
    assert (tiny / 'r').read_text() == 'mine'


def test_dry_run_writes_nothing(fovea, tiny):
    before = snapshot(tiny)
    done = fovea('train', 'tiny.yaml', '--dry-run', expect=0)
    assert 'parameters' in done.stderr and 'model.num_hiddens' in done.stderr and 'dry run' in done.stderr
    assert snapshot(tiny) == before and not (tiny / 'runs').exists()
    fovea('train', 'tiny.yaml', *ONE_STEP, '--run-dir', 'r', expect=0)
    before = snapshot(tiny)
    fovea('train', '--resume', 'r', '--dry-run', 'train.max_steps=5', expect=0)
    assert snapshot(tiny) == before


def test_quiet_prints_nothing(fovea, tiny):
    done = fovea('train', 'tiny.yaml', *ONE_STEP, '--quiet', '--run-dir', 'r', expect=0)
    assert (done.stdout, done.stderr) == ('', '')
    done = fovea('train', '--resume', 'r', 'train.max_steps=3', '--quiet', expect=0)
    assert (done.stdout, done.stderr) == ('', '')
    assert metrics_of(tiny / 'r')[-1]['step'] == 3


def test_c18_small_corpora(fovea, tiny):
    write = (tiny / 'small.tsv').write_text
    small = ['data.path=small.tsv', 'data.test.path=null', 'data.batch_size=64', 'train.max_epochs=1']
    write('a b\tc\nd e\tf\ng\th i\n')
    fovea('train', 'tiny.yaml', *small, 'data.validation.size=0', '--run-dir', 'r', expect=0)
    assert [line['kind'] for line in metrics_of(tiny / 'r')] == ['train', 'epoch']
    fovea('train', 'tiny.yaml', *small, 'data.validation.size=1', '--run-dir', 's', expect=0)
    assert [line['kind'] for line in metrics_of(tiny / 's')] == ['train', 'epoch', 'validation']
    write(''.join(f'a{i}\tb{i}\n' for i in range(65)))
    fovea('train', 'tiny.yaml', *small, 'data.validation.size=0', '--run-dir', 't', expect=0)
    assert metrics_of(tiny / 't')[-1]['step'] == 2
    write('')
    assert 'small.tsv' in fovea('train', 'tiny.yaml', *small, '--run-dir', 'u').stderr
    assert not (tiny / 'u').exists()
    write('a long sentence that does not fit in at all\tb\n')
    done = fovea('train', 'tiny.yaml', *small, 'data.validation.size=0', '--run-dir', 'u')
    assert done.returncode == 2 and 'num_steps' in done.stderr and not (tiny / 'u').exists()


def test_c15_bad_bytes_in_the_corpus_name_file_and_line(fovea, tiny):
    (tiny / 'latin.tsv').write_bytes('a\tb\ncaf\u00e9\tc\n'.encode('latin-1'))
    done = fovea('train', 'tiny.yaml', 'data.path=latin.tsv', '--run-dir', 'r')
    assert done.returncode in (1, 2) and 'latin.tsv:2' in done.stderr and not (tiny / 'r').exists()


def test_non_finite_loss_stops_with_status_1(fovea, tiny):
    done = fovea('train', 'tiny.yaml', 'optimizer.name=sgd', 'optimizer.learning_rate=1e30', 'train.clip_norm=0',
                 '--run-dir', 'r', expect=1)
    assert 'step' in done.stderr and 'not finite' in done.stderr


def warnings_of(done):
    """Those that come before the first epoch's line."""
    before = done.stderr.split('epoch 1', 1)[0]
    return [line for line in before.splitlines() if line.startswith('warning: ')]


@pytest.mark.parametrize('settings, said', [
    (['schedule.name=cosine', 'schedule.total_steps=13'],
     'at its floor from step 13 on, but the training has 27 steps'),
    (['schedule.name=cosine', 'schedule.total_steps=100000'], 'ends at step 100000, but the training ends at step 27'),
    (['schedule.name=inverse_sqrt'], 'the warm-up has 4000 steps, the training only 27'),
    (['schedule.name=cosine'], None)])
def test_c51_a_schedule_that_does_not_fit_the_training_is_said_before_the_first_step(fovea, tiny, settings, said):
    for place in (['--dry-run'], ['--run-dir', 'r']):
        warnings = warnings_of(fovea('train', 'tiny.yaml', *settings, *place, expect=0))
        assert [said in line for line in warnings] == ([True] if said else []), warnings
    if not said:  # the cosine ends where the training ends
        rates = [line['learning_rate'] for line in metrics_of(tiny / 'r') if line['kind'] == 'train']
        assert rates[-1] < rates[len(rates) // 2] < rates[0]


def test_c52_nothing_to_learn_is_refused_or_said_before_the_first_step(fovea, tiny):
    done = fovea('train', 'tiny.yaml', 'data.min_freq=9999', '--run-dir', 'r', expect=2)
    assert 'data.min_freq' in done.stderr and 'nothing to learn' in done.stderr and not (tiny / 'r').exists()
    corpus = (tiny / 'corpus.tsv').read_text(encoding='utf-8')

    def warned(text, *settings):
        (tiny / 'odd.tsv').write_text(text, encoding='utf-8')
        return warnings_of(fovea('train', 'tiny.yaml', 'data.path=odd.tsv', *settings, '--dry-run', expect=0))

    assert warned(corpus) == []
    assert 'the first line, "source" and "target"' in warned('source\ttarget\n' + corpus)[0]
    same = ''.join('\t'.join([line.split('\t')[0]] * 2) + '\n' for line in corpus.splitlines())
    assert 'the target is the source itself' in warned(same, 'data.test.path=null')[0]
    assert 'hold no pair' in warned(corpus + '\n' * 500)[0]
    assert 'dropped as longer than 3 tokens' in ''.join(warned(corpus, 'data.num_steps=3'))
    quoted = ''.join('\t'.join(f'"{field}"' for field in line.split('\t')) + '\n' for line in corpus.splitlines())
    assert "CSV's quotes" in warned(quoted)[0]
    strange = ''.join(f'w{i} x{i}\tv{i} y{i}\n' for i in range(5))
    (tiny / 'strange.tsv').write_text(strange)
    done = fovea('train', 'tiny.yaml', 'data.validation.size=0', 'data.validation.path=strange.tsv', '--dry-run',
                 expect=0)
    assert 'unknown tokens: 100.0% of the source, 100.0% of the target' in done.stderr
    assert 'validation: 100% of the source tokens are unknown words' in ''.join(warnings_of(done))


# Terminals.


def test_no_color(fovea, tiny):
    args = ['train', 'tiny.yaml', 'train.max_epochs=1', '--run-dir']
    colourful = on_a_terminal(fovea, *args, 'a')
    plain = on_a_terminal(fovea, *args, 'b', NO_COLOR='1')
    assert '\x1b[36m' in colourful and '\r' in colourful
    assert not re.search(r'\x1b\[[0-9;]*m', plain) and '\r' in plain
    assert '\x1b[3' in on_a_terminal(fovea, 'train', 'missing.yaml')
    assert '\x1b' not in on_a_terminal(fovea, 'train', 'missing.yaml', NO_COLOR='1')
    assert '\x1b' not in on_a_terminal(fovea, *args, 'c', TERM='dumb')


def test_plain_lines_where_there_is_no_terminal(fovea, tiny):
    done = fovea('train', 'tiny.yaml', 'train.max_epochs=2', '--run-dir', 'r', expect=0)
    assert '\x1b' not in done.stderr and '\r' not in done.stderr and done.stdout == ''
    assert sum(line.startswith('epoch ') and 'validation ' in line for line in done.stderr.splitlines()) == 2


def test_evaluate_and_predict_show_how_far_they_are_on_a_terminal(fovea, trained, tmp_path):
    screen = on_a_terminal(fovea, 'evaluate', trained)
    assert 'evaluating test' in screen and 'translating' in screen and screen.endswith('\r\x1b[K')
    (tmp_path / 'in.txt').write_text('ba ce.\n' * 40)
    screen = on_a_terminal(fovea, 'translate', trained, '--input', 'in.txt', '--batch-size', '2')
    assert 'sentences' in screen and 'sentences/s' in screen and '40%' in screen and screen.endswith('\r\x1b[K')
    assert fovea('translate', trained, '--input', 'in.txt', '--batch-size', '2', expect=0).stderr == ''
    assert on_a_terminal(fovea, 'translate', trained, '--input', 'in.txt', TERM='dumb') == ''


def test_c41_what_needs_no_data_is_validated(fovea, tiny, squares):
    for file, settings, said in [
            ('tiny.yaml', ['train.watch=blue'], "did you mean 'bleu'"), ('tiny.yaml', ['train.watch=accuracy'], 'perplexity'),
            ('squares.yaml', ['train.watch=bleu'], 'accuracy'), ('squares.yaml', ['model.patch_size=0'], 'patch_size'),
            ('squares.yaml', ['model.patch_width=-1'], 'patch_width'), ('tiny.yaml', ['model.max_len=0'], 'max_len'),
            ('tiny.yaml', ['optimizer.factors=[encoder=-1]'], 'encoder=-1'),
            ('tiny.yaml', ['optimizer.name=sgd', 'optimizer.factors=[encoder]'], 'prefix=factor'),
            ('tiny.yaml', ['schedule.name=step', 'schedule.gamma=0'], 'schedule.gamma'),
            ('tiny.yaml', ['schedule.name=cosine', 'schedule.floor=2'], 'schedule.floor')]:
        done = fovea('config', 'validate', file, *settings, expect=2)
        assert said in done.stderr and done.stderr.count('\n') == 1, (settings, done.stderr)
        assert done.stdout == '' and (file in done.stderr or 'argument' in done.stderr)
        assert said in fovea('train', file, *settings, expect=2).stderr
    for watch in ('bleu', 'perplexity', 'loss', 'train', 'validation'):
        fovea('config', 'validate', 'tiny.yaml', f'train.watch={watch}', expect=0)
    assert not (tiny / 'runs').exists()
