"""Images as PIL and torchvision have them, live: decoding, resizing, and a batch of Fashion-MNIST."""

import gzip
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import torch
from conftest import ROOT
from PIL import Image
from safetensors.torch import load_file
from torchvision import transforms

sys.path.insert(0, str(ROOT / 'scripts' / 'reference'))

import make_image_golden  # noqa: E402

DEBIAN = pathlib.Path('/usr/share/datasets/fashion-mnist')


def run_bridge(folder, tag):
    program = pathlib.Path(os.environ.get('FOVEA_TESTS') or ROOT / 'build/default/bin/fovea_tests')
    if not program.exists():
        pytest.skip(f'there is no test program at {program}: build it, or name another in FOVEA_TESTS')
    done = subprocess.run([program, f'[{tag}]'], env={**os.environ, 'FOVEA_IMAGE_JOB': str(folder)}, timeout=120,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return load_file(folder / 'out.safetensors')


def test_files_and_resizing_are_pils(tmp_path):
    files = tmp_path / 'files'
    files.mkdir()
    rng = np.random.default_rng(5)
    for i in range(40):
        height, width = rng.integers(1, 90, 2)
        size = '{}x{}'.format(*rng.integers(1, 130, 2))
        image = make_image_golden.to_pil(make_image_golden.picture(3 if i % 3 else 1, height, width, i))
        if i % 5 == 4:
            image.save(files / f'{i}-{size}.jpg', quality=int(rng.integers(30, 100)), subsampling=i % 3)
        elif i % 5 == 3:
            image.quantize(int(rng.integers(2, 256))).save(files / f'{i}-{size}.png')
        else:
            image.save(files / f'{i}-{size}.png')
    found = run_bridge(tmp_path, 'image-bridge-files')
    for path in files.iterdir():
        height, width = map(int, path.stem.split('-')[1].split('x'))
        for mode in ('L', 'RGB'):
            image = Image.open(path).convert(mode)
            assert torch.equal(found[f'{path.stem}/{mode}'], make_image_golden.planes(image)), path
            resized = transforms.Resize((height, width))(image)
            assert torch.equal(found[f'{path.stem}/{mode}/resized'], make_image_golden.planes(resized)), path


@pytest.mark.parametrize('size', [28, 96])
def test_a_batch_is_torchvisions(tmp_path, size):
    if not DEBIAN.exists():
        pytest.skip(f'{DEBIAN} is not there: apt-get install dataset-fashion-mnist')
    (tmp_path / 'data.yaml').write_text(
        f'{{path: {DEBIAN}, resize: [{size}, {size}], mean: [0.286], std: [0.353], eval_batch_size: 200}}')
    found = run_bridge(tmp_path, 'image-bridge-batch')
    raw = gzip.decompress((DEBIAN / 't10k-images-idx3-ubyte.gz').read_bytes())
    images = np.frombuffer(raw, np.uint8, offset=16).reshape(-1, 28, 28)[:200]
    labels = np.frombuffer(gzip.decompress((DEBIAN / 't10k-labels-idx1-ubyte.gz').read_bytes()), np.uint8, offset=8)
    pipeline = transforms.Compose([transforms.Resize((size, size)), transforms.ToTensor(),
                                   transforms.Normalize((0.286,), (0.353,))])
    expected = torch.stack([pipeline(Image.fromarray(image)) for image in images])
    assert torch.equal(found['image'], expected)
    assert found['label'].tolist() == labels[:200].tolist()
