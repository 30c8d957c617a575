"""The files in which golden DETR models are kept: NAME.weights.safetensors and NAME.golden.safetensors.

The golden file's metadata holds `config`, Saccade's configuration of the model. Its tensors:
    input.images [N, H, W, 3] u8 (a normalised pixel is u / 64 - 2; the padding is 128), input.mask [N, H, W]
    (True where padded), target.I.labels [T] i64, target.I.boxes [T, 4] f32 (cx, cy, w, h relative to the
    image without its padding), output.logits [layers, N, Q, C], output.boxes [layers, N, Q, 4],
and where a training step was made: loss.total, loss.{class,bbox,giou}S (parts without weights; S is empty for
the last layer, else _0, ...) and grad.NAME for every trained parameter.
"""
import torch

from make_small_deformable_detr import make_batch
from safetensors_io import save


def model_config(c):
    backbone = f"blocks: {list(c.blocks)} width: {c.width} bottleneck: {str(c.bottleneck).lower()}"
    backbone += f" dilation: {str(c.dilation).lower()} frozen_stages: {c.frozen_stages}"
    position = '"learned"' if c.learned else '"sine"'
    anchors = " anchor_queries: true" if c.anchors else ""
    transformer = f"""hidden_dim: {c.d} heads: {c.heads} encoder_layers: {c.encoder_layers}
    decoder_layers: {c.decoder_layers} ffn_dim: {c.ffn} dropout: 0 queries: {c.queries} levels: 1
    pre_norm: {str(c.pre_norm).lower()} position_encoding: {position}{anchors} """
    return f"""model {{ type: "detr" num_classes: {c.classes} backbone {{ {backbone} }}
  transformer {{ {transformer}}} }}
criterion {{ class_loss: softmax class_weight: 1 cost_class: 1 }}
"""


def make_images(sizes, counts, g):
    """A batch whose pixels are the values that u8 can hold."""
    images, mask, targets = make_batch(sizes, counts, g)
    return pixels(images).double() / 64 - 2, mask, targets


def pixels(images):
    return (images * 64 + 128).round().clamp(0, 255).to(torch.uint8)


def batch_arrays(batch, inputs="input.", goals="target."):
    images, mask, targets = batch
    out = {inputs + "images": pixels(images).permute(0, 2, 3, 1).contiguous().numpy(), inputs + "mask": mask.numpy()}
    for i, (labels, boxes) in enumerate(targets):
        out[f"{goals}{i}.labels"], out[f"{goals}{i}.boxes"] = labels.numpy(), boxes.numpy()
    return out


def write(path, config, state, batch, values):
    """config: small_detr.Config; state: {official name: tensor}; values: {name: tensor} of the model's
    outputs."""
    metadata = {"config": model_config(config), "made_by": f"PyTorch {torch.__version__}"}
    save(path + ".weights.safetensors", {k: v.detach().float().numpy() for k, v in state.items()}, metadata)
    arrays = batch_arrays(batch)
    arrays.update({k: v.detach().float().numpy() for k, v in values.items()})
    save(path + ".golden.safetensors", arrays, metadata)
