"""Train the small Fashion-MNIST network that ships inside the package, and write it as ONNX.

The pictures come from a Debian package (31 MB, MIT licence, all 70,000 pictures):

    apt-get update && apt-get install dataset-fashion-mnist    # `dpkg -L` then shows where they lie

or, without installing anything:

    apt-get download dataset-fashion-mnist && dpkg -x dataset-fashion-mnist_*.deb fashion

and then, with torch installed (it is not needed to *use* the network):

    python examples/train_fashion_mnist.py --data fashion/usr/share/datasets/fashion-mnist

An epoch takes about a minute on two cores. The network is a plain VGG: 3x3 convolutions, ReLU, 2x2 max-pool,
one linear layer. Batch normalisation helps training and is folded into the convolutions before the file is
written, so the file holds Conv, Relu, MaxPool, Flatten and Gemm only. The test pictures are looked at once,
after the last epoch: they choose neither an epoch nor a setting.
"""

import argparse
import gzip
import math
import time
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_eval

LABELS = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
# Output channels of each 3x3 convolution, "pool" for a 2x2 max-pool. Narrow where the picture is large, wide
# where it is small: that is where a parameter costs least time. 203,274 of them once folded, 0.8 MB in all.
STAGES = (16, 32, "pool", 48, 48, "pool", 96, 128, "pool")
PICTURE_SIDE = 28
LARGEST_SHIFT = 2


# The data


def read_idx(path: Path) -> np.ndarray:
    """Decode a gzipped IDX file of bytes: two zeros, type 8, the rank, big-endian sizes, then the data."""
    content = gzip.decompress(path.read_bytes())
    if content[:3] != b"\x00\x00\x08":
        raise ValueError(f"{path.name}: not an IDX file of unsigned bytes")
    rank = content[3]
    shape = np.frombuffer(content, ">u4", count=rank, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(shape)


def read_split(folder: Path, split: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Pictures as uint8 [n,28,28] and labels as int64 [n] of "train" or "t10k"."""
    pictures = read_idx(folder / f"{split}-images-idx3-ubyte.gz")
    labels = read_idx(folder / f"{split}-labels-idx1-ubyte.gz")
    return torch.from_numpy(pictures.copy()), torch.from_numpy(labels.astype(np.int64))


def to_input(pictures: torch.Tensor) -> torch.Tensor:
    """uint8 [n,28,28] to what the network takes: float32 [n,1,28,28] in 0..1, nothing else done to it."""
    return pictures.unsqueeze(1).to(torch.float32) / 255


def augment(pictures: torch.Tensor) -> torch.Tensor:
    """Mirror half of the pictures and move each by up to two pixels, in one gather."""
    count = len(pictures)
    padded = functional.pad(pictures, (LARGEST_SHIFT,) * 4)
    along = torch.arange(PICTURE_SIDE)
    rows = along + torch.randint(0, 2 * LARGEST_SHIFT + 1, (count, 1))
    columns = along + torch.randint(0, 2 * LARGEST_SHIFT + 1, (count, 1))
    mirrored = torch.rand(count, 1) < 0.5
    columns = torch.where(mirrored, columns.flip(1), columns)
    return padded[torch.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]


# The network and its training


def build_network() -> nn.Sequential:
    """The network as it is trained. No input normalisation: the first batch normalisation does that work."""
    layers: list[nn.Module] = []
    channels, side = 1, PICTURE_SIDE
    for stage in STAGES:
        if stage == "pool":
            layers.append(nn.MaxPool2d(2))
            side //= 2
            continue
        layers.append(nn.Conv2d(channels, stage, 3, padding=1, bias=False))
        layers += [nn.BatchNorm2d(stage), nn.ReLU(inplace=True)]
        channels = stage
    layers += [nn.Flatten(), nn.Linear(channels * side * side, len(LABELS))]
    # Channels last trains about 1.2 times as fast on two AVX2 cores (83 s an epoch against 99 s for a
    # network a little larger than this one).
    return nn.Sequential(*layers).to(memory_format=torch.channels_last)


def learning_rate(progress: float, peak: float) -> float:
    """A short linear warm-up, then a half cosine down to zero; progress runs from 0 to 1."""
    warm_up = 0.08
    if progress < warm_up:
        return peak * progress / warm_up
    return peak * 0.5 * (1 + math.cos(math.pi * (progress - warm_up) / (1 - warm_up)))


def train(
    network: nn.Sequential, pictures: torch.Tensor, labels: torch.Tensor, options: argparse.Namespace
) -> None:
    optimizer = torch.optim.SGD(network.parameters(), momentum=0.9, nesterov=True, weight_decay=5e-4)
    steps = len(pictures) // options.batch
    network.train()
    for epoch in range(options.epochs):
        started, total_loss = time.perf_counter(), 0.0
        order = torch.randperm(len(pictures))[: steps * options.batch].view(steps, options.batch)
        for step, chosen in enumerate(order):
            progress = (epoch + step / steps) / options.epochs
            optimizer.param_groups[0]["lr"] = learning_rate(progress, options.rate)
            batch = to_input(augment(pictures[chosen])).contiguous(memory_format=torch.channels_last)
            loss = functional.cross_entropy(network(batch), labels[chosen], label_smoothing=0.05)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total_loss += loss.item()
        loss_and_time = f"loss {total_loss / steps:.4f}  {time.perf_counter() - started:.0f} s"
        print(f"epoch {epoch + 1}/{options.epochs}  {loss_and_time}", flush=True)


def fold_normalisation(network: nn.Sequential) -> nn.Sequential:
    """The same function with every batch normalisation folded into the convolution before it."""
    folded: list[nn.Module] = []
    for layer in network.eval():
        if isinstance(layer, nn.BatchNorm2d):
            folded[-1] = fuse_conv_bn_eval(folded[-1], layer)
        else:
            folded.append(layer)
    return nn.Sequential(*folded).eval()


@torch.inference_mode()
def accuracy(network: nn.Sequential, pictures: torch.Tensor, labels: torch.Tensor) -> float:
    correct = 0
    for first in range(0, len(pictures), 500):
        logits = network(to_input(pictures[first : first + 500]))
        correct += int((logits.argmax(1) == labels[first : first + 500]).sum())
    return correct / len(pictures)


# The file


def node_for(layer: nn.Module) -> tuple[str, dict[str, object]]:
    """ONNX operator and attributes of one layer; anything else in the network is a mistake here."""
    match layer:
        case nn.Conv2d():
            return "Conv", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [1, 1]}
        case nn.ReLU():
            return "Relu", {}
        case nn.MaxPool2d():
            return "MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}
        case nn.Flatten():
            return "Flatten", {"axis": 1}
        case nn.Linear():
            return "Gemm", {"transB": 1}
    raise TypeError(f"no ONNX operator is written here for {layer}")


def to_onnx(network: nn.Sequential) -> onnx.ModelProto:
    """Write the folded network by hand: a chain is simpler to build than to trace, and names stay clear."""
    nodes, weights, value, convolutions = [], [], "picture", 0
    for index, layer in enumerate(network):
        operator, attributes = node_for(layer)
        convolutions += operator == "Conv"
        name = f"conv{convolutions}" if operator == "Conv" else f"{operator.lower()}{index}"
        inputs = [value]
        for parameter in ("weight", "bias"):
            if (tensor := getattr(layer, parameter, None)) is None:
                continue
            inputs.append(f"{name}.{parameter}")
            weights.append(numpy_helper.from_array(tensor.detach().contiguous().numpy(), inputs[-1]))
        value = "logits" if index == len(network) - 1 else f"{name}_out"
        nodes.append(helper.make_node(operator, inputs, [value], name=name, **attributes))
    return finish_model(nodes, weights)


def finish_model(nodes: list[onnx.NodeProto], weights: list[onnx.TensorProto]) -> onnx.ModelProto:
    """Add what a user of the file reads: named inputs and outputs, versions, the labels."""
    picture_shape = ["batch", 1, PICTURE_SIDE, PICTURE_SIDE]
    picture = helper.make_tensor_value_info("picture", TensorProto.FLOAT, picture_shape)
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", len(LABELS)])
    graph = helper.make_graph(nodes, "fashion_mnist", [picture], [logits], weights)
    opset = helper.make_opsetid("", 17)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=8, producer_name="cenote")
    properties = {"labels": ",".join(LABELS), "dataset": "Fashion-MNIST (Zalando Research, MIT)"}
    helper.set_model_props(model, properties)
    onnx.checker.check_model(model, full_check=True)
    return model


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the four .gz files")
    parser.add_argument("--output", type=Path, default=Path("fashion.onnx"), help="file to write")
    parser.add_argument("--epochs", type=int, default=16)
    parser.add_argument("--batch", type=int, default=128, help="pictures per step")
    parser.add_argument("--rate", type=float, default=0.1, help="peak learning rate")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    torch.manual_seed(options.seed)
    network = build_network()
    started = time.perf_counter()
    train(network, *read_split(options.data, "train"), options)
    print(f"trained in {(time.perf_counter() - started) / 60:.1f} minutes")

    folded = fold_normalisation(network)
    model = to_onnx(folded)
    options.output.write_bytes(model.SerializeToString())
    parameters = sum(parameter.numel() for parameter in folded.parameters())
    print(f"{options.output.name}: {parameters:,} parameters, {options.output.stat().st_size:,} bytes")
    correct = accuracy(folded, *read_split(options.data, "t10k"))
    print(f"test accuracy of the folded network: {correct:.2%}")


if __name__ == "__main__":
    main()
