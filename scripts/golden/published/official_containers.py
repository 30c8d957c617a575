"""The small models of tests/golden as the official trainers save theirs:
FOLDER/{d_fine,lw_detr}/official/model.pth.

D-FINE's holds `model`, `ema.module`, the state of the optimizer and of the schedules; only the averages are
the weights. LW-DETR's holds `model`, a pickled argparse.Namespace and the state of the optimizer. The names
are written down here from the official repositories. tests/train/checkpoints/official_containers_test.cpp
reads the files.

Usage: python scripts/golden/published/official_containers.py [--folder F]      needs torch, safetensors
"""
import argparse
import os
import re

import torch
from safetensors.torch import load_file

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tests", "golden")

D_FINE = [
    (r"^model\.backbone\.model\.embedder\.", "backbone.stem."),
    (r"^model\.backbone\.model\.encoder\.", "backbone."),
    (r"^(backbone\..*)\.convolution\.", r"\1.conv."),
    (r"^(backbone\..*)\.normalization\.", r"\1.bn."),
    (r"^model\.encoder_input_proj\.(\d+)\.0\.", r"encoder.input_proj.\1.conv."),
    (r"^model\.encoder_input_proj\.(\d+)\.1\.", r"encoder.input_proj.\1.norm."),
    (r"^model\.enc_output\.0\.", "decoder.enc_output.proj."),
    (r"^model\.enc_output\.1\.", "decoder.enc_output.norm."),
    (r"^model\.(enc_score_head|enc_bbox_head)", r"decoder.\1"),
    (r"^model\.decoder\.class_embed", "decoder.dec_score_head"),
    (r"^model\.decoder\.bbox_embed", "decoder.dec_bbox_head"),
    (r"^model\.decoder\.(query_pos_head|pre_bbox_head|up|reg_scale)", r"decoder.\1"),
    (r"^model\.decoder\.", "decoder.decoder."),
    (r"^model\.encoder\.", "encoder."),
    (r"(encoder\.encoder\..*)\.self_attn_layer_norm\.", r"\1.norm1."),
    (r"(encoder\.encoder\..*)\.final_layer_norm\.", r"\1.norm2."),
    (r"(decoder\.decoder\..*)\.self_attn_layer_norm\.", r"\1.norm1."),
    (r"(decoder\.decoder\..*)\.final_layer_norm\.", r"\1.norm3."),
    (r"\.encoder_attn\.", ".cross_attn."),
    (r"\.fc1\.", ".linear1."),
    (r"\.fc2\.", ".linear2."),
    (r"(_blocks\.\d+)\.conv1\.", r"\1.cv1."),
    (r"(_blocks\.\d+)\.csp_rep1\.", r"\1.cv2.0."),
    (r"(_blocks\.\d+)\.conv2\.", r"\1.cv2.1."),
    (r"(_blocks\.\d+)\.csp_rep2\.", r"\1.cv3.0."),
    (r"(_blocks\.\d+)\.conv3\.", r"\1.cv3.1."),
    (r"(_blocks\.\d+)\.conv4\.", r"\1.cv4."),
    (r"downsample_convs\.(\d+)\.conv", r"downsample_convs.\1.0.cv"),
]
LW_DETR = [
    (r"^model\.backbone\.backbone\.embeddings\.position_embeddings", "backbone.0.encoder.pos_embed"),
    (r"^model\.backbone\.backbone\.embeddings\.projection\.", "backbone.0.encoder.patch_embed.proj."),
    (r"^model\.backbone\.backbone\.encoder\.layer\.", "backbone.0.encoder.blocks."),
    (r"\.attention\.attention\.(query|key|value)\.", r".attn.\1."),
    (r"\.attention\.output\.", ".attn.proj."),
    (r"\.intermediate\.", ".mlp."),
    (r"\.layernorm_before\.", ".norm1."),
    (r"\.layernorm_after\.", ".norm2."),
    (r"^model\.backbone\.projector\.scale_layers\.(\d+)\.layer_norm\.", r"backbone.0.projector.stages.\1.1."),
    (r"^model\.backbone\.projector\.scale_layers\.(\d+)\.projector_layer\.", r"backbone.0.projector.stages.\1.0."),
    (r"^model\.backbone\.projector\.scale_layers\.(\d+)\.sampling_layers\.(\d+)\.layers\.",
     r"backbone.0.projector.stages_sampling.\1.\2."),
    (r"(projector\..*)\.conv(\d)\.", r"\1.cv\2."),
    (r"(projector\..*)\.bottlenecks\.", r"\1.m."),
    (r"(projector\..*)\.norm\.", r"\1.bn."),
    (r"^model\.decoder\.layernorm\.", "transformer.decoder.norm."),
    (r"^model\.decoder\.", "transformer.decoder."),
    (r"^model\.(enc_)", r"transformer.\1"),
    (r"^model\.reference_point_embed\.", "refpoint_embed."),
    (r"^model\.", ""),
    (r"\.self_attn_layer_norm\.", ".norm1."),
    (r"\.cross_attn_layer_norm\.", ".norm2."),
    (r"(decoder\.layers\.\d+)\.layer_norm\.", r"\1.norm3."),
    (r"(decoder\.layers\..*)\.mlp\.fc", r"\1.linear"),
    (r"\.o_proj\.", ".out_proj."),
]


def renamed(tensors, rules):
    out = {}
    for name, values in tensors.items():
        for pattern, to in rules:
            name = re.sub(pattern, to, name)
        out[name] = values
    return out


def joined(tensors, parts, name_of, biases=True):
    """Query, key and value as one tensor."""
    out = {}
    for name, values in tensors.items():
        found = re.match(rf"(.*)\.{parts[0]}\.weight$", name)
        if found:
            stem = found[1]
            out[name_of(stem, "weight")] = torch.cat([tensors[f"{stem}.{p}.weight"] for p in parts])
            if biases:
                out[name_of(stem, "bias")] = torch.cat([tensors[f"{stem}.{p}.bias"] for p in parts])
        elif not any(re.search(rf"\.{p}\.(weight|bias)$", name) for p in parts):
            out[name] = values
    return out


def in_projection(stem, kind):
    return f"{stem}.in_proj_{kind}"


def optimizer_state(tensors):
    some = list(tensors.values())[:2]
    return {"state": {i: {"step": torch.tensor(3.0), "exp_avg": t * 0, "exp_avg_sq": t * 0} for i, t in enumerate(some)},
            "param_groups": [{"lr": 1e-4, "betas": (0.9, 0.999), "params": [0, 1]}]}


def save_d_fine(folder):
    source = load_file(folder + "/d_fine/small.safetensors")
    weights = joined(renamed(source, D_FINE), ("q_proj", "k_proj", "v_proj"), in_projection)
    weights["decoder.anchors"], weights["decoder.valid_mask"] = torch.zeros(1, 84, 4), torch.ones(1, 84, 1, dtype=torch.bool)
    # Those of the last step are not used; some of them suffice.
    last = {name: torch.zeros((), dtype=t.dtype).expand(t.shape) for name, t in list(weights.items())[:100]}
    os.makedirs(folder + "/d_fine/official", exist_ok=True)
    torch.save({"date": "2026-01-01T00:00:00", "last_epoch": 131, "model": last, "optimizer": optimizer_state(weights),
                "lr_scheduler": {"milestones": {500: 1}, "gamma": 0.1, "last_epoch": 131, "_last_lr": [2e-4]},
                "lr_warmup_scheduler": {"warmup_duration": 500, "last_step": 499},
                "ema": {"module": weights, "updates": 1000}}, folder + "/d_fine/official/model.pth")


def save_lw_detr(folder):
    source = load_file(folder + "/lw_detr/model.safetensors")
    weights = joined(renamed(source, LW_DETR), ("q_proj", "k_proj", "v_proj"), in_projection)
    biases = {re.sub(r"\.(query|value)\.bias$", lambda m: f".{m[1][0]}_bias", name): t
              for name, t in weights.items() if re.search(r"attn\.(query|value)\.bias$", name)}
    weights = joined(weights, ("query", "key", "value"), lambda stem, kind: f"{stem}.qkv.{kind}", biases=False) | biases
    args = argparse.Namespace(
        num_classes=4, num_queries=12, group_detr=3, hidden_dim=16, dec_layers=2, sa_nheads=4, ca_nheads=8, dec_n_points=2,
        encoder="vit_tiny", projector_scale=["P3", "P5"], two_stage=True, lr=1e-4, dataset_file="coco", coco_path=None)
    os.makedirs(folder + "/lw_detr/official", exist_ok=True)
    torch.save({"model": weights, "optimizer": optimizer_state(weights), "lr_scheduler": {"step_size": 60, "gamma": 0.1},
                "epoch": 59, "args": args}, folder + "/lw_detr/official/model.pth")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", default=GOLDEN)
    folder = parser.parse_args().folder
    save_d_fine(folder)
    save_lw_detr(folder)


if __name__ == "__main__":
    main()
