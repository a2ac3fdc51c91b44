"""Detection of a model's format by its content, and its import. Front ends are imported when needed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from cenote.core.errors import ArgumentError, CenoteError, MissingFileError, ModelError, UnsupportedError
from cenote.core.files import reading
from cenote.core.options import FORMATS, Format
from cenote.core.options.checks import OneOf
from cenote.frontends.imported import Ends, ImportedModel
from cenote.frontends.wire import ByteRange, ByteSource, BytesSource, FileSource, IrregularError, fields_of
from cenote.ops.user_operators import UserOperators

_ONNX_GRAPH, _META_GRAPHS, _SAVER = 7, 2, 3
_LAYERS = re.compile(rb'\s*\{\s*"format"\s*:\s*"cenote-layers"')
# Zip archives begin with a file of these names; before, files began with a pickled number.
_TORCH = re.compile(
    rb"PK\x03\x04.{26}[^/]+/(data/|data\.pkl|\.format_version|\.data/|version|byteorder|archive_format|archive_version)"
    rb"|\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19\.",
    re.DOTALL,
)
# Number of a file's fields that are examined.
_LOOKED_AT = 64
_ALL = Ends()


def import_model(
    source: Any,
    form: Format | None = None,
    signature: str | None = None,
    problems: list[str] | None = None,
    ends: Ends = _ALL,
    operators: UserOperators | None = None,
) -> ImportedModel:
    """Read a model. `form` forces a format, `signature` chooses among the functions of formats that have several.

    `ends` are inputs and outputs by name: graphs of TensorFlow are read between them, others whole, and cut by
    `models.cutting`. `problems`, if given, collects unsupported parts instead of an error where that is possible; with
    any, the graph is incomplete. `operators` decode nodes of the user's, in models of ONNX, TensorFlow and
    TensorFlow Lite.

    Raises MissingFileError, ModelError for a file that is no valid model, UnsupportedError for parts that Cenote does
    not have, ArgumentError for a format that does not exist and a signature that the model does not have.
    """
    if form is not None:
        OneOf(FORMATS)("format", form)
    operators = operators or UserOperators({})
    onnx = partial(_onnx, signature=signature, problems=problems, ends=ends, operators=operators)
    if isinstance(source, str | os.PathLike):
        return _from_path(Path(source), form, signature, problems, ends, operators, onnx)
    if not isinstance(source, bytes | bytearray | memoryview) and form in (None, "onnx"):
        # An open file or a message.
        return onnx(source)
    content = BytesSource(bytes(source if not hasattr(source, "read") else source.read()))
    form = form or format_of(content)
    if form == "onnx":
        return onnx(source)
    try:
        return _from_source(content, form, signature, problems, ends, operators)
    except CenoteError as error:
        raise error.located("model given as bytes") from error


def unsupported(source: Any) -> list[str]:
    """Return everything in a model that Cenote does not support, each with its node.

    Raises ModelError for a file that is no valid model.
    """
    problems: list[str] = []
    try:
        import_model(source, problems=problems, operators=UserOperators.registered())
    except UnsupportedError as error:
        # The error is about the model as a whole.
        if not problems:
            return [str(error)]
    return problems


def _from_path(
    path: Path,
    form: Format | None,
    signature: str | None,
    problems: list[str] | None,
    ends: Ends,
    operators: UserOperators,
    onnx: Callable[[Path], ImportedModel],
) -> ImportedModel:
    if path.is_dir() and form in (None, "bat"):
        from cenote.frontends.parameters.bat import load_pairs

        try:
            return load_pairs(path)
        except CenoteError as error:
            raise error.located(os.fspath(path)) from error
    try:
        file = reading(path)
    except FileNotFoundError:
        raise MissingFileError("there is no such file", os.fspath(path)).located(os.fspath(path)) from None
    except (OSError, ValueError) as error:
        raise ModelError(f"{os.fspath(path)!r}: the file cannot be read ({error})") from error
    with file:
        try:
            source = FileSource(file)
            form = form or ("savedmodel" if path.name == "saved_model.pb" else format_of(source))
            if form != "onnx":
                return _from_open(path, source, form, signature, problems, ends, operators)
        except OSError as error:
            raise ModelError(f"{path}: the file cannot be read ({error})") from error
        except CenoteError as error:
            raise error.located(os.fspath(path)) from error
    return onnx(path)


def _from_open(
    path: Path,
    source: ByteSource,
    form: Format,
    signature: str | None,
    problems: list[str] | None,
    ends: Ends,
    operators: UserOperators,
) -> ImportedModel:
    if form == "layers":
        from cenote.frontends.parameters.reader import load_layers

        return load_layers(path)
    if form not in ("savedmodel", "metagraph"):
        return _from_source(source, form, signature, problems, ends, operators)
    from cenote.frontends.tensorflow.reader import load_meta_graph, load_saved_model

    operators.consulted = True
    if form == "savedmodel":
        return load_saved_model(path, signature, problems, ends, operators)
    return load_meta_graph(path, problems, ends, operators)


def _from_source(
    source: ByteSource,
    form: Format,
    signature: str | None,
    problems: list[str] | None,
    ends: Ends,
    operators: UserOperators,
) -> ImportedModel:
    operators.consulted = form in ("tflite", "graphdef")
    if form == "tflite":
        from cenote.frontends.tflite.reader import load_tflite

        return load_tflite(source, signature, problems, operators)
    if signature is not None:
        raise ArgumentError(f"signature: a model in the format {form} has none")
    if form == "keras":
        from cenote.frontends.keras.reader import load_keras

        return load_keras(source, problems)
    if form == "graphdef":
        from cenote.frontends.tensorflow.reader import load_graph_def

        return load_graph_def(source, is_graph_text(source.read(0, 64)), problems, ends, operators)
    raise ArgumentError(f"a model in the format {form} is given by its path: it has other files beside it")


def _onnx(
    source: Any,
    signature: str | None,
    problems: list[str] | None,
    ends: Ends,
    operators: UserOperators,
) -> ImportedModel:
    if signature is not None:
        raise ArgumentError("signature: an ONNX model has none")
    from cenote.frontends.onnx import load_onnx

    operators.consulted = True
    return load_onnx(source, problems, ends, operators)


def format_of_file(source: Any) -> Format | None:
    """Return the format of a model given by its path or as bytes; None for a folder."""
    if isinstance(source, bytes):
        return format_of(BytesSource(source))
    if os.path.isdir(source):
        return None
    with reading(source) as file:
        return "savedmodel" if Path(source).name == "saved_model.pb" else format_of(FileSource(file))


def format_of(source: ByteSource) -> Format:
    """Return the format of a file; an unknown file is left to ONNX's front end to refuse. Raises UnsupportedError for
    files of PyTorch."""
    start = source.read(0, 64)
    if start[4:8] == b"TFL3":
        return "tflite"
    if _TORCH.match(start):
        raise UnsupportedError(
            "this is a file of PyTorch (torch.save, torch.jit.save or torch.export.save); export the model with "
            "torch.onnx.export (docs/from_torch.md)"
        )
    if start.startswith((b"\x89HDF\r\n\x1a\n", b"PK\x03\x04")):
        return "keras"
    if is_graph_text(start):
        return "graphdef"
    if _LAYERS.match(start):
        return "layers"
    try:
        fields = _first_fields(source)
    except IrregularError:
        return "onnx"
    numbers = {number for number, is_message in fields if is_message}
    # In ONNX the first field is a number.
    if (1, True) in fields and _ONNX_GRAPH not in numbers:
        return "metagraph" if {_META_GRAPHS, _SAVER} <= numbers else "graphdef"
    if fields and {number for number, _ in fields} == {1, 2} and _META_GRAPHS in numbers:
        return "savedmodel"
    return "onnx"


def is_graph_text(start: bytes) -> bool:
    """Return whether a file is a GraphDef in protobuf's text form."""
    return start.lstrip().startswith((b"node {", b"node{", b"versions {", b"library {"))


def _first_fields(source: ByteSource) -> set[tuple[int, bool]]:
    """Return the numbers of a file's first fields, and whether each holds bytes."""
    fields: set[tuple[int, bool]] = set()
    offset = 0
    for _ in range(_LOOKED_AT):
        if offset >= source.size:
            break
        field = fields_of(source, ByteRange(offset, source.size - offset), most=1)[0]
        fields.add((field.number, field.content is not None))
        offset = field.whole.end
    return fields
