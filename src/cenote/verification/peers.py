"""Engines to compare with: each gives values of a model by name, a few at a time so that memory stays bounded."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from cenote.core.errors import ArgumentError, CenoteError, UnsupportedError
from cenote.core.types import Array, TensorType
from cenote.graph.graph import Graph
from cenote.graph.interpreter import evaluate
from cenote.passes.cleanup import eliminate_dead

Feed = Mapping[str, Array]
REFERENCE = "reference"
Open = Callable[[Any, Any], "Peer"]


class Peer(Protocol):
    """`known` are the values that it can give, by the model's names."""

    known: frozenset[str]

    def values(self, feed: Feed, names: Sequence[str]) -> Mapping[str, Array]:
        """These values for the model's inputs."""
        ...


class Stream:
    """Values of a peer in an order that is known beforehand: it is run for as many at a time as `budget` bytes hold."""

    def __init__(
        self, peer: Peer, feed: Feed, names: Iterable[str], types: Mapping[str, TensorType], budget: int
    ) -> None:
        self.peer, self.feed, self.types, self.budget = peer, feed, types, budget
        self.names = [name for name in names if name in peer.known]
        self.place = {name: index for index, name in enumerate(self.names)}
        self.held: dict[str, Array] = {}
        self.given: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self.place

    def value(self, name: str) -> Array:
        """A value, once; asked for in about the order of the names."""
        if name not in self.held:
            self.held.update(self.peer.values(self.feed, self._batch(self.place[name])))
        self.given.add(name)
        return self.held.pop(name)

    def _batch(self, start: int) -> list[str]:
        taken: list[str] = []
        room = self.budget
        for name in self.names[start:]:
            if name in self.given or name in self.held:
                continue
            room -= self.types[name].nbytes if name in self.types else 0
            if taken and room < 0:
                break
            taken.append(name)
        return taken


class OnnxRuntime:
    """ONNX Runtime without its optimisations, every value of the main graph an output."""

    def __init__(self, source: Any, imported: Any) -> None:
        import onnx
        import onnxruntime  # type: ignore[import-untyped]  # it has no types

        if isinstance(source, bytes):
            model = onnx.load_from_string(source)
        else:
            model = source if isinstance(source, onnx.ModelProto) else onnx.load(os.fspath(source))
        graph = model.graph
        given = {output.name for output in graph.output}
        made = [name for node in graph.node for name in node.output if name]
        kept = onnx.ModelProto()
        kept.CopyFrom(model)
        kept.graph.output.extend(onnx.ValueInfoProto(name=name) for name in made if name not in given)
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        try:
            content = kept.SerializeToString()
            self.session = onnxruntime.InferenceSession(content, options, ["CPUExecutionProvider"])
        except Exception as error:  # its own classes, and protobuf's for what is larger than 2 GB
            raise UnsupportedError(f"onnxruntime cannot run the model: {error}") from error
        self.known = frozenset(made)
        self.inputs = {given.name for given in self.session.get_inputs()}

    def values(self, feed: Feed, names: Sequence[str]) -> Mapping[str, Array]:
        taken = {name: array for name, array in feed.items() if name in self.inputs}
        try:
            return dict(zip(names, self.session.run(list(names), taken), strict=True))
        except Exception as error:
            raise UnsupportedError(f"onnxruntime cannot run the model: {error}") from error


class LiteRT:
    """TensorFlow Lite's interpreter, which keeps all values of a run: its memory is theirs."""

    def __init__(self, source: Any, imported: Any) -> None:
        from ai_edge_litert.interpreter import (  # type: ignore[import-not-found]  # optional
            Interpreter,
            OpResolverType,
        )

        given = {"model_content": source} if isinstance(source, bytes) else {"model_path": os.fspath(source)}
        self.interpreter = Interpreter(
            **given, experimental_preserve_all_tensors=True,
            experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        )  # fmt: skip
        details = self.interpreter.get_tensor_details()
        self.places: dict[str, int] = {}
        for detail in details:
            self.places.setdefault(detail["name"], detail["index"])
        self.inputs = self.interpreter.get_input_details()
        names = [declared.name for declared in imported.graph.inputs]
        self.named = dict(zip(names, self.inputs, strict=True))
        for name, detail in zip(imported.graph.outputs, self.interpreter.get_output_details(), strict=False):
            self.places.setdefault(name, detail["index"])
        self.known = frozenset(self.places)
        self.ran: int | None = None

    def values(self, feed: Feed, names: Sequence[str]) -> Mapping[str, Array]:
        try:
            if self.ran != id(feed):
                for name, detail in self.named.items():
                    self.interpreter.resize_tensor_input(detail["index"], feed[name].shape)
                self.interpreter.allocate_tensors()
                for name, detail in self.named.items():
                    self.interpreter.set_tensor(detail["index"], feed[name])
                self.interpreter.invoke()
                self.ran = id(feed)
            return {name: self._tensor(name) for name in names}
        except (RuntimeError, ValueError) as error:
            raise UnsupportedError(f"litert cannot run the model: {error}") from error

    def _tensor(self, name: str) -> Array:
        found: Array = self.interpreter.get_tensor(self.places[name])
        return found


class TensorFlow:
    """TensorFlow: every value of a frozen graph, the outputs of a SavedModel."""

    def __init__(self, source: Any, imported: Any) -> None:
        import tensorflow as tf  # type: ignore[import-untyped]  # optional

        self.tf, self.imported = tf, imported
        path = None if isinstance(source, bytes) else os.fspath(source)
        folder = path if path is not None and os.path.isdir(path) else None
        if path is not None and os.path.basename(path) == "saved_model.pb":
            folder = os.path.dirname(path)
        if folder is not None:
            self.loaded = tf.saved_model.load(folder)
            self.function = next(iter(self.loaded.signatures.values()))
            self.known = frozenset(imported.graph.outputs)
            return
        self.function = None
        definition = tf.compat.v1.GraphDef()
        if path is None:
            definition.ParseFromString(source)
        else:
            with open(path, "rb") as file:
                definition.ParseFromString(file.read())
        graph = tf.Graph()
        with graph.as_default():
            tf.import_graph_def(definition, name="")
        self.session = tf.compat.v1.Session(graph=graph)
        self.known = frozenset(
            name for operation in graph.get_operations() for output in operation.outputs
            for name in _names_of(output.name)
        )  # fmt: skip

    def values(self, feed: Feed, names: Sequence[str]) -> Mapping[str, Array]:
        try:
            if self.function is not None:
                made = self.function(**{name: self.tf.constant(x) for name, x in feed.items()})
                return {name: made[name].numpy() for name in names}
            wanted = [name if ":" in name else f"{name}:0" for name in names]
            given = {name if ":" in name else f"{name}:0": x for name, x in feed.items()}
            return dict(zip(names, self.session.run(wanted, given), strict=True))
        except Exception as error:  # its own classes
            raise UnsupportedError(f"tensorflow cannot run the model: {error}") from error


def _names_of(tensor: str) -> Sequence[str]:
    """What a tensor is called: its first output also by the node's name alone."""
    return (tensor, tensor[:-2]) if tensor.endswith(":0") else (tensor,)


class Torch:
    """The outputs of the network that the model was exported from: MODEL.pt2 (torch.export) or MODEL.pt (TorchScript)
    beside it, called with the inputs in order."""

    def __init__(self, source: Any, imported: Any) -> None:
        import torch

        stem = os.path.splitext(os.fspath(source))[0] if isinstance(source, str | os.PathLike) else ""
        found = next((stem + end for end in (".pt2", ".pt") if stem and os.path.exists(stem + end)), None)
        if found is None:
            raise ArgumentError(f"against torch: there is no {stem or 'MODEL'}.pt2 or .pt beside the model")
        self.torch = torch
        if found.endswith("2"):
            self.module: Any = torch.export.load(found).module()
        else:
            self.module = torch.jit.load(found)  # type: ignore[no-untyped-call]  # torch's
        self.inputs = [declared.name for declared in imported.graph.inputs]
        self.outputs = imported.graph.outputs
        self.known = frozenset(self.outputs)

    def values(self, feed: Feed, names: Sequence[str]) -> Mapping[str, Array]:
        with self.torch.no_grad():
            made = self.module(*(self.torch.from_numpy(np.array(feed[name])) for name in self.inputs))
        given = made if isinstance(made, tuple | list) else (made,)
        found = {name: tensor.numpy() for name, tensor in zip(self.outputs, given, strict=True)}
        return {name: found[name] for name in names}


class Reference:
    """The operators' references, one after the other, each rounded to the type of its result."""

    def __init__(self, source: Any, imported: Any) -> None:
        self.graph: Graph = imported.graph
        self.known = frozenset(self.graph.values())

    def values(self, feed: Feed, names: Sequence[str]) -> Mapping[str, Array]:
        needed = eliminate_dead(self.graph.replace(outputs=tuple(names)))
        return evaluate(needed, feed)


PEERS: Mapping[str, tuple[str, Open]] = {
    "onnxruntime": ("onnxruntime", OnnxRuntime),
    "litert": ("ai_edge_litert", LiteRT),
    "tensorflow": ("tensorflow", TensorFlow),
    "torch": ("torch", Torch),
    REFERENCE: ("numpy", Reference),
}
_SUITS = {"onnx": "onnxruntime", "tflite": "litert", "graphdef": "tensorflow", "savedmodel": "tensorflow"}


def chosen(against: str | None, form: str | None) -> str:
    """The peer's name: the one asked for, else the one of the model's format if it is installed.

    Raises ArgumentError for one that does not exist, UnsupportedError for one that is not installed.
    """
    if against is None:
        suits = _SUITS.get(form or "", REFERENCE)
        return suits if _installed(suits) else REFERENCE
    if against not in PEERS:
        raise ArgumentError(f"against: '{against}' is none of {', '.join(PEERS)}")
    if not _installed(against):
        raise UnsupportedError(f"against {against}: the package {PEERS[against][0]} is not installed")
    return against


def _installed(name: str) -> bool:
    return importlib.util.find_spec(PEERS[name][0]) is not None


def open_peer(name: str, source: Any, imported: Any) -> Peer:
    """The peer of a model. Raises UnsupportedError where it cannot take it."""
    try:
        return PEERS[name][1](source, imported)
    except CenoteError:
        raise
    except Exception as error:  # each engine has errors of its own
        raise UnsupportedError(f"{name} cannot load the model: {error}") from error
