"""Residual networks (He et al. 2016; d2l 8.6)."""

from typing import Sequence

from torch import Tensor, nn

from fovea._tasks import Classifier


class Residual(nn.Module):
    """d2l's: two convolutions, each with a batch norm, and the input added before the last ReLU."""

    def __init__(self, in_channels: int, num_channels: int, use_1x1conv: bool, stride: int,
                 use_bias: bool = True, shortcut_norm: bool = False):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, num_channels, 3, stride, 1, bias=use_bias)
        self.conv2 = nn.Conv2d(num_channels, num_channels, 3, 1, 1, bias=use_bias)
        self.conv3 = nn.Conv2d(in_channels, num_channels, 1, stride, bias=use_bias) if use_1x1conv else None
        self.bn3 = nn.BatchNorm2d(num_channels) if use_1x1conv and shortcut_norm else None
        self.bn1, self.bn2 = nn.BatchNorm2d(num_channels), nn.BatchNorm2d(num_channels)

    def forward(self, X: Tensor) -> Tensor:
        Y = self.bn2(self.conv2(self.bn1(self.conv1(X)).relu()))
        X = X if self.conv3 is None else self.conv3(X)
        return (Y + (X if self.bn3 is None else self.bn3(X))).relu()


class ResNet(Classifier, nn.Module):
    """Images (batch, channels, height, width), normalised -> logits (batch, num_classes). The defaults are
    ResNet-18."""

    def __init__(self, image_shape: Sequence[int], num_classes: int, stem: str = 'large',
                 channels: Sequence[int] = (64, 128, 256, 512), num_residuals: int = 2,
                 use_bias: bool = True, shortcut_norm: bool = False):
        super().__init__()
        if stem not in ('large', 'small'):
            raise ValueError(f"stem: expected large or small, got {stem!r}")
        width = channels[0]
        first = [nn.Conv2d(image_shape[0], width, 7, 2, 3, bias=use_bias) if stem == 'large' else
                 nn.Conv2d(image_shape[0], width, 3, 1, 1, bias=use_bias), nn.BatchNorm2d(width), nn.ReLU()]
        self.net = nn.Sequential(nn.Sequential(*first, *([nn.MaxPool2d(3, 2, 1)] if stem == 'large' else [])))
        for group, num_channels in enumerate(channels):
            blocks = []
            for i in range(num_residuals):
                halves = i == 0 and group > 0
                blocks.append(Residual(width, num_channels, halves, 2 if halves else 1, use_bias, shortcut_norm))
                width = num_channels
            self.net.add_module(f'b{group + 2}', nn.Sequential(*blocks))
        self.net.add_module('last', nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, num_classes)))

    def forward(self, X: Tensor) -> Tensor:
        return self.net(X)
