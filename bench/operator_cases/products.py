"""Matrix products and convolutions on arrays."""

import ctypes
import glob
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.operator_cases import Inputs, OperatorCase, Prepare
from bench.operator_cases.peers import by_cenote, by_onnxruntime, by_torch

SEED = 12
TOLERANCE = 1e-5
SQUARES = (64, 128, 256, 512, 1024, 2048)
CONVOLUTIONS = (  # x, weights, stride, padding, dilation, groups
    ((1, 64, 56, 56), (64, 64, 3, 3), 1, 1, 1, 1),
    ((1, 256, 14, 14), (256, 256, 3, 3), 1, 1, 1, 1),
    ((1, 512, 7, 7), (512, 512, 3, 3), 1, 1, 1, 1),
    ((1, 256, 28, 28), (512, 256, 1, 1), 1, 0, 1, 1),
    ((1, 3, 224, 224), (64, 3, 7, 7), 2, 3, 1, 1),
    ((8, 3, 224, 224), (64, 3, 3, 3), 1, 1, 1, 1),
    ((1, 128, 28, 28), (128, 128, 3, 3), 1, 2, 2, 1),
    ((1, 192, 28, 28), (192, 1, 3, 3), 1, 1, 1, 192),
)


def noise(*shapes: tuple[int, ...]) -> Callable[[], Inputs]:
    """Arrays whose sums stay near 1."""

    def make() -> Inputs:
        rng = np.random.default_rng(SEED)
        return tuple(rng.standard_normal(s).astype(np.float32) / np.float32(np.sqrt(s[-1])) for s in shapes)

    return make


def set_openblas_threads(threads: int) -> None:
    """NumPy's own OpenBLAS; its environment variables count only before it is loaded."""
    folder = os.path.join(os.path.dirname(os.path.dirname(np.__file__)), "numpy.libs")
    for path in glob.glob(os.path.join(folder, "*openblas*")):
        library = ctypes.CDLL(path)
        for name in (
            "scipy_openblas_set_num_threads64_",
            "openblas_set_num_threads64_",
            "openblas_set_num_threads",
        ):
            if hasattr(library, name):
                getattr(library, name)(threads)


def by_openblas(call: Callable[..., Callable[[], Any]]) -> Prepare:
    """`call(*arrays)` gives the function to measure."""

    def prepare(inputs: Inputs, threads: int) -> Callable[[], Any]:
        set_openblas_threads(threads)
        return call(*inputs)

    return prepare


def into(call: Callable[..., Any]) -> Callable[..., Callable[[], Any]]:
    """`call(f, threads, *arrays, out=)` with the result of a first call as memory for those to come."""

    def prepare(f: Any, threads: int, *arrays: np.ndarray) -> Callable[[], Any]:
        out = call(f, threads, *arrays, out=None)
        return lambda: call(f, threads, *arrays, out=out)

    return prepare


def product(name: str, a: tuple[int, ...], b: tuple[int, ...]) -> OperatorCase:
    """The product of two arrays, into memory that is there."""

    def by_blas(x: np.ndarray, y: np.ndarray) -> Callable[[], Any]:
        out = x @ y
        return lambda: np.matmul(x, y, out=out)

    def in_torch(torch: Any, x: Any, y: Any) -> Callable[[], Any]:
        out = torch.matmul(x, y)
        return lambda: torch.matmul(x, y, out=out)

    return OperatorCase(
        name,
        noise(a, b),
        {
            "cenote": by_cenote(into(lambda f, threads, x, y, out: f.matmul(x, y, out=out, threads=threads))),
            "numpy": by_openblas(by_blas),
            "torch": by_torch(in_torch),
            "onnxruntime": by_onnxruntime("MatMul"),
        },
        TOLERANCE,
    )


def linear(rows: int, features: int, out: int) -> OperatorCase:
    """A linear layer; weights are (out, features)."""
    return OperatorCase(
        f"linear {rows}x{features} to {out}",
        noise((rows, features), (out, features), (out,)),
        {
            "cenote": by_cenote(
                into(lambda f, threads, x, w, b, out: f.linear(x, w, b, out=out, threads=threads))
            ),
            "numpy": by_openblas(lambda x, w, b: lambda: x @ w.T + b),
            "torch": by_torch(lambda torch, x, w, b: lambda: torch.nn.functional.linear(x, w, b)),
            "onnxruntime": by_onnxruntime("Gemm", {"transB": 1}),
        },
        TOLERANCE,
    )


def convolution(
    x: tuple[int, ...], w: tuple[int, ...], stride: int, padding: int, dilation: int, groups: int
) -> OperatorCase:
    """A convolution whose weights are an input like x."""
    extra = (
        f" dilation {dilation}" * (dilation > 1)
        + f" groups {groups}" * (groups > 1)
        + f" stride {stride}" * (stride > 1)
    )
    attributes = {
        "strides": [stride] * 2, "pads": [padding] * 4, "dilations": [dilation] * 2, "group": groups,
    }  # fmt: skip
    arguments = (None, stride, padding, dilation, groups)
    return OperatorCase(
        f"conv2d {'x'.join(map(str, x))} with {'x'.join(map(str, w))}{extra}",
        noise(x, w),
        {
            "cenote": by_cenote(
                into(lambda f, threads, x, w, out: f.conv2d(x, w, *arguments, out=out, threads=threads))
            ),
            "torch": by_torch(lambda torch, x, w: lambda: torch.nn.functional.conv2d(x, w, *arguments)),
            "onnxruntime": by_onnxruntime("Conv", attributes),
        },
        1e-4,
    )


def cases() -> list[OperatorCase]:
    """Squares, one row, batches, linear layers, convolutions."""
    return [
        *(product(f"matmul {n}x{n}x{n}", (n, n), (n, n)) for n in SQUARES),
        *(product(f"matmul 1x{n}x{n}", (1, n), (n, n)) for n in (1024, 4096)),
        product("matmul 49x3072x768", (49, 3072), (3072, 768)),
        product("matmul 16x197x64x197", (16, 197, 64), (16, 64, 197)),
        product("matmul 48x49x49x32", (48, 49, 49), (48, 49, 32)),
        product("matmul 8x512x64x512", (8, 512, 64), (8, 64, 512)),
        linear(1, 4096, 4096),
        linear(32, 1024, 4096),
        *(convolution(*case) for case in CONVOLUTIONS),
    ]
