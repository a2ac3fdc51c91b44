"""Long sums whose rounding error `bench.accuracy` measures: ten distributions of terms, and what a case is."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Arrays = tuple[np.ndarray, ...]
Generator = np.random.Generator
Distribution = Callable[[Generator, int], np.ndarray]


def _tenths(_: Generator, count: int) -> np.ndarray:
    return np.full(count, 0.1)


def _uniform(rng: Generator, count: int) -> np.ndarray:
    return rng.uniform(0, 1, count)


def _normal(rng: Generator, count: int) -> np.ndarray:
    return rng.normal(size=count)


def _lognormal(rng: Generator, count: int) -> np.ndarray:
    return rng.lognormal(0, 2, count)


def _alternating(rng: Generator, count: int) -> np.ndarray:
    """Neighbours that nearly cancel."""
    return np.where(np.arange(count) % 2, -1.0, 1.0) * rng.uniform(1, 1.001, count)


def _falling(_: Generator, count: int) -> np.ndarray:
    return 1.0 / np.arange(1, count + 1)


def _rising(_: Generator, count: int) -> np.ndarray:
    return np.arange(1.0, count + 1)


def _one_huge(rng: Generator, count: int) -> np.ndarray:
    values = rng.uniform(0, 1, count)
    values[count // 7] = 1e6
    return values


def _tiny(rng: Generator, count: int) -> np.ndarray:
    """Near the smallest normal numbers."""
    return rng.uniform(1, 2, count) * 2.0**-124


def _whole(rng: Generator, count: int) -> np.ndarray:
    """Small whole numbers of either sign: float32 holds every partial sum, so any error is a fault."""
    return rng.integers(-3, 4, count).astype(np.float64)


DISTRIBUTIONS: dict[str, Distribution] = {
    "0.1": _tenths,
    "uniform": _uniform,
    "normal": _normal,
    "lognormal": _lognormal,
    "alternating": _alternating,
    "falling 1/k": _falling,
    "rising k": _rising,
    "one huge": _one_huge,
    "tiny": _tiny,
    "whole": _whole,
}


def drawn(name: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Float32 numbers of a distribution; each row (along the last axis) is drawn, or made, as one."""
    rng = np.random.default_rng(seed)
    rows = int(np.prod(shape[:-1]))
    values = [DISTRIBUTIONS[name](rng, shape[-1]) for _ in range(rows)]
    return np.array(values, np.float32).reshape(shape)


@dataclass(frozen=True)
class Case:
    """An operator that adds `length` terms for each element of its result.

    `operands(distribution, length)` makes the arrays. `model` is an ONNX model of one input `x`, the first of them, and
    one output: what Cenote and ONNX Runtime run. `numpy` and `torch` compute it too; `numpy` adds by `numpy.sum`, which
    is pairwise. `truth` gives the result in float64 and beside it the sum of the terms' absolute values, to which
    errors are relative.
    """

    group: str
    name: str
    lengths: tuple[int, ...]
    operands: Callable[[str, int], Arrays]
    model: Callable[[Arrays], bytes]
    truth: Callable[[Arrays], tuple[np.ndarray, np.ndarray]]
    numpy: Callable[[Arrays], np.ndarray]
    torch: Callable[[Arrays], np.ndarray]
