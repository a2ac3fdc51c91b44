"""An ONNX model while it is compressed: its nodes and its constants, which versions of it share."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper, version_converter

from cenote.core.deferred import dataclass
from cenote.core.errors import UnsupportedError
from cenote.core.types import Array
from cenote.frontends.onnx_inference import inferred
from cenote.quantization.network import Network, attribute, label, read_inside
from cenote.quantization.prepare import prepare
from cenote.quantization.reading import Source, parsed, without_defaults

BLOCKS_SINCE = 21  # the opset whose DequantizeLinear has blocks and four bits
_IR_OF_BLOCKS = 10
_BITS = {
    TensorProto.FLOAT: 32,
    TensorProto.FLOAT16: 16,
    TensorProto.BFLOAT16: 16,
    TensorProto.INT8: 8,
    TensorProto.INT4: 4,
}
_LARGE = 1 << 16  # bytes of a constant whose content no converter of opsets reads
_LONGEST = (2 << 30) - (1 << 20)  # bytes of a protobuf message


@dataclass(frozen=True)
class SharedNetwork:
    """Nodes and constants of the main graph; `shell` is the rest. Messages are shared and never changed."""

    shell: ModelProto
    nodes: tuple[NodeProto, ...]
    tensors: Mapping[str, TensorProto]

    @staticmethod
    def of(model: ModelProto) -> SharedNetwork:
        tensors = {each.name: each for each in model.graph.initializer}
        shell = ModelProto()
        shell.CopyFrom(model)
        inputs = [each for each in model.graph.input if each.name not in tensors]
        del shell.graph.node[:], shell.graph.initializer[:], shell.graph.input[:]
        # Sizes of values change where filters are removed, and engines check them.
        del shell.graph.value_info[:]
        shell.graph.input.extend(inputs)
        return SharedNetwork(shell, tuple(model.graph.node), tensors)

    def message(self) -> ModelProto:
        """Return the whole model."""
        made = ModelProto()
        made.CopyFrom(self.shell)
        made.graph.node.extend(self.nodes)
        made.graph.initializer.extend(self.tensors.values())
        return made

    def content(self) -> bytes:
        """Return the model as a file has it. Raises UnsupportedError for more than 2 GiB."""
        if self.nbytes > _LONGEST:
            raise UnsupportedError("a model of more than 2 GiB cannot be compressed: it is no one message")
        content: bytes = self.message().SerializeToString()
        return content

    @property
    def nbytes(self) -> int:
        """Bytes of its file, roughly."""
        rest: int = sum(each.ByteSize() for each in (self.shell, *self.nodes))
        return rest + sum(map(bytes_of, self.tensors.values()))

    @property
    def opset(self) -> int:
        return int(
            next((each.version for each in self.shell.opset_import if each.domain in ("", "ai.onnx")), 1)
        )

    def array(self, name: str) -> Array:
        return np.asarray(numpy_helper.to_array(self.tensors[name]))

    def names(self) -> set[str]:
        """Return the names of all values."""
        made = {name for node in self.nodes for name in (*node.input, *node.output, *read_inside(node))}
        return made | set(self.tensors) | {each.name for each in self.shell.graph.input}

    def fresh(self, stem: str, taken: Container[str] | None = None) -> str:
        """Return a name that no value has; or one that is not among those taken."""
        taken, count, name = self.names() if taken is None else taken, 0, stem
        while name in taken:
            count += 1
            name = f"{stem}.{count}"
        return name

    def shapes(self) -> dict[str, tuple[int | str, ...]]:
        """Return the sizes of values as far as ONNX infers them, those of values whose sizes are all known or named."""
        typed = inferred(self._light()[1]).graph
        found = {}
        for each in (*typed.input, *typed.value_info, *typed.output):
            if each.type.tensor_type.HasField("shape"):
                sizes = each.type.tensor_type.shape.dim
                found[each.name] = tuple(size.dim_param or size.dim_value for size in sizes)
        return {name: sizes for name, sizes in found.items() if all(sizes)}

    def changed(
        self,
        nodes: Iterable[NodeProto],
        without: Iterable[str] = (),
        added: Mapping[str, TensorProto] | None = None,
    ) -> SharedNetwork:
        """Return the network with other nodes, without some constants and with others."""
        gone = set(without)
        kept = {name: each for name, each in self.tensors.items() if name not in gone}
        return replace(self, nodes=tuple(nodes), tensors={**kept, **(added or {})})

    def _light(self) -> tuple[dict[str, TensorProto], ModelProto]:
        """Return the large constants, and the model with inputs in their place."""
        large = {name: each for name, each in self.tensors.items() if bytes_of(each) > _LARGE}
        light = self.changed(self.nodes, large).message()
        light.graph.input.extend(
            helper.make_tensor_value_info(name, each.data_type, each.dims) for name, each in large.items()
        )
        return large, light

    def with_blocks(self) -> SharedNetwork | None:
        """Return the network in an opset that has blocks of weights; None where it cannot be converted."""
        if self.opset >= BLOCKS_SINCE:
            return self
        large, light = self._light()
        light.ir_version = max(light.ir_version, _IR_OF_BLOCKS)
        try:
            made = SharedNetwork.of(version_converter.convert_version(light, BLOCKS_SINCE))
        except (RuntimeError, ValueError, onnx.onnx_cpp2py_export.ConvertError):
            return None
        kept = [each for each in made.shell.graph.input if each.name not in large]
        del made.shell.graph.input[:]
        made.shell.graph.input.extend(kept)
        made.shell.ir_version = max(made.shell.ir_version, _IR_OF_BLOCKS)
        return replace(made, tensors={**made.tensors, **large})


def bytes_of(tensor: TensorProto) -> int:
    """Return the bytes of a constant; protobuf's own count of large ones takes as long as reading them."""
    bits = _BITS.get(tensor.data_type)
    if bits is None or not tensor.HasField("raw_data"):
        return int(tensor.ByteSize())
    return int(math.prod(tensor.dims)) * bits // 8 + len(tensor.name)


def read(source: Source) -> SharedNetwork:
    """Read an ONNX model; its constants are initializers then, and normalisations are in the convolutions before them.

    Raises MissingFileError, ModelError, UnsupportedError for models of other formats.
    """
    model = parsed(source, "compress")
    without_defaults(
        model
    )  # first: constants that nothing reads then would leave inputs that callers must give
    prepare(Network(model))
    return SharedNetwork.of(model)


@dataclass(frozen=True)
class WeightLayer:
    """A convolution or product with constant float32 weights; `depth`: the axis of the weights along which products
    are added, `filters` the one of the results."""

    node: NodeProto
    weights: str
    filters: int
    depth: int

    @property
    def name(self) -> str:
        return label(self.node)

    @property
    def is_product(self) -> bool:
        return str(self.node.op_type) != "Conv"


def layers(network: SharedNetwork) -> Iterator[WeightLayer]:
    """Yield the layers of the main graph, a constant that several read once."""
    seen: set[str] = set()
    for node in network.nodes:
        if node.op_type not in ("Conv", "Gemm", "MatMul") or node.domain not in ("", "ai.onnx"):
            continue
        weights = network.tensors.get(node.input[1]) if len(node.input) > 1 else None
        if weights is None or weights.name in seen or weights.data_type != TensorProto.FLOAT:
            continue
        rank = len(weights.dims)
        if rank < 2 or 0 in weights.dims or (node.op_type != "Conv" and rank != 2):
            continue
        seen.add(weights.name)
        turned = node.op_type == "Conv" or bool(attribute(node, "transB", 0))
        yield WeightLayer(node, weights.name, *((0, 1) if turned else (1, 0)))
