"""transformers' RT-DETR and RT-DETRv2 as independent references.

For each variant a small random model is made (every tensor is drawn anew, batch norm's statistics too, so
that nothing hides behind a zero), and written to FOLDER:

  VARIANT.safetensors           as save_pretrained writes it, with Hugging Face's names
  basic.pth                     the official names of version 1, under ema.module
  VARIANT.golden.safetensors    the last layer's logits and boxes in evaluation of images.safetensors:
                                squares, rectangles
  v2.discrete.safetensors       the same of v2 with decoder_method "discrete" for the squares, and the
                                gradients of two weights of its last attention by the sum of the logits
  basic.training.safetensors    targets; the weighted losses of one step in training mode with denoising, and
                                `denoising`, the embedding of its classes; the losses of 30 AdamW steps
                                without
  basic.gradients.safetensors   the gradients of that step, with Hugging Face's names

Differences of transformers from the official code:
  * The gradient of a layer's box does not reach the layer before; officially it does ("look forward twice").
    The boxes of the training files are computed from transformers' own outputs as the official code does it.
  * Its position code is right for rectangles; the official one mixes up rows and columns there.
Denoising: what transformers would draw is Saccade's noise (denoising.py); queries, masks, the decoder and
losses are its own.

tests/train/checkpoints/rt_detr_transformers_test.cpp reads tests/golden/rt_detr.

Usage: python scripts/golden/published/transformers_rt_detr.py [--folder F]
       needs torch, transformers, safetensors, scipy
"""
import argparse
import copy
import os
import re
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file
from transformers import (RTDetrConfig, RTDetrForObjectDetection, RTDetrResNetConfig, RTDetrV2Config,
                          RTDetrV2ForObjectDetection)
from transformers.loss.loss_rt_detr import RTDetrForObjectDetectionLoss
from transformers.models.rt_detr import modeling_rt_detr

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from denoising import make_denoising  # noqa: E402

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tests", "golden", "rt_detr")
VARIANTS = {
    "basic": dict(version=1, layer_type="basic", frozen=False, expansion=0.5, encoder_dim=16, width=4),
    "bottleneck": dict(version=1, layer_type="bottleneck", frozen=True, expansion=1.0, encoder_dim=12, width=2),
    "v2": dict(version=2, layer_type="basic", frozen=False, expansion=0.5, encoder_dim=16, width=2),
}
CLASSES, QUERIES = 5, 12
STEPS, RATE = 30, 2e-5
NOISE_KEY, NOISE_QUERIES = 77, 6  # of the step; pairs of queries


def make_model(version, layer_type, frozen, expansion, encoder_dim, width, denoising=0):
    channels = [width * 2 ** i * (4 if layer_type == "bottleneck" else 1) for i in range(4)]
    resnet = RTDetrResNetConfig(embedding_size=width, hidden_sizes=channels, depths=[1, 2, 1, 1], layer_type=layer_type,
                                out_features=["stage2", "stage3", "stage4"])
    common = dict(backbone_config=resnet, freeze_backbone_batch_norms=frozen, encoder_hidden_dim=encoder_dim,
                  encoder_in_channels=channels[1:], encoder_ffn_dim=32, encoder_attention_heads=4, hidden_expansion=expansion,
                  d_model=16, num_queries=QUERIES, decoder_in_channels=[encoder_dim] * 3, decoder_ffn_dim=24,
                  decoder_layers=3, decoder_attention_heads=4, num_denoising=denoising, num_labels=CLASSES)
    if version == 1:
        return RTDetrForObjectDetection(RTDetrConfig(**common))
    return RTDetrV2ForObjectDetection(RTDetrV2Config(**common))


@torch.no_grad()
def draw(model, seed):
    """Every tensor random; f32 values that bf16 can hold, to keep files small."""
    g = torch.Generator().manual_seed(seed)
    for name, t in model.state_dict().items():
        if not t.is_floating_point() or name.endswith("n_points_scale"):
            continue
        if name.endswith("running_var"):
            value = torch.rand(t.shape, generator=g) + 0.5
        elif "sampling_offsets.bias" in name:
            value = torch.randn(t.shape, generator=g) * 1.5
        elif t.dim() >= 2:
            value = torch.randn(t.shape, generator=g) * (1.3 / t[0].numel() ** 0.5)
        elif "norm" in name and name.endswith("weight") or re.search(r"(input_proj\.\d|enc_output)\.1\.weight", name):
            value = torch.rand(t.shape, generator=g) + 0.5
        else:
            value = torch.randn(t.shape, generator=g) * 0.3
        if "bbox_embed" in name or "bbox_head" in name:
            value *= 0.3  # boxes that jump from layer to layer amplify rounding
        t.copy_(value.to(torch.bfloat16).to(t.dtype))


def official(state):
    """The names of the official code, version 1."""
    out = {}
    for name, t in state.items():
        if re.match(r"(class|bbox)_embed\.", name) or name.endswith(("num_batches_tracked", "n_points_scale")):
            continue
        n = name.replace(".convolution.", ".conv.").replace(".normalization.", ".norm.")
        n = re.sub(r"^model\.backbone\.model\.embedder\.embedder\.(\d)", lambda m: f"backbone.conv1.conv1_{int(m[1]) + 1}", n)
        n = re.sub(r"^model\.backbone\.model\.encoder\.stages\.(\d)\.layers\.(\d+)\.", r"backbone.res_layers.\1.blocks.\2.", n)
        n = re.sub(r"\.layer\.(\d)\.", lambda m: ".branch2" + "abc"[int(m[1])] + ".", n)
        n = n.replace(".shortcut.1.", ".short.conv.").replace(".shortcut.", ".short.")
        n = n.replace("model.encoder_input_proj.", "encoder.input_proj.").replace("model.enc_output.", "decoder.enc_output.")
        n = re.sub(r"^model\.decoder_input_proj\.(\d)\.([01])\.",
                   lambda m: f"decoder.input_proj.{m[1]}" + (".conv.", ".norm.")[int(m[2])], n)
        n = re.sub(r"^model\.encoder\.(aifi|encoder)\.", "encoder.encoder.", n)
        n = re.sub(r"^model\.encoder\.", "encoder.", n)
        n = re.sub(r"\.(mlp\.)?fc([12])\.", r".linear\2.", n).replace("self_attn.o_proj", "self_attn.out_proj")
        if n.startswith("model.decoder.layers."):
            n = n.replace("encoder_attn_layer_norm", "norm2").replace("self_attn_layer_norm", "norm1")
            n = n.replace("final_layer_norm", "norm3").replace("encoder_attn.", "cross_attn.")
            n = n.replace("model.decoder.layers.", "decoder.decoder.layers.")
        n = n.replace("self_attn_layer_norm", "norm1").replace("final_layer_norm", "norm2")
        n = n.replace("model.decoder.class_embed", "decoder.dec_score_head").replace("model.decoder.bbox_embed",
                                                                                     "decoder.dec_bbox_head")
        n = n.replace("model.decoder.query_pos_head", "decoder.query_pos_head")
        n = re.sub(r"^model\.(enc_score_head|enc_bbox_head|denoising_class_embed)", r"decoder.\1", n)
        out[n] = t
    for name in [n for n in out if n.endswith("q_proj.weight")]:
        base = name[:-len("q_proj.weight")]
        for kind in ("weight", "bias"):
            out[f"{base}in_proj_{kind}"] = torch.cat([out.pop(f"{base}{k}_proj.{kind}") for k in "qkv"])
    out["decoder.anchors"] = torch.zeros(1, 4, 4)
    out["decoder.valid_mask"] = torch.ones(1, 4, 1, dtype=torch.bool)
    return out


def batches():
    g = torch.Generator().manual_seed(0)
    out = []
    for count, height, width in ((2, 64, 64), (1, 64, 96), (1, 96, 32)):
        images = torch.randn(count, 3, height, width, generator=g)
        if count == 2:
            images[1, :, 40:] = 0  # as if it were padded
        out.append(images.to(torch.bfloat16).float())
    return out


def targets_of(generator, count):
    out = []
    for n in range(count):
        objects = (3, 0, 1, 2)[n % 4]
        xy = torch.rand(objects, 2, generator=generator) * 0.5 + 0.25
        wh = torch.rand(objects, 2, generator=generator) * 0.4 + 0.1
        labels = torch.randint(0, CLASSES, (objects,), generator=generator)
        out.append({"class_labels": labels, "boxes": torch.cat([xy, wh], -1)})
    return out


def our_noise(targets, num_classes, num_queries, class_embed, num_denoising_queries, label_noise_ratio, box_noise_scale):
    """In place of transformers' get_contrastive_denoising_training_group."""
    labels, boxes, groups, pairs = make_denoising(
        [(t["class_labels"].tolist(), t["boxes"].float().numpy()) for t in targets], range(len(targets)), num_classes,
        NOISE_KEY, num_denoising_queries, label_noise_ratio, box_noise_scale, 0)
    count = labels.shape[1]
    group = torch.arange(count + num_queries) // (count // groups)
    group[count:] = -1  # the queries that all others see
    hidden = (group != group[:, None]) & (group != -1)
    mask = torch.zeros(hidden.shape, dtype=class_embed.weight.dtype).masked_fill(hidden, -torch.inf)
    positive = [torch.tensor([query for image, query, _ in pairs if image == n], dtype=torch.int64)
                for n in range(len(targets))]
    unact = modeling_rt_detr.inverse_sigmoid(torch.from_numpy(boxes).to(class_embed.weight.dtype))
    return class_embed(torch.from_numpy(labels)), unact, mask, {
        "dn_positive_idx": positive, "dn_num_group": groups, "dn_num_split": [count, num_queries]}


def losses_of(model, images, targets):
    """The weighted losses, with the boxes of the official decoder."""
    out = model.model(images, labels=targets)
    hidden, references = out.intermediate_hidden_states, out.intermediate_reference_points
    boxes = [references[:, 0]]
    for i in range(1, hidden.shape[1]):
        before = references[:, i - 1].clamp(0, 1)
        before = torch.log(before.clamp(min=1e-5) / (1 - before).clamp(min=1e-5))
        boxes.append(torch.sigmoid(model.model.decoder.bbox_embed[i](hidden[:, i]) + before))
    boxes = torch.stack(boxes, 1)
    assert (boxes - references).abs().max() < 1e-5
    logits = out.intermediate_logits
    total, parts, _ = RTDetrForObjectDetectionLoss(
        logits[:, -1], targets, images.device, boxes[:, -1], model.config, logits, boxes,
        enc_topk_logits=out.enc_topk_logits, enc_topk_bboxes=out.enc_topk_bboxes,
        denoising_meta_values=out.denoising_meta_values)
    return total, parts


def train(model, data, loss_of, steps, rate):
    """The losses of the steps: AdamW, gradients clipped to a norm of 0.1."""
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], rate, weight_decay=1e-4)
    losses = []
    for step in range(steps):
        total, _ = loss_of(model, *data[step % len(data)])
        optimizer.zero_grad()
        total.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        losses.append(float(total.detach()))
    return losses


def wide(targets):
    return [{k: v.double() if v.is_floating_point() else v for k, v in t.items()} for t in targets]


def make(variant, folder, seed):
    options = VARIANTS[variant]
    model = make_model(**options)
    draw(model, seed)
    with tempfile.TemporaryDirectory() as d:
        model.save_pretrained(d)
        published = load_file(d + "/model.safetensors")
    small = {k: v.to(torch.bfloat16) if v.is_floating_point() else v for k, v in published.items()}
    path = os.path.join(folder, variant)
    save_file(small, path + ".safetensors", metadata={"format": "pt"})
    if variant == "basic":
        state = {k: v.to(torch.bfloat16) if v.is_floating_point() else v
                 for k, v in official(model.state_dict()).items()}
        torch.save({"last_epoch": 71, "ema": {"module": state, "updates": 9}}, path + ".pth")

    reference = copy.deepcopy(model).double().eval()
    arrays = {}
    for b, images in enumerate(batches()):
        with torch.no_grad():
            out = reference(images.double())
        arrays[f"{b}.logits"] = out.logits.float().contiguous()
        arrays[f"{b}.boxes"] = out.pred_boxes.float().contiguous()
    save_file(arrays, path + ".golden.safetensors")
    if variant == "v2":
        make_discrete(model, path)
    print(f"{variant}: {sum(p.numel() for p in model.parameters())} parameters, logits vary by {float(out.logits.std()):.2f}, "
          f"boxes by {float(out.pred_boxes.std()):.3f}", flush=True)
    if variant == "basic":
        make_training(model, path, seed)


def make_discrete(model, path):
    config = copy.deepcopy(model.config)
    config.decoder_method = "discrete"
    reference = RTDetrV2ForObjectDetection(config)
    reference.load_state_dict(model.state_dict())
    reference = reference.double().eval()
    out = reference(batches()[0].double())
    arrays = {"0.logits": out.logits.detach().float().contiguous(), "0.boxes": out.pred_boxes.detach().float().contiguous()}
    out.logits.sum().backward()
    for name in ("value_proj", "attention_weights"):
        grad = getattr(reference.model.decoder.layers[-1].encoder_attn, name).weight.grad
        arrays["gradient." + name] = grad.float().contiguous()
    save_file(arrays, path + ".discrete.safetensors")


def make_training(model, path, seed):
    g = torch.Generator().manual_seed(seed + 100)
    data = [(torch.randn(2, 3, 64, 64, generator=g).to(torch.bfloat16).float(), targets_of(g, 2)) for _ in range(2)]
    arrays = {}
    for b, (images, targets) in enumerate(data):
        arrays[f"{b}.images"] = images.permute(0, 2, 3, 1).contiguous().to(torch.bfloat16)
        for n, t in enumerate(targets):
            arrays[f"{b}.{n}.labels"], arrays[f"{b}.{n}.boxes"] = t["class_labels"], t["boxes"]
    trained = make_model(**VARIANTS["basic"], denoising=NOISE_QUERIES)
    trained.load_state_dict(model.state_dict(), strict=False)
    with torch.no_grad():
        trained.model.denoising_class_embed.weight.normal_(generator=g)[CLASSES] = 0  # stands for no object
    arrays["denoising"] = trained.model.denoising_class_embed.weight.detach().clone()
    trained.double().train()
    total, parts = losses_of(trained, data[0][0].double(), wide(data[0][1]))
    total.backward()
    for name, value in parts.items():
        arrays["loss." + name] = value.detach().float()
    arrays["loss.total"] = total.detach().float()
    gradients = {n: p.grad.float().contiguous() for n, p in trained.named_parameters() if p.grad is not None}
    save_file(gradients, path + ".gradients.safetensors")

    losses = train(copy.deepcopy(model).double().train(), [(i.double(), wide(t)) for i, t in data], losses_of, STEPS, RATE)
    narrow = train(copy.deepcopy(model).train(), data, losses_of, STEPS, RATE)
    strays = max(abs(a - b) / a for a, b in zip(losses, narrow))
    arrays["curve"] = torch.tensor(losses, dtype=torch.float32)
    save_file(arrays, path + ".training.safetensors")
    print(f"losses {losses[0]:.4f} ... {losses[-1]:.4f}, f32 strays by {strays:.1e}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", default=GOLDEN)
    folder = parser.parse_args().folder
    torch.set_num_threads(1)
    os.makedirs(folder, exist_ok=True)
    modeling_rt_detr.get_contrastive_denoising_training_group = our_noise
    save_file({f"{b}.images": images.permute(0, 2, 3, 1).contiguous().to(torch.bfloat16)
               for b, images in enumerate(batches())}, os.path.join(folder, "images.safetensors"))
    for seed, variant in enumerate(VARIANTS):
        make(variant, folder, seed + 1)


if __name__ == "__main__":
    main()
