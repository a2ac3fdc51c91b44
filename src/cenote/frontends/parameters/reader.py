"""Reader of the folder that `cenote.extract` writes. It is validated, errors name the line, and no file outside it is
opened."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from cenote.core.errors import CenoteError, ModelError, UnsupportedError, shown
from cenote.core.files import reading
from cenote.core.limits import MOST_BYTES
from cenote.core.types import Array, Declared, dtype_named
from cenote.frontends.imported import ImportedModel
from cenote.frontends.parameters.attributes import FORMAT, VERSION, decoded_node
from cenote.frontends.parameters.lines import JsonObject, parse
from cenote.frontends.parameters.tensors import NAMES, Safetensors, of_bytes, read_npy
from cenote.graph.graph import Graph
from cenote.graph.verify import verify

# Bytes of the configuration.
_LONGEST = 256 << 20


def load_layers(path: Path) -> ImportedModel:
    """Read the model whose `layers.json` this is.

    Raises ModelError for invalid files, UnsupportedError for another version.
    """
    if path.stat().st_size > _LONGEST:
        raise ModelError(f"the configuration is larger than {_LONGEST >> 20} MiB")
    try:
        root = parse(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise ModelError(f"the configuration is no text in UTF-8 ({error})") from None
    root.only(
        "format", "version", "name", "metadata", "outputs", "inputs", "declared_outputs", "layers", "values"
    )
    root.choice("format", (FORMAT,))
    if root.get("version") != VERSION:
        raise UnsupportedError(
            f"line {root.line}: version {shown(root.get('version'))} of the format; this one is {VERSION}"
        )
    values = _Values(path.parent, root)
    try:
        nodes = tuple(
            decoded_node(record, values.configuration) for record in root.list("layers", JsonObject)
        )
    except RecursionError:
        raise ModelError("a layer's configuration is nested too deeply") from None
    constants = {name: values.array(name) for name in values.entries if name not in values.configured}
    inputs = tuple(_declared(record) for record in root.list("inputs", JsonObject))
    graph = Graph(inputs, tuple(root.list("outputs", str)), nodes, constants, name=root.text("name"))
    verify(graph)
    metadata = root.record("metadata")
    if not all(isinstance(value, str) for value in metadata.values()):
        raise metadata.fail("metadata is texts by name")
    outputs = {each.name: each for each in map(_declared, root.list("declared_outputs", JsonObject))}
    return ImportedModel(
        graph, outputs, dict(metadata), {"producer_name": "cenote extract"}, tuple(values.files)
    )


def _declared(record: JsonObject) -> Declared:
    record.only("name", "dtype", "shape")
    shape = None if record.get("shape") is None else tuple(record.list("shape", (int, str, type(None))))
    if any(isinstance(extent, int) and extent < 0 for extent in shape or ()):
        raise record.fail(f"a shape has no negative extent: {shown(shape)}")
    return Declared(record.text("name"), _dtype(record), shape)


def _dtype(record: JsonObject) -> np.dtype[Any]:
    try:
        return dtype_named(record.text("dtype"))
    except TypeError:
        raise record.fail(f"there is no type {shown(record['dtype'])}") from None


class _Values:
    """The arrays by name. `configured` are those that belong to a layer's configuration; `files` those that were
    read."""

    def __init__(self, folder: Path, root: JsonObject) -> None:
        self.folder = folder
        self.entries: dict[str, JsonObject] = {}
        for record in root.list("values", JsonObject):
            record.only("name", "dtype", "shape", "file", "texts")
            name = record.text("name")
            if name in self.entries:
                raise record.fail(f"the values '{name}' are given twice")
            self.entries[name] = record
        self.configured: set[str] = set()
        self.files: dict[str, None] = {}
        self.read: dict[str, Array] = {}

    def configuration(self, name: str) -> Array:
        """Return values of a layer's configuration: they are no values of the graph."""
        self.configured.add(name)
        return self.array(name)

    def array(self, name: str) -> Array:
        """Return the values of a name."""
        if name not in self.entries:
            raise ModelError(f"there are no values '{name}'")
        record = self.entries[name]
        try:
            return self._array(name, record)
        except CenoteError as error:
            raise type(error)(f"line {record.line}: values '{name}': {error}") from None
        except OSError as error:
            raise ModelError(f"line {record.line}: values '{name}' cannot be read ({error})") from None

    def _array(self, name: str, record: JsonObject) -> Array:
        shape, dtype = tuple(record.list("shape", int)), _dtype(record)
        if any(extent < 0 for extent in shape) or math.prod(shape) * dtype.itemsize >= MOST_BYTES:
            raise ModelError(f"{dtype.name}{list(shape)} is no array")
        if dtype.kind == "O":
            texts = record.list("texts", str)
            if len(texts) != math.prod(shape):
                raise ModelError(f"{len(texts)} texts for the shape {list(shape)}")
            return np.array(texts, object).reshape(shape)
        if dtype.name not in _KNOWN:
            raise ModelError(f"values of type {dtype.name} cannot be read")
        file = record.text("file")
        with reading(self._inside(file)) as opened:
            self.files[file] = None
            content = Safetensors(opened).content(name) if file.endswith(".safetensors") else read_npy(opened)
        return of_bytes(content, dtype.name, shape)

    def _inside(self, file: str) -> Path:
        """Return the path of a file, which must lie in the folder after links are resolved."""
        # The system has no names with a null byte.
        if "\0" in file:
            raise ModelError(f"there is no file {file!r}")
        path = self.folder / file
        real, home = os.path.realpath(path), os.path.realpath(self.folder)
        if not file or os.path.isabs(file) or ".." in Path(file).parts or not real.startswith(home + os.sep):
            raise ModelError(f"the file {file!r} is not in the model's folder")
        if not os.path.isfile(real):
            raise ModelError(f"there is no file {file!r}")
        return path


# Types without a name in safetensors, which are stored as bytes.
_UNNAMED = (
    "complex64 complex128 int4 uint4 int2 uint2 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz "
    "float8_e8m0fnu float4_e2m1fn"
)
_KNOWN = {*NAMES, *_UNNAMED.split()}
