"""Hugging Face transformers' DETR under the official names: code that Saccade's authors did not write.

    /tmp/venv/bin/pip install torch torchvision timm transformers scipy
"""
import re

import torch
from transformers import DetrConfig, DetrForObjectDetection, ResNetConfig, TimmBackboneConfig

RULES = [  # (transformers' name, official name)
    (r"^model\.backbone\.model\.embedder\.embedder\.convolution", "backbone.0.body.conv1"),
    (r"^model\.backbone\.model\.embedder\.embedder\.normalization", "backbone.0.body.bn1"),
    (r"^model\.backbone\.model\.encoder\.stages\.(\d+)\.layers\.(\d+)\.shortcut\.convolution",
     lambda m: f"backbone.0.body.layer{int(m[1]) + 1}.{m[2]}.downsample.0"),
    (r"^model\.backbone\.model\.encoder\.stages\.(\d+)\.layers\.(\d+)\.shortcut\.normalization",
     lambda m: f"backbone.0.body.layer{int(m[1]) + 1}.{m[2]}.downsample.1"),
    (r"^model\.backbone\.model\.encoder\.stages\.(\d+)\.layers\.(\d+)\.layer\.(\d+)\.convolution",
     lambda m: f"backbone.0.body.layer{int(m[1]) + 1}.{m[2]}.conv{int(m[3]) + 1}"),
    (r"^model\.backbone\.model\.encoder\.stages\.(\d+)\.layers\.(\d+)\.layer\.(\d+)\.normalization",
     lambda m: f"backbone.0.body.layer{int(m[1]) + 1}.{m[2]}.bn{int(m[3]) + 1}"),
    (r"^model\.backbone\.model\.", "backbone.0.body."),  # timm has torchvision's names
    (r"^model\.position_embedding\.row_embeddings", "backbone.1.row_embed"),
    (r"^model\.position_embedding\.column_embeddings", "backbone.1.col_embed"),
    (r"^model\.query_position_embeddings", "query_embed"),
    (r"^model\.input_projection", "input_proj"),
    (r"^model\.(encoder|decoder)\.", r"transformer.\1."),
    (r"^class_labels_classifier", "class_embed"),
    (r"^bbox_predictor", "bbox_embed"),
    (r"\.mlp\.fc(\d)", r".linear\1"),
    (r"\.o_proj\.", ".out_proj."),
    (r"(decoder\.layers\.\d+)\.encoder_attn_layer_norm", r"\1.norm2"),
    (r"(decoder\.layers\.\d+)\.final_layer_norm", r"\1.norm3"),
    (r"\.self_attn_layer_norm", ".norm1"),
    (r"\.final_layer_norm", ".norm2"),
    (r"\.encoder_attn\.", ".multihead_attn."),
    (r"decoder\.layernorm", "decoder.norm"),
]


def build(c, timm=False):
    """c: small_detr.Config. With timm the backbone is timm's ResNet-50 or 101, which knows dilation."""
    if timm:
        backbone = TimmBackboneConfig(backbone={3: None, 6: "resnet50", 23: "resnet101"}[c.blocks[2]], out_indices=[4],
                                      use_pretrained_backbone=False, output_stride=16 if c.dilation else 32)
    else:
        scale = 4 if c.bottleneck else 1
        backbone = ResNetConfig(embedding_size=c.width, hidden_sizes=[c.width * scale * 2 ** i for i in range(4)],
                                depths=list(c.blocks), layer_type="bottleneck" if c.bottleneck else "basic",
                                out_features=["stage4"])
    config = DetrConfig(backbone_config=backbone, d_model=c.d, encoder_layers=c.encoder_layers,
                        decoder_layers=c.decoder_layers, encoder_ffn_dim=c.ffn, decoder_ffn_dim=c.ffn,
                        encoder_attention_heads=c.heads, decoder_attention_heads=c.heads, num_queries=c.queries,
                        position_embedding_type="learned" if c.learned else "sine",
                        attn_implementation="eager")
    config.num_labels = c.classes
    model = DetrForObjectDetection(config).eval()
    # transformers' small initial weights leave layer norms with almost no variance; the official ones do not.
    for name, p in model.named_parameters():
        if "query_position" in name:
            torch.nn.init.normal_(p)
        elif p.dim() > 1 and "backbone" not in name:
            torch.nn.init.xavier_uniform_(p)
    if c.dilation and not timm:
        # transformers' own ResNet has no dilation: the last stage's strides are removed as torchvision does
        # it.
        stage = model.model.backbone.model.encoder.stages[3]
        for name, module in stage.named_modules():
            if isinstance(module, torch.nn.Conv2d):
                first = name.startswith("layers.0.")
                module.stride = (1, 1)
                if module.kernel_size == (3, 3) and not first:
                    module.dilation = module.padding = (2, 2)
    return model


def train_as_official(model, frozen_stages=2):
    """Which backbone weights are trained: all convolutions after `frozen_stages` of {stem, stage 1, ...}."""
    for name, p in model.named_parameters():
        stage = re.search(r"layer(\d)\.|$", official_name(name))[1]
        p.requires_grad_(not official_name(name).startswith("backbone.0.") or int(stage or 0) >= frozen_stages)


def official_name(name):
    for pattern, replacement in RULES:
        name = re.sub(pattern, replacement, name)
    return name


def official(tensors):
    """{transformers' name: tensor} -> {official name: tensor}; queries, keys and values become one tensor."""
    out = {}
    for name, tensor in tensors.items():
        name = official_name(name)
        if ".k_proj." in name or ".v_proj." in name or name.endswith("num_batches_tracked"):
            continue
        out[name] = tensor
    for name in [n for n in out if ".q_proj." in n]:
        back = {official_name(k): k for k in tensors}
        parts = [tensors[back[name.replace(".q_proj.", part)]] for part in (".q_proj.", ".k_proj.", ".v_proj.")]
        out[name.replace("q_proj.", "in_proj_")] = torch.cat(parts)
        del out[name]
    return out


def predict(model, images, mask):
    """-> [(logits, boxes) of each decoder layer]; mask is True where padded.

    The earlier layers' outputs come from hooks: with auxiliary_loss transformers (5.23) normalises the states
    between the layers as well, which the official code does not."""
    states = []
    hooks = [layer.register_forward_hook(lambda _, __, out: states.append(out)) for layer in model.model.decoder.layers]
    result = model(images, pixel_mask=(~mask).long())
    for hook in hooks:
        hook.remove()
    states = [model.model.decoder.layernorm(x) for x in states]
    layers = [(model.class_labels_classifier(x), model.bbox_predictor(x).sigmoid()) for x in states]
    assert torch.equal(layers[-1][0], result.logits) and torch.equal(layers[-1][1], result.pred_boxes)
    return layers
