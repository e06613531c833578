"""Writes tests/golden/images.safetensors: images that this script makes up, and what PIL makes of them.

    python scripts/reference/make_image_golden.py [--out tests/golden]

tests/golden/README.md says what is in the file. Its bytes depend on Pillow's version only.
"""

import argparse
import io
import pathlib

import numpy as np
import torch
from PIL import Image, ImageOps

from make_golden import Golden

# (channels, height, width) -> (height, width)
RESIZES = {
    'wider': ((1, 28, 28), (96, 96)),
    'smaller': ((1, 28, 28), (14, 14)),
    'odd': ((3, 31, 17), (13, 40)),
    'across_only': ((1, 9, 37), (9, 50)),
    'down_only': ((1, 37, 9), (11, 9)),
    'one_pixel': ((3, 1, 1), (5, 4)),
    'to_one_pixel': ((1, 23, 40), (1, 1)),
    'lower': ((1, 40, 30), (10, 24)),  # Pillow 13 goes down first here and in 'odd'
    'lower_and_narrower': ((1, 40, 40), (20, 30)),  # and not quite here
    'much_smaller': ((1, 100, 150), (7, 16)),
    'same': ((1, 12, 13), (12, 13)),
}


def picture(channels, height, width, seed):
    """Uint8 (height, width, channels): waves and noise, and areas at both ends of the scale."""
    rng = np.random.default_rng(seed)
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(channels), indexing='ij')
    waves = 127.5 + 127.5 * np.sin(x / 3 + c) * np.cos(y / 4 - c)
    pixels = np.clip(waves + rng.normal(0, 60, waves.shape), 0, 255)
    return pixels.astype(np.uint8)


def to_pil(pixels):
    return Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)


def planes(image):
    """A PIL image as uint8 (channels, height, width)."""
    array = np.asarray(image)
    return torch.from_numpy(array.reshape(*array.shape[:2], -1).transpose(2, 0, 1).copy())


def encoded(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def exif(orientation):
    tags = Image.Exif()
    tags[0x0112] = orientation
    return tags


def seen(image):
    """An RGB image: upright, and what is transparent on white; on black where nothing would be seen on white."""
    image = ImageOps.exif_transpose(image).convert('RGBA')
    for paper in ('white', 'black'):
        page = Image.new('RGB', image.size, paper)
        page.paste(image.convert('RGB'), mask=image.getchannel('A'))
        if page.getextrema() != ((255, 255),) * 3:
            break
    return page


def interlaced_png():
    """PIL writes none, so an 8 x 8 gray one (Adam7) is put together here."""
    import struct
    import zlib
    gray = picture(1, 8, 8, 3)[..., 0]
    starts = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
    rows = b''.join(b'\0' + row.tobytes() for y, x, dy, dx in starts for row in gray[y::dy, x::dx])

    def chunk(kind, data):
        return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))

    header = struct.pack('>IIBBBBB', 8, 8, 8, 0, 0, 0, 1)
    return (b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', header) + chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b''))


def files():
    """name -> the bytes of a file."""
    rgb, gray = to_pil(picture(3, 13, 11, 0)), to_pil(picture(1, 13, 11, 1))
    alpha = to_pil(picture(1, 13, 11, 2))
    palette = rgb.quantize(16)
    with_alpha, gray_alpha = rgb.copy(), gray.copy()
    with_alpha.putalpha(alpha)
    gray_alpha.putalpha(alpha)
    only_alpha, white = (Image.new('RGBA', rgb.size, colour) for colour in ('black', 'white'))
    only_alpha.putalpha(alpha)
    white.putalpha(alpha)
    opaque = rgb.copy()
    opaque.putalpha(255)
    smooth = to_pil(picture(3, 8, 6, 4)).resize((45, 50), Image.Resampling.BICUBIC)
    return {
        'png_rgb': encoded(rgb, 'PNG'),
        'png_gray': encoded(gray, 'PNG'),
        'png_rgba': encoded(with_alpha, 'PNG'),
        'png_gray_alpha': encoded(gray_alpha, 'PNG'),
        'png_palette': encoded(palette, 'PNG', bits=4),
        'png_palette_transparent': encoded(palette, 'PNG', transparency=3),
        'png_gray_transparent': encoded(gray, 'PNG', transparency=gray.getpixel((4, 5))),
        'png_rgb_transparent': encoded(rgb, 'PNG', transparency=rgb.getpixel((4, 5))),
        'png_only_alpha': encoded(only_alpha, 'PNG'),
        'png_white_on_nothing': encoded(white, 'PNG'),
        'png_opaque': encoded(opaque, 'PNG'),
        'png_orientation_6': encoded(rgb, 'PNG', exif=exif(6)),
        'png_black_white': encoded(gray.convert('1'), 'PNG'),
        'png_interlaced': interlaced_png(),
        'jpeg_gray': encoded(gray, 'JPEG'),
        'jpeg_full': encoded(smooth, 'JPEG', subsampling=0, quality=95),
        'jpeg_subsampled': encoded(smooth, 'JPEG', subsampling=2),
        'jpeg_progressive': encoded(smooth, 'JPEG', progressive=True),
    } | {
        f'jpeg_orientation_{i}': encoded(smooth, 'JPEG', subsampling=0, exif=exif(i)) for i in range(1, 9)
    }


def make():
    golden = Golden('images')
    for i, (name, ((channels, height, width), (new_height, new_width))) in enumerate(RESIZES.items()):
        pixels = picture(channels, height, width, 10 + i)
        resized = to_pil(pixels).resize((new_width, new_height), Image.Resampling.BILINEAR)
        golden.add_case(f'resize_{name}', {}, input={'image': planes(pixels)}, output={'image': planes(resized)})
    for name, data in files().items():
        image = seen(Image.open(io.BytesIO(data)))
        golden.add_case(name, {}, input={'file': torch.frombuffer(bytearray(data), dtype=torch.uint8)},
                        output={mode: planes(image.convert(mode)) for mode in ('L', 'RGB')})
    return golden


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--out', type=pathlib.Path, default=pathlib.Path('tests/golden'))
    make().save(parser.parse_args().out)


if __name__ == '__main__':
    main()
