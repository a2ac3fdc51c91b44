"""Makes tests/frontends/tensorflow_models.zip: small models of TensorFlow, TensorFlow Lite, Keras, and answers.

Run with TensorFlow 2.x, Keras 3, tf_keras and ai-edge-litert installed; the tests need none of them:

    python tests/frontends/make_tensorflow_models.py
"""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).parents[2]))

import keras
import numpy as np
import tensorflow as tf

from tests.frontends import tensorflow_graphs, tensorflow_networks

ARCHIVE = Path(__file__).with_name("tensorflow_models.zip")
_STAMP = (2026, 1, 1, 0, 0, 0)


class Collection:
    """The models so far, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cases: list[dict[str, Any]] = []

    def add(self, name: str, file: str, inputs: Sequence[Any], outputs: Sequence[Any], **more: Any) -> None:
        """A model's file and what it answers; `more`: "names" of outputs, "steps" that integers may be off."""
        arrays = {f"in{i}": np.asarray(x) for i, x in enumerate(inputs)}
        arrays |= {f"out{i}": np.asarray(y) for i, y in enumerate(outputs)}
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        answers = f"{name}.npz"
        (self.folder / answers).write_bytes(buffer.getvalue())
        self.cases.append({"name": f"{name}-{file.split('.')[-1]}", "file": file, "answers": answers, **more})
        print(self.cases[-1]["name"], flush=True)

    def write(self) -> None:
        (self.folder / "cases.json").write_text(json.dumps(self.cases, indent=1))
        with zipfile.ZipFile(ARCHIVE, "w", zipfile.ZIP_LZMA) as archive:
            for path in sorted(self.folder.rglob("*")):
                if path.is_file():
                    info = zipfile.ZipInfo(str(path.relative_to(self.folder)), _STAMP)
                    info.compress_type = zipfile.ZIP_LZMA
                    archive.writestr(info, path.read_bytes())
        print(f"{len(self.cases)} models, {ARCHIVE.stat().st_size / 1000:.0f} kB")


def add_network(found: Collection, name: str, model: Any, formats: Sequence[str]) -> None:
    """A Keras model in several formats."""
    rng = np.random.default_rng(7)
    inputs = [tensorflow_networks.example(rng, each.shape, each.dtype) for each in model.inputs]
    answer = model(inputs if len(inputs) > 1 else inputs[0], training=False)
    outputs = [np.asarray(each) for each in (answer if isinstance(answer, list | tuple) else [answer])]
    for form in formats:
        path = found.folder / f"{name}.{form}"
        if form in ("keras", "h5"):
            model.save(path)
        elif form == "savedmodel":
            model.export(path, verbose=False)
        elif form == "pb":
            path.write_bytes(frozen(model).SerializeToString())
        elif form == "pbtxt":
            path.write_text(str(frozen(model)))
        elif form == "tflite":
            path.write_bytes(tf.lite.TFLiteConverter.from_keras_model(model).convert())
            if model.inputs[0].shape[0] is None:
                (first, *rest) = (each[:1] for each in inputs)
                found.add(f"{name}_one", path.name, [first, *rest], [each[:1] for each in outputs])
                continue
        found.add(name, path.name, inputs, outputs)


def frozen(model: Any) -> Any:
    """A model as one graph without variables."""
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    specs = [tf.TensorSpec([None, *each.shape[1:]], each.dtype) for each in model.inputs]
    function = tf.function(lambda *given: model(list(given) if len(given) > 1 else given[0], training=False))
    return convert_variables_to_constants_v2(function.get_concrete_function(*specs)).graph.as_graph_def()


def add_graph(found: Collection, name: str, build: Callable[[Any], Any], text: bool = False) -> None:
    """A graph of TensorFlow 1: `build` makes it with tf.compat.v1 and gives values to feed, and outputs."""
    with tf.Graph().as_default() as graph:
        feed, outputs = build(tf.compat.v1)
        named = [tf.identity(each, name=f"y{i}") for i, each in enumerate(outputs)]
        with tf.compat.v1.Session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            answers = session.run(named, feed)
            frozen_graph = tf.compat.v1.graph_util.convert_variables_to_constants(
                session, graph.as_graph_def(), [f"y{i}" for i in range(len(named))]
            )
    file = f"{name}.pbtxt" if text else f"{name}.pb"
    content = str(frozen_graph).encode() if text else frozen_graph.SerializeToString()
    (found.folder / file).write_bytes(content)
    inputs = [value for key, value in feed.items() if value.dtype != np.bool_]
    more = {"tolerance": 3e-3} if name == "bicubic" else {}
    found.add(name, file, inputs, answers, names=[f"y{i}" for i in range(len(named))], **more)


def add_checkpoint(found: Collection, resource: bool) -> None:
    """A MetaGraphDef and a checkpoint of both kinds of variables, with an optimiser that nobody needs."""
    name = "checkpoint_resource" if resource else "checkpoint_reference"
    rng = np.random.default_rng(3)
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [None, 5, 5, 3], name="x")
        kernel = v1.get_variable("kernel", [3, 3, 3, 4], use_resource=resource)
        bias = v1.get_variable("bias", [4], use_resource=resource, initializer=v1.random_normal_initializer())
        y = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, kernel, 1, "SAME"), bias), name="answer")
        loss = tf.reduce_mean(y, name="loss")
        v1.train.GradientDescentOptimizer(0.1).minimize(loss)
        picture = rng.standard_normal((2, 5, 5, 3)).astype(np.float32)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            v1.train.Saver().save(session, str(found.folder / name))
            answer = session.run(loss, {x: picture})
    (found.folder / "checkpoint").unlink()
    found.add(name, f"{name}.meta", [picture], [answer], names=["loss"])


def add_lite(
    found: Collection,
    name: str,
    function: Callable[..., Any],
    shapes: Sequence[Sequence[int]],
    quantise: str = "",
) -> None:
    """A function as a TensorFlow Lite model. `quantise`: "", "half", "sparse", "int8" (whole), "int16"."""
    from ai_edge_litert.interpreter import Interpreter

    rng = np.random.default_rng(11)
    compiled = tf.function(function).get_concrete_function(
        *(tf.TensorSpec(shape, tf.float32) for shape in shapes)
    )
    converter = tf.lite.TFLiteConverter.from_concrete_functions([compiled])
    if quantise:
        sparse = quantise == "sparse"
        converter.optimizations = [
            tf.lite.Optimize.EXPERIMENTAL_SPARSITY if sparse else tf.lite.Optimize.DEFAULT
        ]
    if quantise == "half":
        converter.target_spec.supported_types = [tf.float16]
    if quantise.startswith("int"):
        converter.representative_dataset = lambda: (
            [rng.standard_normal(shape).astype(np.float32) for shape in shapes] for _ in range(20)
        )
        wide = tf.lite.OpsSet.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
        converter.target_spec.supported_ops = [
            tf.lite.OpsSet.TFLITE_BUILTINS_INT8 if quantise == "int8" else wide
        ]
        converter.inference_input_type = converter.inference_output_type = getattr(tf, quantise)
    content = converter.convert()
    (found.folder / f"{name}.tflite").write_bytes(content)
    interpreter = Interpreter(model_content=content)
    interpreter.allocate_tensors()
    inputs = []
    for each in interpreter.get_input_details():
        value = rng.standard_normal(each["shape"]).astype(np.float32)
        if quantise.startswith("int"):
            scale, point = each["quantization"]
            limits = np.iinfo(each["dtype"])
            value = np.clip(np.round(value / scale) + point, limits.min, limits.max).astype(each["dtype"])
        interpreter.set_tensor(each["index"], value)
        inputs.append(value)
    interpreter.invoke()
    outputs = [interpreter.get_tensor(each["index"]) for each in interpreter.get_output_details()]
    more = {"steps": 1 if quantise == "int8" else 2} if quantise.startswith("int") else {}
    if name == "lite_pool_int8":
        more = {}  # exactly the same
    found.add(name, f"{name}.tflite", inputs, outputs, **more)


def add_fused_lstm(found: Collection) -> None:
    """An LSTM that the converter makes one operator: Keras 2's."""
    import tf_keras

    x = tf_keras.Input(batch_shape=(2, 6, 3))
    both = tf_keras.layers.Bidirectional(tf_keras.layers.LSTM(4, return_sequences=True))(x)
    model = tf_keras.Model(x, tf_keras.layers.LSTM(5)(both))
    sequence = np.random.default_rng(7).standard_normal((2, 6, 3)).astype(np.float32)
    function = tf.function(model).get_concrete_function(tf.TensorSpec((2, 6, 3), tf.float32))
    content = tf.lite.TFLiteConverter.from_concrete_functions([function], model).convert()
    (found.folder / "lite_lstm.tflite").write_bytes(content)
    found.add("lite_lstm", "lite_lstm.tflite", [sequence], [np.asarray(model(sequence))])


def main() -> None:
    keras.utils.set_random_seed(5)
    with tempfile.TemporaryDirectory() as folder:
        found = Collection(Path(folder))
        for name, (build, formats) in tensorflow_networks.NETWORKS.items():
            keras.backend.clear_session()
            add_network(found, name, tensorflow_networks.with_statistics(build()), formats.split())
        for name, build in tensorflow_graphs.GRAPHS.items():
            add_graph(found, name, build)
        add_graph(found, "text", tensorflow_graphs.GRAPHS["conv_same_odd"], text=True)
        for resource in (False, True):
            add_checkpoint(found, resource)
        for name, (function, shapes, quantise) in tensorflow_networks.LITE.items():
            add_lite(found, name, function, shapes, quantise)
        add_fused_lstm(found)
        found.write()


if __name__ == "__main__":
    main()
