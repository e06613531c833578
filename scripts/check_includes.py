"""Checks that includes point one way: a layer includes only itself and the layers below it (CONTRIBUTING.md).

usage: check_includes.py [ROOT]

Reads every header and source of src, models, tests, benchmarks and examples. Prints one line for each include that
breaks a rule. Exit status 1 if there is any.
"""

import pathlib
import re
import sys

# layer: the layers right below it. What lies below those may be included as well.
BELOW = {
    'core': [],
    'config': ['core'],
    'ops': [],
    'nn': ['ops', 'core'],
    'data': ['nn', 'config'],
    'decode': ['data'],
    'metrics': ['data'],
    'train': ['decode', 'metrics'],
    'export': ['train'],
    'tasks': ['export'],
    'plot': ['tasks'],
    'sweep': ['plot'],
    'serve': ['tasks'],
    'models': ['tasks'],
    'cli': ['sweep', 'serve'],
    'program': ['cli', 'models'],  # src/cli/main.cpp, which puts both together
}
# These know no single task: of tasks/ they include only the headers at its top, such as tasks/task.h.
KNOW_NO_TASK = {'plot', 'sweep', 'serve', 'cli', 'program'}
# Building these needs no LibTorch.
WITHOUT_TORCH = {'core', 'config'}

SOURCES = {'.h', '.cpp', '.cu', '.cuh'}
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<((?:torch|ATen|c10)/[^>]+)>)')


def closure(layer):
    """The layers that a layer may include, itself among them."""
    return {layer}.union(*map(closure, BELOW[layer]))


ALLOWED = {layer: closure(layer) for layer in BELOW}


def layer_of(path):
    """The layer of a path below the root, such as src/fovea/nn/linear.h; None for tests, benchmarks and examples."""
    parts = path.split('/')
    if path == 'src/cli/main.cpp':
        return 'program'
    if parts[0] == 'models':
        return 'models'
    if parts[:2] == ['src', 'cli']:
        return 'cli'
    return parts[2] if parts[:2] == ['src', 'fovea'] and len(parts) > 3 else None


def task_of(path):
    """The task folder that a path lies in: translation of src/fovea/tasks/translation/spec.h; None at the top."""
    parts = path.split('/')
    return parts[3] if parts[:3] == ['src', 'fovea', 'tasks'] and len(parts) > 4 else None


def resolve(root, path, included):
    """The path below the root that `#include "included"` in `path` stands for; None where there is no such file."""
    folder = path.rsplit('/', 1)[0]
    for candidate in (f'src/{included}', included, f'{folder}/{included}'):
        if '..' not in candidate.split('/') and (root / candidate).is_file():
            return candidate
    return None


def problem_of(path, target):
    """What is wrong when `path` includes `target`, in words; None if it may."""
    layer, below = layer_of(path), layer_of(target)
    if layer is None:
        return None  # tests and benchmarks may use everything
    if layer not in ALLOWED:
        return f"'{layer}' is no layer: scripts/check_includes.py lists them"
    if below is None:
        return f'{layer} includes nothing of {target.split("/")[0]}'
    if below not in ALLOWED[layer]:
        return f'{layer} may not include {below}'
    if layer in KNOW_NO_TASK and task_of(target):
        return f'{layer} includes of tasks/ only the headers at its top'
    if layer == 'tasks' and task_of(target) not in (None, task_of(path)):
        if task_of(path):
            return f'the task {task_of(path)} does not know the task {task_of(target)}'
        if path != 'src/fovea/tasks/tasks.h':
            return 'at the top of tasks/ only tasks.h knows the tasks'
    return None


def check_file(root, path):
    """A line for each include of a file that breaks a rule."""
    problems = []
    for number, line in enumerate((root / path).read_text(encoding='utf-8').splitlines(), 1):
        found = INCLUDE.match(line)
        if not found:
            continue
        included, torch = found.groups()
        if torch:
            layer = layer_of(path)
            problem = f'{layer} is built without LibTorch' if layer in WITHOUT_TORCH else None
        else:
            target = resolve(root, path, included)
            problem = problem_of(path, target) if target else 'there is no such file below src or the root'
        if problem:
            problems.append(f'{path}:{number}: {included or torch}: {problem}')
    return problems


def check(root):
    """(number of files, the problems)."""
    files = sorted(file.relative_to(root).as_posix()
                   for folder in ('src', 'models', 'tests', 'benchmarks', 'examples')
                   for file in (root / folder).rglob('*') if file.suffix in SOURCES)
    return len(files), [problem for path in files for problem in check_file(root, path)]


def main(arguments):
    root = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).parents[1]).resolve()
    count, problems = check(root)
    if count == 0:
        problems = [f'{root}: there are no sources']
    print('\n'.join(problems) if problems else f'{count} files include only what lies below them')
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
