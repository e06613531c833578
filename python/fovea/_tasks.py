"""What a trained model of each task can do beside its forward pass. The models of fovea.models inherit these."""

from typing import Iterable, Optional, Sequence, Union

import torch
from torch import Tensor

from fovea._text import Vocabulary


def _require(value, what: str):
    if value is None:
        raise RuntimeError(f'this model has no {what}: fovea.load(RUN) brings them')
    return value


class Translator:
    """Attributes of a loaded model: source_vocab, target_vocab, num_steps (the longest sequence in training)."""

    source_vocab: Optional[Vocabulary] = None
    target_vocab: Optional[Vocabulary] = None
    num_steps: Optional[int] = None

    @torch.no_grad()
    def translate(self, sentences: Union[str, Sequence[str]], *, max_len: Optional[int] = None,
                  batch_size: int = 64) -> list[str]:
        """The translation of each sentence by greedy search, as `fovea translate` gives it.

        A source is cut to num_steps tokens, a translation has up to max_len (num_steps by default). A blank sentence
        has an empty translation. Needs evaluation mode, in which fovea.load() leaves a model.
        """
        vocab, steps = _require(self.source_vocab, 'vocabularies'), _require(self.num_steps, 'vocabularies')
        sentences = [sentences] if isinstance(sentences, str) else list(sentences)
        rows = [vocab.encode(sentence)[:steps - 1] for sentence in sentences]
        # Sentences of like length together: little padding, and short ones do not wait for long ones.
        order = sorted((i for i, row in enumerate(rows) if row), key=lambda i: -len(rows[i]))
        translations = [''] * len(sentences)
        for begin in range(0, len(order), batch_size):
            batch = order[begin:begin + batch_size]
            for i, ids in zip(batch, self._greedy([rows[i] + [vocab.eos] for i in batch], max_len or steps)):
                translations[i] = self.target_vocab.decode(ids)
        return translations

    def _greedy(self, rows: list[list[int]], max_len: int) -> list[list[int]]:
        device, special = self.decoder.dense.weight.device, self.target_vocab
        longest = max(map(len, rows))
        source = torch.tensor([row + [self.source_vocab.pad] * (longest - len(row)) for row in rows], device=device)
        lens = torch.tensor([len(row) for row in rows], device=device)
        encoded, cache = self.encoder(source, lens), []
        never = torch.tensor([special.pad, special.bos, special.unk], device=device)
        token, tokens = torch.full((len(rows), 1), special.bos, device=device), []
        ended = torch.zeros(len(rows), 1, dtype=torch.bool, device=device)
        for _ in range(max_len):
            logits = self.decoder(token, encoded, lens, cache)[:, -1].index_fill(1, never, -torch.inf)
            token = logits.argmax(1, keepdim=True)
            tokens.append(token)
            ended = ended | (token == special.eos)
            if ended.all():
                break
        return torch.cat(tokens, 1).tolist()


class Classifier:
    """Attributes of a loaded model: class_names, image_shape (channels, height, width), and the mean and std of each
    channel by which images are normalised."""

    class_names: Optional[list[str]] = None
    image_shape: Optional[tuple[int, int, int]] = None
    mean: Optional[tuple[float, ...]] = None
    std: Optional[tuple[float, ...]] = None

    def preprocess(self, images: Tensor) -> Tensor:
        """What the model takes: float32 (batch, channels, height, width), of its size and normalised.

        images: bytes from 0 to 255, or floats from 0 to 1; (batch, channels, h, w) of any h and w, or one image without
        the first axis. Bytes are resized to the bit as fovea and Pillow do it.
        """
        channels, height, width = _require(self.image_shape, 'class names and scales')
        images = torch.as_tensor(images)
        images = images.unsqueeze(0) if images.dim() == 3 else images
        if images.dim() != 4 or images.shape[1] != channels:
            raise ValueError(f'expected images of (batch, {channels}, height, width), got {tuple(images.shape)}')
        is_bytes = images.dtype == torch.uint8
        if not is_bytes and not images.is_floating_point():
            raise TypeError(f'expected bytes from 0 to 255 or floats from 0 to 1, got {images.dtype}')
        x = images.float()
        if not is_bytes and not ((x >= 0) & (x <= 1)).all():
            raise ValueError(f'expected floats from 0 to 1, got {x.min():.4g} to {x.max():.4g}')
        if tuple(images.shape[2:]) != (height, width):
            x = _resize_bytes(images, height, width) if is_bytes else torch.nn.functional.interpolate(
                x, (height, width), mode='bilinear', antialias=True)
        x = x / 255 if is_bytes else x
        mean, std = (torch.tensor(t, dtype=x.dtype, device=x.device).view(-1, 1, 1) for t in (self.mean, self.std))
        return (x - mean) / std

    @torch.no_grad()
    def classify(self, images: Tensor) -> list[tuple[str, float]]:
        """The likeliest class of each image and its probability; images as preprocess() takes them."""
        device = next(iter(self.state_dict().values())).device
        best = self(self.preprocess(images).to(device)).softmax(1).max(1)
        return [(self.class_names[i], p) for i, p in zip(best.indices.tolist(), best.values.tolist())]


def _resize_bytes(images: Tensor, height: int, width: int) -> Tensor:
    """Pillow's bilinear resizing. Products and sums of whole numbers, which doubles hold exactly."""

    def triangles(before: int, after: int) -> Tensor:  # (after, before), with 22 bits after the point
        scale = before / after
        centres = (torch.arange(after, dtype=torch.float64, device=images.device) + 0.5) * scale
        places = torch.arange(before, dtype=torch.float64, device=images.device) + 0.5
        weights = (1.0 - (places - centres.unsqueeze(1)).abs() / max(scale, 1.0)).clamp(min=0.0)
        return (weights / weights.sum(1, keepdim=True) * 4194304.0 + 0.5).floor()

    def rounded(x: Tensor) -> Tensor:
        return ((x + 2097152.0) / 4194304.0).floor().clamp(0.0, 255.0)

    x = images.double()
    down, across = triangles(images.shape[2], height), triangles(images.shape[3], width).t()
    lost_rows, lost_columns = images.shape[2] - height, images.shape[3] - width
    if lost_rows > 0 and lost_rows > 2 * lost_columns:  # Pillow's order where the height loses much more
        return rounded(rounded(down @ x) @ across).float()
    return rounded(down @ rounded(x @ across)).float()


class Regressor:
    """Attributes of a loaded model: the mean and std, float64, of each feature and of each target in the training rows,
    by which they are standardised: feature_mean, feature_std, target_mean, target_std."""

    feature_mean: Optional[Tensor] = None
    feature_std: Optional[Tensor] = None
    target_mean: Optional[Tensor] = None
    target_std: Optional[Tensor] = None

    @torch.no_grad()
    def predict(self, rows: Union[Tensor, Iterable[Sequence[float]]]) -> Tensor:
        """Rows of features -> float64 (rows, targets), both in the units of the data."""
        mean = _require(self.feature_mean, 'scales')
        x = torch.as_tensor(rows, dtype=torch.float64)
        if x.dim() != 2 or x.shape[1] != len(mean):
            raise ValueError(f'expected rows of {len(mean)} numbers, got a shape of {tuple(x.shape)}')
        weight = next(iter(self.state_dict().values()))
        y = self(((x.cpu() - mean) / self.feature_std).to(weight.device, weight.dtype))
        return y.cpu().double() * self.target_std + self.target_mean
