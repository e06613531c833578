"""A classifier on the command line: train, resume, evaluate, classify, on images made up here."""

import json
import math
import shutil

import numpy as np
import pytest
import torch
from conftest import CLASSES, final_weights, lines_of, make_images, metrics_of, stop_at, write_idx
from PIL import Image
from safetensors.torch import load_file

RANDOM = ['data.augment.crop_padding=1', 'data.augment.flip=true', 'data.augment.erasing=0.5',
          'data.augment.mixup=0.4', 'model.label_smoothing=0.1', 'train.checkpoint_every=3', 'train.max_epochs=10']


def test_training_says_what_it_trains_on_and_how_well(fovea, squares):
    done = fovea('train', 'squares.yaml', '--run-dir', 'r', expect=0)
    for text in ('130 images', '1 x 12 x 12', '4 classes', 'train.ema_decay', 'images/s', 'accuracy 0.', 'best validation accuracy'):
        assert text in done.stderr
    assert 'ppl' not in done.stderr
    validation = [line for line in metrics_of(squares / 'r') if line['kind'] == 'validation']
    assert len(validation) == 3
    for line in validation:
        assert 0 <= line['accuracy'] <= 1 and line['accuracy'] * 20 == pytest.approx(round(line['accuracy'] * 20))
        assert 'perplexity' not in line
    assert all('images_per_second' in line for line in metrics_of(squares / 'r') if line['kind'] == 'train')


def test_c41_patches_that_do_not_fit_are_refused(fovea, squares):
    for patch in (0, -4):  # wrong whatever the images are
        for command in ('train', 'config validate'):
            done = fovea(*command.split(), 'squares.yaml', f'model.patch_size={patch}', expect=2)
            assert 'model.patch_size' in done.stderr and str(patch) in done.stderr
    for patch in (5, 29):
        done = fovea('train', 'squares.yaml', f'model.patch_size={patch}', expect=2)
        assert 'model.patch_size' in done.stderr and f'{patch} x {patch}' in done.stderr and '12 x 12' in done.stderr
        assert not (squares / 'runs').exists()


def test_c33_killed_and_resumed_with_everything_random_on(fovea, squares):
    fovea('train', 'squares.yaml', *RANDOM, '--run-dir', 'whole', expect=0)
    process = fovea.start('train', 'squares.yaml', *RANDOM, '--run-dir', 'r')
    assert stop_at(process, squares / 'r', 14)
    fovea('train', '--resume', 'r', expect=0)
    assert final_weights(squares / 'r') == final_weights(squares / 'whole')
    last = 'checkpoints/last/raw.safetensors'
    assert (squares / 'r' / last).read_bytes() == (squares / 'whole' / last).read_bytes()
    assert metrics_of(squares / 'r', timing=False) == metrics_of(squares / 'whole', timing=False)
    done = fovea('train', '--resume', 'r', 'train.ema_decay=0.5', expect=2)
    assert 'train.ema_decay' in done.stderr


def test_c35_a_checkpoint_without_its_averages_is_damaged(fovea, classifier, tmp_path):
    shutil.copytree(classifier, tmp_path / 'copy', symlinks=True)
    for path in (tmp_path / 'copy' / 'checkpoints').glob('step-*/raw.safetensors'):
        path.unlink()
    done = fovea('evaluate', 'copy', expect=2)
    assert 'raw.safetensors' in done.stderr


def test_averages_are_kept_beside_the_weights_by_the_same_names(classifier):
    averages, weights = (load_file(classifier / 'checkpoints' / 'last' / f'{name}.safetensors')
                         for name in ('model', 'raw'))
    assert list(weights) == list(averages)
    assert all(weights[name].shape == averages[name].shape for name in weights)
    assert not torch.equal(weights['cls_token'], averages['cls_token'])


def test_evaluate_counts_rightly(fovea, classifier):
    result = fovea.json('evaluate', classifier)
    assert list(result) == ['run', 'checkpoint', 'data', 'images', 'loss', 'accuracy', 'classes', 'confusion']
    matrix = np.array(result['confusion'])
    assert result['data'] == 'test' and result['images'] == 60 == matrix.sum()
    assert result['accuracy'] == pytest.approx(np.trace(matrix) / 60) and result['accuracy'] > 0.8
    for i, row in enumerate(result['classes']):
        assert row['name'] == CLASSES[i] and row['images'] == matrix[i].sum()
        assert matrix[:, i].sum() > 0 and matrix[i].sum() > 0
        precision, recall = matrix[i, i] / matrix[:, i].sum(), matrix[i, i] / matrix[i].sum()
        assert (row['precision'], row['recall']) == (pytest.approx(precision), pytest.approx(recall))
        assert row['f1'] == pytest.approx(2 * precision * recall / (precision + recall))


def test_c56_what_is_0_by_0_is_null_and_no_part_of_the_mean(fovea, classifier, squares):
    """Test images of two classes only, all of them seen for what they are."""
    images, labels = make_images(400, 7)
    keep = labels < 2
    write_idx(squares / 'test-images.idx', images[keep])
    write_idx(squares / 'test-labels.idx', labels[keep])
    fovea('train', 'squares.yaml', 'train.max_epochs=15', '--run-dir', 'r', expect=0)
    result = fovea.json('evaluate', 'r')
    matrix = np.array(result['confusion'])
    neither = [i for i in range(4) if matrix[i].sum() == 0 and matrix[:, i].sum() == 0]
    assert neither, 'the model names classes that are not there: train it longer'
    for i in range(4):
        row = result['classes'][i]
        assert (row['recall'] is None) == (matrix[i].sum() == 0)
        assert (row['precision'] is None) == (matrix[:, i].sum() == 0)
        assert (row['f1'] is None) == (i in neither)
    scores = [row['f1'] for row in result['classes'] if row['f1'] is not None]
    table = fovea('evaluate', 'r', expect=0).stdout.splitlines()
    mean = next(line for line in table if line.startswith('mean')).split()
    assert float(mean[3]) == pytest.approx(sum(scores) / len(scores), abs=1e-4)
    assert any(line.startswith(CLASSES[neither[0]]) and line.split()[-4:-1] == ['-'] * 3 for line in table)


def test_c59_what_is_transparent_is_not_a_colour(fovea, classifier, pictures, tmp_path):
    """The picture is in the alpha channel, black ink on nothing: what is seen is the picture on white."""
    gray = Image.open(tmp_path / pictures['top'])
    ink = Image.new('LA', gray.size, 0)
    ink.putalpha(gray.point(lambda value: 255 - value))
    ink.save(tmp_path / 'ink.png')
    hidden = Image.new('RGBA', gray.size, (255, 0, 0, 0))
    hidden.paste(gray.convert('RGBA'))
    hidden.save(tmp_path / 'opaque.png')
    turned = Image.Exif()
    turned[0x0112] = 6
    gray.transpose(Image.ROTATE_90).save(tmp_path / 'turned.png', exif=turned)
    names = [pictures['top'], 'ink.png', 'opaque.png', 'turned.png']
    rows = lines_of(fovea('classify', classifier, *names, expect=0).stdout)
    assert len({row.split('\t', 1)[1] for row in rows}) == 1, rows


def test_evaluate_prints_tables(fovea, classifier):
    result = fovea.json('evaluate', classifier)
    text = fovea('evaluate', classifier, expect=0).stdout
    assert f"{result['accuracy']:.4f} (" in text and ' of 60 right)' in text
    lines = text.splitlines()
    scores = next(i for i, line in enumerate(lines) if line.split() == ['class', 'precision', 'recall', 'F1', 'images'])
    assert lines[scores + 2].startswith('top left') and lines[scores + 6].startswith('mean')
    header = next(i for i, line in enumerate(lines) if line.startswith('actual \\ predicted'))
    for name, row, line in zip(CLASSES, result['confusion'], lines[header + 2:]):
        assert line.startswith(name) and [int(n) for n in line[len(name):].split()] == row
        assert len(line) == len(lines[header])  # aligned to the right


def test_evaluation_of_the_validation_part_is_what_training_saw(fovea, classifier):
    result = fovea.json('evaluate', classifier, '--split', 'validation')
    lines = [line for line in metrics_of(classifier) if line['kind'] == 'validation']
    best = max(lines, key=lambda line: line['accuracy'])
    assert result['accuracy'] == pytest.approx(best['accuracy'])
    assert result['loss'] == pytest.approx(best['loss'], abs=1e-6)
    assert fovea.json('evaluate', classifier, '--split', 'train')['images'] == 130


def test_evaluate_refuses_what_is_for_translators(fovea, classifier, squares):
    for option in (['--beam', '4'], ['--samples', '3']):
        done = fovea('evaluate', classifier, *option, expect=2)
        assert f'{option[0]} is for runs of translation, the task of this one is classification' in done.stderr
    assert '--input' in fovea('evaluate', classifier, '--input', 'squares.yaml', expect=2).stderr
    fovea('train', 'squares.yaml', 'data.validation.size=0', 'train.watch=train', 'train.max_epochs=1', '--run-dir', 'r',
          expect=0)
    assert 'no validation data' in fovea('evaluate', 'r', '--split', 'validation', expect=2).stderr


def test_classify_names_what_is_there(fovea, classifier, pictures):
    done = fovea('classify', classifier, *pictures.values(), expect=0)
    rows = [line.split('\t') for line in lines_of(done.stdout)]
    assert [row[0] for row in rows] == list(pictures.values())
    assert sum(row[1] == name for row, name in zip(rows, pictures)) >= 3
    assert all(0 < float(row[2]) <= 1 for row in rows)
    assert done.stderr == ''


def test_classify_top_and_json(fovea, classifier, pictures):
    image = pictures['top']
    rows = [line.split('\t') for line in lines_of(fovea('classify', classifier, image, '--top', '4', expect=0).stdout)]
    assert sorted(row[1] for row in rows) == sorted(CLASSES)
    probabilities = [float(row[2]) for row in rows]
    assert probabilities == sorted(probabilities, reverse=True)
    assert math.isclose(sum(probabilities), 1, abs_tol=1e-3)
    result = fovea.json('classify', classifier, image, '--top', '2')
    assert result['image'] == image
    assert [c['class'] for c in result['classes']] == [row[1] for row in rows[:2]]
    assert '1 to 4' in fovea('classify', classifier, image, '--top', '5', expect=2).stderr
    assert 'at least 1' in fovea('classify', classifier, image, '--top', '0', expect=2).stderr


def test_classify_takes_jpeg_colour_and_other_sizes(fovea, classifier, pictures, tmp_path):
    png = Image.open(tmp_path / pictures['top right'])
    png.resize((48, 48), Image.NEAREST).convert('RGB').save(tmp_path / 'large.jpg', quality=95)
    rows = lines_of(fovea('classify', classifier, pictures['top right'], 'large.jpg', expect=0).stdout)
    assert [row.split('\t')[1] for row in rows] == ['top right', 'top right']


def test_c22_classify_does_not_feel_the_neighbours(fovea, classifier, pictures, tmp_path):
    names = list(pictures.values())
    many = fovea('classify', classifier, *(names * 20), expect=0).stdout
    alone = [fovea('classify', classifier, name, expect=0).stdout for name in names]
    assert many == ''.join(alone) * 20


def test_classify_goes_on_after_an_image_that_cannot_be_read(fovea, classifier, pictures, tmp_path):
    first, last = pictures['top'], pictures['left']
    (tmp_path / 'text.png').write_text('no picture')
    (tmp_path / 'cut.png').write_bytes((tmp_path / first).read_bytes()[:60])
    done = fovea('classify', classifier, first, 'missing.png', 'text.png', 'cut.png', last, expect=2)
    assert [line.split('\t')[0] for line in lines_of(done.stdout)] == [first, last]
    errors = lines_of(done.stderr)
    assert len(errors) == 3
    for error, name in zip(errors, ('missing.png', 'text.png', 'cut.png')):
        assert error.startswith('error: ') and name in error
    done = fovea('classify', classifier, 'missing.png', first, '--json', expect=2)
    (tmp_path / 'list.txt').write_bytes(f'{first}\ncaf\xe9.png\n{last}\n'.encode('latin-1'))
    for listed in (fovea('classify', classifier, '--input', 'list.txt', expect=2),
                   fovea('classify', classifier, '--input', '-', input=(tmp_path / 'list.txt').read_bytes(), expect=2)):
        assert [line.split('\t')[0] for line in lines_of(listed.stdout)] == [first, '', last]
        assert ':2: cannot read caf' in listed.stderr
    rows = [json.loads(line) for line in lines_of(done.stdout)]
    assert 'missing.png' in rows[0]['error'] and rows[1]['classes'][0]['probability'] > 0


def test_a_mistyped_setting_is_no_image(fovea, classifier, pictures):
    done = fovea('classify', classifier, 'model.num_hiddens=3', pictures['top'], expect=2)
    assert "argument 'model.num_hiddens=3'" in done.stderr and 'runtime.matmul' in done.stderr


def test_classes_have_names_of_their_own(fovea, squares):
    for classes, said in [('[a, b, a, c]', "'a' is the name of the labels 0 and 2"),
                          ('[a, "", b, c]', 'may not be empty'), ('["x\\ty", a, b, c]', 'or hold tabs')]:
        done = fovea('train', 'squares.yaml', f'data.classes={classes}', '--dry-run', expect=2)
        assert said in done.stderr, done.stderr


def test_classify_says_what_it_wants(fovea, classifier):
    for arguments in ([], [classifier]):
        assert 'image' in fovea('classify', *arguments, expect=2).stderr


def test_c36_a_classifier_does_not_translate_and_a_translator_does_not_classify(fovea, classifier, trained, pictures):
    wrong = fovea('translate', classifier, 'hello', expect=2).stderr
    assert 'the model of this run is vit (classification); use fovea classify' in wrong
    wrong = fovea('classify', trained, pictures['top'], expect=2).stderr
    assert 'the model of this run is transformer (translation); use fovea translate' in wrong


def test_the_accuracy_of_a_translator_is_not_watched(fovea, tiny):
    done = fovea('train', 'tiny.yaml', 'train.watch=accuracy', expect=2)
    assert 'train.watch' in done.stderr and 'transformer' in done.stderr


def test_watch_accuracy_is_refused_before_a_run_is_made(fovea, tiny):
    fovea('train', 'tiny.yaml', 'train.watch=accuracy', '--run-dir', 'r', expect=2)
    assert not (tiny / 'r').exists()


def test_scores_by_class(fovea, classifier, squares):
    whole = fovea.json('evaluate', classifier, '--by', 'class')
    bands = whole['by_class']
    assert sum(band['images'] for band in bands) == whole['images'] == 60
    for score in ('accuracy', 'loss'):
        mean = sum(band['images'] * band[score] for band in bands) / 60
        assert mean == pytest.approx(whole[score], rel=1e-5)
    fovea('evaluate', classifier, '--by', 'class', '-o', 'classes.svg', expect=0)
    assert 'top left' in (squares / 'classes.svg').read_text()
