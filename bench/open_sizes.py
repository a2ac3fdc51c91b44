"""Checks every benchmark network with open sizes: loaded once, run at several, in an order that changes classes.

    python -m bench.open_sizes                 all networks
    python -m bench.open_sizes unet yolov8n --sizes 8

Batch, height and width are open where the network takes any; else those that it does. Each answer is compared with that
of the same file with its sizes declared (both with precision="exact", where only averages may add up in another order)
and with ONNX Runtime's. Ends with an error where one differs by more than TOLERANCE of its largest value.
"""

import argparse
import re
import sys
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch

import cenote
from bench.any_size import difference
from bench.export import OPSET
from bench.networks import NETWORKS, build
from bench.networks.blocks import open_sizes
from bench.report import table

SEED = 5
TOLERANCE = 2e-4  # two engines that compute in float32, each within 1e-4 of the truth
SIDES = (75, 128)  # pixels; Inception v3 takes no fewer
BATCHES = (1, 2)


@dataclass(frozen=True)
class Open:
    """Which axes are open beside the batch, and what their extents are multiples of."""

    axes: tuple[int, ...] = (2, 3)
    multiple: int = 1


# The first three flatten maps of one size (or pool them to 6 x 6 or 7 x 7, which exporters write down for known sizes
# only), the transformer has learned its places; others halve maps and join them again.
OPEN = {
    **{name: Open(()) for name in ("lenet5", "alexnet", "vgg16", "vgg16_bn", "vit_small")},
    "yolov8n": Open(multiple=32), "unet": Open(multiple=16), "crnn": Open((3,), multiple=4),
}  # fmt: skip


@dataclass
class Found:
    """What a network showed: the largest differences, and how many answers had the same bits."""

    name: str
    sizes: int
    classes: str
    same: int = 0
    fixed: float = 0.0
    peer: float = 0.0

    @property
    def is_sound(self) -> bool:
        return max(self.fixed, self.peer) <= TOLERANCE


def export(name: str, path: Path) -> None:
    """The network with open axes, traced."""
    names = {0: "n", **{axis: "hw"[axis - 2] for axis in OPEN.get(name, Open()).axes}}
    x = torch.zeros((2, *NETWORKS[name].input_shape[1:]))
    mode = torch.onnx.TrainingMode
    with torch.no_grad(), open_sizes(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tracing exporter is deprecated
        torch.onnx.export(
            build(name), (x,), str(path), opset_version=OPSET, input_names=["x"], dynamic_axes={"x": names},
            training=mode.PRESERVE if NETWORKS[name].keep_batch_norm else mode.EVAL, dynamo=False,
        )  # fmt: skip


def shapes_of(name: str, count: int) -> list[tuple[int, ...]]:
    """So many seeded shapes."""
    rng, how = np.random.default_rng(SEED), OPEN.get(name, Open())
    found = []
    for _ in range(count):
        shape = [int(rng.integers(BATCHES[0], BATCHES[1] + 1)), *NETWORKS[name].input_shape[1:]]
        for axis in how.axes:
            shape[axis] = -(-int(rng.integers(SIDES[0], SIDES[1] + 1)) // how.multiple) * how.multiple
        found.append(tuple(shape))
    return found


def declared(path: Path, shape: Sequence[int]) -> bytes:
    """The model with the sizes of its input declared."""
    model = onnx.load(str(path))
    for dimension, size in zip(model.graph.input[0].type.tensor_type.shape.dim, shape, strict=True):
        dimension.dim_value = size
    content: bytes = model.SerializeToString()
    return content


def check(name: str, path: Path, count: int) -> Found:
    """Run one network at all sizes."""
    model = cenote.load(path, threads=1, precision="exact")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    peer = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    found = Found(name, count, "")
    for shape in shapes_of(name, count):
        x = np.random.default_rng(SEED).standard_normal(shape, np.float32)
        ours = list(model.run({"x": x}).values())
        fixed = cenote.load(declared(path, shape), threads=1, precision="exact")
        alone, theirs = list(fixed.run({"x": x}).values()), peer.run(None, {"x": x})
        found.same += all(a.tobytes() == b.tobytes() for a, b in zip(ours, alone, strict=True))
        for y, own, other in zip(ours, alone, theirs, strict=True):
            found.fixed = max(found.fixed, difference(y, own) if y.shape == own.shape else np.inf)
            found.peer = max(found.peer, difference(y, other) if y.shape == other.shape else np.inf)
    counted = re.search(r"(\d+) class", repr(model))
    found.classes = counted[1] if counted else "one for each size"
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m bench.open_sizes", description=__doc__)
    parser.add_argument("names", nargs="*", default=list(NETWORKS), help="networks")
    parser.add_argument("--sizes", type=int, default=5, help="how many (default: 5)")
    given = parser.parse_args(arguments)
    unknown = sorted(set(given.names) - set(NETWORKS))
    if unknown:
        parser.error(f"no such network: {', '.join(unknown)}; there are {', '.join(NETWORKS)}")
    found = []
    for name in given.names:
        with tempfile.TemporaryDirectory(prefix="cenote-open-sizes-") as folder:
            path = Path(folder) / f"{name}.onnx"
            export(name, path)
            found.append(check(name, path, given.sizes))
        print(f"{name}: {found[-1]}", flush=True)
    header = [
        "Network",
        "sizes",
        "classes",
        "same bits as fixed sizes",
        "largest difference",
        "from ONNX Runtime",
    ]
    rows = [
        [one.name, str(one.sizes), one.classes, str(one.same), f"{one.fixed:.1e}", f"{one.peer:.1e}"]
        for one in found
    ]
    print(table(header, rows))
    if not all(one.is_sound for one in found):
        sys.exit("answers differ")


if __name__ == "__main__":
    main()
