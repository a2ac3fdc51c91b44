"""Changes of a model by a session's options before it is loaded, and the model file that they request."""

from __future__ import annotations

import os
from typing import Any

from cenote.core.errors import MissingFileError, ModelError, UnsupportedError
from cenote.core.files import reading
from cenote.core.locks import importing
from cenote.ort.errors import Fail
from cenote.ort.options import SessionOptions

# At byte 4 of a model in onnxruntime's own format.
_FLATBUFFER = b"ORTM"
_WEIGHTS_FILE = "session.optimized_model_external_initializers_file_name"
_SMALLEST_WEIGHT = "session.optimized_model_external_initializers_min_size_in_bytes"


def refuse_flatbuffers(source: str | bytes) -> None:
    """Raise UnsupportedError for a model in onnxruntime's own format (.ort)."""
    start = source[:8] if isinstance(source, bytes) else _start(source)
    if start[4:] == _FLATBUFFER:
        raise UnsupportedError(
            "this is a model in onnxruntime's own format (.ort), not an ONNX model; load the .onnx file that it was "
            "made from"
        )


def _start(path: str) -> bytes:
    try:
        with reading(path) as file:
            return file.read(8)
    except (OSError, ValueError):
        # The load itself reports the error.
        return b""


def edited(source: str | bytes, options: SessionOptions) -> Any:
    """Return the source, or the model in memory where weights are replaced or dimensions fixed by their
    denotation."""
    if not options.initializers and not options.by_denotation:
        return source
    model, folder = _parsed(source)
    weights = dict(options.initializers)
    with importing():
        from onnx import numpy_helper
        from onnx.checker import ValidationError
        from onnx.external_data_helper import load_external_data_for_model
    for index, tensor in enumerate(model.graph.initializer):
        value = weights.pop(tensor.name, None)
        if value is not None:
            model.graph.initializer[index].CopyFrom(numpy_helper.from_array(value.numpy(), tensor.name))
    if weights:
        raise Fail(f"the model has no weight of these names: {', '.join(weights)}")
    for entry in model.graph.input:
        for dimension in entry.type.tensor_type.shape.dim:
            if dimension.denotation in options.by_denotation:
                dimension.dim_value = options.by_denotation[dimension.denotation]
    try:
        load_external_data_for_model(model, folder)
    except (ValidationError, OSError, ValueError) as error:
        raise ModelError(f"a weight that lies beside the model is not to be had: {error}") from error
    return model


def _parsed(source: str | bytes) -> tuple[Any, str]:
    """Return the model, without the weights that are stored outside of its file, and the folder of those.

    Raises MissingFileError, and ModelError for what cannot be read or is no ONNX model.
    """
    with importing():
        import onnx
        from google.protobuf.message import DecodeError
    folder = ""
    try:
        if not isinstance(source, bytes):
            folder = os.path.dirname(os.path.abspath(source))
            with reading(source) as file:
                source = file.read()
        return onnx.load_model_from_string(source), folder
    except FileNotFoundError as error:
        raise MissingFileError("there is no such file", str(source)) from error
    except (OSError, ValueError) as error:
        raise ModelError(f"the file cannot be read ({error})") from error
    except DecodeError as error:
        raise ModelError(
            "weights and dimensions can be set in ONNX models; this file cannot be parsed"
        ) from error


def write(source: Any, options: SessionOptions) -> None:
    """Write the model to `optimized_model_filepath`, unchanged, since an optimised graph is no ONNX model here."""
    with importing():
        import onnx
    if isinstance(source, str):
        model = onnx.load_model(source)
    else:
        model = onnx.load_model_from_string(source) if isinstance(source, bytes) else source
    entries = options.entries
    outside: dict[str, Any] = {}
    if _WEIGHTS_FILE in entries:
        outside = {
            "save_as_external_data": True,
            "location": entries[_WEIGHTS_FILE],
            "size_threshold": int(entries.get(_SMALLEST_WEIGHT, "1024")),
        }
    onnx.save_model(model, options.optimized_model_filepath, **outside)
