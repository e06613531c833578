"""Trains the Python twin of the vision Transformer in d2l's setting and prints what it reaches after each epoch.

    python scripts/reference/train_vit.py /usr/share/datasets/fashion-mnist [--max-epochs 10] [--seed 0]

The setting is that of chapter 11.8 and of configs/vit_d2l.yaml: Fashion-MNIST at 96 x 96 in patches of 16 x 16, 512
hidden units, 2048 in the dense layers, 8 heads, 2 blocks, dropouts of 0.1, batches of 128, SGD with learning rate 0.1.
Accuracy is that on the 10,000 test images, which the book validates on. Images are resized before training, so that the
time is that of the steps.
"""

import argparse
import gzip
import pathlib
import time

import numpy as np
import torch
from PIL import Image
from torch import nn

from vit import ViT


def read(folder, part, size):
    """uint8 (n, 1, size, size), resized as transforms.Resize does, and int64 (n)."""
    with gzip.open(folder / f'{part}-images-idx3-ubyte.gz') as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 28, 28)
    with gzip.open(folder / f'{part}-labels-idx1-ubyte.gz') as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    resized = np.stack([Image.fromarray(image).resize((size, size), Image.BILINEAR) for image in images])
    return torch.from_numpy(resized).unsqueeze(1), torch.from_numpy(labels.astype(np.int64))


def fit_epoch(model, optimizer, images, labels, batch_size):
    """The mean loss of the epoch, measured while training."""
    model.train()
    total = 0.0
    for batch in torch.randperm(len(images)).split(batch_size):
        loss = nn.functional.cross_entropy(model(images[batch] / 255), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(batch)
    return total / len(images)


@torch.no_grad()
def accuracy(model, images, labels, batch_size):
    model.eval()
    right = [(model(x / 255).argmax(1) == y).sum() for x, y in zip(images.split(batch_size), labels.split(batch_size))]
    return sum(right).item() / len(images)


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description='Train the twin of the ViT in the setting of the book.')
    parser.add_argument('folder', type=pathlib.Path, help='the four .gz files of Fashion-MNIST')
    parser.add_argument('--max-epochs', type=int, default=10)
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--threads', type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    train, test = read(args.folder, 'train', 96), read(args.folder, 't10k', 96)
    model = ViT()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seconds = 0.0
    for epoch in range(1, args.max_epochs + 1):
        start = time.perf_counter()
        loss = fit_epoch(model, optimizer, *train, batch_size=128)
        seconds += time.perf_counter() - start
        print(f'epoch {epoch:2}  loss {loss:.4f}  test accuracy {accuracy(model, *test, 256):.4f}  {seconds:.0f} s',
              flush=True)
