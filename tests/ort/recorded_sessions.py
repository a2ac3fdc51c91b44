"""Behaviours of sessions: loading, description, options."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto as T

import cenote.ort
from tests.ort import behaviours as b
from tests.ort.behaviours import ONE, TWO, Behaviour, N, load, model, node, sequence, shapes, typed, value

M, CPU = [np.array([2, 4])], ["CPUExecutionProvider"]
NONSENSE = model(*ONE, [node("Nonsense", ["x"], ["y"])])
OPEN = [value("y", T.FLOAT, None)]
X4 = [value("x", T.FLOAT, ["N", 4])]

LOADS = {
    "bytes": Behaviour(load(TWO), CPU),
    "keywords": Behaviour(
        load(path_or_bytes=TWO, sess_options=None, providers=CPU, provider_options=[{}]), CPU
    ),
    "positions": Behaviour(load(TWO, None, [("CPUExecutionProvider", {"a": 1})]), CPU),
    "an unknown keyword": Behaviour(load(TWO, frob=3), CPU),
    "no providers": Behaviour(load(TWO, providers=[]), CPU),
    "a provider that there is not here": Behaviour(
        load(TWO, providers=[("CUDAExecutionProvider", {"device_id": 0}), *CPU]), CPU
    ),
    "a provider that nobody knows": Behaviour(load(TWO, providers=["Foo"]), CPU),
    "a provider in place of a list": Behaviour(load(TWO, providers=CPU[0]), CPU),
    "a provider that nobody knows, later": Behaviour(
        lambda ort: ort.InferenceSession(TWO).set_providers(["Foo"]), "RuntimeError"
    ),
    "no file": Behaviour(load("/nowhere/at/all.onnx"), "NoSuchFile"),
    "a folder": Behaviour(load("/"), "InvalidProtobuf"),
    "no name": Behaviour(load(""), "TypeError"),
    "no bytes": Behaviour(load(b""), "InvalidArgument"),
    "other bytes": Behaviour(load(b"garbage" * 10), "InvalidProtobuf"),
    "bytes that end early": Behaviour(load(TWO[:-20]), "InvalidProtobuf"),
    "a bytearray": Behaviour(load(bytearray(TWO)), "TypeError"),
    "None": Behaviour(load(None), "TypeError"),
    "other options": Behaviour(load(TWO, 3), "TypeError"),
    "an unknown operator": Behaviour(load(NONSENSE), "InvalidGraph"),
    "an operator of an unknown domain": Behaviour(
        load(model(*ONE, [node("Nonsense", ["x"], ["y"], domain="d")])), "InvalidGraph"
    ),
    "an unknown attribute": Behaviour(
        load(model(*ONE, [node("Relu", ["x"], ["y"], frob=3)])), "InvalidGraph"
    ),
    "too many inputs": Behaviour(load(model(*ONE, [node("Relu", ["x", "x"], ["y"])])), "InvalidGraph"),
    "a value that nothing makes": Behaviour(
        load(model(*ONE, [node("Relu", ["q"], ["y"])])), "InvalidArgument"
    ),
    "a cycle": Behaviour(
        load(
            model(
                *ONE, [node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"]), node("Relu", ["b"], ["y"])]
            )
        ),
        "Fail",
    ),
    "a type that an operator does not take": Behaviour(
        load(model([value("x", T.INT64, [1])], [value("y", T.INT64, [1])], [node("Sigmoid", ["x"], ["y"])])),
        "InvalidGraph",
    ),
    "a later opset": Behaviour(load(model(*ONE, [node("Relu", ["x"], ["y"])], opset=99)), "Fail"),
    "a later version of the format": Behaviour(
        load(model(*ONE, [node("Relu", ["x"], ["y"])], ir_version=99)), "Fail"
    ),
    "a library of operators": Behaviour(
        lambda ort: ort.SessionOptions().register_custom_ops_library("/nowhere.so"), "Fail"
    ),
}
DESCRIBED = {
    "inputs and outputs": Behaviour(
        lambda ort: [
            (a.name, a.type, a.shape)
            for s in [ort.InferenceSession(TWO)]
            for a in (*s.get_inputs(), *s.get_outputs())
        ],
        [
            ("x", "tensor(float)", ["b", 3, None]),
            ("n", "tensor(int64)", [2]),
            ("y", "tensor(float)", ["b", 3, None]),
            ("m", "tensor(int64)", [2]),
        ],
    ),
    "an output without a shape": Behaviour(
        shapes(OPEN, b.PRODUCT, X4, b.MATRIX),
        [("x", "tensor(float)", ["N", 4]), ("y", "tensor(float)", ["N", 10])],
    ),
    "an output with unknown sizes": Behaviour(
        shapes([value("y", T.FLOAT, [None, None])], b.PRODUCT, X4, b.MATRIX),
        [("x", "tensor(float)", ["N", 4]), ("y", "tensor(float)", ["N", 10])],
    ),
    "an output with other names": Behaviour(
        shapes([value("y", T.FLOAT, ["M", "K"])], b.PRODUCT, X4, b.MATRIX),
        [("x", "tensor(float)", ["N", 4]), ("y", "tensor(float)", ["M", 10])],
    ),
    "an output that is known": Behaviour(
        shapes([value("y", T.FLOAT, ["M", "K"])], b.PRODUCT, [value("x", T.FLOAT, [2, 4])], b.MATRIX),
        [("x", "tensor(float)", [2, 4]), ("y", "tensor(float)", [2, 10])],
    ),
    "sizes of -1": Behaviour(
        shapes([value("y", T.FLOAT, [-1, 10])], b.PRODUCT, [value("x", T.FLOAT, [-1, 4])], b.MATRIX),
        [("x", "tensor(float)", [None, 4]), ("y", "tensor(float)", [None, 10])],
    ),
    "a size that is computed": Behaviour(
        shapes([value("y", T.INT64, None)], [node("NonZero", ["x"], ["y"])], X4),
        [("x", "tensor(float)", ["N", 4]), ("y", "tensor(int64)", [2, None])],
    ),
    "no shape at all": Behaviour(
        shapes(OPEN, [node("Relu", ["x"], ["y"])], [value("x", T.FLOAT, None)]),
        [("x", "tensor(float)", []), ("y", "tensor(float)", [])],
    ),
    "sequences": Behaviour(
        shapes(
            [sequence("y", T.FLOAT, None)],
            [node("SequenceInsert", ["s", "x"], ["y"])],
            [sequence("s", T.FLOAT, None), value("x", T.FLOAT, ["N"])],
        ),
        [("s", "seq(tensor(float))", []), ("x", "tensor(float)", ["N"]), ("y", "seq(tensor(float))", [])],
    ),
    "the model's file": Behaviour(
        b._about, ["maker", "the_graph", "home", "of a model", "of a graph", 7, {"names": "{0: 'a'}"}]
    ),
    "dimensions that are fixed": Behaviour(b._fixed, [[3, 4], [3, 10]]),
    "another size than was fixed": Behaviour(b._fixed_and_run, "InvalidArgument"),
    "a weight that is replaced": Behaviour(b._replaced, 0.0),
    "a subclass that pickles its path": Behaviour(b._pickled, M),
    "a session cannot be pickled": Behaviour(b._pickle(lambda ort: ort.InferenceSession(TWO)), "TypeError"),
    "options cannot be pickled": Behaviour(b._pickle(lambda ort: ort.SessionOptions()), "TypeError"),
    "values": Behaviour(
        b._held,
        [
            np.array([7, 1, 1], np.float32),
            True,
            True,
            [3],
            "tensor(float)",
            1,
            "cpu",
            True,
            False,
            True,
            12,
            np.array([5, 6]),
            np.array([5, 6]),
        ],
    ),
    "no value of a list": Behaviour(lambda ort: ort.OrtValue.ortvalue_from_numpy([1, 2]), "RuntimeError"),
    "no value of texts": Behaviour(
        lambda ort: ort.OrtValue.ortvalue_from_numpy(np.array(["a"])), "RuntimeError"
    ),
    "no value on a GPU": Behaviour(
        lambda ort: ort.OrtValue.ortvalue_from_numpy(N, "cuda", 0), "RuntimeError"
    ),
    "no value of another size": Behaviour(
        lambda ort: ort.OrtValue.ortvalue_from_numpy(N).update_inplace(np.ones(3, np.int64)), "RuntimeError"
    ),
    "no value of nothing": Behaviour(lambda ort: ort.OrtValue(3), "ValueError"),
    "the version": Behaviour(lambda ort: ort.__version__, cenote.ort.__version__),
    "the device": Behaviour(
        lambda ort: [ort.get_device(), ort.get_available_providers()[-1], ort.get_all_providers()[-1]],
        ["CPU", *CPU, *CPU],
    ),
    "an unknown severity": Behaviour(lambda ort: ort.set_default_logger_severity(9), "RuntimeError"),
    **{
        f"elements: {word}": Behaviour(
            typed(kind), [("x", f"tensor({word})", [1]), ("y", f"tensor({word})", [1])]
        )
        for kind, word in [
            (T.FLOAT, "float"),
            (T.DOUBLE, "double"),
            (T.FLOAT16, "float16"),
            (T.BFLOAT16, "bfloat16"),
            (T.INT8, "int8"),
            (T.UINT8, "uint8"),
            (T.INT16, "int16"),
            (T.UINT16, "uint16"),
            (T.INT32, "int32"),
            (T.UINT32, "uint32"),
            (T.INT64, "int64"),
            (T.UINT64, "uint64"),
            (T.BOOL, "bool"),
            (T.STRING, "string"),
        ]
    },
}
OPTIONS = {
    "threads": Behaviour(b.option("intra_op_num_threads", -1), "-1"),
    "threads of NumPy": Behaviour(b.option("intra_op_num_threads", np.int64(2)), "2"),
    "threads as a text": Behaviour(b.option("intra_op_num_threads", "2"), "TypeError"),
    "threads as a float": Behaviour(b.option("intra_op_num_threads", 2.0), "TypeError"),
    "a flag": Behaviour(b.option("enable_profiling", 1), "True"),
    "a level": Behaviour(
        b.option("graph_optimization_level", lambda ort: ort.GraphOptimizationLevel.ORT_ENABLE_BASIC),
        "GraphOptimizationLevel.ORT_ENABLE_BASIC",
    ),
    "a level as a number": Behaviour(b.option("graph_optimization_level", 3), "TypeError"),
    "a mode as a number": Behaviour(b.option("execution_mode", 0), "TypeError"),
    "a text": Behaviour(b.option("logid", 3), "TypeError"),
    "a text in bytes": Behaviour(b.option("logid", b"x"), "x"),
    "a path in bytes": Behaviour(b.option("optimized_model_filepath", b"x"), "x"),
    "threads beyond a C int": Behaviour(b.option("intra_op_num_threads", 1 << 31), "TypeError"),
    "a flag as a float": Behaviour(b.option("enable_profiling", 1.5), "True"),
    "a path as a flag": Behaviour(b.option("enable_profiling", Path("x")), "TypeError"),
    "no such option": Behaviour(b.option("nonsense", 1), "AttributeError"),
    "the first level": Behaviour(lambda ort: int(ort.SessionOptions().graph_optimization_level), 99),
    "a level's name": Behaviour(lambda ort: ort.GraphOptimizationLevel.ORT_ENABLE_ALL.name, "ORT_ENABLE_ALL"),
    "entries": Behaviour(b._entries, "2"),
    "no such entry": Behaviour(
        lambda ort: ort.SessionOptions().get_session_config_entry("q"), "RuntimeError"
    ),
    "an entry without a key": Behaviour(
        lambda ort: ort.SessionOptions().add_session_config_entry("", "v"), "RuntimeError"
    ),
    "an entry with a long key": Behaviour(
        lambda ort: ort.SessionOptions().add_session_config_entry("k" * 1025, "v"), "RuntimeError"
    ),
    "an entry that is no text": Behaviour(
        lambda ort: ort.SessionOptions().add_session_config_entry("q", 1), "TypeError"
    ),
    "no such option of a run": Behaviour(lambda ort: setattr(ort.RunOptions(), "q", 1), "AttributeError"),
}
