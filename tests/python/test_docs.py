"""README.md and docs/: every command and sample runs, what is printed is what the pages say, every link is good.

A page's blocks run in order, in a folder that looks like a clone with its own `runs/`, after the quickstart. What a
block is for follows from its language: `sh` is run; `console` is run, and what follows each `$ ` line is compared;
`text` is compared with what the block before it printed (`...` stands for any lines); `yaml`, `cpp` and `cmake` that
begin with a comment that names a file are written there; `python` is run.

An HTML comment before a block says what is special. Readers do not see it.

    <!-- test: skip: REASON -->       the block is not run; the reason is printed
    <!-- test: varies -->             what is printed differs from machine to machine: only the command is run
    <!-- test: quick SETTINGS -->     settings for each `fovea train` of the block, instead of the usual shortening
    <!-- test: first COMMAND -->      what the page takes for granted
    <!-- test: instead COMMAND -->    run this instead
    <!-- test: tree -->               a folder: each name exists, and the folder has no other file
    <!-- test: compile -->            build this program with the installed library and run it
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import pytest
from PIL import Image

from conftest import ROOT

PAGES = ['README.md', *sorted(f'docs/{path.name}' for path in (ROOT / 'docs').glob('*.md'))]
LINKING = [*PAGES, 'CONTRIBUTING.md', 'data/README.md', 'tests/golden/README.md']
SECTIONS = 'model|data|optimizer|schedule|train|runtime'
SHORTER = 'train.max_steps=12'
RESUMED = 'train.max_steps=24'
CMAKE_LISTS = """\
cmake_minimum_required(VERSION 3.22)
project(sample LANGUAGES CXX)
find_package(fovea REQUIRED)
add_executable(sample main.cpp)
target_link_libraries(sample PRIVATE fovea::fovea)
"""
BUILD = """\
cmake --install build/default --prefix ~/installed
cmake -S {folder} -B {folder}/build -DCMAKE_PREFIX_PATH=~/installed
cmake --build {folder}/build
{folder}/build/sample > {folder}/output
"""
PROGRAM = """\
#!/usr/bin/env bash
# The program, with trainings cut short.
shorter=()
if [[ ${{1:-}} == train || ${{1:-}} == sweep ]]; then
  shorter=($FOVEA_SHORTER)
  [[ " $* " != *" --resume "* ]] || shorter=({resumed})
fi
exec {program} "$@" "${{shorter[@]}}"
"""


class Block:
    def __init__(self, page, line, language, text, notes, before):
        self.where = f'{page}:{line}'
        self.language = language
        self.text = text
        self.notes = notes
        self.before = before  # the paragraph before it

    def note(self, name):
        """What follows `name` in a comment before the block; None without one."""
        found = [note[len(name):].strip(' :') for note in self.notes if re.match(rf'{name}\b', note)]
        return found[0] if found else None

    @property
    def file(self):
        """The file that the first line names: `# my.yaml: my corpus`, `// main.cpp`."""
        found = re.match(r'(?:#|//) ([\w./-]+\.(?:yaml|cpp|txt|py|tsv|csv))\b', self.text)
        return found[1] if found else None


def blocks_of(page):
    lines = (ROOT / page).read_text(encoding='utf-8').split('\n')
    blocks, notes, paragraph, i = [], [], '', 0
    while i < len(lines):
        line = lines[i]
        comment = re.fullmatch(r'<!-- test: (.*) -->', line.strip())
        fence = re.fullmatch(r'( *)```(\w*)', line)
        if comment:
            notes.append(comment[1])
        elif fence:
            end = next(j for j in range(i + 1, len(lines)) if lines[j] == fence[1] + '```')
            text = ''.join(row[len(fence[1]):] + '\n' for row in lines[i + 1:end])
            blocks.append(Block(page, i + 1, fence[2], text, notes, paragraph))
            notes, i = [], end
        elif line.strip():
            assert not notes, f'{page}:{i + 1}: a test comment is to stand directly before its block'
            paragraph = paragraph + ' ' + line if i and lines[i - 1].strip() else line
        i += 1
    return blocks


BLOCKS = {page: blocks_of(page) for page in PAGES}
LEFT_OUT = [block for blocks in BLOCKS.values() for block in blocks if block.note('skip') is not None]


class Clone:
    """A folder that looks like a clone in which the quickstart has been run."""

    def __init__(self, folder, program):
        self.folder = folder
        for name in ('configs', 'examples', 'scripts'):
            shutil.copytree(ROOT / name, folder / name)
        (folder / '.venv').symlink_to(ROOT / '.venv')
        (folder / 'data/fra-eng').mkdir(parents=True)
        for path in (ROOT / 'data').glob('*.*'):
            shutil.copy(path, folder / 'data' / path.name)
        # Stand-ins for what readers bring: the book's corpus, pairs and pictures of their own.
        pairs = (ROOT / 'data/tiny_en_fr.tsv').read_text(encoding='utf-8').splitlines()
        (folder / 'data/fra-eng/fra.txt').write_text(''.join(f'{pair}\tCC-BY\n' for pair in pairs), encoding='utf-8')
        (folder / 'pairs.tsv').write_text(''.join(f'{pair}\n' for pair in pairs[:1500]), encoding='utf-8')
        for name, part in (('train', pairs[:1200]), ('dev', pairs[1200:1300])):
            for side, language in enumerate(('en', 'fr')):
                text = ''.join(pair.split('\t')[side] + '\n' for pair in part)
                (folder / f'{name}.{language}').write_text(text, encoding='utf-8')
        (folder / 'test.tsv').write_text(''.join(f'{pair}\n' for pair in pairs[1300:1400]), encoding='utf-8')
        (folder / 'lines.txt').write_text(''.join(pair.split('\t')[0] + '\n' for pair in pairs[:5]), encoding='utf-8')
        for name in ('boot.png', 'shirt.jpg'):
            Image.effect_noise((40, 30), 80).save(folder / name)
        for kind in ('cat', 'dog'):
            (folder / 'photos' / kind).mkdir(parents=True)
            for i in range(30):
                Image.effect_noise((40, 30 + i), 20 + 60 * (kind == 'dog')).convert('RGB').save(
                    folder / 'photos' / kind / f'{i}.png')
        (folder / 'bin').mkdir()
        wrapper = folder / 'bin/fovea'
        wrapper.write_text(PROGRAM.format(program=shlex.quote(str(program)), resumed=RESUMED))
        wrapper.chmod(0o755)
        (folder / 'build').mkdir()
        (folder / 'build/default').symlink_to(program.parent.parent)
        keep = {k: v for k, v in os.environ.items() if k not in ('NO_COLOR', 'LANG', 'COLUMNS')}
        self.env = {**keep, 'HOME': str(folder), 'LC_ALL': 'C.UTF-8', 'OMP_WAIT_POLICY': 'passive', 'TERM': 'dumb',
                    # The Python package as it lies here, with the op of the program's build.
                    'PYTHONPATH': str(ROOT / 'python'), 'FOVEA_LIBRARY_DIR': str(program.parent.parent / 'lib'),
                    'PATH': f'{folder}/bin:{pathlib.Path(sys.executable).parent}:{os.environ["PATH"]}'}

    def run(self, command, where, shorter=SHORTER, may_fail=False):
        """What the command prints; stdout and stderr together."""
        done = subprocess.run(command, cwd=self.folder, env={**self.env, 'FOVEA_SHORTER': shorter},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300,
                              check=False)
        output = done.stdout.decode()
        assert may_fail or done.returncode == 0, f'{where}: exit status {done.returncode}\n{output}'
        return output

    def shell(self, text, *args, **kwargs):
        return self.run(['bash', '-euo', 'pipefail', '-c', text], *args, **kwargs)


@pytest.fixture(scope='module')
def quickstart(program, tmp_path_factory):
    clone = Clone(tmp_path_factory.mktemp('quickstart'), program)
    clone.shell('fovea train configs/transformer_tiny.yaml --run-dir runs/quickstart', 'quickstart')
    return clone.folder / 'runs/quickstart'


def agrees(shown, printed):
    """Whether `shown` is in `printed`; a line `...` stands for any lines, white space at line ends for none."""
    parts = [re.escape('\n'.join(row.rstrip() for row in part.strip('\n').split('\n')))
             for part in re.split(r'(?m)^ *\.\.\.\n', shown)]
    printed = '\n'.join(row.rstrip() for row in printed.split('\n'))
    return re.search(r'(?s)(?:^|\n)' + r'\n(?:.*\n)?'.join(part for part in parts if part) + r'(?:\n|$)', printed)


def run_console(clone, block):
    """Each `$ command` line, and what is to follow it."""
    for part in re.split(r'(?m)^\$ ', block.text)[1:]:
        command, _, shown = part.partition('\n')
        printed = clone.shell(command, block.where, may_fail=True)
        assert agrees(shown, printed), f'{block.where}: $ {command}\nshown:\n{shown}\nprinted:\n{printed}'


def check_tree(clone, block):
    root, *rows = block.text.splitlines()
    folder = clone.folder / root
    words = [word for row in rows for word in re.split(' {3,}', row.strip())[0].split()]
    names = [word.rstrip('/').replace('...', '*') for word in words if not re.match('step-|->', word)]
    for name in names:
        assert list(folder.rglob(name)), f'{block.where}: {root} has no {name}'
    known = {path for name in names for path in folder.rglob(name)}
    others = [path for path in folder.rglob('*') if path.is_file() and not path.is_symlink() and path not in known]
    assert not others, f'{block.where}: {others} are not shown'


@pytest.mark.parametrize('page', PAGES)
def test_every_sample_of_a_page_runs(page, program, quickstart, tmp_path):
    clone = Clone(tmp_path, program)
    shutil.copytree(quickstart, tmp_path / 'runs/quickstart', symlinks=True)
    printed = None
    for block in BLOCKS[page]:
        if block.note('skip') is not None:
            printed = None
            continue
        for note in block.notes:
            if note.startswith('first '):
                clone.shell(note[len('first '):], block.where)
        options = {'shorter': block.note('quick') or SHORTER}
        if block.note('instead'):
            printed = clone.shell(block.note('instead'), block.where, **options)
        elif block.language == 'sh':
            printed = clone.shell(block.text, block.where, **options)
        elif block.language == 'console':
            run_console(clone, block)
        elif block.file:
            path = clone.folder / block.file
            assert path.parent.resolve().is_relative_to(clone.folder.resolve()), block.where
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding='utf-8')
            if block.note('compile') is not None:
                (path.parent / 'CMakeLists.txt').write_text(CMAKE_LISTS)
                clone.shell(BUILD.format(folder=path.parent.name), block.where)
                printed = (path.parent / 'output').read_text()
            elif block.language == 'yaml':
                clone.shell(f'fovea config validate {shlex.quote(block.file)}', block.where)
        elif block.language == 'python':
            printed = clone.run([sys.executable, '-c', block.text], block.where, **options)
        elif block.language in ('text', ''):
            if block.note('tree') is not None:
                check_tree(clone, block)
                continue
            if block.note('varies') is not None:
                assert re.search(r'differ|var(y|ies)', block.before), f'{block.where}: say that it may differ'
                continue
            assert printed is not None, f'{block.where}: no command before it is run'
            assert agrees(block.text, printed), f'{block.where}: shown:\n{block.text}\nprinted:\n{printed}'
        else:
            raise AssertionError(f'{block.where}: nothing says how a block of {block.language} is tested')


@pytest.mark.parametrize('block', LEFT_OUT, ids=lambda block: block.where)
def test_what_is_not_run_says_why(block):
    reason = block.note('skip')
    assert reason, f'{block.where}: `skip` needs a reason'
    pytest.skip(f'{block.where}: {reason}')


# ---- Links and words ------------------------------------------------------------------------------


def without_code(text):
    return re.sub(r'(?ms)^( *)```.*?^\1```$', '', text)


def anchors_of(path):
    """The anchors of a page's headings, as GitHub and mkdocs make them."""
    anchors = {}
    for heading in re.findall(r'(?m)^#+ +(.*)$', without_code(path.read_text(encoding='utf-8'))):
        plain = re.sub(r'\[([^]]*)\]\([^)]*\)', r'\1', heading).replace('`', '').lower()
        anchor = re.sub(r'[^\w\- ]', '', plain).replace(' ', '-')
        anchors[anchor] = anchors.get(anchor, -1) + 1
    return {anchor if n == 0 else f'{anchor}-{n}' for anchor, last in anchors.items() for n in range(last + 1)}


def links_of(page):
    text = re.sub(r'`[^`]*`', '', without_code((ROOT / page).read_text(encoding='utf-8')))
    return [link for link in re.findall(r'\]\(([^)\s]+)\)|(?:src|href)="([^"]+)"', text) for link in link if link]


@pytest.mark.parametrize('page', LINKING)
def test_every_link_leads_somewhere(page):
    bad = []
    for link in links_of(page):
        if re.match(r'https?://', link):
            continue
        path, _, anchor = link.partition('#')
        target = (ROOT / page).parent / path if path else ROOT / page
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            bad.append(link)
    assert not bad, f'{page}: nothing is at {bad}'


def test_every_page_is_linked_from_the_readme_and_says_what_it_is_good_for():
    linked = {link.partition('#')[0] for link in links_of('README.md')}
    for page in PAGES[1:]:
        assert page in linked, f'README.md does not link {page}'
        first = re.search(r'(?m)^# .*\n\n(.*)', (ROOT / page).read_text(encoding='utf-8'))[1]
        assert first.startswith('After this page you can'), f'{page} begins with: {first}'


def test_the_readme_fits_two_screens():
    assert len((ROOT / 'README.md').read_text(encoding='utf-8').splitlines()) <= 130


@pytest.fixture(scope='module')
def explained(program):
    done = subprocess.run([program, 'config', 'explain'], capture_output=True, text=True, check=True)
    return set(re.findall(r'(?m)^([a-z_]+(?:\.[a-z_]+)+) ', done.stdout))


@pytest.mark.parametrize('page', PAGES)
def test_every_setting_that_is_named_exists(page, explained):
    # In the tables for newcomers the left column has other programs' names.
    text = re.sub(r'(?m)^\| `[^|]*\|', '|', without_code((ROOT / page).read_text(encoding='utf-8')))
    text += ''.join(block.text for block in BLOCKS[page] if block.language == 'sh')
    text = re.sub(r'https?://\S+|[\w-]+/[\w./-]+', '', text)
    named = set(re.findall(rf'\b((?:{SECTIONS})\.[a-z_]+(?:\.[a-z_]+)*)(?![\w(/]|\.\w)', text))
    sections = {key.rsplit('.', 1)[0] for key in explained}
    unknown = {name for name in named if name not in explained | sections | {'train.py', 'train.bin', 'model.safetensors'}}
    assert not unknown, f'{page}: `fovea config explain` knows no {sorted(unknown)}'


def test_every_flag_in_the_tables_for_newcomers_exists(program):
    """The right columns of docs/coming-from.md name flags of this program only."""
    commands = ('train', 'evaluate', 'translate', 'classify', 'predict', 'export', 'import', 'score')
    help_texts = ''.join(subprocess.run([program, command, '--help'], capture_output=True, text=True, check=True).stdout
                         for command in commands)
    for line in (ROOT / 'docs/coming-from.md').read_text(encoding='utf-8').splitlines():
        if line.startswith('| `'):
            ours = line.split('|', 2)[2]
            for flag in re.findall(r'`[^`]*?(--[a-z-]+)', ours):
                assert flag in help_texts, f'docs/coming-from.md: fovea has no {flag}: {line}'


def test_the_page_of_settings_is_up_to_date(program):
    done = subprocess.run([sys.executable, ROOT / 'scripts/make-config-page', '--check', '--program', program],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_samples_are_found_and_compared(tmp_path):
    """The reading of pages itself: a changed output, a changed comment and a missing anchor are seen."""
    assert agrees('a\n...\nc\n', 'x\na\nb\nb\nc\nd\n')
    assert agrees('a\n...\nc\n', 'a\nc\n')
    assert not agrees('a\nc\n', 'a\nb\nc\n')
    assert not agrees('a\n', 'ab\n')
    page = tmp_path / 'page.md'
    page.write_text('# One `two`: three\n\n```sh\n# no heading\n```\n## One\n## One\n')
    assert anchors_of(page) == {'one-two-three', 'one', 'one-1'}
