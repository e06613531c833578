"""Classifies images with a file that `fovea export RUN -o model.pt` wrote. Needs torch, and nothing of fovea.

    python classify.py model.pt boot.png shirt.ppm

Images are PNG (8 bits, not interlaced) or binary PGM and PPM; with Pillow at hand, `torch.tensor(numpy.array(image))`
does for any other. They may have any size: the model brings its resizing and normalisation along. What is transparent
is laid on white, or on black where nothing would be seen on white, as `fovea classify` does.
"""

import argparse
import re
import struct
import sys
import zlib

try:
    import torch
except ImportError as error:
    sys.exit(f'error: {error}; this example needs torch as pip installs it (here: scripts/setup --full)')


def read_png(path, data):
    """uint8 (1 or 3, height, width), upright and without transparency."""
    at, pixels, palette, transparent, orientation = 8, b'', None, None, 1
    try:
        while at < len(data):
            size, kind = struct.unpack_from('>I4s', data, at)
            chunk = data[at + 8:at + 8 + size]
            if zlib.crc32(kind + chunk) != struct.unpack_from('>I', data, at + 8 + size)[0]:
                raise SystemExit(f'{path}: the file is damaged')
            if kind == b'IHDR':
                width, height, depth, colour, _, _, interlaced = struct.unpack('>IIBBBBB', chunk)
            elif kind == b'PLTE':
                palette = torch.frombuffer(bytearray(chunk), dtype=torch.uint8).view(-1, 3)
            elif kind == b'tRNS':
                transparent = chunk
            elif kind == b'eXIf':
                orientation = exif_orientation(chunk)
            elif kind == b'IDAT':
                pixels += chunk
            at += 12 + size
        if depth != 8 or interlaced:
            raise SystemExit(f'{path}: only PNG files of 8 bits that are not interlaced are read here')
        channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]
        filtered, row = zlib.decompress(pixels), bytes(width * channels)
        rows = []
        for y in range(height):
            start = y * (len(row) + 1)
            row = unfilter(filtered[start], filtered[start + 1:start + 1 + len(row)], row, channels)
            rows.append(row)
    except (struct.error, zlib.error, IndexError, KeyError, UnboundLocalError) as error:
        raise SystemExit(f'{path}: the file is damaged ({error})') from None
    image = torch.frombuffer(bytearray(b''.join(rows)), dtype=torch.uint8).view(height, width, channels)
    image, alpha = (image[..., :-1], image[..., -1:]) if colour in (4, 6) else (image, None)
    if transparent is not None and colour == 3:  # an alpha for each colour, the last ones opaque
        alphas = torch.tensor(list(transparent) + [255] * (256 - len(transparent)), dtype=torch.uint8)
        alpha = alphas[image.long()]
    elif transparent is not None:  # one colour, in numbers of 16 bits
        alpha = (image != torch.tensor(list(transparent[1::2]), dtype=torch.uint8)).any(2, keepdim=True) * 255
    if colour == 3:
        image = palette[image.squeeze(2).long()]
    return upright((image if alpha is None else laid_on_paper(image, alpha)).permute(2, 0, 1), orientation)


def laid_on_paper(image, alpha):
    """What is seen of an image on white; on black where nothing would be seen on white."""
    for paper in (255, 0):
        seen = (image.int() * alpha.int() + paper * (255 - alpha.int()) + 127).div(255, rounding_mode='floor')
        if (seen != 255).any():
            break
    return seen.to(torch.uint8)


def exif_orientation(data):
    """Which side is up, 1 to 8, as EXIF data tell in their first directory."""
    order = '<' if data.startswith(b'II') else '>'
    try:
        at, = struct.unpack_from(order + 'I', data, 4)
        for i in range(*struct.unpack_from(order + 'H', data, at)):
            tag, kind, _, value = struct.unpack_from(order + 'HHIH', data, at + 2 + 12 * i)
            if (tag, kind) == (0x0112, 3) and 1 <= value <= 8:
                return value
    except struct.error:
        pass
    return 1


def upright(image, orientation):
    """(channels, height, width) of pixels with this EXIF orientation."""
    if orientation >= 5:
        image = image.transpose(1, 2)
    return image.flip({2: [2], 3: [1, 2], 4: [1], 6: [2], 7: [1, 2], 8: [1]}.get(orientation, []))


def unfilter(kind, row, above, step):
    """A row of a PNG image, out of its differences to the left, the upper, and the upper left neighbours."""
    row = bytearray(row)
    for i, value in enumerate(row):
        left, up, corner = (row[i - step], above[i], above[i - step]) if i >= step else (0, above[i], 0)
        nearest = min((left, up, corner), key=lambda x: abs(left + up - corner - x))
        row[i] = (value + (0, left, up, (left + up) // 2, nearest)[kind]) & 255
    return bytes(row)


def read_image(path):
    """uint8 (1 or 3, height, width)"""
    try:
        with open(path, 'rb') as file:
            data = file.read()
    except OSError as error:
        raise SystemExit(f'{path}: {error.strerror}') from None
    return read_png(path, data) if data.startswith(b'\x89PNG\r\n\x1a\n') else read_pnm(path, data)


def read_pnm(path, data):
    """A P5 or P6 file of 8 bits."""
    header = re.match(rb'P([56])(?:\s|#[^\n]*\n)+(\d+)(?:\s|#[^\n]*\n)+(\d+)(?:\s|#[^\n]*\n)+255\s', data)
    if not header:
        raise SystemExit(f'{path}: expected a PNG file, or a binary PGM or PPM file of 8 bits')
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
    parser.add_argument('image', nargs='+', help='PNG, PGM or PPM files')
    args = parser.parse_args()
    model = torch.jit.load(args.model, map_location='cpu')
    for path in args.image:
        image = with_channels(read_image(path), model.channels)
        with torch.no_grad():
            probabilities = model(image.unsqueeze(0)).softmax(1)[0]
        best = int(probabilities.argmax())
        print(f'{path}\t{model.class_names[best]}\t{probabilities[best]:.4f}')
