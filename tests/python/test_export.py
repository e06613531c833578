"""`fovea export` and `fovea import`: the file is the model, in a fresh Python with torch alone and in C++ with LibTorch
alone; weights come in from d2l's own classes and go out again; nothing of a pickle is run."""

import collections
import json
import os
import pathlib
import pickle
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import torch
from conftest import CLASSES, ROOT, TIMEOUT, Fovea, lines_of, snapshot, train_once, write_lines
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from safetensors.torch import load_file, save_file

sys.path.insert(0, str(ROOT / 'scripts' / 'reference'))

from transformer import make_translator  # noqa: E402
from vit import ViT  # noqa: E402

EXAMPLES = ROOT / 'examples'
TINY = {'num_hiddens': 16, 'ffn_num_hiddens': 32, 'num_heads': 2, 'num_blks': 1}
NEAR_TIE = 1e-4


def run_python(code, *args, input=None):
    """Runs code, or a file, in a process of its own that finds no module of ours."""
    program = [str(code)] if isinstance(code, pathlib.Path) else ['-c', code]
    done = subprocess.run([sys.executable, '-I', *program, *map(str, args)], input=input, capture_output=True,
                          timeout=5 * TIMEOUT, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.fixture(scope='session')
def exported(trained, program, tmp_path_factory):
    path = tmp_path_factory.mktemp('exported') / 'model.pt'
    done = subprocess.run([program, 'export', trained.path, '-o', path], capture_output=True, check=False,
                          timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr.decode()
    assert 'generate' in done.stdout.decode()
    return path


@pytest.fixture(scope='session')
def live(trained):
    """The twin with the run's weights: the model as the book's classes compute it."""
    weights = load_file(trained.path / 'checkpoints/best/model.safetensors')
    sizes = [weights[f'{side}.embedding.weight'].shape[0] for side in ('encoder', 'decoder')]
    twin = make_translator(*sizes, tgt_pad=0, **TINY)
    twin.load_state_dict(weights)
    return twin.eval()


@pytest.fixture(scope='session')
def programs(tmp_path_factory):
    """The C++ examples, built as their CMakeLists says, against the LibTorch that Python has."""
    build = tmp_path_factory.mktemp('examples')
    libtorch = pathlib.Path(torch.__file__).parent
    for command in (['cmake', '-S', EXAMPLES, '-B', build, '-G', 'Ninja', f'-DLIBTORCH={libtorch}'],
                    ['cmake', '--build', build]):
        done = subprocess.run(command, capture_output=True, timeout=1200, check=False)
        assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    return build


COMPARE = """
import sys, torch
model = torch.jit.load(sys.argv[1])
assert not any(name.split('.')[0] in ('fovea', 'd2l') for name in sys.modules)
cases = torch.load(sys.argv[2])
largest = 0
for source, target, valid_lens, expected in cases:
    with torch.no_grad():
        largest = max(largest, float((model(source, target, valid_lens) - expected).abs().max()))
        state = model.encode(source, valid_lens, target.shape[1])
        for t in range(target.shape[1]):
            logits, state = model.decode_step(target[:, t], state, t)
            largest = max(largest, float((logits - expected[:, t]).abs().max()))
print(len(cases), largest)
"""


def test_c37_other_sizes_in_a_fresh_python(exported, live, tmp_path):
    generator = torch.Generator().manual_seed(1)
    cases = []
    for batch in (1, 2, 9):
        for steps in (1, 9, 37):
            source, target = (torch.randint(4, 12, (batch, n), generator=generator) for n in (steps, steps + 2))
            valid_lens = torch.randint(1, steps + 1, (batch,), generator=generator)
            with torch.no_grad():
                expected = live(source, target, valid_lens)
            cases.append((source, target, valid_lens, expected))
    torch.save(cases, tmp_path / 'cases.pt')
    count, largest = run_python(COMPARE, exported, tmp_path / 'cases.pt').split()
    assert int(count) == 9 and float(largest) < 1e-5


def test_c37_a_source_of_no_length_leaves_its_neighbours_alone(exported):
    # d2l averages over masked values there, so only the neighbours can be compared with something else.
    model = torch.jit.load(exported)
    source, target = torch.randint(4, 12, (3, 5)), torch.randint(4, 12, (3, 4))
    with torch.no_grad():
        all_three = model(source, target, torch.tensor([0, 3, 5]))
        assert torch.isfinite(all_three).all()
        assert torch.allclose(all_three[1:], model(source[1:], target[1:], torch.tensor([3, 5])), atol=1e-5)
        other = source.clone()
        other[0] = 7
        assert torch.equal(all_three, model(other, target, torch.tensor([0, 3, 5])))
        tokens, lengths, scores = model.generate(source, torch.tensor([0, 3, 5]), 2)
    assert lengths[0, 0] == 0 and scores[0, 0] == 0 and (lengths[1:] >= 0).all()


@pytest.fixture(scope='session')
def shipped(program, tmp_path_factory):
    """A run on the corpus that ships, briefly trained; a folder with the run, its export and 1,000 sources."""
    folder = tmp_path_factory.mktemp('shipped')
    call = Fovea(program, folder)
    call('train', ROOT / 'configs/transformer_tiny.yaml', '--run-dir', 'run', 'train.max_epochs=7',
         'model.num_hiddens=96', 'model.ffn_num_hiddens=96', 'schedule.warmup_steps=50', expect=0, timeout=1200)
    call('export', 'run', '-o', 'model.pt', expect=0, timeout=600)
    pairs = (ROOT / 'data/tiny_en_fr.tsv').read_text(encoding='utf-8').splitlines()
    write_lines(folder / 'sources.txt', [pair.split('\t')[0] for pair in pairs[::max(1, len(pairs) // 1000)][:1000]])
    return folder


SCORES = """
import sys, torch
sys.path.insert(0, sys.argv[2])
from translate import Translator
translator = Translator(sys.argv[1])
ids = {token: i for i, token in enumerate(translator.target)}
for line in sys.stdin.buffer.read().decode().split('\\n')[:-1]:
    source, text = line.split('\\t')
    source = torch.tensor([translator.encode(source)])
    labels = torch.tensor([ids[token] for token in translator.tokenize(text)] + [translator.model.eos])
    target = torch.cat([torch.tensor([translator.model.bos]), labels[:-1]]).unsqueeze(0)
    with torch.no_grad():
        log_probs = translator.model(source, target, torch.tensor([source.shape[1]])).log_softmax(-1)[0]
    print(*log_probs.gather(1, labels.unsqueeze(1)).flatten().tolist())
"""


def is_near_tie(beam, ours, theirs):
    """Whether the log-probabilities of two translations' tokens leave it to rounding which is found."""
    if beam == 1:  # where they part, and nothing else decides
        part = next(i for i, (a, b) in enumerate(zip(ours, theirs)) if abs(a - b) > 1e-6)
        return abs(ours[part] - theirs[part]) < NEAR_TIE
    return abs(sum(ours) / len(ours) ** 0.75 - sum(theirs) / len(theirs) ** 0.75) < NEAR_TIE


@pytest.mark.parametrize('beam', [1, 4])
def test_a_thousand_translations_are_those_of_the_program(fovea, shipped, beam):
    sources = lines_of((shipped / 'sources.txt').read_text(encoding='utf-8'))
    assert len(sources) == 1000
    ours = fovea.translate(shipped / 'run', '--input', shipped / 'sources.txt', '--beam', beam)
    theirs = lines_of(run_python(EXAMPLES / 'translate.py', shipped / 'model.pt', '--beam', beam,
                                 input=(shipped / 'sources.txt').read_bytes()))
    one = run_python(EXAMPLES / 'translate.py', shipped / 'model.pt', '--beam', beam, sources[0])
    assert lines_of(one) == theirs[:1]
    assert len(theirs) == 1000 and len(set(theirs)) > 100
    different = [i for i in range(1000) if ours[i] != theirs[i]]
    texts = ''.join(f'{sources[i]}\t{text}\n' for i in different for text in (ours[i], theirs[i]))
    scores = [[float(x) for x in line.split()] for line in
              lines_of(run_python(SCORES, shipped / 'model.pt', EXAMPLES, input=texts.encode()))]
    ties = [is_near_tie(beam, scores[2 * i], scores[2 * i + 1]) for i in range(len(different))]
    assert all(ties), [(sources[i], ours[i], theirs[i]) for i, tie in zip(different, ties) if not tie]
    print(f'beam {beam}: {len(different)} of 1000 near ties')


ODD = ['Ba ce.', '', '  ', 'BA\u00a0CE\u202f!', 'ba\tce !', 'E\u0301l ba, ce?', 'ÉL.', '<eos> ba', 'ba <pad> ce',
       'x y z', 'ba ' * 30, 'l\'o ba..', '.,!?', 'ba\u2028ce\u0085di\x1cfo', 'İSTANBUL ΣΑΣ',
       # C55: characters without a shape, joiners, and the apostrophe's other form.
       'l\u2019o b\u00ada c\u200be\ufeff d\u2060i', '\u2018ba\u2019 \u2018l\u2019o\u2019 ce\u2019',
       '\u200b\ufeff', '\u200d', 'b\u200ca b\u200da', '\u0645\u06cc\u200c\u062e \u0645\u06cc\u200c ba',
       '\U0001f469\u200d\U0001f52c\u200d ba']


@pytest.fixture(scope='session')
def by_characters(program, tmp_path_factory):
    """A run whose tokens are characters, and its export."""
    run = train_once(program, tmp_path_factory, 'characters', 'data.tokenizer.name=characters', 'data.num_steps=64',
                     'train.max_epochs=20')
    Fovea(program, run.folder)('export', 'run', '-o', 'model.pt', expect=0, timeout=TIMEOUT)
    return run, run.folder / 'model.pt'


@pytest.mark.parametrize('tokenizer', ['words', 'characters'])
def test_odd_texts_are_read_as_the_program_reads_them(fovea, tokenizer, trained, exported, by_characters, programs,
                                                      tmp_path):
    run, exported = (trained, exported) if tokenizer == 'words' else by_characters
    write_lines(tmp_path / 'in.txt', ODD)
    expected = fovea.translate(run, '--input', 'in.txt')
    data = (tmp_path / 'in.txt').read_bytes()
    assert lines_of(run_python(EXAMPLES / 'translate.py', exported, input=data)) == expected
    done = subprocess.run([programs / 'translate', exported], input=data, capture_output=True, check=True,
                          timeout=TIMEOUT)
    composed = [i for i, line in enumerate(ODD) if '\u0301' not in line and 'İ' not in line]  # see its first comment
    theirs = lines_of(done.stdout.decode())
    assert [theirs[i] for i in composed] == [expected[i] for i in composed]


def test_the_cpp_example_translates_the_same(fovea, trained, exported, programs):
    for beam in (1, 4):
        ours = fovea.translate(trained, *trained.sources, '--beam', beam)
        done = subprocess.run([programs / 'translate', exported, '--beam', str(beam), *trained.sources],
                              capture_output=True, check=True, timeout=TIMEOUT, env={**os.environ, 'LC_ALL': 'C'})
        assert lines_of(done.stdout.decode()) == ours
    bad = subprocess.run([programs / 'translate', exported, b'\xff'], capture_output=True, check=False)
    assert bad.returncode == 1 and b'expected UTF-8' in bad.stderr


IMAGE_MODEL = """
import sys, torch
class Net(torch.nn.Module):
    class_names: list[str]
    channels: int
    def __init__(self):
        super().__init__()
        self.channels, self.class_names = int(sys.argv[2]), ['dark', 'bright']
    def forward(self, image):
        mean = image.to(torch.float32).mean([1, 2, 3]) / 255
        return torch.stack([0.5 - mean, mean - 0.5], 1) * 20
torch.jit.script(Net()).save(sys.argv[1])
"""


@pytest.mark.parametrize('channels', [1, 3])
def test_the_image_examples_read_and_name(programs, tmp_path, channels):
    """With a file of the shape that exports of classifiers have; the exports themselves are tested in C++."""
    (tmp_path / 'make.py').write_text(IMAGE_MODEL)
    run_python(tmp_path / 'make.py', tmp_path / 'm.pt', channels)
    (tmp_path / 'dark.pgm').write_bytes(b'P5\n# a comment\n5 4\n255\n' + bytes([10] * 20))
    (tmp_path / 'bright.ppm').write_bytes(b'P6 3 2 255\n' + bytes([200, 255, 230] * 6))
    images = [tmp_path / 'dark.pgm', tmp_path / 'bright.ppm']
    python = lines_of(run_python(EXAMPLES / 'classify.py', tmp_path / 'm.pt', *images))
    assert [line.split('\t')[1] for line in python] == ['dark', 'bright']
    cpp = subprocess.run([programs / 'classify', tmp_path / 'm.pt', *images], capture_output=True, check=True)
    assert lines_of(cpp.stdout.decode()) == python
    (tmp_path / 'cut.pgm').write_bytes(b'P5 5 4 255\n' + bytes(19))
    for command in ([sys.executable, EXAMPLES / 'classify.py'], [programs / 'classify']):
        bad = subprocess.run([*command, tmp_path / 'm.pt', tmp_path / 'cut.pgm'], capture_output=True, check=False)
        assert bad.returncode == 1 and b'cut short' in bad.stderr


@pytest.fixture(scope='session')
def exported_classifier(classifier, program, tmp_path_factory):
    path = tmp_path_factory.mktemp('exported') / 'vit.pt'
    subprocess.run([program, 'export', classifier, '-o', path], check=True, capture_output=True, timeout=TIMEOUT)
    return path


@pytest.mark.parametrize('mode', ['L', 'LA', 'RGB', 'RGBA', 'P'])
@pytest.mark.parametrize('size', [(12, 12), (30, 17)])
def test_a_classifier_leaves_too(fovea, classifier, exported_classifier, pictures, programs, tmp_path, mode, size):
    """PNG files of every kind: the examples read them as the program does, resize them as it does, say what it says."""
    gamma = PngInfo()  # which nobody applies
    gamma.add(b'gAMA', (100000).to_bytes(4, 'big'))
    for name in pictures.values():
        Image.open(tmp_path / name).resize(size).convert(mode).save(tmp_path / name, pnginfo=gamma)
    names = list(pictures.values())
    done = fovea('classify', classifier, *names, expect=0)
    expected = [line.split('\t') for line in lines_of(done.stdout)]
    python = lines_of(run_python(EXAMPLES / 'classify.py', exported_classifier, *(tmp_path / name for name in names)))
    commands = [python]
    if b'libpng' in subprocess.run(['ldd', programs / 'classify'], capture_output=True, check=True).stdout:
        cpp = subprocess.run([programs / 'classify', exported_classifier, *names], cwd=tmp_path, capture_output=True,
                             check=True)
        commands.append(lines_of(cpp.stdout.decode()))
    for rows in commands:
        for row, (_, label, probability) in zip(rows, expected, strict=True):
            assert row.split('\t')[1] == label
            assert float(row.split('\t')[2]) == pytest.approx(float(probability), abs=2e-3)


def test_c58_pixels_out_of_range_are_refused_and_bytes_agree_with_floats(exported_classifier):
    model = torch.jit.load(exported_classifier)
    generator = torch.Generator().manual_seed(1)
    image = torch.randint(256, (3, 1, 12, 12), dtype=torch.uint8, generator=generator)
    with torch.no_grad():
        for wrong in (image.float(), image / 127.5 - 1, (image / 255 - 0.2) / 0.25, image / 255 + torch.inf,
                      (image / 255).where(image > 9, torch.nan)):
            with pytest.raises(torch.jit.Error, match='expected floats from 0 to 1'):
                model(wrong)
        with pytest.raises(torch.jit.Error, match='expected bytes from 0 to 255 or floats from 0 to 1'):
            model(image.int())
        torch.testing.assert_close(model(image / 255), model(image), atol=1e-6, rtol=0)
        for size in ((30, 17), (5, 40)):  # resizing rounds bytes, and floats not
            other = torch.randint(256, (2, 1, *size), dtype=torch.uint8, generator=generator)
            by_bytes, by_floats = model.preprocess(other), model.preprocess(other / 255)
            assert (by_bytes - by_floats).abs().max() <= 1.01 / 255 / 0.25
        assert model(image[:0] / 255).shape == (0, 4)


@pytest.mark.parametrize('dtype, tolerance', [(torch.half, 0.03), (torch.bfloat16, 0.3), (torch.double, 1e-4)])
def test_c58_an_export_in_another_type_takes_the_same_images(exported_classifier, dtype, tolerance):
    model, other = torch.jit.load(exported_classifier), torch.jit.load(exported_classifier).to(dtype)
    image = torch.randint(256, (5, 1, 20, 12), dtype=torch.uint8, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        for given in (image, image / 255, (image / 255).to(dtype)):
            logits = other(given)
            assert logits.dtype == dtype
            expected = model(given if given.dtype == torch.uint8 else given.float())
            torch.testing.assert_close(logits.float(), expected, atol=tolerance, rtol=tolerance)


def test_c58_a_translator_in_half_precision_says_why_not(exported):
    source, valid_lens = torch.tensor([[4, 5, 6]]), torch.tensor([3])
    for dtype in (torch.half, torch.bfloat16):
        model = torch.jit.load(exported).to(dtype)
        for call in (lambda: model.generate(source, valid_lens), lambda: model(source, source, valid_lens)):
            with pytest.raises(torch.jit.Error, match='computes in float32 or float64'):
                call()
    model = torch.jit.load(exported)
    expected = model.generate(source, valid_lens)[0].tolist()
    assert model.double().generate(source, valid_lens)[0].tolist() == expected


@pytest.mark.parametrize('kind', ['ink', 'white ink', 'palette', 'one colour', 'one gray'] + list(range(1, 9)))
def test_c59_the_examples_see_what_the_program_sees(fovea, classifier, exported_classifier, pictures, programs,
                                                    tmp_path, kind):
    """What is transparent, and which side is up."""
    for i, name in enumerate(pictures.values()):
        gray, options = Image.open(tmp_path / name), {}
        alpha = gray.point(lambda value: 255 - value)
        if kind in ('ink', 'white ink'):
            image = Image.new('LA', gray.size, 0 if kind == 'ink' else 255)
            image.putalpha(alpha)
        elif kind == 'palette':
            image, options = gray.quantize(40), {'transparency': bytes([0, 128, 255, 30])}  # of 8 bits
        elif kind == 'one colour':
            image = gray.convert('RGB')
            options = {'transparency': image.getpixel((i, 5))}
        elif kind == 'one gray':
            image, options = gray, {'transparency': gray.getpixel((i, 5))}
        else:
            image, exif = gray.crop((0, 0, 12, 9)), Image.Exif()
            exif[0x0112] = kind
            options = {'exif': exif}
        image.save(tmp_path / name, **options)
    names = list(pictures.values())
    expected = [line.split('\t')[1:] for line in lines_of(fovea('classify', classifier, *names, expect=0).stdout)]
    commands = [[sys.executable, EXAMPLES / 'classify.py']]
    if b'libpng' in subprocess.run(['ldd', programs / 'classify'], capture_output=True, check=True).stdout:
        commands.append([programs / 'classify'])
    for command in commands:
        done = subprocess.run([*command, exported_classifier, *names], cwd=tmp_path, capture_output=True, check=True)
        for row, (label, probability) in zip(lines_of(done.stdout.decode()), expected, strict=True):
            assert row.split('\t')[1] == label
            assert float(row.split('\t')[2]) == pytest.approx(float(probability), abs=2e-3)


def test_a_classifier_takes_other_batches_in_a_fresh_python(classifier, exported_classifier, tmp_path):
    """C37, against the book's classes with the run's averaged weights, which are those that leave."""
    twin = ViT(img_size=12, patch_size=4, num_hiddens=16, mlp_num_hiddens=24, num_heads=2, num_blks=2,
               num_classes=len(CLASSES)).eval()
    twin.load_state_dict(load_file(classifier / 'checkpoints/best/model.safetensors'))
    images = [torch.randint(256, (batch, 1, 12, 12), dtype=torch.uint8) for batch in (1, 9, 37, 130)]
    torch.save(images, tmp_path / 'images.pt')
    run_python('import sys, torch\nmodel = torch.jit.load(sys.argv[1])\n'
               'torch.save([model(x).detach() for x in torch.load(sys.argv[2])], sys.argv[3])',
               exported_classifier, tmp_path / 'images.pt', tmp_path / 'logits.pt')
    for image, logits in zip(images, torch.load(tmp_path / 'logits.pt'), strict=True):
        with torch.no_grad():
            torch.testing.assert_close(logits, twin((image / 255 - 0.2) / 0.25), atol=1e-5, rtol=0)


def test_a_classifier_of_the_books_classes_comes_in_and_goes_out(fovea, squares, pictures, tmp_path):
    twin = ViT(img_size=12, patch_size=4, num_hiddens=16, mlp_num_hiddens=24, num_heads=2, num_blks=2,
               num_classes=len(CLASSES)).eval()
    torch.save(twin.state_dict(), tmp_path / 'twin.pt')
    fovea('import', 'squares.yaml', 'twin.pt', '-o', 'run', expect=0)
    for row in lines_of(fovea('classify', 'run', *pictures.values(), '--top', '1', expect=0).stdout):
        path, label, probability = row.split('\t')
        pixels = torch.tensor(np.array(Image.open(tmp_path / path)))[None, None] / 255
        with torch.no_grad():
            expected = twin((pixels - 0.2) / 0.25).softmax(1)[0]
        assert label == CLASSES[int(expected.argmax())]
        assert float(probability) == pytest.approx(float(expected.max()), abs=1e-4)
    fovea('export', 'run', '-o', 'out', '--format', 'safetensors', expect=0)
    again = load_file(tmp_path / 'out/model.safetensors')
    assert again.keys() == twin.state_dict().keys()
    assert all(torch.equal(again[name], value) for name, value in twin.state_dict().items())
    fovea('import', 'out', '-o', 'again', expect=0)
    fovea('export', 'again', '-o', 'second', '--format', 'safetensors', expect=0)
    assert snapshot(tmp_path / 'out') == snapshot(tmp_path / 'second')
    # And as a start.
    fovea('train', '--resume', 'run', 'train.max_steps=2', expect=0)


def test_a_damaged_png_is_named(exported_classifier, pictures, programs, tmp_path):
    path = tmp_path / pictures['top']
    whole = path.read_bytes()
    for damaged in (whole[:40], whole[:-20], whole[:60] + bytes([whole[60] ^ 1]) + whole[61:], whole[:8]):
        path.write_bytes(damaged)
        for command in ([sys.executable, EXAMPLES / 'classify.py'], [programs / 'classify']):
            bad = subprocess.run([*command, exported_classifier, path], capture_output=True, check=False)
            assert bad.returncode == 1 and str(path) in bad.stderr.decode(), bad.stderr


def test_no_python_of_ours_and_no_op_of_ours(exported, exported_classifier):
    for path in (exported, exported_classifier):
        with zipfile.ZipFile(path) as archive:
            code = b''.join(archive.read(name) for name in archive.namelist() if name.endswith('.py'))
        assert b'ops.fovea' not in code and b'dropout' not in code.replace(b'dropout : ', b'')


def test_export_refuses_what_is_there_and_what_it_cannot_read(fovea, trained, run_copy, tmp_path):
    (tmp_path / 'm.pt').write_bytes(b'precious')
    for args, said in [(['-o', 'm.pt'], 'already exists; replace it with --overwrite'),
                       (['-o', 'no/m.pt'], 'there is no directory no'),
                       (['-o', 'x.pt', '--format', 'onnx'], "expected torchscript or safetensors, got 'onnx'"),
                       (['-o', '.', '--format', 'safetensors', '--overwrite'], 'holds something else than an export'),
                       (['-o', tmp_path, '--overwrite'], 'is a directory, which is not replaced; expected a name for a file'),
                       (['-o', 'x.pt', '--checkpoint', 'step-99999'], 'step-99999'),
                       (['-o', 'x.pt', 'data.num_steps=9'], 'runtime.device')]:
        done = fovea('export', trained, *args)
        assert done.returncode == 2 and said in done.stderr, (args, done.stderr)
    assert (tmp_path / 'm.pt').read_bytes() == b'precious'
    weights = next((run_copy / 'checkpoints').glob('step-*/model.safetensors'))
    weights.write_bytes(weights.read_bytes()[:-1])
    assert fovea('export', run_copy, '-o', 'x.pt', '--checkpoint', weights.parent.name).returncode == 2
    assert not (tmp_path / 'x.pt').exists()
    fovea('export', trained, '-o', 'm.pt', '--overwrite', '--quiet', expect=0)
    assert (tmp_path / 'm.pt').stat().st_size > 10000
    assert not list(tmp_path.glob('.*'))


@pytest.mark.parametrize('name', ['out', 'out.safetensors'])
def test_round_trips_give_the_same_bytes(fovea, trained, tmp_path, name):
    by_name = [] if name.endswith('.safetensors') else ['--format', 'safetensors']
    fovea('export', trained, '-o', name, *by_name, expect=0)
    fovea('import', name, '-o', 'again', expect=0)
    fovea('export', 'again', '-o', f'second-{name}', '--format', 'safetensors', expect=0)
    first, second = tmp_path / name, tmp_path / f'second-{name}'
    if first.is_dir():
        assert snapshot(first) == snapshot(second)
        assert {'model.safetensors', 'config.yaml', 'source.vocab', 'target.vocab'} == set(map(str, snapshot(first)))
    else:
        assert first.read_bytes() == second.read_bytes()
    assert fovea.translate('again', *trained.sources) == fovea.translate(trained, *trained.sources)


def state_dict_of(trained):
    return load_file(trained.path / 'checkpoints/best/model.safetensors')


@pytest.mark.parametrize('protocol', [2, 4])
def test_a_state_dict_of_the_books_classes(fovea, tiny, trained, live, tmp_path, protocol):
    torch.save(live.state_dict(), tmp_path / 'd2l.pt', pickle_protocol=protocol)
    done = fovea('import', 'tiny.yaml', 'd2l.pt', '-o', 'run', expect=0)
    assert 'checkpoint step-0' in done.stdout and done.stderr == ''
    assert fovea.translate('run', *trained.sources) == fovea.translate(trained, *trained.sources)
    assert fovea.json('evaluate', 'run')['loss'] == pytest.approx(fovea.json('evaluate', trained)['loss'], abs=1e-6)
    # And back: what is exported loads into the twin, strictly.
    fovea('export', 'run', '-o', 'out', '--format', 'safetensors', expect=0)
    live.load_state_dict(load_file(tmp_path / 'out/model.safetensors'))
    # As a start: training goes on from these weights.
    fovea('train', '--resume', 'run', 'train.max_steps=2', expect=0)
    assert fovea.json('evaluate', 'run', '--checkpoint', 'last')['loss'] != fovea.json('evaluate', trained)['loss']


def test_the_encoder_of_the_package_alone_with_a_map(fovea, tiny, live, trained, tmp_path):
    """d2l.TransformerEncoder's own state_dict and the decoder's, put together under other names and dtypes."""
    weights = {f'enc/{k}': v.double() for k, v in live.encoder.state_dict().items()}
    weights |= {f'dec/{k}': v.half() for k, v in live.decoder.state_dict().items()}
    weights['epoch'] = torch.tensor(3)
    torch.save({'state_dict': weights, 'lr': 0.1, 'hparams': {'heads': [2, 2], 'name': None}}, tmp_path / 'w.ckpt')
    (tmp_path / 'names').write_text('# ours\nenc/* = encoder.*\ndec/* = decoder.*\nepoch = -\n')
    done = fovea('import', 'tiny.yaml', 'w.ckpt', '--map', 'names', '-o', 'run', expect=0)
    for notice in ("took what stands under 'state_dict'", 'epoch: left out', 'were Double and are Float',
                   'were Half and are Float'):
        assert notice in done.stderr
    loss = fovea.json('evaluate', 'run')['loss']
    assert loss == pytest.approx(fovea.json('evaluate', trained)['loss'], abs=1e-2)


def test_assets_from_a_directory_need_no_data(fovea, tiny, trained, tmp_path):
    save_file(state_dict_of(trained), tmp_path / 'w.safetensors')
    (tmp_path / 'corpus.tsv').unlink()
    assert 'corpus.tsv' in fovea('import', 'tiny.yaml', 'w.safetensors', '-o', 'run').stderr
    fovea('import', 'tiny.yaml', 'w.safetensors', '-o', 'run', '--assets', trained.path / 'checkpoints/best', expect=0)
    assert fovea.translate('run', *trained.sources) == fovea.translate(trained, *trained.sources)
    again = fovea('import', 'tiny.yaml', 'w.safetensors', '-o', 'run', '--assets', trained.path / 'checkpoints/best')
    assert again.returncode == 2 and 'the run already exists' in again.stderr


def refused(fovea, *args):
    done = fovea('import', 'tiny.yaml', *args, '-o', 'run')
    assert done.returncode in (1, 2) and done.stderr.startswith('error: '), done.stderr
    assert not (fovea.cwd / 'run').exists()
    return done.stderr


def test_weights_that_do_not_fit_are_listed(fovea, tiny, live, tmp_path):
    weights = live.state_dict()
    weights['encoder.blks.block0.attention.Wq.weight'] = weights.pop('encoder.blks.block0.attention.W_q.weight')
    weights['decoder.dense.bias'] = torch.zeros(3)
    torch.save(weights, tmp_path / 'w.pt')
    said = refused(fovea, 'w.pt')
    assert "encoder.blks.block0.attention.W_q.weight: missing, expected [16, 16]; did you mean " \
           "'encoder.blks.block0.attention.Wq.weight'?" in said
    assert 'encoder.blks.block0.attention.Wq.weight: [16, 16], not part of this model' in said
    assert 'decoder.dense.bias: found [3], expected [' in said


class Evil:
    def __reduce__(self):
        return os.system, ('touch "$EVIL"',)


@pytest.mark.parametrize('protocol', [2, 3, 4, 5])
def test_a_pickle_that_would_run_something_does_not(fovea, tiny, live, tmp_path, protocol):
    weights = collections.OrderedDict(live.state_dict())
    weights['zzz'] = Evil()
    torch.save(weights, tmp_path / 'w.pt', pickle_protocol=protocol)
    fovea.env['EVIL'] = str(tmp_path / 'ran')
    said = refused(fovea, 'w.pt')
    assert "asks for 'posix.system'" in said and 'nothing of it was run' in said
    assert not (tmp_path / 'ran').exists()


def test_damaged_and_wrong_files_are_named(fovea, tiny, live, trained, exported, tmp_path):
    torch.save(live.state_dict(), tmp_path / 'good.pt')
    good = (tmp_path / 'good.pt').read_bytes()

    def said(data):
        (tmp_path / 'w.pt').write_bytes(data)
        return refused(fovea, 'w.pt')

    for share in (0.1, 0.5, 0.99):
        assert 'w.pt: no whole zip file' in said(good[:int(len(good) * share)])
    value = live.state_dict()['decoder.dense.bias'].numpy().tobytes()
    at = good.index(value)
    assert "is damaged: CRC error" in said(good[:at] + bytes([good[at] ^ 1]) + good[at + 1:])
    assert 'an empty file' in said(b'')
    assert 'w.pt' in said(b'<!DOCTYPE html><html></html>' * 10)
    assert 'a TorchScript file' in said(exported.read_bytes())
    assert 'before version 1.6' in said(pickle.dumps({'a': 1}, protocol=2))
    torch.save(live.state_dict(), tmp_path / 'old.pt', _use_new_zipfile_serialization=False)
    assert 'before version 1.6' in refused(fovea, 'old.pt')
    torch.save({'a': 1, 'b': 'x'}, tmp_path / 'none.pt')
    assert "a dict with the keys 'a', 'b'" in refused(fovea, 'none.pt')
    torch.save(torch.ones(3), tmp_path / 'tensor.pt')
    assert 'no dict at all' in refused(fovea, 'tensor.pt')
    with zipfile.ZipFile(tmp_path / 'other.zip', 'w') as archive:
        archive.writestr('readme.txt', 'hello')
    assert 'no data.pkl' in refused(fovea, 'other.zip')
    weights = (trained.path / 'checkpoints/best/model.safetensors').read_bytes()
    assert 'w.pt' in said(weights[:-1])
    assert 'missing.pt' in refused(fovea, 'missing.pt')


def test_views_and_shared_storages(fovea, tiny, live, trained, tmp_path):
    """Transposed, offset and tied tensors, as a state_dict may hold them."""
    weights = live.state_dict()
    name = 'decoder.dense.weight'
    weights[name] = weights[name].t().contiguous().t()
    norm = 'decoder.blks.block0.addnorm1.ln'
    both = torch.cat([weights[f'{norm}.weight'], weights[f'{norm}.bias']])
    weights[f'{norm}.weight'], weights[f'{norm}.bias'] = both[:16], both[16:]
    weights = collections.OrderedDict((k, torch.nn.Parameter(v)) for k, v in weights.items())
    torch.save(weights, tmp_path / 'w.pt')
    fovea('import', 'tiny.yaml', 'w.pt', '-o', 'run', expect=0)
    assert state_dict_of(trained).keys() == load_file(tmp_path / 'run/checkpoints/last/model.safetensors').keys()
    assert fovea.translate('run', *trained.sources) == fovea.translate(trained, *trained.sources)


def test_the_config_decides_and_may_be_overridden(fovea, tiny, live, tmp_path):
    torch.save(live.state_dict(), tmp_path / 'w.pt')
    assert 'missing' in refused(fovea, 'w.pt', 'model.num_blks=2')
    assert 'unknown key' in refused(fovea, 'w.pt', 'model.num_blk=2')
    fovea('import', 'tiny.yaml', 'w.pt', '-o', 'run', 'train.max_epochs=7', 'model.attention=plain', expect=0)
    text = (tmp_path / 'run/config.yaml').read_text()
    assert 'max_epochs: 7' in text and 'attention: plain' in text
    assert (tmp_path / 'run/checkpoints/last').resolve().name == 'step-0'
