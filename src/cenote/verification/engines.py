"""Engines to compare with, each imported when it is requested."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from cenote.core.errors import ArgumentError, UnsupportedError
from cenote.core.types import Array
from cenote.graph.interpreter import evaluate
from cenote.passes.cleanup import eliminate_dead
from cenote.verification.stream import Feed, Subject


class OnnxRuntime:
    """ONNX Runtime without its optimisations, with every value of the main graph as an output."""

    def __init__(self, subject: Subject) -> None:
        import onnx
        import onnxruntime

        source = subject.source
        model = (
            onnx.load_from_string(source)
            if isinstance(source, bytes)
            else onnx.load(os.fspath(source), load_external_data=False)
        )
        graph = model.graph
        outputs = {output.name for output in graph.output}
        names = [name for node in graph.node for name in node.output if name]
        further = onnx.ModelProto()
        further.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in outputs)
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        has_files = any(each.HasField("data_location") and each.data_location for each in graph.initializer)
        # One copy less beside the session's.
        del model, graph
        try:
            if has_files:
                # The files' places are relative to the model's folder.
                source = onnx.load(os.fspath(source)).SerializeToString()
            with _extended(source, further.SerializeToString()) as path:
                self.session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
        except Exception as error:
            # Its own classes, and protobuf's for models larger than 2 GB.
            raise UnsupportedError(f"onnxruntime cannot run the model: {error}") from error
        self.known = frozenset(names)
        self.inputs = {given.name for given in self.session.get_inputs()}

    def values(self, feed: Feed, names: Sequence[str]) -> Mapping[str, Array]:
        taken = {name: array for name, array in feed.items() if name in self.inputs}
        try:
            return dict(zip(names, self.session.run(list(names), taken), strict=True))
        except Exception as error:
            raise UnsupportedError(f"onnxruntime cannot run the model: {error}") from error


@contextlib.contextmanager
def _extended(source: Any, further: bytes) -> Iterator[str]:
    """Write a model's file with more messages at its end: messages that follow each other are one message."""
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        if isinstance(source, bytes):
            file.write(source)
        else:
            with open(source, "rb") as model:
                shutil.copyfileobj(model, file)
        file.write(further)
        file.flush()
        yield file.name


class LiteRT:
    """TensorFlow Lite's interpreter, which keeps all values of a run in its own memory."""

    def __init__(self, subject: Subject) -> None:
        from ai_edge_litert.interpreter import (
            Interpreter,
            OpResolverType,
        )

        source, imported = subject.source, subject.imported
        given = {"model_content": source} if isinstance(source, bytes) else {"model_path": os.fspath(source)}
        plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        self.interpreter = Interpreter(
            **given, experimental_preserve_all_tensors=True, experimental_op_resolver_type=plain
        )
        names: list[str] = []
        try:
            self.interpreter.allocate_tensors()
            names = [detail["name"] for detail in self.interpreter.get_tensor_details()]
        except RuntimeError:
            # MediaPipe's operators are known to XNNPACK alone, which gives the outputs only.
            self.interpreter = Interpreter(**given)
        signatures = self.interpreter.get_signature_list()
        if subject.signature is not None and [*signatures] != [subject.signature]:
            raise UnsupportedError("litert compares the first graph of a model, which has several signatures")
        results = self.interpreter.get_output_details()
        self.places = {
            name: detail["index"] for name, detail in zip(imported.graph.outputs, results, strict=False)
        }
        for index, name in enumerate(names):
            # Of two tensors with one name, neither can be identified.
            if name and names.count(name) == 1:
                self.places.setdefault(name, index)
        self.named = {
            declared.name: detail
            for declared, detail in zip(
                imported.graph.inputs, self.interpreter.get_input_details(), strict=True
            )
        }
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
        tensor: Array = self.interpreter.get_tensor(self.places[name])
        return tensor


class Torch:
    """The network that the model was exported from, beside it as MODEL.pt2 (torch.export) or MODEL.pt (TorchScript),
    called with the inputs in order. It gives the outputs only."""

    def __init__(self, subject: Subject) -> None:
        import torch

        source, imported = subject.source, subject.imported
        stem = os.path.splitext(os.fspath(source))[0] if isinstance(source, str | os.PathLike) else ""
        path = next((stem + end for end in (".pt2", ".pt") if stem and os.path.exists(stem + end)), None)
        if path is None:
            raise ArgumentError(f"against torch: there is no {stem or 'MODEL'}.pt2 or .pt beside the model")
        self.torch = torch
        if path.endswith("2"):
            self.module: Any = torch.export.load(path).module()
        else:
            self.module = torch.jit.load(path)  # type: ignore[no-untyped-call]  # torch's
        self.inputs = [declared.name for declared in imported.graph.inputs]
        self.outputs = imported.graph.outputs
        self.known = frozenset(self.outputs)

    def values(self, feed: Feed, names: Sequence[str]) -> Mapping[str, Array]:
        with self.torch.no_grad():
            results = self.module(*(self.torch.from_numpy(np.array(feed[name])) for name in self.inputs))
        tensors = results if isinstance(results, tuple | list) else (results,)
        arrays = {name: tensor.numpy() for name, tensor in zip(self.outputs, tensors, strict=True)}
        return {name: arrays[name] for name in names}


class Reference:
    """The operators' references, applied one after the other, each rounded to the type of its result."""

    def __init__(self, subject: Subject) -> None:
        self.graph = subject.imported.graph
        self.known = frozenset(self.graph.values())

    def values(self, feed: Feed, names: Sequence[str]) -> Mapping[str, Array]:
        needed = eliminate_dead(self.graph.replace(outputs=tuple(names)))
        return evaluate(needed, feed)
