"""Selection and indexing: topk, argmax, masked_select, embedding, one_hot and their neighbours."""

from functools import cache
from typing import Any

import numpy as np

from bench.operator_cases import Inputs, OperatorCase
from bench.operator_cases.peers import by_cenote, by_numpy, by_onnxruntime, by_torch

SEED = 11
MASKED = 16 << 20  # elements


@cache
def different(shape: tuple[int, ...]) -> np.ndarray:
    """Float32 noise in which no number occurs twice in a row of the last axis, so that there is one right order."""
    rng = np.random.default_rng(SEED)
    rows = [rng.permutation(shape[-1]) for _ in range(int(np.prod(shape[:-1])))]
    made: np.ndarray = (np.array(rows, np.float32).reshape(shape) - shape[-1] / 2) / 1024
    return made


def topk(shape: tuple[int, ...], k: int) -> OperatorCase:
    """Values and indices of the largest along the last axis, best first."""

    def numpy(x: np.ndarray) -> Any:
        def run() -> Any:
            places = np.argpartition(x, x.shape[-1] - k, -1)[..., -k:]
            order = np.argsort(-np.take_along_axis(x, places, -1), -1)
            places = np.take_along_axis(places, order, -1)
            return np.take_along_axis(x, places, -1), places

        return run

    return OperatorCase(
        f"topk {'x'.join(map(str, shape))} k={k}",
        lambda: (different(shape),),
        {
            "cenote": by_cenote(lambda f, threads, x: lambda: f.topk(x, k, threads=threads)),
            "numpy": by_numpy(numpy),
            "torch": by_torch(lambda torch, x: lambda: tuple(torch.topk(x, k))),
            "onnxruntime": by_onnxruntime("TopK", constants={1: np.array([k], np.int64)}, outputs=2),
        },
        bytes_moved=4 * int(np.prod(shape)),
    )


def sort(shape: tuple[int, ...]) -> OperatorCase:
    """Elements in order along the last axis, and where they were; equal ones stay in order."""

    def numpy(x: np.ndarray) -> Any:
        def run() -> Any:
            places = np.argsort(x, -1, kind="stable")
            return np.take_along_axis(x, places, -1), places

        return run

    return OperatorCase(
        f"sort {'x'.join(map(str, shape))}",
        lambda: (different(shape),),
        {
            "cenote": by_cenote(lambda f, threads, x: lambda: f.sort(x, stable=True, threads=threads)),
            "numpy": by_numpy(numpy),
            "torch": by_torch(lambda torch, x: lambda: tuple(torch.sort(x, stable=True))),
            "onnxruntime": by_onnxruntime(
                "TopK", {"largest": 0}, constants={1: np.array([shape[-1]], np.int64)}, outputs=2
            ),
        },
        bytes_moved=16 * int(np.prod(shape)),
    )


def argsort(shape: tuple[int, ...], dtype: Any = np.float32) -> OperatorCase:
    """The order alone, in which nothing is equal; NumPy's quickest, which keeps no order of equals."""
    return OperatorCase(
        f"argsort {'x'.join(map(str, shape))} {np.dtype(dtype).name}",
        lambda: ((different(shape) * 1024).astype(dtype),),
        {
            "cenote": by_cenote(lambda f, threads, x: lambda: f.argsort(x, threads=threads)),
            "numpy": by_numpy(lambda x: lambda: np.argsort(x, -1)),
            "torch": by_torch(lambda torch, x: lambda: torch.argsort(x)),
        },
        bytes_moved=12 * int(np.prod(shape)),
    )


def argmax(shape: tuple[int, ...], axis: int) -> OperatorCase:
    """The place of the largest along an axis."""
    return OperatorCase(
        f"argmax {'x'.join(map(str, shape))} axis {axis}",
        lambda: (different(shape),),
        {
            "cenote": by_cenote(lambda f, threads, x: lambda: f.argmax(x, axis, threads=threads)),
            "numpy": by_numpy(lambda x: lambda: np.argmax(x, axis)),
            "torch": by_torch(lambda torch, x: lambda: torch.argmax(x, axis)),
            "onnxruntime": by_onnxruntime("ArgMax", {"axis": axis, "keepdims": 0}),
        },
        bytes_moved=4 * int(np.prod(shape)),
    )


def masked_select(percent: int) -> OperatorCase:
    """The elements where a mask of as many holds."""

    def inputs() -> Inputs:
        rng = np.random.default_rng(SEED)
        return rng.random(MASKED, np.float32), rng.random(MASKED, np.float32) < percent / 100

    return OperatorCase(
        f"masked_select 16M {percent}%",
        inputs,
        {
            "cenote": by_cenote(
                lambda f, threads, x, mask: lambda: f.masked_select(x, mask, threads=threads)
            ),
            "numpy": by_numpy(lambda x, mask: lambda: x[mask]),
            "torch": by_torch(lambda torch, x, mask: lambda: torch.masked_select(x, mask)),
            "onnxruntime": by_onnxruntime("Compress"),
        },
        bytes_moved=MASKED * 5 + MASKED * 4 * percent // 100,
    )


def embedding() -> OperatorCase:
    """Rows of a table by index."""
    rows, columns, count = 50_000, 512, 65_536

    def inputs() -> Inputs:
        rng = np.random.default_rng(SEED)
        return rng.random((rows, columns), np.float32), rng.integers(0, rows, count)

    def by_out(f: Any, threads: int, table: np.ndarray, places: np.ndarray) -> Any:
        out = np.zeros((count, columns), np.float32)
        return lambda: f.embedding(places, table, out=out, threads=threads)

    def numpy(table: np.ndarray, places: np.ndarray) -> Any:
        out = np.zeros((count, columns), np.float32)
        return lambda: np.take(table, places, 0, out=out, mode="clip")

    def torch_(torch: Any, table: Any, places: Any) -> Any:
        out = torch.zeros((count, columns))
        return lambda: torch.index_select(table, 0, places, out=out)

    return OperatorCase(
        f"embedding {rows}x{columns}, {count} look-ups",
        inputs,
        {
            "cenote": by_cenote(by_out),
            "numpy": by_numpy(numpy),
            "torch": by_torch(torch_),
            "onnxruntime": by_onnxruntime("Gather"),
        },
        bytes_moved=count * columns * 8,
    )


def one_hot(count: int, classes: int) -> OperatorCase:
    """int64, as torch has it."""

    def inputs() -> Inputs:
        return (np.random.default_rng(SEED).integers(0, classes, count),)

    def by_out(f: Any, threads: int, places: np.ndarray) -> Any:
        out = np.zeros((count, classes), np.int64)
        return lambda: f.one_hot(places, classes, out=out, threads=threads)

    def numpy(places: np.ndarray) -> Any:
        out, rows = np.zeros((count, classes), np.int64), np.arange(count)

        def run() -> Any:
            out.fill(0)
            out[rows, places] = 1
            return out

        return run

    def torch_(torch: Any, places: Any) -> Any:
        out = torch.zeros((count, classes), dtype=torch.int64)
        return lambda: out.zero_().scatter_(1, places[:, None], 1)

    return OperatorCase(
        f"one_hot {count} of {classes}",
        inputs,
        {
            "cenote": by_cenote(by_out),
            "numpy": by_numpy(numpy),
            "torch": by_torch(torch_),
            "onnxruntime": by_onnxruntime(
                "OneHot", constants={1: np.array(classes), 2: np.array([0, 1], np.int64)}
            ),
        },
        bytes_moved=count * classes * 8,
    )


def cases() -> list[OperatorCase]:
    return [
        topk((32, 100_000), 10),
        topk((32, 100_000), 1000),
        sort((1_000_000,)),
        sort((256, 4096)),
        argsort((1_000_000,)),
        argsort((1_000_000,), np.int64),
        argmax((4096, 1000), -1),
        argmax((64, 1, 1_000_000), -1),
        *(masked_select(percent) for percent in (1, 50, 99)),
        embedding(),
        one_hot(4096, 1000),
        one_hot(65_536, 64),
    ]
