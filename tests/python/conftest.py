"""What the tests of the program share: how to call it, data it learns in seconds, and runs trained on that."""

import fcntl
import json
import os
import pathlib
import pty
import random
import shutil
import signal
import struct
import subprocess
import termios
import time

import numpy as np
import pytest
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORDS = ['ba', 'ce', 'di', 'fo', 'gu', 'ha', 'je', 'ki', 'él', "l'o"]
TIMEOUT = 120

TINY_YAML = """\
# A translator that turns every word into its double.
seed: 3
model:
  name: transformer
  num_hiddens: 16
  ffn_num_hiddens: 32
  num_heads: 2
  num_blks: 1
  dropout: 0.1
data:
  name: translation
  path: corpus.tsv
  test: {path: test.tsv}
  validation: {size: 20}
  num_steps: 8
  min_freq: 1
  batch_size: 16
optimizer: {name: adam, learning_rate: 0.01}
train: {max_epochs: 3, log_every: 1}
runtime: {device: cpu, threads: 1}
"""

CLASSES = ['top left', 'top', 'top right', 'left']
SIDE = 12
SQUARES_YAML = """\
# Squares by their place.
seed: 3
model: {name: vit, patch_size: 4, num_hiddens: 16, mlp_num_hiddens: 24, num_heads: 2, num_blks: 2}
data:
  name: idx_images
  train_images: train-images.idx
  train_labels: train-labels.idx
  test_images: test-images.idx
  test_labels: test-labels.idx
  classes: [top left, top, top right, left]
  validation: {size: 20}
  batch_size: 16
  mean: [0.2]
  std: [0.25]
optimizer: {name: adamw, learning_rate: 0.005}
train: {max_epochs: 3, log_every: 1, ema_decay: 0.9, watch: accuracy}
runtime: {device: cpu, threads: 1}
"""


def tiny_pairs(count, seed=0, longest=6):
    """Sentences of up to `longest` tokens; some capitals, and no-break spaces before `!`, for the text pipeline."""
    rng = random.Random(seed)
    pairs = []
    for _ in range(count):
        words = [rng.choice(WORDS) for _ in range(rng.randint(1, longest - 1))]
        mark = rng.choice('.!')
        source = ' '.join(words).capitalize() + mark
        target = ' '.join(f'{w}-{w}' for w in words).capitalize() + ('\u202f!' if mark == '!' else '.')
        pairs.append((source, target))
    return pairs


def write_tsv(path, pairs):
    path.write_text(''.join(f'{source}\t{target}\n' for source, target in pairs), encoding='utf-8')


def write_lines(path, lines):
    path.write_text(''.join(line + '\n' for line in lines), encoding='utf-8')
    return path


def lines_of(text):
    """Lines as `wc -l` counts them: only LF ends one, and the last has its end."""
    assert text == '' or text.endswith('\n')
    return text.split('\n')[:-1]


def metrics_of(run_dir, timing=True):
    lines = [json.loads(line) for line in (run_dir / 'metrics.jsonl').read_text().splitlines()]
    if not timing:
        lines = [{k: v for k, v in line.items() if k not in ('seconds', 'tokens_per_second', 'images_per_second')}
                 for line in lines]
    return lines


def final_weights(run_dir):
    return (run_dir / 'checkpoints' / 'last' / 'model.safetensors').read_bytes()


def snapshot(folder):
    """Every file under `folder` with its bytes."""
    return {p.relative_to(folder): p.read_bytes() for p in sorted(folder.rglob('*')) if p.is_file()}


class Fovea:
    """The program. Calls run in `cwd`, with a locale and an environment that cannot help them."""

    def __init__(self, path, cwd):
        self.path = path
        self.cwd = cwd
        keep = {k: v for k, v in os.environ.items() if k not in ('NO_COLOR', 'LANG', 'COLUMNS', 'OMP_NUM_THREADS')}
        self.env = {**keep, 'LC_ALL': 'C', 'TERM': 'xterm'}

    def __call__(self, *args, input=None, cwd=None, env=None, expect=None, timeout=TIMEOUT):
        """The completed process, output as text. `input` may be text or bytes; `expect` is the exit status due."""
        data = input.encode() if isinstance(input, str) else input
        stdin = {'stdin': subprocess.DEVNULL} if data is None else {'input': data}
        done = subprocess.run([self.path, *(a if isinstance(a, bytes) else str(a) for a in args)], **stdin,
                              capture_output=True, cwd=cwd or self.cwd, env={**self.env, **(env or {})},
                              timeout=timeout, check=False)
        done.stdout, done.stderr = (text.decode(errors='surrogateescape') for text in (done.stdout, done.stderr))
        if expect is not None:
            said = f'{done.args}: exit status {done.returncode}\n{done.stdout}\n{done.stderr}'
            assert done.returncode == expect, said
        return done

    def start(self, *args, **kwargs):
        """The running process; its pipes hold bytes."""
        kwargs = {'stdin': subprocess.DEVNULL, 'stdout': subprocess.PIPE, 'stderr': subprocess.PIPE, 'cwd': self.cwd,
                  'env': self.env, **kwargs}
        return subprocess.Popen([self.path, *map(str, args)], **kwargs)

    def translate(self, run_dir, *args, **kwargs):
        """The lines that `fovea translate` writes."""
        return lines_of(self('translate', run_dir, *args, **{'expect': 0, **kwargs}).stdout)

    def json(self, *args, **kwargs):
        return json.loads(self(*args, '--json', **{'expect': 0, **kwargs}).stdout)


def on_a_terminal(fovea, *args, width=0, **env):
    """What a call writes to stderr if that is a terminal, of `width` columns if that is not 0."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack('HHHH', 24, width, 0, 0))
    process = fovea.start(*args, stderr=side, stdout=subprocess.DEVNULL, env={**fovea.env, **env})
    os.close(side)
    written = b''
    while True:
        try:
            chunk = os.read(main, 65536)
        except OSError:  # all ends on the other side are closed
            break
        if not chunk:
            break
        written += chunk
    os.close(main)
    process.wait(TIMEOUT)
    return written.decode()


def wait_for(condition, process=None, seconds=TIMEOUT):
    """Waits until `condition()` is true; False if the process ended before."""
    deadline = time.monotonic() + seconds
    while not condition():
        if process is not None and process.poll() is not None:
            return condition()
        assert time.monotonic() < deadline, 'waited too long'
        time.sleep(0.002)
    return True


def logged_steps(run_dir):
    """How many lines metrics.jsonl has."""
    path = run_dir / 'metrics.jsonl'
    return path.read_bytes().count(b'\n') if path.exists() else 0


def stop_at(process, run_dir, lines, signal_number=signal.SIGKILL, delay=0):
    """Signals a training process once metrics.jsonl has so many lines; False if it had ended by itself."""
    alive = wait_for(lambda: logged_steps(run_dir) >= lines, process)
    time.sleep(delay)
    if not alive or process.poll() is not None:
        return False
    process.send_signal(signal_number)
    process.wait(TIMEOUT)
    return True


@pytest.fixture(scope='session')
def program():
    path = pathlib.Path(os.environ.get('FOVEA_PROGRAM') or ROOT / 'build/default/bin/fovea').absolute()
    if not path.exists():
        pytest.skip(f'there is no program at {path}: build it, or name another in FOVEA_PROGRAM')
    return path


@pytest.fixture
def fovea(program, tmp_path):
    return Fovea(program, tmp_path)


def make_tiny(folder):
    folder.mkdir(parents=True, exist_ok=True)
    write_tsv(folder / 'corpus.tsv', tiny_pairs(150))
    write_tsv(folder / 'test.tsv', tiny_pairs(40, seed=1))
    (folder / 'tiny.yaml').write_text(TINY_YAML)
    return folder


@pytest.fixture
def tiny(tmp_path):
    """A folder of its own with corpus.tsv, test.tsv and tiny.yaml; it is `fovea`'s working directory."""
    return make_tiny(tmp_path)


class TrainedRun:
    def __init__(self, folder, run_dir):
        self.folder = folder
        self.path = run_dir
        self.test = [line.split('\t') for line in (folder / 'test.tsv').read_text(encoding='utf-8').splitlines()]
        self.sources = [source for source, _ in self.test]
        self.references = [reference for _, reference in self.test]

    def __str__(self):
        return str(self.path)


def train_once(program, tmp_path_factory, name, *settings):
    folder = make_tiny(tmp_path_factory.mktemp(name))
    call = Fovea(program, folder)
    call('train', 'tiny.yaml', '--run-dir', 'run', *settings, expect=0)
    return TrainedRun(folder, folder / 'run')


@pytest.fixture(scope='session')
def trained(program, tmp_path_factory):
    """A run that has learnt something: its translations differ from line to line and score above 0."""
    return train_once(program, tmp_path_factory, 'trained', 'train.max_epochs=40')


@pytest.fixture(scope='session')
def narrow(program, tmp_path_factory):
    """A run whose model has 16 positions, and sequences that use them all."""
    settings = ['data.num_steps=16', 'model.max_len=16', 'train.max_epochs=8']
    return train_once(program, tmp_path_factory, 'narrow', *settings)


@pytest.fixture
def run_copy(trained, tmp_path):
    """A copy of the trained run that a test may damage."""
    shutil.copytree(trained.path, tmp_path / 'copy', symlinks=True)
    return tmp_path / 'copy'


def make_images(count, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, len(CLASSES), count, dtype=np.uint8)
    images = rng.integers(0, 100, (count, SIDE, SIDE), dtype=np.uint8)
    for image, label in zip(images, labels):
        y, x = divmod(int(label), 3)
        image[4 * y:4 * y + 4, 4 * x:4 * x + 4] += 120
    return images, labels


def write_idx(path, array):
    path.write_bytes(struct.pack(f'>BBBB{array.ndim}I', 0, 0, 8, array.ndim, *array.shape) + array.tobytes())


def make_squares(folder):
    for part, count, seed in (('train', 150, 1), ('test', 60, 2)):
        images, labels = make_images(count, seed)
        write_idx(folder / f'{part}-images.idx', images)
        write_idx(folder / f'{part}-labels.idx', labels)
    (folder / 'squares.yaml').write_text(SQUARES_YAML)
    return folder


@pytest.fixture
def squares(tmp_path):
    """A folder with the images and squares.yaml; it is `fovea`'s working directory."""
    return make_squares(tmp_path)


@pytest.fixture(scope='session')
def classifier(program, tmp_path_factory):
    """The directory of a run that has learnt to tell the squares' places."""
    folder = make_squares(tmp_path_factory.mktemp('classifier'))
    Fovea(program, folder)('train', 'squares.yaml', '--run-dir', 'run', 'train.max_epochs=12', expect=0)
    return folder / 'run'


@pytest.fixture
def pictures(tmp_path):
    """PNG files of the test images' kind, one for each class, and their names."""
    images, labels = make_images(40, 9)
    names = {}
    for image, label in zip(images, labels):
        if CLASSES[label] not in names:
            names[CLASSES[label]] = f'{len(names)}.png'
            Image.fromarray(image).save(tmp_path / names[CLASSES[label]])
    assert len(names) == len(CLASSES)
    return names
