"""Every operator, one line per file: adding an operator is its file and its line here."""

from __future__ import annotations

from cenote.ops.base import Decoder, Op

OPERATORS: tuple[type[Op], ...] = ()

DECODERS: dict[str, Decoder] = {key: decoder for op in OPERATORS for key, decoder in op.from_onnx.items()}
