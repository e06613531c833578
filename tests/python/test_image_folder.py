"""Images in folders on the command line: init, train, resume, evaluate, classify; what a changed file does."""

import csv
import io
import json
import shutil

import pytest
from conftest import CLASSES, final_weights, make_images, stop_at
from PIL import Image

SMALL = ['train.max_epochs=2', 'runtime.threads=1']


@pytest.fixture
def photos(fovea, tmp_path):
    """photos/<class>/*.png, 30 or so each, in a folder of their own with a cache beside them."""
    fovea.env['XDG_CACHE_HOME'] = str(tmp_path / 'cache')
    images, labels = make_images(140, 4)
    for i, (image, label) in enumerate(zip(images, labels)):
        place = tmp_path / 'photos' / CLASSES[label]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(place / f'{i:03}.png')
    return tmp_path / 'photos'


def test_init_proposes_what_can_be_trained_used_and_resumed(fovea, photos, tmp_path):
    said = fovea('init', 'photos/', expect=0).stdout
    assert '140 images, 12 high and 12 wide, gray' in said and 'photos.yaml' in said
    yaml = (tmp_path / 'photos.yaml').read_text()
    assert 'name: image_folder' in yaml and 'channels: 1' in yaml and 'resize: [12, 12]' in yaml
    done = fovea('train', 'photos.yaml', *SMALL, '--run-dir', 'r', expect=0)
    assert 'made now' in done.stderr and str(tmp_path / 'cache') in done.stderr
    assert list((tmp_path / 'cache').rglob('*.images'))
    scores = json.loads(fovea('evaluate', 'r', '--json', expect=0).stdout)
    assert scores['images'] == 14 and 'top5_accuracy' not in scores  # four classes only

    settings = ['train.max_epochs=12', 'train.checkpoint_every=3', 'runtime.threads=1']
    process = fovea.start('train', 'photos.yaml', *settings, '--run-dir', 'killed')
    assert stop_at(process, tmp_path / 'killed', 14)
    fovea('train', '--resume', 'killed', expect=0)
    fovea('train', 'photos.yaml', *settings, '--run-dir', 'whole', expect=0)
    assert final_weights(tmp_path / 'killed') == final_weights(tmp_path / 'whole')


def test_a_run_does_not_go_on_with_changed_images(fovea, photos, tmp_path):
    fovea('init', 'photos', expect=0)
    fovea('train', 'photos.yaml', *SMALL, '--run-dir', 'r', expect=0)
    first = next(photos.rglob('*.png'))
    Image.effect_noise((12, 12), 90).save(first)
    done = fovea('train', '--resume', 'r', 'train.max_epochs=3', expect=2)
    assert 'data' in done.stderr and 'chang' in done.stderr


def test_damaged_images_are_named_or_left_out(fovea, photos, tmp_path):
    fovea('init', 'photos', expect=0)
    place = photos / CLASSES[0]
    (place / 'x.png').write_bytes(b'GIF89a')
    (place / 'y.jpeg').write_bytes(next(place.glob('0*.png')).read_bytes()[:90])
    done = fovea('train', 'photos.yaml', *SMALL, expect=2)
    assert '2 of 142 images cannot be read' in done.stderr and 'x.png' in done.stderr and 'y.jpeg' in done.stderr
    assert 'data.damaged=skip' in done.stderr
    done = fovea('train', 'photos.yaml', *SMALL, 'data.damaged=skip', expect=0)
    assert 'left out' in done.stderr and 'x.png' in done.stderr


def test_a_table_of_images(fovea, photos, tmp_path):
    fovea('init', 'photos', expect=0)
    with (tmp_path / 'labels.csv').open('w', newline='') as file:
        rows = csv.writer(file)
        rows.writerow(['file', 'label'])
        rows.writerows([path.relative_to(tmp_path), path.parent.name] for path in sorted(photos.rglob('*.png')))
    yaml = (tmp_path / 'photos.yaml').read_text().replace('image_folder', 'image_table').replace('path: photos',
                                                                                                   'path: labels.csv')
    (tmp_path / 'table.yaml').write_text(yaml)
    done = fovea('train', 'table.yaml', *SMALL, '--run-dir', 'r', expect=0)
    assert '112 images' in done.stderr
    fovea('train', 'photos.yaml', *SMALL, '--run-dir', 'r2', expect=0)
    assert final_weights(tmp_path / 'r') == final_weights(tmp_path / 'r2')


def test_classify_takes_folders_and_writes_csv(fovea, classifier, pictures, tmp_path):
    (tmp_path / 'more/deeper').mkdir(parents=True)
    for name in pictures.values():
        shutil.move(tmp_path / name, tmp_path / 'more/deeper' / name)
    (tmp_path / 'more/bad, very.png').write_bytes(b'x')
    (tmp_path / 'more/notes.txt').write_text('x')
    done = fovea('classify', classifier, 'more', '--csv', expect=2)
    assert 'bad, very.png' in done.stderr
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert list(rows[0]) == ['image', 'class', *CLASSES]
    assert [row['image'] for row in rows] == [f'more/deeper/{name}' for name in sorted(pictures.values())]
    for row in rows:
        scores = {name: float(row[name]) for name in CLASSES}
        assert sum(scores.values()) == pytest.approx(1, abs=1e-5)
        assert row['class'] == max(scores, key=scores.get)
    text = fovea('classify', classifier, 'more', expect=2).stdout
    assert len(text.splitlines()) == len(pictures)
    (tmp_path / 'none').mkdir()
    assert 'holds no PNG or JPEG images' in fovea('classify', classifier, 'none', expect=2).stderr
    fovea('classify', classifier, 'more', '--csv', '--json', expect=2)


def test_top_five_of_many_classes(fovea, tmp_path):
    fovea.env['XDG_CACHE_HOME'] = str(tmp_path / 'cache')
    for label in range(8):
        place = tmp_path / 'photos' / str(label)
        place.mkdir(parents=True)
        for i in range(10):
            Image.effect_noise((8, 8), 20 + 25 * label).save(place / f'{i}.png')
    (tmp_path / 'x.yaml').write_text('model: {name: nearest_mean}\n'
                                     'data: {name: image_folder, path: photos, channels: 1}\n')
    fovea('train', 'x.yaml', *SMALL, '--run-dir', 'r', expect=0)
    scores = json.loads(fovea('evaluate', 'r', '--json', expect=0).stdout)
    assert scores['accuracy'] <= scores['top5_accuracy'] <= 1
    assert 'top-5 accuracy' in fovea('evaluate', 'r', expect=0).stdout
