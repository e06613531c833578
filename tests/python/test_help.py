"""What the program says of itself: help at any width, its parser's errors, completion, man pages."""

import re
import shutil
import subprocess
import unicodedata

import pytest
from conftest import ROOT, on_a_terminal, write_lines

COMMANDS = ['init', 'inspect', 'train', 'translate', 'classify', 'predict', 'evaluate', 'attend', 'report', 'picture', 'score', 'export',
            'import', 'config', 'config list', 'config show', 'config validate', 'config explain', 'info', 'runs', 'compare',
            'plot', 'sweep', 'help', 'man', 'completion']


def columns(text):
    """What a text takes on a terminal."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in 'WF' else 1 for c in text)


def assert_fits(text, width):
    assert text
    for line in text.splitlines():
        assert columns(line) <= width, f'{columns(line)} columns: {line}'
        assert line == line.rstrip(), repr(line)


def usage_error(fovea, *args):
    """What a refused call says behind `error: `."""
    done = fovea(*args, expect=2)
    assert done.stdout == '' and done.stderr.startswith('error: '), done.stderr
    assert all(len(word) < 100 for word in done.stderr.split())
    return done.stderr


# Width.


def test_the_list_of_commands_is_complete(fovea):
    text = fovea('help', expect=0).stdout
    listed = re.search(r'Commands:\n(.*?)\n\n', text, re.S).group(1)
    names = {line.split()[0] for line in listed.splitlines() if not line.startswith('   ')}
    assert names == {name for name in COMMANDS if ' ' not in name}


@pytest.mark.parametrize('width', [60, 80])
@pytest.mark.parametrize('command', ['', *COMMANDS])
def test_c63_help_pages_fit(fovea, command, width):
    env = {'COLUMNS': str(width)}
    page = fovea('help', *command.split(), env=env, expect=0).stdout
    assert_fits(page, width)
    assert page == fovea(*command.split(), '--help', env=env, expect=0).stdout
    assert page.startswith('Usage: fovea') and 'Exit status: 0 done' in page


@pytest.mark.parametrize('width', [60, 80])
def test_c63_tables_fit(fovea, trained, classifier, tiny, tmp_path, width):
    env = {'COLUMNS': str(width)}

    def shown(*args, **kwargs):
        return fovea(*args, env=env, expect=0, **kwargs)

    assert_fits(shown('config', 'list', cwd=ROOT).stdout, width)
    for about in ([], ['data'], ['data.validation'], ['vit'], ['train']):
        assert_fits(shown('config', 'explain', *about).stdout, width)
    assert_fits(shown('info').stdout, width)
    assert_fits(shown('evaluate', trained.path, '--input', tiny / 'test.tsv', '--samples', '5').stdout, width)
    assert_fits(shown('evaluate', classifier).stdout, width)
    assert_fits(shown('export', classifier, '-o', 'm.safetensors').stdout, width)
    assert_fits(shown('import', 'm.safetensors', '-o', 'imported').stdout, width)
    assert_fits(shown('train', 'tiny.yaml', '--dry-run').stderr, width)
    assert_fits(shown('init', 'corpus.tsv').stdout, width)


def assert_messages_fit(text, width):
    """Wider are only paths, which stay whole, on lines of their own."""
    assert text
    for line in text.splitlines():
        assert columns(line) <= width or ' ' not in line.strip(), f'{columns(line)} columns: {line}'


@pytest.mark.parametrize('width', [60, 80])
def test_c63_what_training_says_fits(fovea, tiny, width):
    def shown(*args):
        screen = on_a_terminal(fovea, *args, width=width, NO_COLOR='1', LC_ALL='C.UTF-8')
        # Lines that are redrawn begin anew, and leave the last column free.
        lines = [part for line in screen.split('\r\n') for part in line.split('\r\x1b[K')]
        assert_messages_fit('\n'.join(lines), width)
        return ' '.join(' '.join(lines).split())

    # Many fields in a line, and many settings.
    said = shown('train', 'tiny.yaml', '--run-dir', 'r', '--verbose', 'train.evaluate_every=1', 'train.watch=bleu',
                 'train.max_epochs=2', 'train.validate_every_steps=3')
    assert re.search(r'epoch 2 step \d+ loss [\d.]+ validation loss .* s', said), said
    assert 'to train longer: fovea train ' in said
    assert 'continuing from r' in shown('train', '--resume', 'r', 'train.max_epochs=3')
    log = (tiny / 'r' / 'train.log').read_text()
    assert re.search(r'^epoch +2 .*  validation loss .* s', log, re.M)  # a line in the file is a line


@pytest.mark.parametrize('width', [60, 80])
def test_c63_messages_fit(fovea, trained, tiny, width):
    env = {'COLUMNS': str(width)}

    def refusal(*args, expect=2):
        done = fovea(*args, env=env, expect=expect)
        assert_messages_fit(done.stderr, width)
        whole = fovea(*args, expect=expect).stderr
        assert ' '.join(done.stderr.replace(' \\\n', ' ').split()) == ' '.join(whole.split())
        return whole

    write_lines(tiny / 'hyp.txt', ['ba ce di fo gu ha', 'je ki'])
    write_lines(tiny / 'ref.txt', ['ba ce di fo gu je', 'je ki'])
    write_lines(tiny / 'one.txt', ['ba'])
    write_lines(tiny / 'words.txt', ['neither a pair nor a number'] * 3)
    write_lines(tiny / 'wrong.yaml', ['model: {name: transformer, num_hiddens: many, dropout: 7}', 'modle: {}'])
    (tiny / 'one pair.tsv').write_text('go .\tva !\n' * 5)
    assert_messages_fit(fovea('score', 'hyp.txt', 'ref.txt', env=env, expect=0).stdout, width)
    refusal('score', 'hyp.txt', 'one.txt')
    assert len([line for line in refusal('init', 'words.txt').splitlines() if line.startswith('  ')]) > 1
    refusal('init', 'one pair.tsv', '-o', 'one.yaml', '--overwrite', expect=0)
    refusal('config', 'validate', 'wrong.yaml')
    refusal('config', 'validate', 'tiny.yaml', 'modle.num_heads=4')
    refusal('config', 'explain', 'train.max_epoch')
    refusal('train', 'tiny.yaml', '--max-epochs', '5')
    refusal('train', 'tiny.yaml', 'data.path=corpus.txt', 'model.num_hiddens=15')
    refusal('train', trained.path)
    refusal('export', trained.path, '-o', 'x.onnx')
    refusal('import', 'tiny.yaml', 'words.txt', 'x', '-o', 'imported')
    refusal('import', 'tiny.yaml', 'words.txt', '-o', 'imported')
    refusal('evaluate', trained.path, '--split', 'test', '--input', 'x')
    refusal('translate', trained.path, 'ba ' * 50, expect=0)


def test_c63_where_there_is_no_terminal_a_row_is_a_line(fovea):
    lines = fovea('config', 'explain', 'train.max_epochs', expect=0).stdout.splitlines()
    assert len([line for line in lines if line.startswith('train.max_epochs ')]) == 1 and len(lines) == 2


def test_c63_explain_says_whose_a_section_is(fovea):
    text = fovea('config', 'explain', 'data.validation', expect=0).stdout
    for name in ('translation', 'fashion_mnist', 'idx_images', 'table'):
        assert f'data.validation where data.name = {name}: ' in text


# Errors.


@pytest.mark.parametrize('args, said', [
    (['train', '--max-epochs', '5', 'x.yaml'], ["'--max-epochs'", 'train.max_epochs=VALUE']),
    (['train', 'x.yaml', '--learning-rate=1'], ["'--learning-rate'", 'optimizer.learning_rate=VALUE']),
    (['evaluate', 'r', '--input', 'a', 'b', 'c'], ['--input: expected FILE, 2 at most, got 3', 'two parallel ones']),
    (['translate', 'go .'], ['go .: there is no such run', 'fovea translate runs/quickstart']),
    (['train', '--lr', '5', 'x.yaml'], ["'--lr'", 'optimizer.learning_rate=VALUE']),
    (['train', 'x.yaml', '--bs=5'], ["'--bs'", 'data.batch_size=VALUE']),
    (['train', 'x.yaml', '--heads=5'], ["'--heads'", 'model.num_heads=VALUE']),
    (['train', 'x.yaml', 'max_epochs=3'], ["no setting 'max_epochs'", 'did you mean train.max_epochs=VALUE?']),
    (['train', 'x.yaml', 'max_epoch=3'], ["no setting 'max_epoch'", 'did you mean train.max_epochs=VALUE?']),
    (['train', 'x.yaml', 'dropout=0.1'], ['did you mean model.dropout=VALUE?']),
    (['train', 'x.yaml', 'wd=0.1'], ['did you mean optimizer.weight_decay=VALUE?']),
    (['train', 'x.yaml', 'modle.num_heads=4'], ["no setting 'modle'; did you mean 'model'?"]),
    (['train', 'x.yaml', '--dry-rum'], ["'--dry-rum'", 'did you mean --dry-run?']),
    (['train', '--run-dir'], ['--run-dir: expected DIR']),
    (['translate', 'run', '--bean', '4'], ["'--bean'", 'did you mean --beam?']),
    (['export', 'run'], ['--output NAME is missing']),
    (['export', 'run', '-o'], ['--output: expected NAME']),
    (['score', 'one'], ['expected REFERENCES']),
    (['score', 'a', 'b', 'c'], ["no argument 'c'"]),
    (['evaluate', 'r', '--split', 'test', '--input', 'x'], ['--split and --input do not go together']),
    (['trian', 'x.yaml'], ["no command 'trian'", "did you mean 'train'?"]),
    (['config', 'explian'], ["fovea config has no command 'explian'", "did you mean 'explain'?"]),
    (['help', 'trian'], ["did you mean 'train'?"]),
    (['--bogus'], ["fovea has no option '--bogus'"]),
    (['completion', 'fish'], ['bash or zsh', 'fish']),
])
def test_c61_the_parsers_errors_are_ours(fovea, args, said):
    error = usage_error(fovea, *args)
    assert all(part in error for part in said), error


@pytest.mark.parametrize('line, meant', [
    ('max_epochs: 3', 'train.max_epochs'), ('max_epoch: 3', 'train.max_epochs'), ('lr: 0.1', 'optimizer.learning_rate'),
    ('epochs: 3', 'train.max_epochs'), ('hidden: 8', 'model.num_hiddens')])
def test_c30_a_key_without_its_section_is_named_with_it(fovea, tiny, line, meant):
    (tiny / 'x.yaml').write_text((tiny / 'tiny.yaml').read_text() + line + '\n')
    assert f"unknown key; did you mean '{meant}'" in fovea('config', 'validate', 'x.yaml', expect=2).stderr


@pytest.mark.parametrize('value', ['nan', '-1', '1e400', 'many'])
def test_c61_no_range_of_300_digits(fovea, trained, value):
    assert 'length_penalty' in usage_error(fovea, 'translate', trained.path, 'ba', f'--length-penalty={value}')


def test_c61_a_name_of_another_format_is_refused(fovea, trained):
    for name in ('x.onnx', 'x.gguf', 'x.pkl'):
        error = usage_error(fovea, 'export', trained.path, '-o', name)
        assert name in error and '.pt' in error and '.safetensors' in error
    assert 'NAME.pt' in usage_error(fovea, 'export', trained.path, '-o', 'x.safetensors', '--format', 'torchscript')
    assert 'NAME.safetensors' in usage_error(fovea, 'export', trained.path, '-o', 'x.pt', '--format', 'safetensors')
    assert not list(fovea.cwd.iterdir())


def test_c61_what_is_no_run_is_said_to_be_what_it_is(fovea, trained, tiny):
    run = tiny / 'runs' / 'a'
    shutil.copytree(trained.path, run, symlinks=True)
    fovea('export', run, '-o', 'x.safetensors', '--quiet', expect=0)
    fovea('export', run, '-o', 'x', '--format', 'safetensors', '--quiet', expect=0)
    (tiny / 'x.pt').write_bytes(b'PK\x03\x04')
    cases = {'runs/a/checkpoints/last': ['is a checkpoint', 'runs/a --checkpoint last'],
             'runs/a/checkpoints': ['the checkpoints of a run', 'runs/a'],
             'runs': ['holds runs', 'runs/a'],
             'x.safetensors': ['fovea import x.safetensors'],
             'x': ['is an export', 'fovea import x'],
             'x.pt': ['torch.jit.load'],
             'tiny.yaml': ['is a configuration', 'fovea train tiny.yaml'],
             'runs/a/config.yaml': ['the configuration of a run', 'runs/a'],
             'corpus.tsv': ['expected the directory of a run', 'found a file']}
    for name, said in cases.items():
        for command in (['translate', name, 'ba'], ['predict', name, 'ba'], ['evaluate', name],
                        ['export', name, '-o', 'y.pt'], ['train', '--resume', name],
                        ['train', 'tiny.yaml', '--init-from', name]):
            error = usage_error(fovea, *command)
            assert all(part in error for part in said), error


def test_c61_what_is_no_configuration_is_said_to_be_what_it_is(fovea, trained, tiny):
    assert 'fovea init corpus.tsv' in usage_error(fovea, 'train', 'corpus.tsv')
    assert f'fovea train --resume {trained.path}' in usage_error(fovea, 'train', trained.path)
    assert not (tiny / 'runs').exists()


def test_the_program_alone_helps(fovea):
    for args in ([], ['config']):
        done = fovea(*args, expect=2)
        assert done.stdout == '' and 'Commands:' in done.stderr and 'Usage: fovea' in done.stderr


# Completion.


def completed(fovea, *words):
    return fovea('complete', '--', *words, expect=0).stdout.splitlines()


def test_completion_offers_what_the_program_takes(fovea, trained, tiny):
    run = tiny / 'runs' / 'a'
    shutil.copytree(trained.path, run, symlinks=True)
    assert completed(fovea, 'tr') == ['train', 'translate']
    assert completed(fovea, 'config', 'ex') == ['explain']
    assert completed(fovea, 'help', 'config', 'l') == ['list']
    assert completed(fovea, 'train', '--res') == ['--resume']
    assert completed(fovea, 'train', 'ti') == ['tiny.yaml']
    assert completed(fovea, 'train', 'tiny.yaml', 'train.max_') == ['train.max_epochs=', 'train.max_minutes=',
                                                                    'train.max_steps=']
    assert completed(fovea, 'train', 'tiny.yaml', 'data.name=t') == ['data.name=table', 'data.name=translation']
    assert completed(fovea, 'train', 'tiny.yaml', 'data.path=corp') == ['data.path=corpus.tsv']
    assert completed(fovea, 'evaluate', 'runs/') == ['runs/a']
    assert completed(fovea, 'evaluate', 'runs/a', 'runtime.th') == ['runtime.threads=']
    assert completed(fovea, 'evaluate', 'runs/a', 'train.max_') == []
    names = completed(fovea, 'evaluate', 'runs/a', '--checkpoint', '')
    assert 'best' in names and 'last' in names and any(name.startswith('step-') for name in names)
    assert completed(fovea, 'evaluate', 'runs/a', '--split', 't') == ['test', 'train']
    assert completed(fovea, 'train', '--resume', 'ru') == ['runs/']


@pytest.mark.parametrize('line, replies', [
    ('fovea tr', ['train', 'translate']),
    ('fovea train tiny.yaml train.max_e', ['train.max_epochs=']),
    ('fovea train tiny.yaml optimizer.name=s', ['sgd']),  # bash puts in only what stands behind the '='
    ('fovea evaluate ', []),
    ('fovea config explain num_hea', ['num_heads']),
    ('fovea completion ', ['bash', 'zsh']),
    ('fovea evaluate r --split=t', ['test', 'train']),
    ('fovea train tiny.yaml model.num_h', ['model.num_heads=', 'model.num_hiddens=']),
    ('fovea train tiny.yaml model.patch', ['<nothing>']),
    ('fovea train tiny.yaml model.name=vit model.patch_s', ['model.patch_size=']),
    ('fovea train tiny.yaml data.train_im', ['<nothing>']),
])
def test_completion_in_bash(fovea, program, tiny, line, replies):
    script = f'''
        PATH={program.parent}:$PATH; source <(fovea completion bash); compopt() {{ :; }}
        COMP_WORDBREAKS=$' \\t\\n"\\'><=;|&(:'; COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}; _fovea
        for one in "${{COMPREPLY[@]}}"; do printf '%s\\n' "$one"; done'''
    done = subprocess.run(['bash', '-c', script], cwd=tiny, env=fovea.env, capture_output=True, text=True, check=True)
    assert done.stderr == ''
    if replies == ['<nothing>']:
        assert done.stdout == ''
    else:
        assert replies == done.stdout.splitlines() or (not replies and 'runtime.threads=' in done.stdout)


@pytest.mark.skipif(shutil.which('zsh') is None, reason='there is no zsh')
def test_completion_in_zsh_parses(fovea):
    script = fovea('completion', 'zsh', expect=0).stdout
    subprocess.run(['zsh', '-n'], input=script, text=True, check=True)


# Man pages.


@pytest.mark.skipif(shutil.which('groff') is None, reason='there is no groff')
def test_man_pages_render_without_warnings(fovea, tmp_path):
    fovea('man', '--directory', 'pages', expect=0)
    pages = sorted((tmp_path / 'pages').iterdir())
    assert [page.name for page in pages] == sorted(
        ['fovea.1', *(f'fovea-{name.replace(" ", "-")}.1' for name in COMMANDS)])
    for page in pages:
        done = subprocess.run(['groff', '-man', '-Tutf8', '-ww', '-rLL=80n', page], capture_output=True, check=True)
        assert done.stderr == b''
        text = re.sub(r'\x1b\[[0-9;]*m|.\x08', '', done.stdout.decode())
        assert 'NAME' in text and 'SYNOPSIS' in text and 'EXIT STATUS' in text
    assert 'train.max_epochs=5' in fovea('man', 'train', expect=0).stdout.replace('\\', '')
