#!/usr/bin/env python3
"""Reads a run folder's TensorBoard files with TensorBoard itself (pip install tensorboard), which checks
every record's checksum, and prints each scalar's count and last value and each picture's count and size:

    scripts/checks/check_events.py RUN
"""
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "images": 0})
events.Reload()
tags = events.Tags()["scalars"]
if not tags:
    sys.exit(f"{sys.argv[1]}: no scalars")
for tag in tags:
    values = events.Scalars(tag)
    print(f"{tag}: {len(values)} values, step {values[-1].step}: {values[-1].value:g}")
for tag in events.Tags()["images"]:
    pictures = events.Images(tag)
    last = pictures[-1]
    if last.encoded_image_string[:2] != b"\xff\xd8":
        sys.exit(f"{tag}: no JPEG")
    print(f"{tag}: {len(pictures)} pictures, step {last.step}: {last.width} x {last.height}")
