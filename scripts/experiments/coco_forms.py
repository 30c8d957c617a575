#!/usr/bin/env python3
"""Writes a COCO data set again in the formats of YOLO and Pascal VOC, image for image and box for box.

Usage: scripts/experiments/coco_forms.py FOLDER OUT
       of FOLDER/annotations/SPLIT.json and FOLDER/images, OUT/yolo and OUT/voc

Training on the three gives the same checkpoints if the ids of the images follow their names. Images are hard
links if possible, otherwise copies.
"""
import json
import os
import pathlib
import shutil
import sys
from xml.sax.saxutils import escape


def place(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def yolo_line(box, label, image):
    x, y, w, h = box
    return f"{label} {(x + w / 2) / image['width']!r} {(y + h / 2) / image['height']!r} " \
           f"{w / image['width']!r} {h / image['height']!r}\n"


def voc_object(box, name):
    x, y, w, h = (int(v) if v == int(v) else v for v in box)
    return f"<object><name>{escape(name)}</name><bndbox><xmin>{x}</xmin><ymin>{y}</ymin>" \
           f"<xmax>{x + w}</xmax><ymax>{y + h}</ymax></bndbox></object>\n"


def write_split(folder, out, split, data):
    names = {c["id"]: c["name"] for c in data["categories"]}
    labels = {category: k for k, category in enumerate(sorted(names))}
    boxes = {}
    for a in data["annotations"]:
        if not a.get("iscrowd"):
            boxes.setdefault(a["image_id"], []).append((a["bbox"], a["category_id"]))
    for image in data["images"]:
        name = pathlib.PurePosixPath(image["file_name"])
        place(folder / "images" / name, out / "yolo/images" / split / name)
        place(folder / "images" / name, out / "voc/JPEGImages" / name)
        mine = boxes.get(image["id"], [])
        write(out / "yolo/labels" / split / name.with_suffix(".txt"),
              "".join(yolo_line(box, labels[category], image) for box, category in mine))
        write(out / "voc/Annotations" / (name.stem + ".xml"),
              f"<annotation>\n<filename>{escape(str(name))}</filename>\n<size><width>{image['width']}</width>"
              f"<height>{image['height']}</height><depth>3</depth></size>\n" +
              "".join(voc_object(box, names[category]) for box, category in mine) + "</annotation>\n")
    write(out / f"voc/ImageSets/Main/{split}.txt",
          "".join(pathlib.PurePosixPath(i["file_name"]).stem + "\n" for i in data["images"]))
    return [names[c] for c in sorted(names)]


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: coco_forms.py FOLDER OUT")
    folder, out = map(pathlib.Path, sys.argv[1:])
    splits = sorted(p.stem for p in (folder / "annotations").glob("*.json"))
    for split in splits:
        names = write_split(folder, out, split, json.loads((folder / f"annotations/{split}.json").read_text("utf-8")))
    write(out / "yolo/data.yaml", "".join(f"{s}: images/{s}\n" for s in splits) + f"names: {json.dumps(names)}\n")
    write(out / "voc/classes.txt", "\n".join(names) + "\n")


if __name__ == "__main__":
    main()
