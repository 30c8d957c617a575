#!/usr/bin/env python3
"""Writes tests/golden/images/: small files of every kind that is read, and Pillow's results for them:
ImageOps.exif_transpose(Image.open(f)).convert("RGB").

Needs Pillow and, for make_resize.py, torchvision (pip install pillow torchvision). cases.txt has one
line per file:
  name height width fnv1a64-of-the-RGB-bytes
Pillow writes no interlaced PNG and few kinds of BMP, so these are written here; for 16-bit grey, which it
reads differently, the upper bytes are expected.
"""
import pathlib
import struct
import zlib

from PIL import Image, ImageOps, __version__

from make_resize import fnv1a, picture

ROOT = pathlib.Path(__file__).resolve().parents[3]
FOLDER = ROOT / "tests/golden/images"
HEIGHT, WIDTH = 13, 21


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width, height, depth, colour, raw, interlaced=0):
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")


def adam7(rgb, width, height):
    raw = b""
    for x0, y0, dx, dy in [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]:
        for y in range(y0, height, dy):
            row = b"".join(rgb[3 * (y * width + x):][:3] for x in range(x0, width, dx))
            if row:
                raw += b"\0" + row
    return raw


def bmp(width, height, bits, rows, extra=b"", compression=0, header=40, palette=b""):
    """rows as in the file, padded here; height may be negative."""
    data = b"".join(row + bytes(-len(row) % 4) for row in rows)
    at = 14 + header + len(extra) + len(palette)
    if header == 12:
        info = struct.pack("<IHHHH", 12, width, height, 1, bits)
    else:
        info = struct.pack("<IiiHHIIiiII", 40, width, height, 1, bits, compression, len(data), 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", at + len(data), 0, 0, at) + info + extra + palette + data


def tiff(width, height, bits, photometric, pieces, order="<", planar=1, tile=0, rows=None, extra=()):
    """pieces: the strips or tiles as in the file; extra: entries of tag, type and words."""
    samples = len(bits)
    data, offsets = b"", []
    for piece in pieces:
        offsets.append(8 + len(data))
        data += piece + bytes(len(piece) % 2)
    entries = {256: (3, [width]), 257: (3, [height]), 258: (3, list(bits)), 259: (3, [1]), 262: (3, [photometric]),
               277: (3, [samples]), 284: (3, [planar])}
    place, count = (324, 325) if tile else (273, 279)
    entries[place], entries[count] = (4, offsets), (4, [len(piece) for piece in pieces])
    entries.update({322: (3, [tile]), 323: (3, [tile])} if tile else {278: (3, [rows or height])})
    entries.update({tag: (kind, list(words)) for tag, kind, words in extra})
    table, behind, end = b"", b"", 8 + len(data) + 2 + 12 * len(entries) + 4
    for tag, (kind, words) in sorted(entries.items()):
        value = struct.pack(order + ("H" if kind == 3 else "I") * len(words), *words)
        if len(value) > 4:
            behind, value = behind + value, struct.pack(order + "I", end + len(behind))
        table += struct.pack(order + "HHI", tag, kind, len(words)) + value.ljust(4, b"\0")
    head = b"II*\0" if order == "<" else b"MM\0*"
    return (head + struct.pack(order + "I", 8 + len(data)) + data + struct.pack(order + "H", len(entries)) + table
            + bytes(4) + behind)


def tiles_of(rows, pixel, side, width):
    """Rows of pixels of `pixel` bytes, cut into squares and padded with zeros."""
    rows = rows + [bytes(len(rows[0]))] * (-len(rows) % side)
    return [b"".join(row[x * pixel:(x + side) * pixel].ljust(side * pixel, b"\0") for row in rows[y:y + side])
            for y in range(0, len(rows), side) for x in range(0, width, side)]


def nearest(value, most):  # Pillow rounds down
    return (value * 255 + most // 2) // most


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    rgb = picture(HEIGHT, WIDTH, 3)
    image = Image.frombytes("RGB", (WIDTH, HEIGHT), rgb)
    smooth = image.resize((7, 5), Image.BICUBIC).resize((WIDTH, HEIGHT), Image.BICUBIC)
    rgba = image.copy()
    rgba.putalpha(image.convert("L"))
    expected = {}

    def save(name, picture_, **options):
        picture_.save(FOLDER / name, **options)

    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        save(f"turned{orientation}.jpg", smooth, quality=90, exif=exif)
    exif = Image.Exif()
    exif[0x0112] = 6
    save("turned6.png", image, exif=exif)
    save("turned6.webp", image, lossless=True, exif=exif)
    save("lossy.webp", smooth, quality=80)
    save("alpha.webp", rgba, lossless=True)
    save("rgb.png", image)
    save("rgba.png", rgba)
    save("grey.png", image.convert("L"))
    save("grey_alpha.png", rgba.convert("LA"))
    save("bits1.png", image.convert("1"))
    save("palette.png", image.quantize(40))
    save("palette2.png", image.quantize(4), bits=2)
    save("transparent.png", image.quantize(9), bits=4, transparency=3)
    wide = [struct.pack(">H", 257 * v + 99 & 0xFFFF) for v in rgb]
    rows = [b"\0" + b"".join(wide[y * 3 * WIDTH:(y + 1) * 3 * WIDTH]) for y in range(HEIGHT)]
    (FOLDER / "rgb16.png").write_bytes(png(WIDTH, HEIGHT, 16, 2, b"".join(rows)))
    expected["rgb16.png"] = bytes(v[0] for v in wide)
    rows = [b"\0" + b"".join(wide[y * WIDTH:(y + 1) * WIDTH]) for y in range(HEIGHT)]
    (FOLDER / "grey16.png").write_bytes(png(WIDTH, HEIGHT, 16, 0, b"".join(rows)))
    expected["grey16.png"] = bytes(wide[i // 3][0] for i in range(3 * HEIGHT * WIDTH))
    (FOLDER / "interlaced.png").write_bytes(png(WIDTH, HEIGHT, 8, 2, adam7(rgb, WIDTH, HEIGHT), 1))
    for width, height in [(1, 1), (5, 1), (2, 3)]:
        small = picture(height, width, 5)
        (FOLDER / f"interlaced{width}x{height}.png").write_bytes(png(width, height, 8, 2, adam7(small, width, height), 1))

    save("rgb.bmp", image)
    save("bits1.bmp", image.convert("1"))
    save("grey.bmp", image.convert("L"))
    save("palette.bmp", image.quantize(40))
    save("rgba.bmp", rgba)
    bgr = [b"".join(rgb[3 * (y * WIDTH + x):][:3][::-1] for x in range(WIDTH)) for y in range(HEIGHT)]
    (FOLDER / "top_down.bmp").write_bytes(bmp(WIDTH, -HEIGHT, 24, bgr))
    (FOLDER / "os2.bmp").write_bytes(bmp(WIDTH, HEIGHT, 24, bgr[::-1], header=12))
    colours = image.quantize(16)
    index = colours.tobytes()
    nibbles = [index[y * WIDTH:(y + 1) * WIDTH] + b"\0" for y in range(HEIGHT)]
    nibbles = [bytes(row[2 * i] << 4 | row[2 * i + 1] for i in range((WIDTH + 1) // 2)) for row in nibbles]
    table = colours.getpalette("RGB")[:48]
    table = b"".join(bytes([table[3 * i + 2], table[3 * i + 1], table[3 * i], 0]) for i in range(16))
    (FOLDER / "bits4.bmp").write_bytes(bmp(WIDTH, HEIGHT, 4, nibbles[::-1], palette=table))
    words = [[r >> 3 << 11 | g >> 2 << 5 | b >> 3 for b, g, r in zip(row[::3], row[1::3], row[2::3])] for row in bgr]
    data = [b"".join(struct.pack("<H", w) for w in row) for row in words]
    masks = struct.pack("<III", 0xF800, 0x07E0, 0x001F)
    (FOLDER / "rgb565.bmp").write_bytes(bmp(WIDTH, -HEIGHT, 16, data, extra=masks, compression=3))
    expected["rgb565.bmp"] = b"".join(
        bytes([nearest(w >> 11, 31), nearest(w >> 5 & 63, 63), nearest(w & 31, 31)]) for row in words for w in row)

    colours40 = image.quantize(40)
    save("palette.gif", colours40)
    high = Image.frombytes("RGB", (WIDTH, 19), picture(19, WIDTH, 3))  # Pillow interlaces from 16 x 16 pixels on
    save("interlaced.gif", high.quantize(200), interlace=1)
    save("rows.gif", image.quantize(3), interlace=0)
    save("grey.gif", image.convert("L"))
    save("transparent.gif", image.quantize(9), transparency=3)
    save("frames.gif", colours40, save_all=True, append_images=[smooth.quantize(9), image.quantize(5)])

    save("rgb.tif", image)
    save("lzw.tif", image, compression="tiff_lzw")
    save("deflate.tiff", image, compression="tiff_adobe_deflate", tiffinfo={278: 5})
    save("packbits.tif", image, compression="packbits")
    save("jpeg.tif", smooth, compression="jpeg", quality=90)
    save("cmyk.tif", image.convert("CMYK"))
    save("rgba.tif", rgba)
    save("grey.tif", image.convert("L"))
    save("fax.tif", image.convert("1"), compression="group4")
    save("palette.tif", colours40, compression="tiff_lzw")
    save("turned6.tif", image, tiffinfo={274: 6})
    save("pages.tif", image, save_all=True, append_images=[smooth, rgba])
    rgb_rows = [rgb[y * 3 * WIDTH:(y + 1) * 3 * WIDTH] for y in range(HEIGHT)]
    (FOLDER / "tiles.tif").write_bytes(tiff(WIDTH, HEIGHT, [8] * 3, 2, tiles_of(rgb_rows, 3, 16, WIDTH), tile=16))
    planes = [rgb[c::3] for c in range(3)]
    (FOLDER / "planes.tif").write_bytes(tiff(WIDTH, HEIGHT, [8] * 3, 2, planes, planar=2))
    rows = [[plane[y * WIDTH:(y + 1) * WIDTH] for y in range(HEIGHT)] for plane in planes]
    plane_tiles = [tile for plane in rows for tile in tiles_of(plane, 1, 16, WIDTH)]
    (FOLDER / "plane_tiles.tif").write_bytes(tiff(WIDTH, HEIGHT, [8] * 3, 2, plane_tiles, planar=2, tile=16))
    for name in ("tiles.tif", "planes.tif", "plane_tiles.tif"):
        expected[name] = rgb
    for order, name in (("<", "rgb16.tif"), (">", "rgb16_big.tif")):
        words = [struct.pack(order + "H", 257 * v + 99 & 0xFFFF) for v in rgb]
        strips = [b"".join(words[y * 3 * WIDTH:(y + 4) * 3 * WIDTH]) for y in range(0, HEIGHT, 4)]
        (FOLDER / name).write_bytes(tiff(WIDTH, HEIGHT, [16] * 3, 2, strips, order, rows=4))
        expected[name] = expected["rgb16.png"]
    words = [struct.pack("<H", 257 * v + 99 & 0xFFFF) for v in rgb[:WIDTH * HEIGHT]]
    (FOLDER / "grey16.tif").write_bytes(tiff(WIDTH, HEIGHT, [16], 1, [b"".join(words)]))
    expected["grey16.tif"] = bytes(words[i // 3][1] for i in range(3 * HEIGHT * WIDTH))
    (FOLDER / "white_is_0.tif").write_bytes(tiff(WIDTH, HEIGHT, [8], 0, [rgb[:WIDTH * HEIGHT]]))
    expected["white_is_0.tif"] = bytes(255 - rgb[i // 3] for i in range(3 * HEIGHT * WIDTH))
    # Multiplied by alpha; viewers divide by it again.
    alpha = rgba.getchannel("A").tobytes()
    pixels = [(rgb[3 * i] * alpha[i] // 255, rgb[3 * i + 1] * alpha[i] // 255, rgb[3 * i + 2] * alpha[i] // 255, alpha[i])
              for i in range(WIDTH * HEIGHT)]
    (FOLDER / "multiplied.tif").write_bytes(
        tiff(WIDTH, HEIGHT, [8] * 4, 2, [b"".join(bytes(p) for p in pixels)], extra=[(338, 3, [1])]))
    expected["multiplied.tif"] = bytes(min(255, v * 255 // p[3]) if p[3] else 0 for p in pixels for v in p[:3])

    lines = [f"# Pillow {__version__}, scripts/golden/data/make_images.py"]
    for file in sorted(FOLDER.iterdir()):
        if file.suffix == ".txt":
            continue
        shown = ImageOps.exif_transpose(Image.open(file))
        pixels = expected.get(file.name) or shown.convert("RGB").tobytes()
        lines.append(f"{file.name} {shown.height} {shown.width} {fnv1a(pixels):016x}")
    (FOLDER / "cases.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
