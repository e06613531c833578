"""Classifies images with a file that `fovea export RUN -o model.pt` wrote. Needs torch, and nothing of fovea.

    python classify.py model.pt boot.pgm shirt.ppm

Images are binary PGM (gray) or PPM (colour); with Pillow at hand, `torch.tensor(numpy.array(image))` does as well.
They may have any size: the model brings its resizing and normalisation along.
"""

import argparse
import re

import torch


def read_pnm(path):
    """A P5 or P6 file of 8 bits: uint8 (1 or 3, height, width)."""
    with open(path, 'rb') as file:
        data = file.read()
    header = re.match(rb'P([56])(?:\s|#[^\n]*\n)+(\d+)(?:\s|#[^\n]*\n)+(\d+)(?:\s|#[^\n]*\n)+255\s', data)
    if not header:
        raise SystemExit(f'{path}: expected a binary PGM or PPM file of 8 bits')
    kind, width, height = map(int, header.groups())
    channels = 1 if kind == 5 else 3
    if len(data) - header.end() < height * width * channels:
        raise SystemExit(f'{path}: the file is cut short')
    pixels = torch.frombuffer(bytearray(data), dtype=torch.uint8, offset=header.end(), count=height * width * channels)
    return pixels.view(height, width, channels).permute(2, 0, 1)


def with_channels(image, channels):
    """Gray as colour, or colour as gray in the usual weights."""
    if len(image) < channels:
        return image.expand(channels, -1, -1)
    if len(image) > channels:
        weights = torch.tensor([19595, 38470, 7471]).view(3, 1, 1)
        return ((image * weights).sum(0, keepdim=True) + 32768).div(65536, rounding_mode='floor').to(torch.uint8)
    return image


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description='Classify images with an exported model, a line for an image.')
    parser.add_argument('model')
    parser.add_argument('image', nargs='+', help='binary PGM or PPM files')
    args = parser.parse_args()
    model = torch.jit.load(args.model, map_location='cpu')
    for path in args.image:
        image = with_channels(read_pnm(path), model.channels)
        with torch.no_grad():
            probabilities = model(image.unsqueeze(0)).softmax(1)[0]
        best = int(probabilities.argmax())
        print(f'{path}\t{model.class_names[best]}\t{probabilities[best]:.4f}')
