"""Fine-tuning, teachers, and what is watched, from the command line."""

from conftest import metrics_of


def test_a_run_starts_from_another_ones_weights(fovea, trained, tmp_path, tiny):
    said = fovea('train', 'tiny.yaml', '--init-from', trained, 'train.freeze=[encoder]', 'train.max_epochs=1',
                 '--run-dir', 'tuned', expect=0).stderr
    assert 'initial weights' in said and 'tensors of' in said
    first = next(line for line in metrics_of(tiny / 'tuned') if line['kind'] == 'epoch')['loss']
    fovea('train', 'tiny.yaml', 'train.max_epochs=1', '--run-dir', 'fresh', expect=0)
    fresh = next(line for line in metrics_of(tiny / 'fresh') if line['kind'] == 'epoch')['loss']
    assert first < fresh
    # It is resumed without the other run's help.
    fovea('train', '--resume', 'tuned', 'train.max_epochs=2', expect=0)
    wrong = fovea('train', 'tiny.yaml', '--init-from', trained, 'model.num_hiddens=32', '--run-dir', 'x', expect=2).stderr
    assert 'its weights do not fit this model' in wrong and not (tiny / 'x').exists()
    assert 'encodr' in fovea('train', 'tiny.yaml', 'train.freeze=[encodr]', '--run-dir', 'x', expect=2).stderr


def test_a_classifier_learns_from_a_teacher(fovea, classifier, squares):
    said = fovea('train', 'squares.yaml', f'model.teacher={classifier}', 'train.max_epochs=1', '--run-dir', 'student',
                 expect=0).stderr
    assert 'distilled_loss' in said
    assert fovea.json('evaluate', 'student')['accuracy'] >= 0
    assert 'teacher' in fovea('train', 'squares.yaml', 'model.teacher=nowhere', '--run-dir', 'x', expect=2).stderr


def test_bleu_is_watched(fovea, tiny):
    said = fovea('train', 'tiny.yaml', 'train.watch=bleu', 'train.evaluate_every=1', 'train.max_epochs=2', '--run-dir',
                 'r', expect=0).stderr
    assert 'best bleu' in said
    assert all('bleu' in line for line in metrics_of(tiny / 'r') if line['kind'] == 'validation')
    wrong = fovea('train', 'tiny.yaml', 'train.watch=blue', '--run-dir', 'x', expect=2).stderr
    assert "did you mean 'bleu'?" in wrong and not (tiny / 'x').exists()


def test_settings_that_do_not_fit_each_other_are_warned_of(fovea, tiny):
    settings = ['schedule.name=cosine', 'schedule.total_steps=5', 'train.max_epochs=1']
    said = fovea('train', 'tiny.yaml', *settings, '--run-dir', 'r', expect=0).stderr
    assert 'warning: schedule.total_steps: the learning rate is at its floor from step 5 on' in said


def test_a_run_that_is_learnt_from_is_not_overwritten(fovea, trained, run_copy, tiny):
    done = fovea('train', 'tiny.yaml', '--init-from', run_copy, '--run-dir', run_copy, '--overwrite', expect=2)
    assert 'there is a run already, and the new one would learn from it (train.init_from)' in done.stderr
    done = fovea('train', 'tiny.yaml', '--init-from', run_copy, '--run-dir', run_copy, expect=2)
    assert 'there is a run already' in done.stderr and '--overwrite' not in done.stderr
    assert (run_copy / 'checkpoints').is_dir()


def test_a_cosine_that_minutes_may_cut_off_is_warned_of(fovea, tiny):
    said = fovea('train', 'tiny.yaml', 'schedule.name=cosine', 'train.max_minutes=5', 'train.max_epochs=1', '--run-dir',
                 'r', expect=0).stderr
    assert 'warning: train.max_minutes: the learning rate falls until the last of train.max_epochs' in said


def test_a_line_of_a_map_that_matches_nothing_is_an_error(fovea, trained, tiny):
    (tiny / 'names.map').write_text('nosuch.weight = encoder.embedding.weight\n')
    done = fovea('train', 'tiny.yaml', '--init-from', trained, 'train.init_map=names.map', '--run-dir', 'r', expect=2)
    assert 'no weight of the run is called as this line says: nosuch.weight = encoder.embedding.weight' in done.stderr
