"""transformers' Deformable DETR, in all variants, and DETR as independent references; their weights in files.

For each variant a random model is made in PyTorch (all tensors are redrawn, so that no zero initialisation
hides an error), run on a padded batch, and written to FOLDER:

  VARIANT.safetensors       as save_pretrained writes it, with Hugging Face's names
  VARIANT.zip.pth           under official names in the zip container of torch.save, with "args" and an
                            optimizer beside it
  VARIANT.legacy.pth        the same as the pickle stream of PyTorch before 1.6
  VARIANT.golden.safetensors   logits and boxes of every decoder layer
  images.safetensors           the batches: images channels last, and their sizes

tests/train/checkpoints/transformers_test.cpp reads the folder tests/golden/transformers (reduced models, made
by `make`; only some of the weight files, to keep it small) or the one that SACCADE_TRANSFORMERS_CASES names
(`full` makes the published sizes).

Known differences of transformers from the official code, none of which changes the result at evaluation:
  * The order of norms in the decoder is that of execution; officially norm1 is the cross-attention's, norm2
    the self-attention's. Only names differ.
  * The position encoding puts -0.5 into the cumulative sum like the official one; its "scale" is 2 pi.
  * With one level, transformers takes the backbone's last output only, as officially.
  * Two stages: the official code masks invalid proposals with infinite logits; transformers does so too, and
    takes the proposals' scores from column 0 of the last class head.
  * transformers 5 ties the class heads of all layers also with box refinement (officially they are clones
    that training lets differ), and writes only the first one; it must then be read for all. Two-stage models
    are not affected.
  * DC5 exists in transformers for timm backbones only; timm's first dilated block keeps the dilation before
    it, as torchvision's does.
For DETR there is only Hugging Face's file (detr_*.safetensors) and the last layer's output: its official
names and formats have their own tests (make_small_detr.py).

The independent model of small_deformable_detr.py, with official names, is loaded with the same values
(strict) and compared as well.

Usage: python scripts/golden/published/transformers_detectors.py make|full [--folder F] [--only VARIANT]
       needs torch, transformers, timm, safetensors
"""
import argparse
import os
import re
import sys
import tempfile
import warnings

import torch
from safetensors.torch import load_file, save_file

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
warnings.filterwarnings("ignore")
import timm.models.resnet as timm_resnet  # noqa: E402
from transformers import (DeformableDetrConfig, DeformableDetrForObjectDetection, DetrConfig,  # noqa: E402
                          DetrForObjectDetection, ResNetConfig)

import small_deformable_detr as ours  # noqa: E402

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tests", "golden", "transformers")
VARIANTS = {
    "single_scale": dict(levels=1),
    "single_scale_dc5": dict(levels=1, dilation=True),
    "multi_scale": dict(),
    "refine": dict(refine=True),
    "two_stage": dict(refine=True, two_stage=True),
}
SIZES = {  # the shapes of the images of each batch; a batch is padded to its largest sides
    "make": [[(56, 80), (72, 48)], [(67, 40)]],
    "full": [[(256, 384), (320, 256)], [(199, 333)], [(480, 640), (400, 300), (123, 640)]],
}


def configuration(variant, full):
    if full:
        return ours.Config(**VARIANTS[variant])
    small = dict(d=32, heads=4, encoder_layers=1, decoder_layers=2, ffn=16, queries=6, classes=4, encoder_points=1,
                 decoder_points=2, blocks=(1, 1, 1, 2 if "dilation" in VARIANTS[variant] else 1), width=1)
    return ours.Config(**small, **VARIANTS[variant])


def freeze(module):
    """Replaces batch norms by constants, as DETR does."""
    for name, child in module.named_children():
        if isinstance(child, torch.nn.BatchNorm2d):
            setattr(module, name, ours.FrozenBatchNorm2d(child.num_features))
        else:
            freeze(child)


def make_model(c):
    channels = [c.width * 4 * 2 ** i for i in range(4)]
    resnet = ResNetConfig(embedding_size=c.width, hidden_sizes=channels, depths=list(c.blocks),
                          layer_type="bottleneck",
                          out_features=["stage2", "stage3", "stage4"] if c.levels > 1 else ["stage4"])
    config = DeformableDetrConfig(
        use_timm_backbone=False, backbone_config=resnet, backbone=None, use_pretrained_backbone=False, d_model=c.d,
        encoder_layers=c.encoder_layers, decoder_layers=c.decoder_layers, encoder_attention_heads=c.heads,
        decoder_attention_heads=c.heads, encoder_ffn_dim=c.ffn, decoder_ffn_dim=c.ffn, num_queries=c.queries,
        num_labels=c.classes, num_feature_levels=c.levels, encoder_n_points=c.encoder_points,
        decoder_n_points=c.decoder_points, with_box_refine=c.refine, two_stage=c.two_stage,
        two_stage_num_proposals=c.queries, dilation=c.dilation)
    model = DeformableDetrForObjectDetection(config)
    if c.dilation:  # transformers builds dilated backbones from timm's registry only: put one in, with timm's code
        model.model.backbone.model = DilatedBackbone(c)
    return model.eval()


class DilatedBackbone(torch.nn.Module):
    """transformers' backbone interface over timm's layers."""

    def __init__(self, c):
        super().__init__()
        net = timm_resnet.ResNet(timm_resnet.Bottleneck, list(c.blocks), output_stride=16,
                                 channels=tuple(c.width * 2 ** i for i in range(4)))
        if c.width != 64:  # timm's stem always has 64 channels
            first = net.layer1[0]
            net.conv1, net.bn1 = torch.nn.Conv2d(3, c.width, 7, 2, 3, bias=False), torch.nn.BatchNorm2d(c.width)
            first.conv1 = torch.nn.Conv2d(c.width, c.width, 1, bias=False)
            first.downsample[0] = torch.nn.Conv2d(c.width, 4 * c.width, 1, bias=False)
        for name in ("conv1", "bn1", "act1", "maxpool", "layer1", "layer2", "layer3", "layer4"):
            setattr(self, name, getattr(net, name))
        freeze(self)

    def forward(self, pixels, *args, **kwargs):
        x = self.maxpool(self.act1(self.bn1(self.conv1(pixels))))
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = stage(x)
        return [x]


@torch.no_grad()
def draw(model, seed, full):
    """Every tensor random, so that scores and boxes vary; f32 values that bf16 can hold, to keep files
    small."""
    # At full size, small steps of the backbone's residual stream and smaller weights after it: otherwise a
    # hundred random layers amplify rounding beyond 1e-4, also in PyTorch.
    step = re.compile(r"(layer\.2\.normalization|bn3)\.weight")
    g = torch.Generator().manual_seed(seed)
    for name, t in model.state_dict().items():
        if not t.is_floating_point():
            continue
        if name.endswith("running_var"):
            value = torch.rand(t.shape, generator=g) + 0.5
        elif t.dim() >= 2:
            fan = t[0].numel() if t.dim() > 2 else t.shape[1]
            gain = 1.0 if full and "backbone" not in name else 1.4
            value = torch.randn(t.shape, generator=g) * (gain / fan ** 0.5 if "level_embed" not in name and
                                                         "position_embeddings" not in name else 1.0)
        elif "norm" in name and name.endswith("weight") or re.search(r"(bn\d|downsample\.1|input_proj\.\d\.1)\.weight",
                                                                      name):
            value = torch.rand(t.shape, generator=g) + 0.5
            if full and step.search(name):
                value *= 0.2
        else:
            value = torch.randn(t.shape, generator=g) * 0.3
        t.copy_(value.to(torch.bfloat16).to(t.dtype))


def resnet_name(name):
    name = name.replace("embedder.embedder.convolution", "conv1").replace("embedder.embedder.normalization", "bn1")
    m = re.match(r"encoder\.stages\.(\d)\.layers\.(\d+)\.(.*)", name)
    if not m:
        return name
    rest = m[3].replace("shortcut.convolution", "downsample.0").replace("shortcut.normalization", "downsample.1")
    rest = re.sub(r"layer\.(\d)\.convolution", lambda k: f"conv{int(k[1]) + 1}", rest)
    rest = re.sub(r"layer\.(\d)\.normalization", lambda k: f"bn{int(k[1]) + 1}", rest)
    return f"layer{int(m[1]) + 1}.{m[2]}.{rest}"


def official(state):
    """The official names, by the rules of transformers' own conversion script in reverse."""
    out = {}
    for name, t in state.items():
        if name.endswith("num_batches_tracked"):
            continue
        m = re.match(r"model\.backbone\.(?:conv_encoder\.)?model\.(.*)", name)
        if m:
            out["backbone.0.body." + resnet_name(m[1])] = t
            continue
        decoder = ".decoder.layers." in name
        name = re.sub(r"\.(mlp\.)?fc([12])\.", r".linear\2.", name)
        name = name.replace("self_attn.o_proj", "self_attn.out_proj")
        name = name.replace("self_attn_layer_norm", "norm2" if decoder else "norm1")
        name = name.replace("encoder_attn_layer_norm", "norm1").replace("final_layer_norm", "norm3" if decoder else "norm2")
        name = name.replace("encoder_attn.", "cross_attn.")
        if name.startswith("model."):
            rest = name[len("model."):]
            if rest.startswith("input_proj"):
                name = rest
            elif rest.startswith("query_position_embeddings"):
                name = rest.replace("query_position_embeddings", "query_embed")
            else:
                name = "transformer." + rest
        out[name] = t
    for name in [n for n in out if n.endswith("q_proj.weight") and "self_attn" in n]:
        base = name[:-len("q_proj.weight")]
        for kind in ("weight", "bias"):
            out[f"{base}in_proj_{kind}"] = torch.cat([out.pop(f"{base}{k}_proj.{kind}") for k in "qkv"])
    return out


def batches(kind):
    g = torch.Generator().manual_seed(0)
    out = []
    for sizes in SIZES[kind]:
        height, width = max(h for h, _ in sizes), max(w for _, w in sizes)
        images = torch.zeros(len(sizes), 3, height, width)
        mask = torch.zeros(len(sizes), height, width, dtype=torch.bool)
        for n, (h, w) in enumerate(sizes):
            images[n, :, :h, :w] = torch.randn(3, h, w, generator=g).to(torch.bfloat16).float()
            mask[n, :h, :w] = True
        out.append((images, mask, sizes))
    return out


@torch.no_grad()
def run(model, images, mask):
    """transformers -> (logits, boxes) [L, N, Q, .]"""
    out = model(pixel_values=images, pixel_mask=mask.long(), return_dict=True)
    # The outputs of the layers, passed through the heads as the model does for its auxiliary losses.
    hidden, reference = out.intermediate_hidden_states, out.intermediate_reference_points
    logits, boxes = [], []
    for i in range(hidden.shape[1]):
        before = out.init_reference_points if i == 0 else reference[:, i - 1]
        logits.append(model.class_embed[i](hidden[:, i]))
        boxes.append(ours.decode(model.bbox_embed[i](hidden[:, i]), before))
    assert torch.equal(logits[-1], out.logits) and (boxes[-1] - out.pred_boxes).abs().max() < 1e-6
    return torch.stack(logits), torch.stack(boxes)


def make(variant, kind, folder, seed):
    full = kind == "full"
    c = configuration(variant, full)
    model = make_model(c)
    draw(model, seed, full)
    with tempfile.TemporaryDirectory() as d:
        if c.dilation:  # not a model that from_pretrained could rebuild
            state = {k: v for k, v in model.state_dict().items()}
            state = {k.replace("backbone.model.", "backbone.conv_encoder.model."): v for k, v in state.items()}
            state = {k: v.clone() for k, v in state.items() if not re.match(r"(class|bbox)_embed\.[1-9]", k)}
            save_file(state, d + "/model.safetensors", metadata={"format": "pt"})
        else:
            model.save_pretrained(d)
        published = load_file(d + "/model.safetensors")
    if not full:
        published = {k: v.to(torch.bfloat16) if v.is_floating_point() else v for k, v in published.items()}
    save_file(published, os.path.join(folder, variant + ".safetensors"), metadata={"format": "pt"})

    names = official(model.state_dict())
    reference = ours.DeformableDetr(c).eval()
    for name, t in reference.state_dict().items():  # names that share a tensor in the official model
        names.setdefault(name, t)
    reference.load_state_dict(names, strict=True)
    shared = reference.state_dict()
    if not full:
        stored = {}
        shared = {k: stored.setdefault(v.data_ptr(), v.to(torch.bfloat16)) for k, v in shared.items()}
    arguments = argparse.Namespace(dilation=c.dilation, nheads=c.heads, num_queries=c.queries, dropout=0.1,
                                   enc_n_points=c.encoder_points, dec_n_points=c.decoder_points, masks=False,
                                   with_box_refine=c.refine, two_stage=c.two_stage, aux_loss=True)
    optimizer = {"state": {}, "param_groups": [{"lr": 2e-4, "params": [0, 1]}]}
    checkpoint = {"model": shared, "optimizer": optimizer, "epoch": 49, "args": arguments}
    if full or variant == "two_stage":
        torch.save(checkpoint, os.path.join(folder, variant + ".zip.pth"))
    if full or variant == "multi_scale":
        torch.save(checkpoint, os.path.join(folder, variant + ".legacy.pth"), _use_new_zipfile_serialization=False)

    arrays, worst = {}, 0.0
    wide, wide_reference = model.double(), reference.double()
    for b, (images, mask, _) in enumerate(batches(kind)):
        x = images.double()
        logits, boxes = run(wide, x, mask)
        with torch.no_grad():
            layers, _ = wide_reference(x, ~mask)
        for i, (other_logits, other_boxes) in enumerate(layers):
            worst = max(worst, float((logits[i] - other_logits).abs().max()), float((boxes[i] - other_boxes).abs().max()))
        arrays[f"{b}.logits"] = logits.float().contiguous()
        arrays[f"{b}.boxes"] = boxes.float().contiguous()
        spread = float(logits[-1].std()), float(boxes[-1].std())
    save_file(arrays, os.path.join(folder, variant + ".golden.safetensors"))
    print(f"{variant}: {len(shared)} official tensors; transformers and the independent model differ by at most "
          f"{worst:.2e}; logits vary by {spread[0]:.2f}, boxes by {spread[1]:.3f}", flush=True)


def make_detr(position, kind, folder, seed):
    full = kind == "full"
    c = configuration("single_scale", full)
    resnet = ResNetConfig(embedding_size=c.width, hidden_sizes=[c.width * 4 * 2 ** i for i in range(4)],
                          depths=list(c.blocks), layer_type="bottleneck", out_features=["stage4"])
    model = DetrForObjectDetection(DetrConfig(
        use_timm_backbone=False, backbone_config=resnet, backbone=None, use_pretrained_backbone=False, d_model=c.d,
        encoder_layers=c.encoder_layers, decoder_layers=c.decoder_layers, encoder_attention_heads=c.heads,
        decoder_attention_heads=c.heads, encoder_ffn_dim=2 * c.ffn, decoder_ffn_dim=2 * c.ffn, num_queries=c.queries,
        num_labels=c.classes, position_embedding_type=position)).eval()
    draw(model, seed, full)
    name = os.path.join(folder, "detr_" + position)
    with tempfile.TemporaryDirectory() as d:
        model.save_pretrained(d)
        published = load_file(d + "/model.safetensors")
    if not full:
        published = {k: v.to(torch.bfloat16) if v.is_floating_point() else v for k, v in published.items()}
        model = model.double()
    save_file(published, name + ".safetensors", metadata={"format": "pt"})
    arrays = {}
    for b, (images, mask, _) in enumerate(batches(kind)):
        with torch.no_grad():
            out = model(pixel_values=images if full else images.double(), pixel_mask=mask.long())
        arrays[f"{b}.logits"] = out.logits[None].float().contiguous()
        arrays[f"{b}.boxes"] = out.pred_boxes[None].float().contiguous()
    save_file(arrays, name + ".golden.safetensors")
    print(f"detr_{position}: logits vary by {float(out.logits.std()):.2f}, boxes by {float(out.pred_boxes.std()):.3f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["make", "full"])
    parser.add_argument("--folder")
    parser.add_argument("--only", choices=[*VARIANTS, "detr_sine", "detr_learned"])
    a = parser.parse_args()
    torch.set_num_threads(1)
    folder = a.folder or GOLDEN
    os.makedirs(folder, exist_ok=True)
    arrays = {}
    for b, (images, _, sizes) in enumerate(batches(a.kind)):
        arrays[f"{b}.images"] = images.permute(0, 2, 3, 1).contiguous().to(torch.bfloat16)
        arrays[f"{b}.sizes"] = torch.tensor(sizes)
    save_file(arrays, os.path.join(folder, "images.safetensors"))
    for seed, variant in enumerate(VARIANTS):
        if a.only in (None, variant):
            make(variant, a.kind, folder, seed + 1)
    for seed, position in enumerate(("sine", "learned")):
        if a.only in (None, "detr_" + position):
            make_detr(position, a.kind, folder, seed + 11)


if __name__ == "__main__":
    main()
