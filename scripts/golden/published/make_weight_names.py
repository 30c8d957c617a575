"""Names and shapes of tensors as others write them next to the official ones, for
tests/train/checkpoints/weight_names_test.cpp.

Each file of tests/golden/weight_names has the lines of someone's file ("name 3 4 5"), a line "--" and the
corresponding official lines. The reduced models come from transformers and timm. The official names of ViT,
DeiT and Swin are timm's (which agree with the official code except for Swin's downsampling and head), PVT's
are those of ../pvt.py, those of the detectors come from the independent PyTorch models in the folder above,
and those of UperNet's heads are mmsegmentation's. The files official_*.txt are the state_dicts of the
published detectors (458, 561, 597 and 630 tensors): what our files must contain for
load_state_dict(strict=True).

Usage: python scripts/golden/published/make_weight_names.py
       needs torch, transformers, timm, safetensors
"""
import os
import re
import sys
import tempfile
import warnings

import torch
from safetensors import safe_open

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
warnings.filterwarnings("ignore")
import timm  # noqa: E402
import transformers as hf  # noqa: E402

import pvt  # noqa: E402
import small_deformable_detr  # noqa: E402
import small_detr  # noqa: E402

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tests", "golden", "weight_names")


def shapes(state):
    return {k: tuple(v.shape) for k, v in state.items()}


def published(model):
    """Names and shapes in the file that save_pretrained writes."""
    with tempfile.TemporaryDirectory() as d:
        model.save_pretrained(d)
        with safe_open(d + "/model.safetensors", "pt") as f:
            return {k: tuple(f.get_slice(k).get_shape()) for k in f.keys()}


def lines(tensors):
    return "".join(" ".join([k, *map(str, s)]) + "\n" for k, s in tensors.items())


def write(name, theirs, official=None):
    with open(os.path.join(FOLDER, name + ".txt"), "w") as f:
        f.write(lines(theirs) + ("--\n" + lines(official) if official else ""))
    print(name, len(theirs), len(official or {}))


def without_counters(tensors):
    return {k: s for k, s in tensors.items() if not k.endswith("num_batches_tracked")}


def official_swin(tensors):
    out = {}
    for k, s in tensors.items():
        k = re.sub(r"layers\.(\d+)\.downsample", lambda m: f"layers.{int(m[1]) - 1}.downsample", k)
        out[k.replace("head.fc.", "head.")] = s
    return out


def vision():
    common = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=32)
    sizes = dict(img_size=32, patch_size=16, embed_dim=32, depth=2, num_heads=4, mlp_ratio=2, num_classes=5)
    vit = shapes(timm.models.vision_transformer.VisionTransformer(**sizes).state_dict())
    deit = shapes(timm.models.deit.VisionTransformerDistilled(**sizes).state_dict())
    model = hf.ViTForImageClassification(hf.ViTConfig(num_labels=5, **common))
    write("hf_vit", published(model), vit)
    write("hf_vit_memory", shapes(model.state_dict()), vit)
    write("hf_deit", published(hf.DeiTForImageClassificationWithTeacher(hf.DeiTConfig(num_labels=5, **common))), deit)
    timm_swin = shapes(timm.models.swin_transformer.SwinTransformer(
        img_size=112, embed_dim=8, depths=(2, 2, 1), num_heads=(2, 4, 8), window_size=7, num_classes=5).state_dict())
    timm_swin = {k: s for k, s in timm_swin.items() if not k.endswith(("relative_position_index", "attn_mask"))}
    swin = official_swin(timm_swin)
    model = hf.SwinForImageClassification(hf.SwinConfig(
        image_size=112, embed_dim=8, depths=[2, 2, 1], num_heads=[2, 4, 8], window_size=7, num_labels=5))
    write("timm_swin", timm_swin, swin)
    write("hf_swin", published(model), swin)
    write("hf_swin_memory", shapes(model.state_dict()), swin)
    buffers = {"layers.0.blocks.0.attn.relative_position_index": (49, 49), "layers.0.blocks.1.attn_mask": (4, 49, 49)}
    write("official_swin", {**swin, **buffers}, swin)
    model = hf.PvtForImageClassification(hf.PvtConfig(
        image_size=32, num_encoder_blocks=3, depths=[1, 2, 1], hidden_sizes=[8, 16, 24], num_attention_heads=[1, 2, 3],
        mlp_ratios=[4, 2, 2], sequence_reduction_ratios=[4, 2, 1], patch_sizes=[4, 2, 2], strides=[4, 2, 2], num_labels=5))
    write("hf_pvt", published(model), shapes(pvt.official_names(model.state_dict())))
    for kind, sizes in (("bottleneck", [16, 32, 64, 128]), ("basic", [4, 8, 16, 32])):
        model = hf.ResNetForImageClassification(hf.ResNetConfig(
            embedding_size=4, hidden_sizes=sizes, depths=[1, 2, 1, 1], layer_type=kind, num_labels=5))
        c = small_deformable_detr.Config(blocks=(1, 2, 1, 1), width=4, bottleneck=kind == "bottleneck")
        body = shapes(small_deformable_detr.ResNet(c).state_dict())
        write("hf_resnet_" + kind, published(model), {**body, "fc.weight": (5, sizes[-1]), "fc.bias": (5,)})


def detectors():
    resnet = hf.ResNetConfig(embedding_size=4, hidden_sizes=[16, 32, 64, 128], depths=[1, 1, 1, 1],
                             layer_type="bottleneck", out_features=["stage4"])
    sizes = dict(use_timm_backbone=False, backbone_config=resnet, backbone=None, d_model=32, encoder_layers=2,
                 decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=16,
                 decoder_ffn_dim=16, num_queries=5, num_labels=4)
    for position in ("sine", "learned"):
        model = hf.DetrForObjectDetection(hf.DetrConfig(position_embedding_type=position, **sizes))
        c = small_detr.Config(d=32, heads=4, encoder_layers=2, decoder_layers=2, ffn=16, queries=5, classes=4,
                              blocks=(1, 1, 1, 1), width=4, bottleneck=True, learned=position == "learned")
        official = shapes(small_detr.Detr(c).state_dict())
        write("hf_detr_" + position, published(model), official)
        write(f"hf_detr_{position}_memory", shapes(model.state_dict()), official)
    full = small_deformable_detr.Config
    for name, config in (("", full()), ("_refine", full(refine=True)), ("_two_stage", full(refine=True, two_stage=True))):
        write("official_deformable_detr" + name, shapes(small_deformable_detr.DeformableDetr(config).state_dict()))
    write("official_detr", shapes(small_detr.Detr(small_detr.Config()).state_dict()))


def official_uper_net(tensors, backbone):
    """mmsegmentation's names of transformers' heads; backbone: the official names of its backbone"""
    out = {"backbone." + k: s for k, s in backbone.items()}
    for k, s in tensors.items():
        if not k.startswith("backbone."):
            out[k.replace(".batch_norm.", ".bn.").replace("_head.classifier.", "_head.conv_seg.")] = s
    return out


def segmenters():
    heads = dict(hidden_size=8, auxiliary_channels=6, num_labels=5)
    stages = ["stage1", "stage2", "stage3", "stage4"]
    resnet = hf.ResNetConfig(embedding_size=4, hidden_sizes=[16, 32, 64, 128], depths=[1, 2, 1, 1], layer_type="bottleneck",
                             out_features=stages)
    model = hf.UperNetForSemanticSegmentation(hf.UperNetConfig(backbone_config=resnet, auxiliary_in_channels=64, **heads))
    c = small_deformable_detr.Config(blocks=(1, 2, 1, 1), width=4)
    body = shapes(small_deformable_detr.ResNet(c).state_dict())
    theirs = without_counters(published(model))
    write("hf_uper_net_resnet", published(model), official_uper_net(theirs, body))
    swin = hf.SwinConfig(image_size=112, embed_dim=8, depths=[2, 2, 1, 1], num_heads=[2, 4, 8, 8], window_size=7,
                         out_features=stages)
    model = hf.UperNetForSemanticSegmentation(hf.UperNetConfig(backbone_config=swin, auxiliary_in_channels=32, **heads))
    body = shapes(timm.models.swin_transformer.SwinTransformer(
        img_size=224, embed_dim=8, depths=(2, 2, 1, 1), num_heads=(2, 4, 8, 8), window_size=7, num_classes=5).state_dict())
    body = {k: s for k, s in official_swin(body).items()
            if not k.endswith(("relative_position_index", "attn_mask")) and not k.startswith(("head.", "norm."))}
    for stage in range(4):
        body |= {f"norm{stage}.weight": (8 << stage,), f"norm{stage}.bias": (8 << stage,)}
    official = official_uper_net(without_counters(published(model)), body)
    write("hf_uper_net_swin", published(model), official)
    write("hf_uper_net_swin_memory", shapes(model.state_dict()), official)


def main():
    os.makedirs(FOLDER, exist_ok=True)
    torch.set_num_threads(1)
    vision()
    detectors()
    segmenters()


if __name__ == "__main__":
    main()
