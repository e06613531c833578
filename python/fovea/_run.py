"""fovea.load: a run of `fovea train` as a torch module."""

import inspect
import json
import os
import pathlib
import warnings
import zlib
from typing import Any, Optional, Union

import safetensors.torch
import torch
import yaml

from fovea import models
from fovea._text import TOKENIZERS, Vocabulary


def load(run: Union[str, os.PathLike], checkpoint: Optional[str] = None) -> torch.nn.Module:
    """The model of a run as a torch module with its weights, on the CPU and in evaluation mode.

    Args:
        run: the directory that `fovea train` or `fovea import` made, or that `fovea export --format safetensors` did.
        checkpoint: "best", "last" or "step-N". None takes the best, or the last where none is marked as best, as the
            program does.

    Returns:
        A module of fovea.models: Transformer, Seq2Seq, ViT, DeiT, Swin, CCT, ResNet, NearestMean, MLP, NadarayaWatson
        or Pooling. `state_dict()` has the keys of the run's model.safetensors. What belongs to the weights is there as
        attributes: `source_vocab` and `target_vocab`, or `class_names`, or the scales; and `config`, the run's resolved
        settings. `translate`, `classify` and `predict` go from sentences, images and numbers to those.

    Raises FileNotFoundError where there is no run or checkpoint, and ValueError, with the file and what is wrong with
    it, for a damaged checkpoint, a setting that this package does not know, or weights of another model.
    """
    folder = _checkpoint(pathlib.Path(run), checkpoint)
    _verify(folder)
    config = yaml.safe_load((folder / 'config.yaml').read_text(encoding='utf-8'))
    settings = dict(config['model'])
    name = settings.pop('name')
    if name not in _MAKERS:
        raise ValueError(f'{folder}: model.name: expected one of {", ".join(_MAKERS)}, found {name!r}')
    model = _MAKERS[name](folder, settings, config['data'])
    averages = folder / 'ema.safetensors'  # with train.ema_decay: what is validated and used
    weights = averages if averages.exists() else folder / 'model.safetensors'
    try:
        model.load_state_dict(safetensors.torch.load_file(weights))
    except RuntimeError as error:
        raise ValueError(f'{weights}: these are not the weights of the model in config.yaml: {error}') from None
    model.config = config
    return model.eval()


def _checkpoint(run: pathlib.Path, which: Optional[str]) -> pathlib.Path:
    if (run / 'model.safetensors').exists() and which is None:
        return run  # a package, or a checkpoint itself
    checkpoints = run / 'checkpoints'
    if not checkpoints.is_dir():
        raise FileNotFoundError(f'{run}: expected a run of fovea, a directory with checkpoints; found '
                                + ('none there' if run.is_dir() else 'a file' if run.exists() else 'nothing there'))
    for name in ['best', 'last'] if which is None else [which]:
        marked = checkpoints / name
        if marked.is_file():  # where the file system has no links, a mark is a file with the name
            marked = checkpoints / marked.read_text().strip()
        if (marked / 'config.yaml').exists():
            return marked
    steps = sorted((p.name for p in checkpoints.glob('step-*')), key=lambda s: int(s[5:]) if s[5:].isdigit() else -1)
    if which is None and steps:
        warnings.warn(f'{checkpoints}: neither "best" nor "last" is there (a copy without links?): {steps[-1]} is used',
                      stacklevel=3)
        return checkpoints / steps[-1]
    raise FileNotFoundError(f'{checkpoints}: expected a checkpoint{" " + which if which else ""}, found '
                            + (', '.join(steps) or 'none'))


def _verify(folder: pathlib.Path) -> None:
    """Size and checksum of each file against the manifest, which a package has not."""
    if not (folder / 'manifest.json').exists():
        return
    for entry in json.loads((folder / 'manifest.json').read_text())['files']:
        path = folder / entry['name']
        if not path.exists():
            raise ValueError(f'{path}: the file is missing')
        data = path.read_bytes()
        if len(data) != entry['size']:
            raise ValueError(f'{path}: expected {entry["size"]} bytes, found {len(data)}')
        if zlib.crc32(data) != int(entry['crc32'], 16):
            raise ValueError(f'{path}: the file is damaged (its checksum does not fit)')


def _options(folder: pathlib.Path, settings: dict[str, Any], ours: set[str], of_training: set[str]) -> dict[str, Any]:
    """The settings that a module takes. One that is not known might change what the model computes."""
    unknown = settings.keys() - ours - of_training
    if unknown:
        raise ValueError(f'{folder / "config.yaml"}: this package does not know model.{min(unknown)}; '
                         'it is older than the program that trained the run')
    return {key: value for key, value in settings.items() if key in ours}


def _json(path: pathlib.Path, form: str) -> dict[str, Any]:
    data = json.loads(path.read_text(encoding='utf-8'))
    if data.get('format') != form:
        raise ValueError(f'{path}: expected the format "{form}", found {data.get("format")!r}')
    return data


def _takes(kind) -> set[str]:
    """The arguments of a module, those that it hands to its base included."""
    return {name for base in kind.__mro__ if issubclass(base, torch.nn.Module) and '__init__' in vars(base)
            for name in inspect.signature(base.__init__).parameters}


def _translator(kind):
    def make(folder, settings, data):
        options = _options(folder, settings, _takes(kind), {'layout', 'attention', 'label_smoothing'})
        tokenizer = dict(data.get('tokenizer') or {'name': 'words'})
        name = tokenizer.pop('name')
        if name not in TOKENIZERS or tokenizer:
            raise ValueError(f'{folder / "config.yaml"}: data.tokenizer: expected the name {" or ".join(TOKENIZERS)} '
                             f'and no more, found {data["tokenizer"]}')
        # Runs of 0.1 have no such key, and took characters as they were.
        text = name, data['lowercase'], data.get('unify_characters', False)
        source, target = (Vocabulary.load(folder / f'{side}.vocab', *text) for side in ('source', 'target'))
        model = kind(len(source), len(target), **options)
        model.source_vocab, model.target_vocab, model.num_steps = source, target, data['num_steps']
        return model
    return make


def _image_model(kind):
    def make(folder, settings, data):
        images = _json(folder / 'images.json', 'fovea-images-1')
        shape = images['channels'], images['height'], images['width']
        options = _options(folder, settings, _takes(kind), {'attention', 'label_smoothing', 'teacher', 'teacher_share',
                                                            'temperature', 'distillation'})
        model = kind(shape, len(images['classes']), **options)
        model.class_names, model.image_shape = images['classes'], shape
        model.mean, model.std = tuple(images['mean']), tuple(images['std'])
        return model
    return make


def _regressor(kind):
    def make(folder, settings, data):
        table = _json(folder / 'table.json', 'fovea-table-1')
        features, scales = table['features'], table['scales']
        takes = _takes(kind)
        options = _options(folder, settings, takes, set())
        if 'num_examples' in takes:
            options['num_examples'] = table['examples']
        model = kind(features, len(scales) - features, **options)
        mean, std = (torch.tensor([scale[key] for scale in scales], dtype=torch.float64) for key in ('mean', 'std'))
        model.feature_mean, model.target_mean = mean[:features], mean[features:]
        model.feature_std, model.target_std = std[:features], std[features:]
        return model
    return make


_MAKERS = {
    'transformer': _translator(models.Transformer), 'seq2seq': _translator(models.Seq2Seq),
    'vit': _image_model(models.ViT), 'deit': _image_model(models.DeiT),
    'swin': _image_model(models.Swin), 'cct': _image_model(models.CCT), 'resnet': _image_model(models.ResNet),
    'nearest_mean': _image_model(models.NearestMean), 'mlp': _regressor(models.MLP),
    'nadaraya_watson': _regressor(models.NadarayaWatson), 'pooling': _regressor(models.Pooling),
}
