"""Behaviours of runs: what is fed, what is refused, what is bound."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto as T

from tests.ort import behaviours as b
from tests.ort.behaviours import FEED, LISTS, STRINGS, TWO, Behaviour, N, X, model, node, run, value

M = [np.array([2, 4])]
FEEDS = {
    "an array": Behaviour(run(), M),
    "all outputs for None": Behaviour(run(names=None), [X, *M]),
    "all outputs for no names": Behaviour(run(names=[]), [X, *M]),
    "names in any order, and twice": Behaviour(run(names=["m", "y", "m"]), [*M, X, *M]),
    "a list": Behaviour(run(n=[1, 2]), M),
    "a list of floats for integers": Behaviour(run(n=[1.5, 2.5]), M),
    "a list of texts for integers": Behaviour(run(n=["1", "2"]), M),
    "nested lists of integers for floats": Behaviour(
        run(names=["y"], x=[[[1], [2], [3]]]), [np.array([[[1], [2], [3]]], np.float32)]
    ),
    "a list of arrays of another type": Behaviour(
        run(names=["y"], x=[X[0].astype(float), X[1].astype(float)]), [X]
    ),
    "memory in another order": Behaviour(run(names=["y"], x=np.ones((4, 3, 2), np.float32).T), [X]),
    "an array that is not to be written": Behaviour(run(n=np.frombuffer(N.tobytes(), np.int64)), M),
    "nothing in a dimension": Behaviour(
        run(names=["y"], x=np.ones((0, 3, 4), np.float32)), [np.ones((0, 3, 4), np.float32)]
    ),
    "an OrtValue": Behaviour(lambda ort: run(n=ort.OrtValue.ortvalue_from_numpy(N))(ort), M),
    "OrtValues give OrtValues": Behaviour(
        lambda ort: (
            ort.InferenceSession(TWO)
            .run_with_ort_values(
                ["m"], {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in FEED.items()}
            )[0]
            .numpy()
        ),
        M[0],
    ),
    "texts": Behaviour(run({"x": np.array(["a", "bé"])}, None, STRINGS), [np.array(["a", "bé"], object)]),
    "texts in a list": Behaviour(run({"x": ["a", 3]}, None, STRINGS), [np.array(["a", "3"], object)]),
    "texts as objects": Behaviour(
        run({"x": np.array(["a", 3], object)}, None, STRINGS), [np.array(["a", "3"], object)]
    ),
    "texts as bytes of one length": Behaviour(
        run({"x": np.array([b"ab", b"cd"], np.void)}, None, STRINGS), [np.array(["ab", "cd"], object)]
    ),
    "a sequence": Behaviour(run({"s": [X[0, 0]], "x": X[0, 0]}, None, LISTS), [[X[0, 0], X[0, 0]]]),
    "an empty sequence": Behaviour(run({"s": [], "x": X[0, 0]}, None, LISTS), [[X[0, 0]]]),
    "another byte order": Behaviour(run(n=N.astype(">i8")), M, [np.array([1 << 57, 1 << 58])]),  # wrong there
}
REFUSED = {
    "a number": Behaviour(run(n=1), "RuntimeError"),
    "a NumPy scalar": Behaviour(run(n=np.int64(1)), "RuntimeError"),
    "a tuple": Behaviour(run(n=(1, 2)), "RuntimeError"),
    "a text": Behaviour(run(n="a"), "RuntimeError"),
    "a memoryview": Behaviour(run(n=memoryview(N)), "RuntimeError"),
    "ragged lists": Behaviour(run(names=["y"], x=[[[1, 2], [2], [3]]]), "RuntimeError"),
    "None": Behaviour(run(n=None), "Fail"),
    "float64 for float32": Behaviour(run(x=X.astype(np.float64)), "InvalidArgument"),
    "int32 for int64": Behaviour(run(n=N.astype(np.int32)), "InvalidArgument"),
    "an OrtValue of another type": Behaviour(
        lambda ort: run(n=ort.OrtValue.ortvalue_from_numpy(N.astype(np.int32)))(ort), "InvalidArgument"
    ),
    "another rank": Behaviour(run(x=X[0]), "InvalidArgument"),
    "another size": Behaviour(run(x=np.ones((2, 4, 4), np.float32)), "InvalidArgument"),
    "an empty list": Behaviour(run(n=[]), "InvalidArgument"),
    "a longer list": Behaviour(run(n=[1, 2, 3]), "InvalidArgument"),
    "an unknown input": Behaviour(run(q=X), "InvalidArgument"),
    "an unknown output": Behaviour(run(names=["zzz"]), "InvalidArgument"),
    "a missing input": Behaviour(run({"x": X}), "ValueError"),
    "no inputs": Behaviour(run({}), "ValueError"),
    "a feed that is no dict": Behaviour(run([X, N]), "AttributeError"),
    "a name that is no text": Behaviour(run({**FEED, 3: X}), "TypeError"),
    "complex numbers": Behaviour(run(x=X.astype(np.complex128)), "RuntimeError"),
    "long floats": Behaviour(run(x=X.astype(np.longdouble)), "RuntimeError"),
    "dates": Behaviour(run(n=np.array(["2020"], "datetime64[s]")), "RuntimeError"),
    "a dict": Behaviour(run(x={"k": 1}), "InvalidArgument"),
    "names in a dict": Behaviour(run(names={"y": 1}), "TypeError"),
    "names from an iterator": Behaviour(run(names=iter(["y"])), "TypeError"),
    "texts of another rank": Behaviour(run({"x": np.array([["a"]])}, None, STRINGS), "InvalidArgument"),
    "an output's name as the names": Behaviour(run(names="m"), "TypeError"),
    "an output's name that is no text": Behaviour(run(names=[3]), "TypeError"),
    "run options of another kind": Behaviour(run(options=3), "TypeError"),
    "a run that is terminated": Behaviour(b._terminated, "Fail"),
    "numbers for texts": Behaviour(run({"x": np.array([1, 2])}, None, STRINGS), "InvalidArgument"),
    "a tuple for a sequence": Behaviour(run({"s": (X[0, 0],), "x": X[0, 0]}, None, LISTS), "RuntimeError"),
    "an array for a sequence": Behaviour(run({"s": X[0], "x": X[0, 0]}, None, LISTS), "InvalidArgument"),
    "numbers for a sequence": Behaviour(run({"s": [[1.0]], "x": X[0, 0]}, None, LISTS), "RuntimeError"),
    "a sequence of another type": Behaviour(
        run({"s": [X[0, 0].astype(float)], "x": X[0, 0]}, None, LISTS), "RuntimeError"
    ),
    "sizes that do not go together": Behaviour(
        run(
            {"x": np.ones(2, np.float32), "z": np.ones(3, np.float32)},
            None,
            model(
                [value("x", T.FLOAT, ["a"]), value("z", T.FLOAT, ["b"])],
                [value("y", T.FLOAT, ["c"])],
                [node("Add", ["x", "z"], ["y"])],
            ),
        ),
        "Fail",
    ),
}
BOUND = {
    "inner classes": Behaviour(b._inside, [X, True, *M]),
    "an output": Behaviour(b.bound(lambda binding, ort: binding.bind_output("m")), M),
    "an input in memory": Behaviour(b.bound(b._from_memory), M),
    "an output in memory": Behaviour(b.bound(b._into_memory, lambda y: y), X),
    "an output in a value": Behaviour(b.bound(b._into_value, lambda held: held.numpy()), M[0]),
    "an output that does not fit": Behaviour(b.bound(b._wrong_place), "RuntimeError"),
    "an input of other elements": Behaviour(b.bound(b._wrong_elements), "RuntimeError"),
    "no output": Behaviour(b.bound(lambda binding, ort: None), "RuntimeError"),
    "an unknown output": Behaviour(b.bound(lambda binding, ort: binding.bind_output("q")), "RuntimeError"),
    "an unknown input": Behaviour(
        b.bound(lambda binding, ort: binding.bind_cpu_input("q", X)), "RuntimeError"
    ),
    "a list": Behaviour(b.bound(lambda binding, ort: binding.bind_cpu_input("n", [1, 2])), "RuntimeError"),
    "a name that is no text": Behaviour(
        b.bound(lambda binding, ort: binding.bind_cpu_input(1, N)), "TypeError"
    ),
    "memory of a negative size": Behaviour(
        b.bound(lambda binding, ort: binding.bind_input("n", "cpu", 0, np.int64, (-2,), N.ctypes.data)),
        "RuntimeError",
    ),
    "a value of a negative size": Behaviour(
        lambda ort: ort.OrtValue.ortvalue_from_shape_and_type([-1, 3], np.float32), "RuntimeError"
    ),
    "a value beyond any memory": Behaviour(
        lambda ort: ort.OrtValue.ortvalue_from_shape_and_type([1 << 40, 1 << 30], np.float32), "RuntimeError"
    ),
    "a value of texts": Behaviour(
        lambda ort: ort.OrtValue.ortvalue_from_shape_and_type([2], 8), "RuntimeError"
    ),
    "no such device": Behaviour(b.bound(lambda binding, ort: binding.bind_output("m", "foo")), "Exception"),
    "memory without a shape": Behaviour(
        b.bound(lambda binding, ort: binding.bind_output("m", "cpu", 0, None, None, 8)), "ValueError"
    ),
    "inputs that are taken back": Behaviour(
        b.bound(lambda binding, ort: (binding.bind_output("m"), binding.clear_binding_inputs())),
        "RuntimeError",
    ),
}
