"""Elementwise functions, chains, casts and reductions of large arrays."""

from typing import Any

import numpy as np

from bench.operator_cases import Inputs, OperatorCase
from bench.operator_cases.peers import by_cenote, by_numpy, by_onnxruntime, by_torch

SEED = 0
LARGE = 1 << 24


def noise(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Standard normal numbers, for integers times 100."""
    x = np.random.default_rng(SEED).standard_normal(shape, np.float32)
    return (x * 100).astype(dtype) if np.dtype(dtype).kind in "iu" else x.astype(dtype)


def chain_of_five() -> OperatorCase:
    """relu(x * y + x) * 0.5 - y, each operation once."""

    def fused(f: Any, threads: int, x: np.ndarray, y: np.ndarray) -> Any:
        squeeze, out = f.fused(lambda x, y: f.relu(x * y + x) * 0.5 - y), np.empty_like(x)
        return lambda: squeeze(x, y, out=out, threads=threads)

    def numpy(x: np.ndarray, y: np.ndarray) -> Any:
        out = np.empty_like(x)

        def run() -> Any:
            np.multiply(x, y, out=out)
            np.add(out, x, out=out)
            np.maximum(out, 0, out=out)
            np.multiply(out, np.float32(0.5), out=out)
            return np.subtract(out, y, out=out)

        return run

    def torch_(torch: Any, x: Any, y: Any) -> Any:
        out = torch.empty_like(x)

        def run() -> Any:
            torch.mul(x, y, out=out)
            return out.add_(x).relu_().mul_(0.5).sub_(y)

        return run

    return OperatorCase(
        f"chain of 5, {LARGE} float32",
        lambda: (noise(LARGE), noise(LARGE)[::-1].copy()),
        {
            "cenote": by_cenote(fused),
            "numpy": by_numpy(numpy),
            "torch": by_torch(torch_),
            "onnxruntime": onnxruntime_chain,
        },
        bytes_moved=LARGE * 12,
    )


def onnxruntime_chain(inputs: Inputs, threads: int) -> Any:
    """The same as a graph of five nodes, inputs and output bound once."""
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    from bench.engines.onnxruntime import session_of

    nodes = [("Mul", "x", "y", "a"), ("Add", "a", "x", "b"), ("Relu", "b", None, "c"), ("Mul", "c", "h", "d"),
             ("Sub", "d", "y", "z")]  # fmt: skip
    graph = helper.make_graph(
        [helper.make_node(op, [n for n in (a, b) if n], [made]) for op, a, b, made in nodes],
        "chain",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, inputs[0].shape) for n in "xy"],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, inputs[0].shape)],
        [numpy_helper.from_array(np.array(0.5, np.float32), "h")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session, out = session_of(model.SerializeToString(), threads), np.empty_like(inputs[0])
    binding = session.io_binding()
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(x) for x in inputs]
    for name, value in zip("xy", values, strict=True):
        binding.bind_ortvalue_input(name, value)
    binding.bind_output("z", "cpu", 0, np.float32, out.shape, out.ctypes.data)
    return lambda: (session.run_with_iobinding(binding), out, values)[1]


def unary(name: str, onnx: str, size: int) -> OperatorCase:
    """A function of one number."""

    def by_out(f: Any, threads: int, x: np.ndarray) -> Any:
        out = np.empty_like(x)
        return lambda: getattr(f, name)(x, out=out, threads=threads)

    def numpy(x: np.ndarray) -> Any:
        out, function = np.empty_like(x), getattr(np, name)
        return lambda: function(x, out=out)

    def torch_(torch: Any, x: Any) -> Any:
        out = torch.empty_like(x)
        return lambda: getattr(torch, name)(x, out=out)

    return OperatorCase(
        f"{name} {size} float32",
        lambda: (noise(size),),
        {"cenote": by_cenote(by_out), "numpy": by_numpy(numpy), "torch": by_torch(torch_),
         "onnxruntime": by_onnxruntime(onnx)},
        tolerance=1e-6,
        bytes_moved=size * 8,
    )  # fmt: skip


def compare(size: int) -> OperatorCase:
    """x > y."""

    def by_out(f: Any, threads: int, x: np.ndarray, y: np.ndarray) -> Any:
        out = np.empty(x.shape, bool)
        return lambda: f.gt(x, y, out=out, threads=threads)

    def numpy(x: np.ndarray, y: np.ndarray) -> Any:
        out = np.empty(x.shape, bool)
        return lambda: np.greater(x, y, out=out)

    def torch_(torch: Any, x: Any, y: Any) -> Any:
        out = torch.empty(x.shape, dtype=torch.bool)
        return lambda: torch.gt(x, y, out=out)

    return OperatorCase(
        f"x > y, {size} float32",
        lambda: (noise(size), noise(size)[::-1].copy()),
        {"cenote": by_cenote(by_out), "numpy": by_numpy(numpy), "torch": by_torch(torch_),
         "onnxruntime": by_onnxruntime("Greater")},
        bytes_moved=size * 9,
    )  # fmt: skip


def cast(source: str, target: str, size: int) -> OperatorCase:
    """From one type to another."""
    from onnx import helper

    def by_out(f: Any, threads: int, x: np.ndarray) -> Any:
        out = np.empty(x.shape, target)
        return lambda: f.to(x, target, out=out, threads=threads)

    def numpy(x: np.ndarray) -> Any:
        out = np.empty(x.shape, target)
        return lambda: (np.copyto(out, x, casting="unsafe"), out)[1]

    def torch_(torch: Any, x: Any) -> Any:
        out = torch.empty(x.shape, dtype=getattr(torch, target))
        return lambda: out.copy_(x)

    code = helper.np_dtype_to_tensor_dtype(np.dtype(target))
    return OperatorCase(
        f"{source} to {target}, {size}",
        lambda: (noise(size, dtype=source),),
        {"cenote": by_cenote(by_out), "numpy": by_numpy(numpy), "torch": by_torch(torch_),
         "onnxruntime": by_onnxruntime("Cast", {"to": code})},
        bytes_moved=size * (np.dtype(source).itemsize + np.dtype(target).itemsize),
    )  # fmt: skip


def reduction(name: str, onnx: str, shape: tuple[int, int], axis: int) -> OperatorCase:
    """Along one axis of a matrix."""

    def by_out(f: Any, threads: int, x: np.ndarray) -> Any:
        out = np.empty(x.shape[1 - axis], x.dtype)
        return lambda: getattr(f, name)(x, axis, out=out, threads=threads)

    def numpy(x: np.ndarray) -> Any:
        out, function = np.empty(x.shape[1 - axis], x.dtype), getattr(np, name, np.max)
        return lambda: function(x, axis, out=out)

    def torch_(torch: Any, x: Any) -> Any:
        out = torch.empty(x.shape[1 - axis])
        return lambda: getattr(torch, name)(x, axis, out=out)

    return OperatorCase(
        f"{name} of {shape} along {axis}",
        lambda: (noise(*shape),),
        {"cenote": by_cenote(by_out), "numpy": by_numpy(numpy), "torch": by_torch(torch_),
         "onnxruntime": by_onnxruntime(onnx, {"keepdims": 0}, constants={1: np.array([axis])}, opset=18)},
        tolerance=1e-5,
        bytes_moved=shape[0] * shape[1] * 4,
    )  # fmt: skip


def cases() -> list[OperatorCase]:
    return [
        chain_of_five(),
        unary("exp", "Exp", 1 << 20),
        unary("tanh", "Tanh", LARGE),
        unary("sin", "Sin", 1 << 20),
        compare(LARGE),
        cast("float32", "float16", LARGE),
        cast("float16", "float32", LARGE),
        cast("uint8", "float32", LARGE),
        cast("float32", "uint8", 1 << 20),
        cast("int64", "float32", 1 << 22),
        reduction("sum", "ReduceSum", (4096, 4096), 1),
        reduction("sum", "ReduceSum", (4096, 4096), 0),
        reduction("amax", "ReduceMax", (4096, 4096), 1),
        reduction("mean", "ReduceMean", (65536, 64), 1),
    ]
