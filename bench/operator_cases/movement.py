"""Transposes, borders and pixels: elements that only change their places."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.operator_cases import OperatorCase
from bench.operator_cases.peers import by_cenote, by_numpy, by_onnxruntime, by_torch

SEED = 0


def numbers(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Whole numbers below 200, as the type."""
    return np.random.default_rng(SEED).integers(0, 200, shape).astype(dtype)


def transpose(
    shape: tuple[int, ...], order: tuple[int, ...], dtype: Any = np.float32, note: str = ""
) -> OperatorCase:
    """Axes in another order."""
    made = tuple(shape[axis] for axis in order)

    def by_out(f: Any, threads: int, x: np.ndarray) -> Any:
        out = np.empty(made, x.dtype)
        return lambda: f.permute(x, order, out=out, threads=threads)

    def numpy(x: np.ndarray) -> Any:
        out = np.empty(made, x.dtype)
        return lambda: (np.copyto(out, x.transpose(order)), out)[1]

    def torch_(torch: Any, x: Any) -> Any:
        out = torch.empty(made, dtype=x.dtype)
        return lambda: out.copy_(x.permute(order))

    name = f"transpose {'x'.join(map(str, shape))} {np.dtype(dtype).name} to {order}{note}"
    return OperatorCase(
        name,
        lambda: (numbers(shape, dtype),),
        {"cenote": by_cenote(by_out), "numpy": by_numpy(numpy), "torch": by_torch(torch_),
         "onnxruntime": by_onnxruntime("Transpose", {"perm": list(order)})},
        bytes_moved=2 * math.prod(shape) * np.dtype(dtype).itemsize,
    )  # fmt: skip


def pad(shape: tuple[int, ...], mode: str, onnx: str) -> OperatorCase:
    """One pixel around every map."""

    def by_out(f: Any, threads: int, x: np.ndarray) -> Any:
        return lambda: f.pad(x, (1, 1, 1, 1), mode, threads=threads)

    def torch_(torch: Any, x: Any) -> Any:
        return lambda: torch.nn.functional.pad(x, (1, 1, 1, 1), mode)

    def numpy(x: np.ndarray) -> Any:
        kind: Any = {"reflect": "reflect", "replicate": "edge", "constant": "constant"}[mode]
        return lambda: np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), kind)

    pads = np.array([0, 0, 1, 1, 0, 0, 1, 1])
    return OperatorCase(
        f"pad {mode} 1 of {'x'.join(map(str, shape))}",
        lambda: (numbers(shape, np.float32),),
        {"cenote": by_cenote(by_out), "numpy": by_numpy(numpy), "torch": by_torch(torch_),
         "onnxruntime": by_onnxruntime("Pad", {"mode": onnx}, constants={1: pads})},
        bytes_moved=8 * math.prod(shape),
    )  # fmt: skip


def of_functions(
    name: str,
    shape: tuple[int, ...],
    ours: Callable[..., Any],
    numpy: Callable[..., Any],
    theirs: Callable[..., Any],
) -> OperatorCase:
    """`ours(f, x, threads)`, `numpy(x)` and `theirs(torch, x)` give the result."""
    return OperatorCase(
        f"{name} of {'x'.join(map(str, shape))}",
        lambda: (numbers(shape, np.float32),),
        {
            "cenote": by_cenote(lambda f, threads, x: lambda: ours(f, x, threads)),
            "numpy": by_numpy(lambda x: lambda: numpy(x)),
            "torch": by_torch(lambda torch, x: lambda: theirs(torch, x)),
        },
        bytes_moved=8 * math.prod(shape),
    )


def shuffled(x: np.ndarray) -> np.ndarray:
    """Pixels of 2 x 2 blocks out of channels, by NumPy."""
    n, c, h, w = x.shape
    return x.reshape(n, c // 4, 2, 2, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, c // 4, 2 * h, 2 * w)


def cases() -> list[OperatorCase]:
    return [
        transpose((4096, 4096), (1, 0)),
        transpose((1000, 3000), (1, 0), np.float64),
        transpose((2048, 2048), (1, 0), np.uint8),
        transpose((2048, 2048), (1, 0), np.float16),
        transpose((8, 64, 56, 56), (0, 2, 3, 1), note=", channels last"),
        transpose((8, 56, 56, 64), (0, 3, 1, 2), note=", channels first"),
        transpose((1080, 1920, 3), (2, 0, 1), np.uint8, ", planes of pixels"),
        transpose((3, 1080, 1920), (1, 2, 0), np.uint8, ", pixels of planes"),
        transpose((8, 196, 12, 64), (0, 2, 1, 3), note=", heads"),
        transpose((8, 196, 12, 64), (0, 2, 3, 1), note=", heads of keys"),
        transpose((8, 8, 7, 8, 7, 96), (0, 1, 3, 2, 4, 5), note=", windows"),
        pad((1, 128, 32, 32), "reflect", "reflect"),
        pad((8, 64, 56, 56), "replicate", "edge"),
        pad((8, 64, 56, 56), "constant", "constant"),
        of_functions(
            "pixel_shuffle 2", (1, 128, 180, 320), lambda f, x, threads: f.pixel_shuffle(x, 2, threads=threads),
            shuffled, lambda torch, x: torch.nn.functional.pixel_shuffle(x, 2),
        ),
        of_functions(
            "flip of rows", (8, 64, 56, 56), lambda f, x, threads: f.flip(x, 2, threads=threads),
            lambda x: np.flip(x, 2).copy(), lambda torch, x: torch.flip(x, (2,)),
        ),
        of_functions(
            "roll by 3", (8, 56, 56, 96), lambda f, x, threads: f.roll(x, (3, 3), (1, 2), threads=threads),
            lambda x: np.roll(x, (3, 3), (1, 2)), lambda torch, x: torch.roll(x, (3, 3), (1, 2)),
        ),
    ]  # fmt: skip
