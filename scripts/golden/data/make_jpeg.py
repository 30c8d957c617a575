#!/usr/bin/env python3
"""Writes tests/golden/jpeg/: small JPEG files and the results of Pillow's open(..).convert("RGB") for them.

Needs Pillow (pip install pillow). cases.txt has one line per file:
  name height width fnv1a64-of-the-RGB-bytes
With the folder of some real photos (../shared/data beside the project) photos.txt is written too, one
line per folder:
  folder count fnv1a64-of-all-RGB-bytes-in-the-order-of-the-names
"""
import pathlib

from PIL import Image, __version__, features

from make_resize import fnv1a, picture

ROOT = pathlib.Path(__file__).resolve().parents[3]
PHOTOS = ["coco_cc_mini/images"]
CASES = {
    "420": dict(subsampling=2), "422": dict(subsampling=1), "444": dict(subsampling=0),
    "progressive": dict(progressive=True), "restart": dict(restart_marker_blocks=2), "low": dict(quality=12),
    "grey": dict(mode="L"), "cmyk": dict(mode="CMYK"),
}


def main():
    folder = ROOT / "tests/golden/jpeg"
    folder.mkdir(parents=True, exist_ok=True)
    head = f"# Pillow {__version__}, libjpeg-turbo {features.version('libjpeg_turbo')}, scripts/golden/data/make_jpeg.py"
    lines = [head]
    for seed, (name, options) in enumerate(CASES.items()):
        height, width = 37 + seed, 51 - 2 * seed
        # Enlarged noise: edges and colours on the scale of the chroma blocks.
        image = Image.frombytes("RGB", (9, 7), picture(7, 9, seed)).resize((width, height), Image.BICUBIC)
        mode = options.pop("mode", "RGB")
        image.convert(mode).save(folder / f"{name}.jpg", **{"quality": 85, **options})
        pixels = Image.open(folder / f"{name}.jpg").convert("RGB").tobytes()
        lines.append(f"{name}.jpg {height} {width} {fnv1a(pixels):016x}")
    (folder / "cases.txt").write_text("\n".join(lines) + "\n")

    lines = [head]
    for photos in PHOTOS:
        files = sorted((ROOT.parent / "shared/data" / photos).glob("*.jpg"))
        hashes = "".join(f"{fnv1a(Image.open(f).convert('RGB').tobytes()):016x}" for f in files)
        lines.append(f"{photos} {len(files)} {fnv1a(hashes.encode()):016x}")
    (folder / "photos.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
