"""Parts shared by the goldens of torchvision's detectors."""
import torch
from torchvision.models.resnet import BasicBlock, ResNet
from torchvision.ops import FrozenBatchNorm2d

MEAN, STD = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])


class SmallBody(ResNet):
    """torchvision's ResNet of basic blocks, one per stage, with few channels."""

    def __init__(self, width):
        super().__init__(BasicBlock, [1, 1, 1, 1], norm_layer=FrozenBatchNorm2d)
        self.inplanes = width
        self.conv1 = torch.nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = FrozenBatchNorm2d(width)
        for i in range(4):
            setattr(self, f"layer{i + 1}", self._make_layer(BasicBlock, width << i, 1, stride=1 if i == 0 else 2))


def in_bf16(x):
    return x.to(torch.bfloat16).to(x.dtype)


def random_like(name, t, generator):
    """A value for the tensor of this name: norms that have an effect, weights that keep the spread of their
    input."""
    if name.endswith("running_var") or ("bn" in name or "downsample.1" in name) and name.endswith("weight"):
        return torch.rand(t.shape, generator=generator) + 0.5
    if t.dim() >= 2:
        return torch.randn(t.shape, generator=generator) * (1.4 / (t[0].numel() ** 0.5))
    return torch.randn(t.shape, generator=generator) * 0.1


def without_resizing(model):
    model.transform.resize = lambda image, target=None: (image, target)
    return model
