"""What onnxruntime 1.31.1 does, one thing after the other, as it was seen: calls to be made, models for them.

A call gets the module, `onnxruntime` or `cenote.ort`. What comes of it is a value, or the name of an exception's class.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto as T
from onnx import helper, numpy_helper

value, sequence = helper.make_tensor_value_info, helper.make_tensor_sequence_value_info
node = helper.make_node


def model(
    inputs: list[Any],
    outputs: list[Any],
    nodes: list[Any],
    weights: dict[str, Any] | None = None,
    **more: Any,
) -> bytes:
    """The bytes of a model."""
    initializers = [
        numpy_helper.from_array(np.asarray(array), name) for name, array in (weights or {}).items()
    ]
    graph = helper.make_graph(nodes, "the_graph", inputs, outputs, initializers, doc_string="of a graph")
    opset, version = more.pop("opset", 17), more.pop("ir_version", 8)
    opsets = {"": opset, **more.pop("domains", {})}
    proto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid(*each) for each in opsets.items()], ir_version=version
    )
    proto.producer_name, proto.domain, proto.model_version, proto.doc_string = (
        "maker",
        "home",
        7,
        "of a model",
    )
    for key, text in more.items():
        proto.metadata_props.add(key=key, value=text)
    content: bytes = proto.SerializeToString()
    return content


TWO = model(
    [value("x", T.FLOAT, ["b", 3, None]), value("n", T.INT64, [2])],
    [value("y", T.FLOAT, ["b", 3, None]), value("m", T.INT64, None)],
    [node("Relu", ["x"], ["y"]), node("Add", ["n", "n"], ["m"])],
    names="{0: 'a'}",
)
X, N = np.ones((2, 3, 4), np.float32), np.array([1, 2])
FEED = {"x": X, "n": N}
ONE = [value("x", T.FLOAT, [1])], [value("y", T.FLOAT, [1])]
STRINGS = model(
    [value("x", T.STRING, ["N"])], [value("y", T.STRING, ["N"])], [node("Identity", ["x"], ["y"])]
)
LISTS = model(
    [sequence("s", T.FLOAT, None), value("x", T.FLOAT, ["N"])],
    [sequence("y", T.FLOAT, None)],
    [node("SequenceInsert", ["s", "x"], ["y"])],
)
MATRIX = {"w": np.ones((4, 10), np.float32)}
PRODUCT = [node("MatMul", ["x", "w"], ["y"])]


def run(
    feed: Any = FEED, names: Any = ("m",), content: bytes = TWO, options: Any = None, **changed: Any
) -> Any:
    """A call that runs a model."""
    if changed:
        feed = {**feed, **changed}
    return lambda ort: ort.InferenceSession(content).run(names, feed, options)


def load(*arguments: Any, **named: Any) -> Any:
    """A call that loads one and says which providers it has."""
    return lambda ort: ort.InferenceSession(*arguments, **named).get_providers()


def shapes(outputs: list[Any], nodes: list[Any], inputs: list[Any], weights: Any = None) -> Any:
    """A call that tells types and shapes."""
    content = model(inputs, outputs, nodes, weights)

    def call(ort: Any) -> Any:
        session = ort.InferenceSession(content)
        return [
            (each.name, each.type, each.shape) for each in (*session.get_inputs(), *session.get_outputs())
        ]

    return call


def option(name: str, given: Any) -> Any:
    """A call that sets an option."""

    def call(ort: Any) -> Any:
        options = ort.SessionOptions()
        setattr(options, name, given(ort) if callable(given) else given)
        return str(getattr(options, name))

    return call


def bound(prepare: Callable[[Any, Any], Any], then: Callable[[Any], Any] | None = None) -> Any:
    """A call that binds x and n, then what `prepare(binding, module)` binds, and runs."""

    def call(ort: Any) -> Any:
        session = ort.InferenceSession(TWO)
        binding = session.io_binding()
        binding.bind_cpu_input("x", X)
        binding.bind_cpu_input("n", N)
        kept = prepare(binding, ort)
        session.run_with_iobinding(binding)
        return then(kept) if then is not None else binding.copy_outputs_to_cpu()

    return call


def _terminated(ort: Any) -> Any:
    options = ort.RunOptions()
    options.terminate = True
    return ort.InferenceSession(TWO).run(None, FEED, options)


def _fixed(ort: Any) -> Any:
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_name("N", 3)
    content = model([value("x", T.FLOAT, ["N", 4])], [value("y", T.FLOAT, ["N", 10])], PRODUCT, MATRIX)
    session = ort.InferenceSession(content, options)
    return [each.shape for each in (*session.get_inputs(), *session.get_outputs())]


def _fixed_and_run(ort: Any) -> Any:
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_name("b", 3)
    return ort.InferenceSession(TWO, options).run(None, FEED)


def _replaced(ort: Any) -> Any:
    options = ort.SessionOptions()
    zeros = ort.OrtValue.ortvalue_from_numpy(np.zeros((4, 10), np.float32))
    options.add_initializer("w", zeros)
    content = model([value("x", T.FLOAT, [1, 4])], [value("y", T.FLOAT, [1, 10])], PRODUCT, MATRIX)
    return ort.InferenceSession(content, options).run(None, {"x": np.ones((1, 4), np.float32)})[0].sum()


def _entries(ort: Any) -> Any:
    options = ort.SessionOptions()
    options.add_session_config_entry("a", "1")
    options.add_session_config_entry("a", "2")
    return options.get_session_config_entry("a")


def _about(ort: Any) -> Any:
    meta = ort.InferenceSession(TWO).get_modelmeta()
    names = (
        "producer_name",
        "graph_name",
        "domain",
        "description",
        "graph_description",
        "version",
        "custom_metadata_map",
    )
    return [getattr(meta, name) for name in names]


def _pickled(ort: Any) -> Any:
    import pickle

    class Kept(ort.InferenceSession):  # type: ignore[name-defined, misc]
        def __init__(self, content: bytes, **named: Any) -> None:
            super().__init__(content, **named)
            self.content = content

        def __getstate__(self) -> Any:
            return {"content": self.content}

        def __setstate__(self, state: Any) -> None:
            self.__init__(state["content"])  # type: ignore[misc]

    one = Kept(TWO)
    other = Kept.__new__(Kept)
    other.__setstate__(pickle.loads(pickle.dumps(one.__getstate__())))
    return other.run(["m"], FEED)


def _pickle(what: Callable[[Any], Any]) -> Any:
    def call(ort: Any) -> Any:
        import pickle

        return pickle.dumps(what(ort))

    return call


def _held(ort: Any) -> Any:
    array = np.ones(3, np.float32)
    held = ort.OrtValue.ortvalue_from_numpy(array)
    array[0] = 7
    other = ort.OrtValue.ortvalue_from_shape_and_type([2], np.int64)
    other.update_inplace(np.array([5, 6]))
    return [
        held.numpy(), np.shares_memory(held.numpy(), array), held.data_ptr() == array.ctypes.data, held.shape(),
        held.data_type(), held.element_type(), held.device_name(), held.is_tensor(), held.is_tensor_sequence(),
        held.has_value(), held.tensor_size_in_bytes(), np.asarray(other), np.from_dlpack(other),
    ]  # fmt: skip


def _into_memory(binding: Any, ort: Any) -> Any:
    y = np.zeros((2, 3, 4), np.float32)
    binding.bind_output("y", "cpu", 0, np.float32, y.shape, y.ctypes.data)
    return y


def _into_value(binding: Any, ort: Any) -> Any:
    held = ort.OrtValue.ortvalue_from_shape_and_type([2], np.int64)
    binding.bind_ortvalue_output("m", held)
    return held


def _from_memory(binding: Any, ort: Any) -> Any:
    binding.bind_input("n", "cpu", 0, np.int64, [2], N.ctypes.data)
    binding.bind_output("m")


def _wrong_elements(binding: Any, ort: Any) -> Any:
    binding.bind_input("n", "cpu", 0, np.float64, [2], N.ctypes.data)
    binding.bind_output("m")


def _inside(ort: Any) -> Any:
    """A binding and a run by the classes that onnxruntime's own are made of."""
    session = ort.InferenceSession(TWO)
    inner, state = session._sess, ort.capi._pybind_state
    device = state.OrtDevice(state.OrtDevice.cpu(), state.OrtDevice.default_memory(), 0)
    y = np.zeros((2, 3, 4), np.float32)
    binding = ort.SessionIOBinding(inner)
    binding.bind_input("x", X)
    binding.bind_input("n", device, np.int64, [2], N.ctypes.data)
    binding.bind_output("y", device, np.float32, y.shape, y.ctypes.data)
    inner.run_with_iobinding(binding, None)
    held = {name: state.OrtValue.ortvalue_from_numpy(array, device) for name, array in FEED.items()}
    made = inner.run_with_ort_values(held, ["m"], ort.RunOptions())
    return [y, isinstance(made, state.OrtValueVector), made[0].numpy()]


def _wrong_place(binding: Any, ort: Any) -> Any:
    memory = (ctypes.c_char * 400)()
    binding.bind_output("y", "cpu", 0, np.float32, (1,), ctypes.addressof(memory))
    return memory


@dataclass(frozen=True)
class Behaviour:
    """A call, and what comes of it; `real` is what onnxruntime does where `cenote.ort` is to do something else."""

    call: Callable[[Any], Any]
    outcome: Any
    real: Any = None


def typed(kind: int) -> Any:
    """The types of a model of one element type."""
    return shapes([value("y", kind, [1])], [node("Identity", ["x"], ["y"])], [value("x", kind, [1])])
