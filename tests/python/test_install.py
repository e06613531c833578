"""`pip install .` in a fresh environment, and what the installed package says and does."""

import os
import re
import subprocess
import sys
import sysconfig
import venv

import pytest
from conftest import ROOT

FIXTURE = ROOT / 'tests' / 'fixtures' / 'v0.1' / 'run'
INSTALL = ['-m', 'pip', 'install', '--disable-pip-version-check', '--no-index', '--no-deps', '--no-build-isolation']


def environment(folder):
    venv.create(folder, with_pip=True)
    site = folder / 'lib' / f'python{sysconfig.get_python_version()}' / 'site-packages'
    return folder / 'bin' / 'python', site


def run(python, *args, cwd, **env):
    clean = {k: v for k, v in os.environ.items() if k not in ('PYTHONPATH', 'FOVEA_LIBRARY_DIR', 'LIBTORCH_ROOT')}
    return subprocess.run([python, *map(str, args)], cwd=cwd, env={**clean, **env}, text=True, capture_output=True,
                          timeout=900, check=False)


@pytest.fixture(scope='module')
def installed(tmp_path_factory):
    """The Python of an environment that has this one's packages and fovea, and its site-packages."""
    python, site = environment(tmp_path_factory.mktemp('installed') / 'env')
    here = [path for path in sys.path if path.endswith('site-packages')]
    (site / 'torch-that-is-there.pth').write_text('\n'.join(here) + '\n')
    done = run(python, *INSTALL, '-C', 'cmake.define.FOVEA_CUDA=OFF', ROOT, cwd=site)
    assert done.returncode == 0, done.stdout + done.stderr
    return python, site


def test_the_first_lines_of_the_documents_run(installed, tmp_path):
    text = (ROOT / 'docs' / 'python.md').read_text(encoding='utf-8')
    code, printed = re.search(r'```python\n(.*?)```\n+```text\n(.*?)```', text, re.DOTALL).groups()
    assert 5 <= len(code.splitlines()) <= 8
    done = run(installed[0], '-c', code, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, printed, '')


def test_it_needs_nothing_of_the_source_tree(installed, tmp_path):
    python, site = installed
    code = (f'import fovea; print(fovea.__file__, fovea.__version__); '
            f'print(fovea.load({str(FIXTURE)!r}).translate("ha di ha"))')
    done = run(python, '-c', code, cwd=tmp_path)
    file, version, *translation = done.stdout.split(maxsplit=2)
    assert file == str(site / 'fovea' / '__init__.py'), done.stderr
    assert f'VERSION {version}\n' in (ROOT / 'CMakeLists.txt').read_text() and translation == ["['hax dix']\n"]
    assert (site / 'fovea' / 'py.typed').exists() and list((site / 'fovea' / 'lib').glob('libfovea_ops.so'))
    libraries = subprocess.run(['ldd', site / 'fovea' / 'lib' / 'libfovea_ops.so'], text=True, capture_output=True,
                               check=True).stdout
    assert str(ROOT / 'build') not in libraries and 'not found' not in libraries


def test_another_torch_is_refused(installed, tmp_path):
    python, site = installed
    stamp = site / 'fovea' / 'lib' / 'torch_version.txt'
    built = stamp.read_text()
    try:
        stamp.write_text('2.6.0\n')
        done = run(python, '-c', 'import fovea', cwd=tmp_path)
        assert f'compiled for torch 2.6.0, and this is torch {built.strip()}' in done.stderr
        assert 'pip install --force-reinstall' in done.stderr
    finally:
        stamp.write_text(built)


def test_what_is_missing_is_named(installed, tmp_path):
    # Highway, as if the system's folders were not there.
    done = run(installed[0], *INSTALL, '-C', 'cmake.define.CMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF', ROOT, cwd=tmp_path,
               CPATH='')
    assert done.returncode != 0 and 'apt install libhwy-dev' in done.stdout + done.stderr

    # torch: an environment that has the build's tools only.
    python, site = environment(tmp_path / 'bare')
    tools = tmp_path / 'tools'
    tools.mkdir()
    for name in ('scikit_build_core', 'packaging', 'pathspec'):
        module = __import__(name)
        (tools / name).symlink_to(os.path.dirname(module.__file__))
    (site / 'tools.pth').write_text(f'{tools}\n')
    done = run(python, *INSTALL, ROOT, cwd=tmp_path)
    assert done.returncode != 0 and '-m pip install torch' in done.stdout + done.stderr

    done = run(python, '-c', 'import fovea', cwd=tmp_path, PYTHONPATH=str(ROOT / 'python'))
    assert "No module named 'torch'" in done.stderr
    done = run(installed[0], '-c', 'import fovea', cwd=tmp_path, PYTHONPATH=str(ROOT / 'python'))
    assert 'pip install .' in done.stderr and 'libfovea_ops.so' in done.stderr
