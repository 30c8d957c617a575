"""The training step or inference of tests/bench/detector_bench.cpp in PyTorch: transformers' Deformable DETR
or DETR with a ResNet-50, its RT-DETR with a ResNet-18-vd or -50-vd, its D-FINE N or S (with denoising in
training, as published) or its RF-DETR N. Random weights, all auxiliary losses, random images of one size
without padding or padded batches of the sizes in a file, ten boxes each.
Batches of several sizes wait in pinned memory and are copied during their step, like ours. Prints {"ms": ...,
"images_per_second": ..., "peak_bytes": ...}; the clock stops after the GPU has finished the last step.
"""
import argparse
import contextlib
import json
import time

import torch
import transformers

parser = argparse.ArgumentParser()
parser.add_argument("--model", required=True,
                    choices=("deformable_detr", "detr", "rt_detr_r18", "rt_detr_r50", "dfine_n", "dfine_s", "rf_detr_n"))
parser.add_argument("--precision", choices=("f32", "tf32", "bf16"), default="f32")
parser.add_argument("--infer", action="store_true")
parser.add_argument("--compile", action="store_true", help="the model through torch.compile")
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--height", type=int, default=800)
parser.add_argument("--width", type=int, default=1066)
parser.add_argument("--sizes", default="", help="padded batches, as scripts/bench/coco_batches.txt")
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--device", default="cuda")
parser.add_argument("--save", default="", help="write the model to this folder before it runs (`saccade convert` reads it)")
parser.add_argument("--contiguous", action="store_true", help="channels first, where the default is channels last")
args = parser.parse_args()

torch.manual_seed(0)
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = args.precision == "tf32"
torch.backends.cudnn.benchmark = not args.sizes  # it would try every engine again for every size
# transformers' own ResNet with frozen statistics, so that nothing has to be downloaded.
stages = ["stage2", "stage3", "stage4"] if args.model == "deformable_detr" else ["stage4"]
backbone = transformers.ResNetConfig(out_features=stages)
common = dict(use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=backbone, num_labels=91,
              auxiliary_loss=True)
if args.model == "deformable_detr":
    config = transformers.DeformableDetrConfig(num_queries=300, **common)
    model = transformers.DeformableDetrForObjectDetection(config)
elif args.model == "detr":
    config = transformers.DetrConfig(**common)
    model = transformers.DetrForObjectDetection(config)
elif args.model.startswith("dfine"):
    hgnet = transformers.HGNetV2Config(
        stem_channels=[3, 16, 16], stage_in_channels=[16, 64, 256, 512], stage_mid_channels=[16, 32, 64, 128],
        stage_out_channels=[64, 256, 512, 1024], stage_num_blocks=[1, 1, 2, 1], stage_numb_of_layers=[3] * 4,
        depths=[1, 1, 2, 1], hidden_sizes=[64, 256, 512, 1024], use_learnable_affine_block=True,
        out_features=["stage3", "stage4"] if args.model == "dfine_n" else ["stage2", "stage3", "stage4"])
    if args.model == "dfine_n":
        sizes_of_model = dict(
            encoder_in_channels=[512, 1024], feat_strides=[16, 32], num_feature_levels=2, encode_proj_layers=[1], d_model=128,
            encoder_hidden_dim=128, encoder_ffn_dim=512, decoder_ffn_dim=512, decoder_in_channels=[128] * 2, depth_mult=0.5,
            hidden_expansion=0.34, decoder_n_points=[6, 6])
    else:
        sizes_of_model = dict(encoder_in_channels=[256, 512, 1024], depth_mult=0.34, hidden_expansion=0.5)
    model = transformers.DFineForObjectDetection(transformers.DFineConfig(
        backbone_config=hgnet, freeze_backbone_batch_norms=False, decoder_layers=3, num_labels=91, **sizes_of_model))
elif args.model == "rf_detr_n":
    dinov2 = transformers.RfDetrDinov2Config(
        hidden_size=384, num_attention_heads=6, image_size=384, patch_size=16, num_windows=2, out_indices=[3, 6, 9, 12])
    model = transformers.RfDetrForObjectDetection(transformers.RfDetrConfig(
        backbone_config=dinov2, decoder_layers=2, decoder_n_points=2, dropout=0.0, num_labels=91))
elif args.model == "rt_detr_r50":
    model = transformers.RTDetrForObjectDetection(transformers.RTDetrConfig(freeze_backbone_batch_norms=False, num_labels=91))
else:
    resnet = transformers.RTDetrResNetConfig(hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2], layer_type="basic",
                                             out_features=["stage2", "stage3", "stage4"])
    model = transformers.RTDetrForObjectDetection(transformers.RTDetrConfig(
        backbone_config=resnet, freeze_backbone_batch_norms=False, encoder_in_channels=[128, 256, 512], hidden_expansion=0.5,
        decoder_layers=3, num_labels=91))
if args.save:
    model.save_pretrained(args.save)
model = model.to(args.device).train(not args.infer)
parameters = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(parameters, lr=2e-4, weight_decay=1e-4, fused=True)
layout = torch.contiguous_format if args.contiguous else torch.channels_last
model = model.to(memory_format=layout)


place = "cpu" if args.sizes else args.device


def batch_of(sizes):
    height, width = (max(size[i] for size in sizes) for i in (0, 1))
    images = torch.randn(len(sizes), 3, height, width, device=place).to(memory_format=layout)
    mask = torch.zeros(len(sizes), height, width, dtype=torch.long, device=place)
    for i, (h, w) in enumerate(sizes):
        mask[i, :h, :w] = 1
    labels = [{"class_labels": torch.randint(0, 91, (10,), device=args.device),
               "boxes": torch.cat([0.3 + 0.4 * torch.rand(10, 2, device=args.device),
                                   0.05 + 0.45 * torch.rand(10, 2, device=args.device)], 1)}
              for _ in sizes]
    images = images * mask[:, None]
    if place != args.device:
        images, mask = images.pin_memory(), mask.pin_memory()
    return {"pixel_values": images, "pixel_mask": mask, "labels": labels}


if args.sizes:
    with open(args.sizes) as file:
        numbers = [int(number) for number in file.read().split()]
    pairs = list(zip(numbers[::2], numbers[1::2]))
    sizes = [pairs[i:i + args.batch] for i in range(0, len(pairs) - args.batch + 1, args.batch)][:args.steps]
else:
    sizes = [[(args.height, args.width)] * args.batch]
batches = [batch_of(s) for s in sizes]
turn = 0
run = torch.compile(model) if args.compile else model


def precision():
    if args.precision == "bf16":
        return torch.autocast(args.device.split(":")[0], torch.bfloat16)
    return contextlib.nullcontext()


def step():
    global turn
    batch = dict(batches[turn % len(batches)])
    turn += 1
    for name in ("pixel_values", "pixel_mask"):
        batch[name] = batch[name].to(args.device, non_blocking=True)
    if args.infer:
        with torch.no_grad(), precision():
            output = run(pixel_values=batch["pixel_values"], pixel_mask=batch["pixel_mask"])
        output.logits.cpu()
        output.pred_boxes.cpu()
        return
    with precision():
        loss = run(**batch).loss
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(parameters, 0.1)
    optimizer.step()


def finish():
    if args.device.startswith("cuda"):
        torch.cuda.synchronize()


warm = max(1, args.steps // 5)
timed = max(1, args.steps - warm)
for _ in range(warm):
    step()
finish()
start = time.perf_counter()
for _ in range(timed):
    step()
finish()
ms = (time.perf_counter() - start) * 1e3 / timed
print(json.dumps({"ms": ms, "images_per_second": args.batch * 1e3 / ms,
                  "peak_bytes": torch.cuda.max_memory_allocated() if args.device.startswith("cuda") else 0,
                  "parameters": sum(p.numel() for p in model.parameters()),
                  "torch": torch.__version__, "transformers": transformers.__version__}))
