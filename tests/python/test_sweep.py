"""Sweeps: members trained one after another, across interruptions, and the table and picture of what they reached."""

import json
import signal
import statistics

import pytest
import yaml

from conftest import (lines_of, logged_steps, metrics_of, on_a_terminal, snapshot, stop_at, wait_for)

SWEEP = """\
base: tiny.yaml
settings: {train.max_epochs: 2}
grid:
  model.num_heads: [1, 2]
seeds: [1, 2]
measures: [bleu, loss, parameters, minutes]
plot: {x: model.num_heads}
"""
MEMBERS = ['num_heads-1-seed1', 'num_heads-2-seed1', 'num_heads-1-seed2', 'num_heads-2-seed2']


@pytest.fixture
def heads(tiny):
    (tiny / 'heads.yaml').write_text(SWEEP)
    return tiny


@pytest.fixture(scope='module')
def swept(program, tmp_path_factory):
    """The folder of a sweep that ran to its end."""
    from conftest import Fovea, make_tiny
    folder = make_tiny(tmp_path_factory.mktemp('swept'))
    (folder / 'heads.yaml').write_text(SWEEP)
    Fovea(program, folder)('sweep', 'heads.yaml', '-o', 'heads.svg', '--quiet', expect=0)
    return folder


def learnt(folder, dir='runs/heads'):
    """What every member logged and what was measured, without what clocks and machines say."""
    results = [json.loads(line) for line in (folder / dir / 'results.jsonl').read_text().splitlines()]
    training = {r['member']: {k: v for k, v in r['training'].items()
                              if k in ('parameters', 'epochs', 'steps')} for r in results}
    reports = {r['member']: {k: v for k, v in r['report'].items()
                             if 'second' not in k and k not in ('run', 'device', 'threads')} for r in results}
    logs = {name: metrics_of(folder / dir / name, timing=False) for name in MEMBERS}
    return training, reports, logs


def test_sweep_trains_every_member_and_has_mean_and_spread(swept, fovea):
    done = fovea('sweep', 'heads.yaml', '--json', cwd=swept, expect=0)
    result = json.loads(done.stdout)
    assert [m['name'] for m in result['members']] == MEMBERS
    assert all(m['state'] == 'done' for m in result['members'])
    assert [s['settings'] for s in result['setups']] == [{'model.num_heads': '1'}, {'model.num_heads': '2'}]
    for setup in result['setups']:
        heads = setup['settings']['model.num_heads']
        reports = [m['report'] for m in result['members'] if f'num_heads-{heads}-' in m['name']]
        assert setup['seeds'] == len(reports) == 2
        losses = [report['loss'] for report in reports]
        assert setup['measures']['loss']['mean'] == pytest.approx(statistics.mean(losses))
        assert setup['measures']['loss']['spread'] == pytest.approx(statistics.stdev(losses))
        assert losses[0] != losses[1], 'seeds that change nothing'
        assert setup['measures']['parameters']['mean'] > 0
    # The validation pairs choose; the test pairs were not asked for.
    assert all(m['report']['data'] == 'validation' for m in result['members'])
    for member in MEMBERS:
        settings = yaml.safe_load((swept / 'runs/heads' / member / 'config.yaml').read_text())
        assert settings['train']['max_epochs'] == 2
        assert settings['seed'] == int(member[-1]) and settings['model']['num_heads'] == int(member[10])


def test_sweep_that_is_done_does_nothing(swept, fovea):
    before = snapshot(swept)
    done = fovea('sweep', 'heads.yaml', cwd=swept, expect=0)
    assert snapshot(swept) == before and 'epoch' not in done.stderr
    lines = lines_of(done.stdout)
    assert lines[0].split() == ['num_heads', 'seeds', 'bleu', 'loss', 'parameters', 'minutes']
    assert [line.split()[:2] for line in lines[-2:]] == [['1', '2'], ['2', '2']] and '±' in lines[-1]
    assert fovea('sweep', 'heads.yaml', '--dry-run', cwd=swept, expect=0).stderr.endswith('4 members, 4 done\n')


@pytest.mark.parametrize('signal_number', [signal.SIGINT, signal.SIGKILL])
def test_sweep_goes_on_where_it_was(heads, swept, fovea, signal_number):
    """Stopped in the midst of the second member, and between its training and its evaluation."""
    second = heads / 'runs/heads' / MEMBERS[1]
    process = fovea.start('sweep', 'heads.yaml', '--quiet', 'train.checkpoint_every=3')
    assert stop_at(process, second, 5, signal_number)
    if signal_number == signal.SIGINT:
        assert process.returncode == 130 and b'the same command goes on' in process.stderr.read()
    else:
        wait_for(lambda: fovea('sweep', 'heads.yaml', '--dry-run', 'train.checkpoint_every=3').stderr
                 .count('stopped') == 2)  # the member ends on its own when the sweep is killed
    first = metrics_of(heads / 'runs/heads' / MEMBERS[0])
    results = heads / 'runs/heads/results.jsonl'
    assert 'num_heads-2-seed2' not in results.read_text()
    fovea('sweep', 'heads.yaml', '--quiet', 'train.checkpoint_every=3', expect=0)
    # Nothing is trained twice, and the end is that of a sweep nobody stopped.
    assert metrics_of(heads / 'runs/heads' / MEMBERS[0]) == first
    assert learnt(heads)[1:] == learnt(swept)[1:]

    lines = results.read_text().splitlines()
    results.write_text(''.join(line + '\n' for line in lines if MEMBERS[2] not in line))
    fovea('sweep', 'heads.yaml', '--quiet', 'train.checkpoint_every=3', expect=0)
    assert learnt(heads)[1:] == learnt(swept)[1:]


def test_one_sweep_at_a_time(heads, fovea):
    process = fovea.start('sweep', 'heads.yaml', '--quiet', 'train.max_epochs=500')
    assert wait_for(lambda: logged_steps(heads / 'runs/heads' / MEMBERS[0]) > 1, process)
    refused = fovea('sweep', 'heads.yaml', 'train.max_epochs=500', expect=1)
    assert 'another sweep is at work' in refused.stderr
    process.send_signal(signal.SIGINT)
    process.wait(60)


def test_a_member_that_fails_does_not_end_the_sweep(heads, fovea):
    broken = heads / 'runs/heads' / MEMBERS[0]
    fovea('sweep', 'heads.yaml', '--quiet', 'grid=1', expect=2)  # no key of an experiment
    broken.mkdir(parents=True)
    (broken / 'config.yaml').write_text('model: {name: transfomer}\ndata: {name: translation}\n')
    done = fovea('sweep', 'heads.yaml', '--quiet', expect=1)
    assert str(broken.relative_to(heads)) in done.stderr and 'transfomer' in done.stderr
    rows = [line.split() for line in lines_of(done.stdout)]
    assert rows[-2][:2] == ['1', '1'] and rows[-1][:2] == ['2', '2'], done.stdout


def test_runs_of_other_settings_are_no_members(swept, fovea):
    before = snapshot(swept)
    done = fovea('sweep', 'heads.yaml', 'optimizer.learning_rate=0.5', cwd=swept, expect=2)
    assert 'optimizer.learning_rate is 0.01, expected 0.5' in done.stderr and '--dir' in done.stderr
    assert snapshot(swept) == before
    # Where it runs is no setting of the experiment.
    fovea('sweep', 'heads.yaml', 'runtime.threads=2', cwd=swept, expect=0)


def test_sweep_budget_ends_before_the_next_member(heads, fovea):
    (heads / 'heads.yaml').write_text(SWEEP + 'budget: 0.000001\n')
    done = fovea('sweep', 'heads.yaml', '--quiet', expect=0)
    assert 'the budget of 1e-06 minutes is used up: 3 members not trained' in done.stderr
    assert (heads / 'runs/heads' / MEMBERS[0]).exists() and not (heads / 'runs/heads' / MEMBERS[1]).exists()
    # A larger budget goes on.
    (heads / 'heads.yaml').write_text(SWEEP + 'budget: 60\n')
    fovea('sweep', 'heads.yaml', '--quiet', expect=0)
    assert len((heads / 'runs/heads/results.jsonl').read_text().splitlines()) == 4


def test_variants_with_models_of_their_own(tiny, fovea):
    gru = (tiny / 'tiny.yaml').read_text().replace('name: transformer', 'name: seq2seq\n  context: attention')
    for key in ('ffn_num_hiddens', 'num_heads', 'num_blks'):
        gru = ''.join(line + '\n' for line in gru.splitlines() if f'  {key}:' not in line)
    (tiny / 'gru.yaml').write_text(gru)
    (tiny / 'length.yaml').write_text("""\
base: tiny.yaml
settings: {train: {max_epochs: 3}}
variants:
  - {name: Transformer}
  - {name: Bahdanau, base: gru.yaml}
evaluate: {split: test, by: length, beam: 2}
measures: [bleu, loss]
""")
    done = fovea('sweep', 'length.yaml', '-o', 'length.svg', '--dir', 'out', '--json', '--quiet', expect=0)
    result = json.loads(done.stdout)
    assert [m['name'] for m in result['members']] == ['Transformer', 'Bahdanau']
    for setup in result['setups']:
        bands = setup['by_length']
        assert len(bands) > 1 and [*bands[0]] == ['source words', 'pairs', 'bleu', 'loss'], bands
        assert sum(band['pairs']['mean'] for band in bands) == 40
    picture = (tiny / 'length.svg').read_text()
    assert 'Transformer' in picture and 'Bahdanau' in picture
    text = fovea('sweep', 'length.yaml', '--dir', 'out', expect=0).stdout
    assert 'bleu by source words' in text
    assert all(len(line) <= 80 for line in lines_of(text))


WRONG = [
    ('base: none.yaml\n', "none.yaml"),
    (SWEEP.replace('model.num_heads', 'model.num_head'), "heads.yaml:4: model.num_head"),
    (SWEEP.replace('[1, 2]\nseeds', '[1, 3]\nseeds'), 'num_heads'),
    (SWEEP.replace('[1, 2]\nseeds', '[]\nseeds'), 'heads.yaml:4: grid.model.num_heads: expected a list of values'),
    (SWEEP.replace('[1, 2]\nseeds', '[1, 1]\nseeds'), 'heads.yaml:4: grid.model.num_heads: 1 stands there twice'),
    (SWEEP.replace('seeds: [1, 2]', 'seeds: [1, 1]'), 'heads.yaml:5: seeds: one stands there twice'),
    (SWEEP.replace('seeds: [1, 2]', 'seeds: [-1]'), 'heads.yaml:5'),
    (SWEEP.replace('settings:', 'setting:'), 'heads.yaml:2: a sweep has no key'),
    (SWEEP.replace('max_epochs: 2', 'max_epoch: 2'), "heads.yaml:2: train.max_epoch"),
    (SWEEP.replace('x: model.num_heads', 'x: model.num_blks'), 'heads.yaml:7: plot.x'),
    (SWEEP + 'evaluate: {beem: 4}\n', 'heads.yaml:8'),
    (SWEEP + 'evaluate: {split: tset}\n', 'heads.yaml:8: evaluate.split: expected train, validation or test'),
    (SWEEP + 'evaluate: {write_pairs: out.tsv}\n', 'heads.yaml:8: evaluate: all members would write'),
    (SWEEP + 'variants: [{settings: {seed: 3}}]\n', 'heads.yaml:8: variants: expected a name'),
    (SWEEP + 'variants: [{name: a}, {name: a}]\n', "heads.yaml:8: variants: two are named 'a'"),
    (SWEEP + 'variants: [{name: a}, {name: b}]\n', 'have the same settings'),
    (SWEEP + 'budget: 0\n', 'heads.yaml:8: budget'),
    (SWEEP + 'variants: [{name: a, settings: {seed: 3}}]\n', 'heads.yaml:8: seed: the sweep has seeds'),
    ('model: {}\ndata: {}\n', 'is an experiment, not a sweep'),
    ('- 1\n', 'heads.yaml:1: a sweep has the keys'),
    ('', 'heads.yaml'),
]


@pytest.mark.parametrize('text, said', WRONG)
def test_errors_of_sweep_files_have_their_place(heads, fovea, text, said):
    (heads / 'heads.yaml').write_text(text)
    before = snapshot(heads)
    for flags in ([], ['--dry-run']):
        done = fovea('sweep', 'heads.yaml', *flags, expect=2)
        assert said in done.stderr, done.stderr
        assert 'error: ' in done.stderr and done.stdout == ''
    assert snapshot(heads) == before


def test_measures_that_no_result_has(swept, fovea, tmp_path):
    (swept / 'other.yaml').write_text(SWEEP.replace('[bleu,', '[belu,'))
    done = fovea('sweep', 'other.yaml', '--dir', 'runs/heads', cwd=swept, expect=2)
    assert "no result has 'belu'" in done.stderr and 'bleu' in done.stderr
    (swept / 'other.yaml').unlink()


def test_results_that_are_damaged(swept, fovea, tmp_path):
    results = swept / 'runs/heads/results.jsonl'
    good = results.read_text()
    try:
        for bad in ('{"member": 3}\n', 'no JSON\n', good[:200]):
            results.write_text(bad)
            done = fovea('sweep', 'heads.yaml', cwd=swept, expect=2)
            assert 'results.jsonl:1' in done.stderr and results.read_text() == bad
    finally:
        results.write_text(good)


def test_sweep_pictures_replace_nothing_unasked(swept, fovea):
    assert (swept / 'heads.svg').read_text().startswith('<?xml')
    done = fovea('sweep', 'heads.yaml', '-o', 'heads.svg', cwd=swept, expect=2)
    assert 'already exists; replace it with --overwrite' in done.stderr
    fovea('sweep', 'heads.yaml', '-o', 'heads.svg', '--overwrite', cwd=swept, expect=0)
    assert 'ends in .svg' in fovea('sweep', 'heads.yaml', '-o', 'heads.txt', cwd=swept, expect=2).stderr \
        or 'heads.txt' in fovea('sweep', 'heads.yaml', '-o', 'heads.txt', cwd=swept, expect=2).stderr


def test_sweep_says_which_member_it_trains(heads, fovea):
    said = on_a_terminal(fovea, 'sweep', 'heads.yaml', 'train.max_epochs=1', width=80)
    for i, member in enumerate(MEMBERS, 1):
        assert f'[{i}/4] {member}' in said
