"""Layers of a folder of models: those with several algorithms, each once, and a seeded draw of some of each kind."""

from __future__ import annotations

import hashlib
import math
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.files import OPEN_SUFFIX
from cenote.codegen import jit
from cenote.compiler.decide import Decide, PricedLowering
from cenote.compiler.schedule import schedule
from cenote.compiler.tune import label
from cenote.core.errors import CenoteError
from cenote.core.load_options import LoadOptions
from cenote.core.target import Target
from cenote.core.types import Array, TensorType
from cenote.frontends.onnx import load_onnx
from cenote.graph.graph import Graph, Node
from cenote.ops.base import Lowering, Op
from cenote.passes.pipeline import optimize
from cenote.passes.specialize import specialize

SEED = 26
SHORTEST = 10e-6  # seconds by the first choice's estimate: below, a call's own costs decide
LONGEST = 0.1
FAR = 4.0  # times the first choice's estimate: candidates beyond are not measured
KEPT = 256  # elements of a constant up to which its values are kept; others are drawn anew


@dataclass(frozen=True)
class Operand:
    """An input of a layer: its type, and the values if it is a small constant."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    constant: bool
    values: Array | None

    @staticmethod
    def of(type: TensorType) -> Operand:
        small = type.value is not None and (type.size <= KEPT or type.dtype.kind != "f")
        return Operand(type.dtype, type.shape, type.value is not None, type.value if small else None)

    def type(self) -> TensorType:
        """The type, with content of the same kind if it is a constant: He-initialised weights."""
        if not self.constant or self.values is not None:
            return TensorType(self.dtype, self.shape, self.values)
        noise = np.random.default_rng(SEED).standard_normal(self.shape, np.float32)
        scale = math.sqrt(2 / max(1, math.prod(self.shape[1:])))
        return TensorType.known((noise * np.float32(scale)).astype(self.dtype))


@dataclass(frozen=True)
class Layer:
    """A layer as it stood in a model: the operator, its inputs, and the seconds of conversions around it that each
    candidate (`tune.label`) needs there, by the cost model that drew it. `model_bytes`: constants of the model."""

    model: str
    model_bytes: int
    kind: str
    op: Op
    operands: tuple[Operand | None, ...]
    conversions: Mapping[str, float]

    @property
    def key(self) -> str:
        """A name for the layer without its model; the same in every process."""
        shapes = ",".join(
            "-" if each is None else f"{each.dtype}{list(each.shape)}{'=' * each.constant}"
            for each in self.operands
        )
        text = f"{self.op!r} {shapes} {sorted(self.conversions)}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def types(self) -> list[TensorType | None]:
        return [None if each is None else each.type() for each in self.operands]

    def node(self) -> Node:
        names = tuple("" if each is None else f"x{index}" for index, each in enumerate(self.operands))
        outputs = self.op.infer(*self.types())
        return Node(self.op, names, tuple(f"y{index}" for index, _ in enumerate(outputs)))

    def candidates(self, target: Target, types: Sequence[TensorType | None]) -> list[Lowering]:
        """The candidates that its model had, each label once."""
        found: dict[str, Lowering] = {}
        for option in self.op.lowerings(types, target):
            name = label(option)
            if name in self.conversions:
                found.setdefault(name, option)
        return list(found.values())


def kind_of(op: Op, types: Sequence[TensorType | None]) -> str:
    """The kind by which layers are drawn and reported; empty for operators that are not fitted."""
    name = op.name
    if name in ("conv", "conv_transpose"):
        weights = types[1]
        assert weights is not None
        groups, window = op.groups, weights.shape[2:]  # type: ignore[attr-defined]  # of a convolution
        if name == "conv_transpose":
            return "transposed"
        if groups > 1:
            alone = weights.shape[1] == 1
            return "depthwise" if alone else "grouped"
        if math.prod(window) == 1:
            return "1x1"
        if len(window) != 2:
            return f"{len(window)}-D"
        slides = {*op.strides, *op.dilations} <= {1}  # type: ignore[attr-defined]  # of a convolution
        return ("window" if window != (3, 3) else "3x3") + ("" if slides else ", strided")
    if name in ("gemm", "matmul"):
        return "product"
    return "pool" if "pool" in name else ""


class Recorder(Decide):
    """A decision that leaves everything to the cost model and notes the layers."""

    def __init__(self, model: str) -> None:
        self.model, self.layers, self.alone = model, list[Layer](), set[str]()

    def __call__(
        self, node: Node, types: Sequence[TensorType | None], rivals: Sequence[PricedLowering], weights: int
    ) -> tuple[int, str] | None:
        kind = kind_of(node.op, types)
        if not kind or not SHORTEST <= rivals[0].option.seconds <= LONGEST:
            return None
        near = [each for each in rivals if each.seconds <= FAR * rivals[0].seconds]
        conversions = {label(each.option): each.conversions for each in near}
        operands = tuple(None if each is None else Operand.of(each) for each in types)
        layer = Layer(self.model, weights, kind, node.op, operands, conversions)
        if len(conversions) > 1:
            self.layers.append(layer)
        else:
            self.alone.add(layer.key)
        return None


def graph_of(path: Path) -> Graph:
    """A model's graph at the sizes of its file, up to the first cut."""
    graph = load_onnx(path).graph
    types = {
        each.name: TensorType(each.dtype, tuple(int(extent or 1) for extent in each.shape or ()))
        for each in graph.inputs
    }
    return specialize(graph, types).graph


def layers_of(path: Path, targets: Sequence[Target]) -> Iterator[tuple[str, list[Layer], set[str]]]:
    """For each target its name, the layers of a model with several candidates, and the keys of those with one."""
    for target in targets:
        graph = optimize(graph_of(path), target, LoadOptions(), inferred=True)
        recorder = Recorder(path.stem)
        schedule(graph, target, recorder)
        yield target.name, recorder.layers, recorder.alone


def collect(folder: Path, made: Path) -> None:
    """Write the layers of every model into files per model and target; those that are there are left alone."""
    made.mkdir(parents=True, exist_ok=True)
    targets = [jit.host_target()]
    if targets[0].name == "avx512":
        targets.append(jit.named_target("avx2"))
    for path in sorted(folder.glob("*.onnx")):
        if path.stem.endswith(OPEN_SUFFIX) or (made / f"{path.stem}.{targets[-1].name}.pickle").exists():
            continue
        try:
            for name, layers, alone in layers_of(path, targets):
                (made / f"{path.stem}.{name}.pickle").write_bytes(pickle.dumps((layers, alone)))
                print(
                    f"{path.stem} {name}: {len(layers)} layers, {len(alone)} with one candidate", flush=True
                )
        except CenoteError as error:
            print(f"{path.stem}: {error}", flush=True)


def distinct(made: Path, target: str) -> dict[str, Layer]:
    """The layers of all models, each once, by key."""
    found: dict[str, Layer] = {}
    for path in sorted(made.glob(f"*.{target}.pickle")):
        for layer in pickle.loads(path.read_bytes())[0]:
            found.setdefault(layer.key, layer)
    return found


def drawn(layers: Mapping[str, Layer], count: int) -> list[Layer]:
    """So many of them in a seeded order, as evenly over the kinds as these have layers."""
    chance = np.random.default_rng(SEED)
    kinds: dict[str, list[Layer]] = {}
    for key in sorted(layers):
        kinds.setdefault(layers[key].kind, []).append(layers[key])
    queues = [[each[i] for i in chance.permutation(len(each))] for _, each in sorted(kinds.items())]
    found: list[Layer] = []
    for rank in range(max(map(len, queues), default=0)):
        found.extend(queue[rank] for queue in queues if rank < len(queue))
    return found[:count]
