"""The events of a run, as TensorBoard reads them: the values of metrics.jsonl, each step once."""

import collections

import numpy as np
import pytest
from conftest import metrics_of, stop_at
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def scalars(run_dir):
    """{tag: [(step, value)]} of all that is in the run's event files."""
    events = EventAccumulator(str(run_dir), size_guidance={'scalars': 0}).Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()['scalars']}


def expected(run_dir):
    values = collections.defaultdict(list)
    for line in metrics_of(run_dir):
        for name, value in line.items():
            if name not in ('kind', 'step', 'epoch'):
                values[f'{line["kind"]}/{name}'].append((line['step'], float(np.float32(value))))
    return dict(values)


def test_events_are_the_metrics(trained):
    assert {'train/loss', 'train/learning_rate', 'epoch/loss', 'validation/loss', 'validation/perplexity'} <= \
        set(scalars(trained.path))
    assert scalars(trained.path) == expected(trained.path)


def test_wall_times_rise(trained):
    events = EventAccumulator(str(trained.path), size_guidance={'scalars': 0}).Reload().Scalars('train/loss')
    times = [e.wall_time for e in events]
    assert times == sorted(times) and times[0] > 1.6e9


def test_after_a_resume_nothing_is_lost_or_twice(fovea, tiny):
    fovea('train', 'tiny.yaml', 'train.max_epochs=2', '--run-dir', 'r', expect=0)
    fovea('train', '--resume', 'r', 'train.max_epochs=4', expect=0)
    assert [step for step, _ in scalars(tiny / 'r')['epoch/loss']] == [9, 18, 27, 36]
    assert scalars(tiny / 'r') == expected(tiny / 'r')


@pytest.mark.parametrize('lines', [5, 17, 23], ids=['before the first checkpoint', 'in epoch 2', 'in epoch 3'])
def test_after_a_kill_nothing_is_lost_or_twice(fovea, tiny, lines):
    process = fovea.start('train', 'tiny.yaml', 'train.max_epochs=8', '--run-dir', 'r')
    assert stop_at(process, tiny / 'r', lines)
    fovea('train', '--resume', 'r', expect=0)
    assert [step for step, _ in scalars(tiny / 'r')['train/loss']] == list(range(1, 73))
    assert scalars(tiny / 'r') == expected(tiny / 'r')
