"""Every operator, one line per file: adding an operator is its file and its line here."""

from __future__ import annotations

from cenote.ops.base import Decoder, Op
from cenote.ops.conv import Conv
from cenote.ops.conv_transpose import ConvTranspose
from cenote.ops.gemm import Gemm, MatMul
from cenote.ops.reorder import Reorder

OPERATORS: tuple[type[Op], ...] = (
    Conv,
    ConvTranspose,
    Gemm,
    MatMul,
    Reorder,
)

DECODERS: dict[str, Decoder] = {key: decoder for op in OPERATORS for key, decoder in op.from_onnx.items()}
