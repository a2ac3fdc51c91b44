"""What cases share: the engines with their threads set, and ONNX Runtime behind a model of one node."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bench.operator_cases import Inputs, Prepare


def by_cenote(call: Callable[..., Callable[[], Any]]) -> Prepare:
    """`call(F, threads, *arrays)` gives the function to measure."""

    def prepare(inputs: Inputs, threads: int) -> Callable[[], Any]:
        import cenote.functional

        return call(cenote.functional, threads, *inputs)

    return prepare


def by_cenote_model(
    operator: str,
    attributes: Mapping[str, Any],
    *,
    constants: Mapping[int, Any] | None = None,
    opset: int = 21,
) -> Prepare:
    """The model of one node that `by_onnxruntime` runs, with one output: what graphs choose, layouts among it."""

    def prepare(inputs: Inputs, threads: int) -> Callable[[], Any]:
        import cenote

        data, names = one_node(operator, dict(attributes), inputs, constants or {}, 1, "", opset)
        model = cenote.load(data, threads=threads)
        given = dict(zip(names, inputs, strict=True))
        return lambda: list(model.run(given).values())

    return prepare


def by_numpy(call: Callable[..., Callable[[], Any]]) -> Prepare:
    """`call(*arrays)` gives the function to measure. NumPy has one thread, whatever is asked."""
    return lambda inputs, threads: call(*inputs)


def by_torch(call: Callable[..., Callable[[], Any]]) -> Prepare:
    """`call(torch, *tensors)` gives the function to measure."""

    def prepare(inputs: Inputs, threads: int) -> Callable[[], Any]:
        import torch

        torch.set_num_threads(threads)
        if torch.get_num_interop_threads() != 1:  # which torch takes only once in a process
            torch.set_num_interop_threads(1)
        torch.set_grad_enabled(False)
        return call(torch, *(torch.from_numpy(x) for x in inputs))

    return prepare


def by_onnxruntime(
    operator: str,
    attributes: Mapping[str, Any] | None = None,
    *,
    constants: Mapping[int, Any] | None = None,
    outputs: int = 1,
    domain: str = "",
    opset: int = 21,
) -> Prepare:
    """A model of one node, its inputs bound once; `constants` are further inputs by position.

    Outputs are bound to memory too, as soon as a first run has said their shapes: unless the shape follows from the
    data, ONNX Runtime then makes none."""

    def prepare(inputs: Inputs, threads: int) -> Callable[[], Any]:
        import onnxruntime

        from bench.engines.onnxruntime import session_of

        data, names = one_node(
            operator, dict(attributes or {}), inputs, constants or {}, outputs, domain, opset
        )
        session = session_of(data, threads)
        binding = session.io_binding()
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(x) for x in inputs]
        for name, value in zip(names, values, strict=True):
            binding.bind_ortvalue_input(name, value)
        for number in range(outputs):
            binding.bind_output(f"y{number}")
        session.run_with_iobinding(binding)
        if operator not in ("Compress", "NonZero", "Unique", "NonMaxSuppression"):
            results = [y.numpy() for y in binding.get_outputs()]
            binding.clear_binding_outputs()
            for number, y in enumerate(results):
                binding.bind_output(f"y{number}", "cpu", 0, y.dtype.type, y.shape, y.ctypes.data)
            return lambda: (session.run_with_iobinding(binding), results, values)[1]

        def run() -> Any:
            session.run_with_iobinding(binding)
            return [y.numpy() for y in binding.get_outputs()] if values else []

        return run

    return prepare


def one_node(
    operator: str,
    attributes: dict[str, Any],
    inputs: Inputs,
    constants: Mapping[int, Any],
    outputs: int,
    domain: str,
    opset: int,
) -> tuple[bytes, list[str]]:
    """The model, and the names of the inputs that are not constants."""
    from onnx import ValueInfoProto, helper, numpy_helper

    total = len(inputs) + len(constants)
    rest = iter(inputs)
    names, given, initializers = [], [], []
    for position in range(total):
        names.append(f"x{position}")
        if position in constants:
            initializers.append(numpy_helper.from_array(np.asarray(constants[position]), names[-1]))
        else:
            x = next(rest)
            kind = helper.np_dtype_to_tensor_dtype(x.dtype)
            given.append(helper.make_tensor_value_info(names[-1], kind, x.shape))
    made = [f"y{number}" for number in range(outputs)]
    node = helper.make_node(operator, names, made, domain=domain, **attributes)
    graph = helper.make_graph(
        [node], "case", given, [ValueInfoProto(name=name) for name in made], initializers
    )
    opsets = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    data: bytes = model.SerializeToString()
    return data, [value.name for value in given]
