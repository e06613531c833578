"""scripts/check_includes.py: each rule refuses what it is there for, and the project keeps all of them."""

import importlib.util
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location('check_includes', ROOT / 'scripts/check_includes.py')
check_includes = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_includes)


def problems(root, files):
    """What the check says of a project of these files, {path: the one include in it or ''}."""
    for path, include in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f'#include {include}\n' if include else '')
    return check_includes.check(root)[1]


def test_the_project_keeps_the_rules():
    count, found = check_includes.check(ROOT)
    assert found == []
    assert count > 200


@pytest.mark.parametrize('path, include, target, reason', [
    ('src/fovea/nn/a.h', '"fovea/data/b.h"', 'src/fovea/data/b.h', 'nn may not include data'),
    ('src/fovea/ops/cuda/a.cuh', '"fovea/core/b.h"', 'src/fovea/core/b.h', 'ops may not include core'),
    ('src/fovea/ops/cuda/a.cu', '"tests/ops/b.h"', 'tests/ops/b.h', 'ops includes nothing of tests'),
    ('src/fovea/train/a.cpp', '"fovea/tasks/task.h"', 'src/fovea/tasks/task.h', 'train may not include tasks'),
    ('src/fovea/export/a.cpp', '"fovea/tasks/task.h"', 'src/fovea/tasks/task.h', 'export may not include tasks'),
    ('src/fovea/tasks/a.h', '"models/b.h"', 'models/b.h', 'tasks may not include models'),
    ('src/fovea/tasks/x/a.h', '"fovea/tasks/y/b.h"', 'src/fovea/tasks/y/b.h', 'x does not know the task y'),
    ('src/fovea/tasks/task.h', '"fovea/tasks/y/b.h"', 'src/fovea/tasks/y/b.h', 'only tasks.h knows the tasks'),
    ('src/cli/a.cpp', '"fovea/tasks/y/b.h"', 'src/fovea/tasks/y/b.h', 'cli includes of tasks/ only the headers'),
    ('src/cli/a.cpp', '"models/b.h"', 'models/b.h', 'cli may not include models'),
    ('src/fovea/rooms/a.h', '"fovea/core/b.h"', 'src/fovea/core/b.h', "'rooms' is no layer"),
    ('tests/a.cpp', '"fovea/core/c.h"', 'src/fovea/core/b.h', 'there is no such file'),
    ('src/fovea/core/a.h', '<torch/torch.h>', 'src/fovea/core/b.h', 'core is built without LibTorch'),
])
def test_what_breaks_a_rule_is_named(tmp_path, path, include, target, reason):
    found = problems(tmp_path, {path: include, target: ''})
    assert len(found) == 1
    assert found[0].startswith(f'{path}:1: ')
    assert reason in found[0]


@pytest.mark.parametrize('path, include, target', [
    ('src/fovea/tasks/x/a.h', '"fovea/export/b.h"', 'src/fovea/export/b.h'),
    ('src/fovea/tasks/x/sub/a.h', '"fovea/tasks/x/b.h"', 'src/fovea/tasks/x/b.h'),
    ('src/fovea/tasks/tasks.h', '"fovea/tasks/x/task.h"', 'src/fovea/tasks/x/task.h'),
    ('src/cli/a.cpp', '"fovea/tasks/task.h"', 'src/fovea/tasks/task.h'),
    ('src/cli/a.cpp', '"b.h"', 'src/cli/b.h'),
    ('src/cli/main.cpp', '"models/b.h"', 'models/b.h'),
    ('models/a.cpp', '"fovea/tasks/x/b.h"', 'src/fovea/tasks/x/b.h'),
    ('tests/a.cpp', '"models/b.h"', 'models/b.h'),
])
def test_what_keeps_the_rules_passes(tmp_path, path, include, target):
    assert problems(tmp_path, {path: include, target: ''}) == []
