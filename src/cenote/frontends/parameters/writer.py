"""`cenote.extract`: a model's layers and values as open files."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from cenote.core.errors import ArgumentError, InputError
from cenote.core.options import Format
from cenote.core.types import Array, Declared
from cenote.frontends.formats import import_model
from cenote.frontends.imported import ImportedModel
from cenote.frontends.parameters.attributes import FORMAT, VERSION, encoded_node
from cenote.frontends.parameters.bat import write_pairs
from cenote.frontends.parameters.tensors import as_bytes, write_safetensors
from cenote.graph.graph import Graph

Values = Literal["safetensors", "npy", "bat"]
_SAFE = re.compile(r"[^A-Za-z0-9_.-]+")


def extract(
    source: Any,
    folder: str | os.PathLike[str],
    *,
    layers: Sequence[str] = (),
    values: Values = "safetensors",
    format: Format | None = None,
    signature: str | None = None,
) -> Path:
    """Write a model's layers and values as files that other programs can read; return the path of the first file
    written.

    `folder` gets `layers.json` (inputs, outputs, and a line for every layer: name, operator, configuration, names of
    its inputs and outputs) and the values, by their names in the model, in `values.safetensors` or, with
    values="npy", as `values/*.npy`. `cenote.load(folder)` runs it, bit for bit as the model. With "bat" the folder
    gets `N_config.bat` and `N_values.bat` for each layer instead, one value per line, which is possible only for
    chains of CONV2D, AVG_POOL and DENSE. `layers`: only those of these names; values that they read from others
    become inputs. `source`, `format` and `signature` are as for `cenote.load`.

    Raises the errors of `cenote.load`, InputError for an unknown layer, UnsupportedError for a model that the files
    cannot express, OSError where they cannot be written.
    """
    if values not in ("safetensors", "npy", "bat"):
        raise ArgumentError(f"values: {values!r} is none of safetensors, npy, bat")
    if isinstance(source, str | os.PathLike) and os.path.isfile(os.path.join(source, "saved_model.pb")):
        source = os.path.join(source, "saved_model.pb")
    imported = import_model(source, format, signature)
    graph = _only(imported.graph, layers) if layers else imported.graph
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    if values == "bat":
        return write_pairs(graph, target)
    return _write(imported, graph, target, values)


def _only(graph: Graph, layers: Sequence[str]) -> Graph:
    """Return the nodes of these names. Values that they make and none of them reads are outputs."""
    names = {node.title for node in graph.nodes}
    for layer in layers:
        if layer not in names:
            close = difflib.get_close_matches(layer, sorted(names), 3, 0.4)
            near = f"; close to it: {', '.join(close)}" if close else ""
            raise InputError(f"'{layer}' is no layer of the model{near}")
    nodes = tuple(node for node in graph.nodes if node.title in layers)
    read = {name for node in nodes for name in node.inputs if name}
    made = [name for node in nodes for name in node.outputs if name]
    declared = {each.name: each for each in graph.inputs}
    inputs = tuple(
        declared.get(name, Declared(name, np.dtype(np.float32), None))
        for name in dict.fromkeys(name for node in nodes for name in node.inputs if name)
        if name not in graph.constants and name not in made
    )
    constants = {name: array for name, array in graph.constants.items() if name in read}
    outputs = tuple(name for name in made if name not in read or name in graph.outputs)
    return Graph(inputs, outputs, nodes, constants, name=graph.name)


def _write(imported: ImportedModel, graph: Graph, folder: Path, values: Values) -> Path:
    arrays: dict[str, Array] = dict(graph.constants)
    taken = set(graph.values())

    def keep(array: Array) -> str:
        name = next(name for number in range(1 << 30) if (name := f"configuration.{number}") not in taken)
        taken.add(name)
        arrays[name] = array
        return name

    lines = [encoded_node(node, keep) for node in graph.nodes]
    texts = {name: array for name, array in arrays.items() if array.dtype.kind in "OSU"}
    numbers = {name: array for name, array in arrays.items() if name not in texts}
    entries: dict[str, dict[str, Any]] = {
        name: {"dtype": "object", "shape": list(array.shape), "texts": array.reshape(-1).tolist()}
        for name, array in texts.items()
    }
    if values == "npy":
        (folder / "values").mkdir(exist_ok=True)
    for number, (name, array) in enumerate(numbers.items()):
        file = "values.safetensors"
        if values == "npy":
            file = f"values/{number:04d}_{_SAFE.sub('_', name)[:80]}.npy"
            plain = array if array.dtype.kind != "V" else as_bytes(array)
            np.save(folder / file, plain, allow_pickle=False)
        entries[name] = {"dtype": array.dtype.name, "shape": list(array.shape), "file": file}
    if values == "safetensors":
        write_safetensors(folder / "values.safetensors", numbers)
    head = {
        "format": FORMAT,
        "version": VERSION,
        "name": graph.name,
        "metadata": dict(imported.metadata),
        "outputs": list(graph.outputs),
    }
    declared = [_declared(each) for name, each in imported.outputs.items() if name in graph.outputs]
    sections = {
        "inputs": [_declared(each) for each in graph.inputs],
        "declared_outputs": declared,
        "layers": lines,
        "values": [{"name": name, **entry} for name, entry in entries.items()],
    }
    parts = [f'  "{key}": {_line(value)}' for key, value in head.items()]
    for key, rows in sections.items():
        inside = ",\n".join(f"    {_line(row)}" for row in rows)
        parts.append(f'  "{key}": [\n{inside}\n  ]' if rows else f'  "{key}": []')
    path = folder / "layers.json"
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")
    return path


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _declared(each: Declared) -> dict[str, Any]:
    return {
        "name": each.name,
        "dtype": each.dtype.name,
        "shape": None if each.shape is None else list(each.shape),
    }
