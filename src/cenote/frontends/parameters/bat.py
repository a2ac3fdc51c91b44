"""Pairs of files with one value per line: `N_config.bat` and `N_values.bat`, a pair for each layer of a chain.

    CONV2D  filters  channels  rows  columns  SAME|VALID  row stride  column stride  NHWC|NCHW
    AVG_POOL  rows  columns  SAME|VALID  row stride  column stride  NHWC|NCHW
    DENSE  inputs  outputs

The values of a CONV2D are its filters, in the order of the sizes above, those of a DENSE its matrix, row by row; a
bias of one number per output may follow. An AVG_POOL has none, and does not count padding. A DENSE reads a map in the
order of its elements in memory. Sizes of the map are open.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import CenoteError, MissingFileError, ModelError, UnsupportedError, shown
from cenote.core.files import reading
from cenote.core.types import FLOAT32, Array
from cenote.frontends.builder import GraphBuilder, transposed
from cenote.frontends.channels_last import ChannelsLast, SlidingWindow
from cenote.frontends.imported import ImportedModel
from cenote.graph.graph import Graph, Node
from cenote.ops.conv.conv import Conv
from cenote.ops.elementwise.binary import Add
from cenote.ops.linear.gemm import Gemm
from cenote.ops.linear.matmul import MatMul
from cenote.ops.movement.reshape import Flatten, Identity, Reshape
from cenote.ops.movement.transpose import Transpose
from cenote.ops.pool.average import AveragePool

_CONFIG = re.compile(r"(\d+)_config\.bat")
_PADDINGS, _FORMATS = ("SAME", "VALID"), ("NHWC", "NCHW")
_SIZES = {"CONV2D": 4, "AVG_POOL": 2, "DENSE": 2}
_MOST_VALUES = 1 << 28
_TO_LAST, _TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


@dataclass(frozen=True)
class BatLayer:
    """A layer with the fields of its files."""

    kind: str
    sizes: tuple[int, ...]
    padding: str = "VALID"
    strides: tuple[int, ...] = (1, 1)
    form: str = "NHWC"
    values: Array | None = None

    @property
    def outputs(self) -> int:
        """The number of elements of a bias."""
        return self.sizes[0] if self.kind == "CONV2D" else self.sizes[-1]


def config_files(folder: Path) -> list[tuple[int, Path]]:
    """Return the configurations of a folder by their numbers."""
    matches = [(match, path) for path in folder.iterdir() if (match := _CONFIG.fullmatch(path.name))]
    return sorted((int(match[1]), path) for match, path in matches)


# ---- reading --------------------------------------------------------------------------------------------------------


def load_pairs(folder: Path) -> ImportedModel:
    """Read the chain of a folder's layers in the order of their numbers; errors name file and line.

    Raises ModelError for invalid files, MissingFileError where there is no configuration or a layer has no values.
    """
    files = config_files(folder)
    if not files:
        raise MissingFileError("the folder holds no model: no saved_model.pb, layers.json or N_config.bat")
    chain = _Chain()
    for number, path in files:
        layer = _read_layer(path, path.with_name(f"{path.name.removesuffix('_config.bat')}_values.bat"))
        try:
            chain.add(layer, f"{number}_{layer.kind}")
        except CenoteError as error:
            raise error.located(path.name) from None
    return ImportedModel(
        chain.builder.graph({"output": chain.value}, folder.name),
        about={"producer_name": "config and values files"},
    )


class _Lines:
    """The lines of a configuration, read one after the other."""

    def __init__(self, path: Path) -> None:
        self.path, self.at = path, 0
        self.lines = [line.strip() for line in _text(path).rstrip().splitlines()]

    def fail(self, problem: str) -> ModelError:
        return ModelError(f"{self.path.name}, line {self.at}: {problem}")

    def take(self, what: str) -> str:
        self.at += 1
        if self.at > len(self.lines):
            raise self.fail(f"the file ends where {what} should be")
        return self.lines[self.at - 1]

    def choice(self, what: str, known: Sequence[str]) -> str:
        word = self.take(what)
        if word not in known:
            raise self.fail(f"{what} is {shown(word)}, which is none of {', '.join(known)}")
        return word

    def number(self, what: str) -> int:
        text = self.take(what)
        if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) < 1:
            raise self.fail(f"{what} must be a whole number from 1 on, not {shown(text)}")
        return int(text)

    def end(self) -> None:
        if self.at < len(self.lines):
            self.at += 1
            raise self.fail(f"{shown(self.lines[self.at - 1])} is too much: the layer is complete")


def _text(path: Path) -> str:
    try:
        with reading(path) as file:
            return file.read().decode("ascii")
    except FileNotFoundError:
        raise MissingFileError(f"{path.name}: there is no such file", str(path)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{path.name}: cannot be read ({error})") from None


def _read_layer(config: Path, values: Path) -> BatLayer:
    lines = _Lines(config)
    kind = lines.choice("the type of the layer", tuple(_SIZES))
    sizes = tuple(lines.number(f"size {number + 1} of {kind}") for number in range(_SIZES[kind]))
    layer = BatLayer(kind, sizes)
    if kind != "DENSE":
        padding = lines.choice("the padding", _PADDINGS)
        strides = (lines.number("the row stride"), lines.number("the column stride"))
        layer = BatLayer(kind, sizes, padding, strides, lines.choice("the format", _FORMATS))
    lines.end()
    return BatLayer(kind, sizes, layer.padding, layer.strides, layer.form, _read_values(values, layer))


def _read_values(path: Path, layer: BatLayer) -> Array | None:
    count = 0 if layer.kind == "AVG_POOL" else math.prod(layer.sizes)
    if count > _MOST_VALUES:
        raise ModelError(f"{path.name}: {count} values are more than such files are read for")
    if not count and not path.exists():
        return None
    numbers = []
    for row, line in enumerate(_text(path).rstrip().splitlines(), 1):
        try:
            numbers.append(float(line))
        except ValueError:
            raise ModelError(f"{path.name}, line {row}: {shown(line)} is no number") from None
    wanted = (count, count + layer.outputs) if count else (0,)
    if len(numbers) not in wanted:
        raise ModelError(
            f"{path.name}: has {len(numbers)} values, {layer.kind} takes {' or '.join(map(str, wanted))}"
        )
    with np.errstate(over="ignore"):
        return np.array(numbers, np.float32)


class _Chain:
    """The graph under construction; `value` is its last value, a map in the format `form`, or a matrix."""

    def __init__(self) -> None:
        self.builder, self.value, self.form, self.channels = GraphBuilder(), "", "", 0

    def add(self, layer: BatLayer, label: str) -> None:
        builder = self.builder
        builder.label = label
        if not self.value:
            self._begin(layer)
        if layer.kind == "DENSE":
            self._dense(layer)
            return
        if not self.form:
            raise ModelError(f"{layer.kind} reads a map, the layer before gives a matrix")
        if layer.form != self.form:
            order = _TO_LAST if layer.form == "NHWC" else _TO_FIRST
            self.value, self.form = transposed(builder, self.value, order), layer.form
        ops = ChannelsLast(builder, first=layer.form == "NCHW")
        window = SlidingWindow(layer.strides, layer.padding)
        if layer.kind == "AVG_POOL":
            self.value = ops.pool("AveragePool", self.value, layer.sizes, window)
            return
        if self.channels not in (0, layer.sizes[1]):
            raise ModelError(
                f"CONV2D takes {layer.sizes[1]} channels, the layer before gives {self.channels}"
            )
        weights, bias = self._parameters(layer)
        self.channels = layer.sizes[0]
        self.value = ops.conv_of(self.value, weights, bias, window)

    def _begin(self, layer: BatLayer) -> None:
        if layer.kind == "DENSE":
            self.value = self.builder.input("input", FLOAT32, ("n", layer.sizes[0]))
            return
        channels: int | str = layer.sizes[1] if layer.kind == "CONV2D" else "c"
        shape = ("n", "h", "w", channels) if layer.form == "NHWC" else ("n", channels, "h", "w")
        self.value, self.form = self.builder.input("input", FLOAT32, shape), layer.form

    def _dense(self, layer: BatLayer) -> None:
        weights, bias = self._parameters(layer)
        if self.form:
            self.value, self.form = self.builder.add("Flatten", self.value, axis=1), ""
        elif self.channels and self.channels != layer.sizes[0]:
            raise ModelError(f"DENSE takes {layer.sizes[0]} numbers, the layer before gives {self.channels}")
        self.channels = layer.sizes[1]
        self.value = self.builder.add("Gemm", self.value, weights, bias)

    def _parameters(self, layer: BatLayer) -> tuple[str, str]:
        """Return weights and bias as constants."""
        assert layer.values is not None
        count = math.prod(layer.sizes)
        weights = self.builder.constant(
            layer.values[:count].reshape(layer.sizes), f"{self.builder.label}/weights"
        )
        if layer.values.size == count:
            return weights, ""
        return weights, self.builder.constant(layer.values[count:], f"{self.builder.label}/bias")


# ---- writing --------------------------------------------------------------------------------------------------------


def write_pairs(graph: Graph, folder: Path) -> Path:
    """Write a chain as pairs of files; return the first configuration's path.

    Raises UnsupportedError naming the node that such files cannot express.
    """
    layers = _Reading(graph).layers()
    if not layers:
        raise UnsupportedError("the model has no layer that such files can say (CONV2D, AVG_POOL, DENSE)")
    for number, layer in enumerate(layers, 1):
        rows: list[object] = [layer.kind, *layer.sizes]
        if layer.kind != "DENSE":
            rows += [layer.padding, *layer.strides, layer.form]
        (folder / f"{number}_config.bat").write_text("".join(f"{row}\n" for row in rows), encoding="ascii")
        values = () if layer.values is None else layer.values.reshape(-1)
        (folder / f"{number}_values.bat").write_text(
            "".join(f"{value!s}\n" for value in values), encoding="ascii"
        )
    return folder / "1_config.bat"


class _Reading:
    """Conversion of a graph that is a chain, node by node."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.found = graph, list[BatLayer]()
        # The current map has channels last in the model, and was made channels first.
        self.turned = False

    def layers(self) -> list[BatLayer]:
        graph = self.graph
        if len(graph.inputs) != 1 or len(graph.outputs) != 1:
            raise UnsupportedError("such files hold a chain of layers: one input, one output")
        value = graph.inputs[0].name
        for node in graph.nodes:
            if [name for name in node.inputs if name and name not in graph.constants] != [value]:
                raise UnsupportedError(f"{node.where}: the layers are no chain")
            self._visit(node)
            value = node.outputs[0]
        if self.turned:
            raise UnsupportedError("the model gives a map in another format than it takes")
        return self.found

    def _visit(self, node: Node) -> None:
        op = node.op
        if isinstance(op, Conv):
            self._conv(node, op)
        elif isinstance(op, AveragePool):
            self._pool(node, op)
        elif isinstance(op, Gemm | MatMul):
            self._dense(node, op)
        elif isinstance(op, Add) and self.found and self.found[-1].kind != "AVG_POOL":
            self._bias(node)
        elif isinstance(op, Transpose) and op.order in (_TO_FIRST, _TO_LAST):
            if (op.order == _TO_LAST) is not self.turned:
                raise self._refusal(node)
            self.turned = not self.turned
        elif not isinstance(op, Identity | Flatten | Reshape) or self.turned:
            raise self._refusal(node)

    def _refusal(self, node: Node) -> UnsupportedError:
        return UnsupportedError(f"{node.where}: such files hold CONV2D, AVG_POOL and DENSE, and not this")

    def _padding(
        self, node: Node, op: Conv | AveragePool, window: Sequence[int], strides: Sequence[int]
    ) -> str:
        if op.auto_pad in ("SAME_UPPER", "VALID"):
            return op.auto_pad.removesuffix("_UPPER")
        if op.auto_pad == "NOTSET" and not any(map(any, op.pads)):
            return "VALID"
        halves = tuple(((extent - 1) // 2, extent // 2) for extent in window)
        if op.auto_pad == "NOTSET" and tuple(op.pads) == halves and set(strides) == {1}:
            return "SAME"
        raise UnsupportedError(f"{node.where}: pads {op.pads} are neither SAME nor VALID at every size")

    def _map(
        self, node: Node, op: Conv | AveragePool, kind: str, sizes: Sequence[int], strides: Sequence[int]
    ) -> BatLayer:
        window = sizes[-2:]
        if len(window) != 2 or any(
            step != 1 for step in (op.dilations if isinstance(op, Conv) else op.dilation)
        ):
            raise self._refusal(node)
        strides = tuple(strides) or (1, 1)
        form = "NHWC" if self.turned else "NCHW"
        return BatLayer(kind, tuple(sizes), self._padding(node, op, window, strides), tuple(strides), form)

    def _conv(self, node: Node, op: Conv) -> None:
        weights = self._constant(node, 1)
        if weights.ndim != 4 or op.groups > 1:
            raise self._refusal(node)
        layer = self._map(node, op, "CONV2D", weights.shape, op.strides)
        bias = self._constant(node, 2) if len(node.inputs) > 2 and node.inputs[2] else None
        self._append(layer, weights, bias)

    def _pool(self, node: Node, op: AveragePool) -> None:
        if (
            len(op.window) != 2
            or op.count_include_pad
            or op.divisor_override
            or op.ceil_mode
            or op.channels_last
        ):
            raise self._refusal(node)
        self.found.append(self._map(node, op, "AVG_POOL", op.window, op.stride))

    def _dense(self, node: Node, op: Gemm | MatMul) -> None:
        weights, bias = self._constant(node, 1), None
        if isinstance(op, Gemm):
            if op.transpose_a or op.alpha != 1 or (op.beta != 1 and len(node.inputs) > 2):
                raise self._refusal(node)
            weights = weights.T if op.transpose_b else weights
            bias = self._constant(node, 2) if len(node.inputs) > 2 and node.inputs[2] else None
        if weights.ndim != 2 or self.turned:
            raise self._refusal(node)
        self._append(BatLayer("DENSE", weights.shape), weights, bias)

    def _bias(self, node: Node) -> None:
        """Add a constant that is added to the last layer's result as its bias: one number per output."""
        layer, position = self.found[-1], int(node.inputs[0] not in self.graph.constants)
        value, weights = self._constant(node, position), layer.values
        last = layer.kind == "DENSE" or (layer.form == "NHWC" and not self.turned)
        axis = value.ndim - (1 if last else 3)
        if weights is None or weights.size != math.prod(layer.sizes) or value.size != layer.outputs:
            raise self._refusal(node)
        if value.size > 1 and (axis < 0 or value.shape[axis] != layer.outputs):
            raise self._refusal(node)
        self.found.pop()
        self._append(layer, weights, value.reshape(-1))

    def _constant(self, node: Node, position: int) -> Array:
        content = self.graph.constants.get(node.inputs[position])
        if content is None or content.dtype != FLOAT32:
            raise UnsupportedError(f"{node.where}: its parameters must be float32 constants")
        return content

    def _append(self, layer: BatLayer, weights: Array, bias: Array | None) -> None:
        values = weights.reshape(-1)
        if bias is not None:
            if bias.size != layer.outputs:
                raise UnsupportedError(f"a bias of shape {list(bias.shape)} is not one number per output")
            values = np.concatenate([values, bias.reshape(-1)])
        self.found.append(BatLayer(layer.kind, layer.sizes, layer.padding, layer.strides, layer.form, values))
