"""The networks whose kernels the wheel carries, as ONNX files without their weights.

    python -m bundle.networks bench/.models/resnet50.onnx …      adds them to bundle/networks, or replaces them

A kernel depends on the shapes of weights, not on their content, so a file keeps of each large tensor type and shape
alone; `network` fills them again. Small ones and all integers stay: they may be shapes, bounds or exponents. Of the
benchmark networks vgg16_bn is left out: once folded it has the kernels of vgg16. Of the zoo there are those that add
most: chosen one after another by the share of kernels, summed over 59 networks, that each adds to what is there.
"""

from __future__ import annotations

import lzma
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

FOLDER = Path(__file__).parent / "networks"
SUFFIX = ".onnx.xz"
_SMALL = 64  # elements of a tensor that is kept whole
_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE)
_EMPTIED = "emptied"

# Sizes for networks that leave them open: pages and their lines, as rapidocr cuts them.
SHAPES: Mapping[str, tuple[tuple[int, ...], ...]] = {
    "text_detection": ((1, 3, 736, 736), (1, 3, 736, 992), (1, 3, 480, 640)),
    "text_direction": ((1, 3, 48, 192), (6, 3, 48, 192)),
    "text_recognition": tuple((batch, 3, 48, width) for batch in (1, 6) for width in (160, 320, 480, 800)),
    "fashion": ((1, 1, 28, 28), (16, 1, 28, 28)),
}
# Sizes for the zoo's networks (bench.zoo.export), which leave them open; some fix the batch.
_ANY, _FIXED_BATCH = (1, 3, 224, 224), (2, 3, 224, 192)
_OF_FIXED_BATCH = ("timm-mobilevit_xxs", "timm-mobilevitv2_050")


def shapes(name: str) -> tuple[tuple[int, ...], ...]:
    """The sizes for which a network is planned; none where it fixes them."""
    of_zoo = (_FIXED_BATCH,) if name in _OF_FIXED_BATCH else (_ANY, _FIXED_BATCH) if "-" in name else ()
    return SHAPES.get(name, of_zoo)


def names() -> list[str]:
    """All networks."""
    return sorted(path.name.removesuffix(SUFFIX) for path in FOLDER.glob(f"*{SUFFIX}"))


def network(name: str) -> bytes:
    """The network as an ONNX file, its weights made up: of one value each, which is neither 0 nor 1."""
    model = onnx.ModelProto.FromString(lzma.decompress((FOLDER / f"{name}{SUFFIX}").read_bytes()))
    for number, tensor in enumerate(_tensors(model)):
        if tensor.doc_string == _EMPTIED:
            dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
            tensor.raw_data = np.full(tuple(tensor.dims), 0.5 + number / 4096, dtype).tobytes()
            tensor.doc_string = ""
    content: bytes = model.SerializeToString()
    return content


def without_weights(model: onnx.ModelProto) -> bytes:
    """The file that `network` reads."""
    for tensor in _tensors(model):
        elements = int(np.prod(tensor.dims, dtype=np.int64))
        tensor.ClearField("doc_string")
        if tensor.data_type in _FLOATS and elements > _SMALL:
            for field in ("raw_data", "float_data", "int32_data", "double_data"):
                tensor.ClearField(field)
            tensor.doc_string = _EMPTIED
    for node in model.graph.node:
        node.ClearField("doc_string")
    model.ClearField("metadata_props")
    return lzma.compress(model.SerializeToString(deterministic=True), preset=9)


def _tensors(model: onnx.ModelProto) -> Iterator[TensorProto]:
    """Initializers, and the values of Constant nodes."""
    yield from model.graph.initializer
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                yield attribute.t


def main() -> None:
    """Add networks."""
    for path in map(Path, sys.argv[1:]):
        target = FOLDER / f"{path.name.removesuffix('.onnx')}{SUFFIX}"
        target.write_bytes(without_weights(onnx.load(path)))
        print(f"{target}: {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
