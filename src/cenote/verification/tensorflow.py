"""TensorFlow and Keras as engines: every value of a graph by its node; the output of each layer of a Keras model."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cenote.core.errors import UnsupportedError
from cenote.core.types import Array
from cenote.frontends.formats import is_graph_text
from cenote.verification.stream import Feed, Peer, Subject


def tensorflow_or_keras(subject: Subject) -> Peer:
    """Return the engine for TensorFlow's formats: Keras reads its own files."""
    return Keras(subject) if subject.form == "keras" else TensorFlow(subject)


class TensorFlow:
    """Engine for every value of a frozen graph, a SavedModel (functions inlined) or a graph with its checkpoint."""

    def __init__(self, subject: Subject) -> None:
        import tensorflow as tf

        self.tf = tf
        # Tensors of inputs and outputs that have another name in Cenote's graph.
        self.named: dict[str, str] = {}
        definition = None if subject.form == "metagraph" else self._definition(subject)
        graph = tf.Graph()
        self.session = tf.compat.v1.Session(graph=graph)
        with graph.as_default():
            if definition is None:
                path = os.fspath(subject.source)
                tf.compat.v1.train.import_meta_graph(path).restore(self.session, path.removesuffix(".meta"))
            else:
                tf.import_graph_def(definition, name="")
        # Placeholders that switch training on are no inputs of Cenote's graph.
        self.training = {
            operation.outputs[0].name: False
            for operation in graph.get_operations()
            if operation.type == "Placeholder" and operation.outputs[0].dtype == tf.bool
        }
        made = {output.name for operation in graph.get_operations() for output in operation.outputs}
        for name in subject.imported.graph.values():
            self.named.setdefault(name, name if ":" in name else f"{name}:0")
        self.named = {name: tensor for name, tensor in self.named.items() if tensor in made}
        self.known = frozenset(self.named)

    def _definition(self, subject: Subject) -> Any:
        source = subject.source
        if subject.form == "savedmodel":
            return self._frozen(os.path.dirname(os.fspath(source)), subject.signature)
        definition = self.tf.compat.v1.GraphDef()
        content = source if isinstance(source, bytes) else Path(os.fspath(source)).read_bytes()
        if is_graph_text(content):
            from google.protobuf import text_format

            text_format.Parse(content.decode(), definition)
        else:
            definition.ParseFromString(content)
        return definition

    def _frozen(self, folder: str, signature: str | None) -> Any:
        """Return the graph of a SavedModel without variables and functions; its nodes have the names that Cenote
        gives them.

        It is loaded in TensorFlow 1's way, which restores no objects, so that files of other versions can be read.
        """
        v1, graph = self.tf.compat.v1, self.tf.Graph()
        # TensorFlow would advise against loading in this way.
        self.tf.get_logger().setLevel("ERROR")
        with graph.as_default(), v1.Session(graph=graph) as session:
            meta = v1.saved_model.load(session, ["serve"], folder)
            offered = meta.signature_def
            chosen = offered[
                signature or ("serving_default" if "serving_default" in offered else min(offered))
            ]
            self.named |= {name: info.name for name, info in chosen.inputs.items()}
            self.named |= {name: info.name for name, info in chosen.outputs.items()}
            ends = sorted({info.name.split(":")[0] for info in chosen.outputs.values()})
            definition = graph.as_graph_def()
            return self._inlined(
                v1.graph_util.convert_variables_to_constants(session, definition, ends), ends
            )

    def _inlined(self, definition: Any, ends: Sequence[str]) -> Any:
        """Return a graph with its functions' bodies in place of the calls."""
        from tensorflow.core.protobuf import config_pb2, meta_graph_pb2
        from tensorflow.python.grappler import tf_optimizer

        v1, graph = self.tf.compat.v1, self.tf.Graph()
        with graph.as_default():
            self.tf.import_graph_def(definition, name="")
        meta = v1.train.export_meta_graph(graph_def=definition, graph=graph)
        kept = meta_graph_pb2.CollectionDef()
        kept.node_list.value.extend(ends)
        meta.collection_def["train_op"].CopyFrom(kept)
        config = config_pb2.ConfigProto()
        options = config.graph_options.rewrite_options
        # Optimise even a small graph.
        options.min_graph_nodes = -1
        options.optimizers.append("function")
        return tf_optimizer.OptimizeGraph(config, meta)

    def values(self, feed: Feed, names: Sequence[str]) -> Mapping[str, Array]:
        try:
            named = {self.named[name]: array for name, array in feed.items() if name in self.named}
            feeds: dict[str, Any] = {**self.training, **named}
            arrays = self.session.run([self.named[name] for name in names], feeds)
        except Exception as error:
            # TensorFlow's own classes.
            raise UnsupportedError(f"tensorflow cannot run the model: {error}") from error
        return dict(zip(names, arrays, strict=True))


class Keras:
    """The outputs of layers of the outermost model that are called once, by the layers' names."""

    def __init__(self, subject: Subject) -> None:
        import keras

        if isinstance(subject.source, bytes):
            raise UnsupportedError("keras reads a model from its path only")
        self.keras = keras
        self.model = keras.saving.load_model(os.fspath(subject.source), compile=False)
        graph = subject.imported.graph
        self.inputs = [declared.name for declared in graph.inputs]
        self.tensors = dict(zip(graph.outputs, self.model.outputs, strict=True))
        for layer in self.model.layers:
            try:
                self.tensors.setdefault(layer.name, layer.output)
            except (AttributeError, ValueError):
                # The layer is called several times, or never.
                continue
        self.known = frozenset(name for name, tensor in self.tensors.items() if hasattr(tensor, "shape"))

    def values(self, feed: Feed, names: Sequence[str]) -> Mapping[str, Array]:
        try:
            part = self.keras.Model(self.model.inputs, [self.tensors[name] for name in names])
            results = part([feed[name] for name in self.inputs], training=False)
        except Exception as error:
            # Keras's own classes.
            raise UnsupportedError(f"keras cannot run the model: {error}") from error
        every = results if isinstance(results, list | tuple) else [results]
        return {name: np.asarray(y) for name, y in zip(names, every, strict=True)}
