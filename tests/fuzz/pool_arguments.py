"""Random arguments for the functions of cenote.functional: mostly sensible, now and then absurd."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from typing import Any

import numpy as np

import cenote.functional as F
from cenote.core.types import BFLOAT16
from tests.fuzz.case import noise

POOLS = tuple(name for name in F.__all__ if getattr(F, name).__module__.startswith("cenote.functional.pool."))
FORWARD = tuple(name for name in POOLS if not name.endswith("_backward"))
LETTERS = {1: "L", 2: "HW", 3: "DHW"}
FLOATS = (np.float32,) * 4 + (np.float64, np.float16, BFLOAT16)
INTEGERS = (np.int8, np.uint8, np.int16, np.int32, np.int64)
FOR_INTEGERS = (
    "max_pool",
    "min_pool",
    "avg_pool",
    "dilation",
    "erosion",
    "unpool",
    "median",
    "global_max",
    "global_avg",
)
ODD_TYPES = (np.bool_, np.uint16, np.uint64, np.complex64, object, "U3", ">f4", ">i8")
ODD = (
    0, 1, -1, 2, 7, 255, 1 << 15, (1 << 31) - 1, 1 << 31, 1 << 32, (1 << 32) + 2, 1 << 62, (1 << 63) - 1, 1 << 63,
    1 << 64, -(1 << 31), -(1 << 63), -(1 << 64), 10**30, 0.0, -0.0, 0.5, 1.5, -1.5, 1e-300, 1e30, 1e300, float("inf"),
    float("-inf"), float("nan"), True, False, None, "", "same", "valid", "same_lower", "max", "text", b"x", (), (0,),
    (1,), (3, 3), (1, 2, 3), (1, 2, 3, 4), (1 << 62,), (1 << 32, 1), (0, 0), (-1, 2), ((0, 1), (1, 0)), ((1, 1),),
    [[1, 2]], [2], {}, ("a", "b"), (1.5, 2.0), (True, 1), np.int64(3), np.float32(1.5), np.array([2, 2]), np.array(3),
)  # fmt: skip


def rank_of(name: str, rng: random.Random) -> int:
    """The number of spatial axes of a function, chosen where it takes any."""
    digits = [int(c) for c in name if c.isdigit()]
    if digits:
        return digits[0]
    if "roi" in name or name == "spatial_pyramid_pool":
        return 2
    return rng.choice((1, 2, 2, 2, 3))


class Shaper:
    """What decides which kernels are generated: drawn once for several cases, for compiling takes long."""

    def __init__(self, rng: random.Random) -> None:
        self.name = rng.choice(FORWARD)
        self.rank = rank_of(self.name, rng)
        takes_integers = any(part in self.name for part in FOR_INTEGERS) and "adaptive" not in self.name
        types = INTEGERS if rng.random() < (0.3 if takes_integers else 0.03) else FLOATS
        self.dtype = np.dtype(rng.choice(ODD_TYPES if rng.random() < 0.03 else types))
        most = {1: 7, 2: 5, 3: 3}[self.rank]
        self.window = tuple(rng.choice((1, 2, 2, 3, 3, most)) for _ in range(self.rank))
        self.stride = rng.choice((None, 1, 2, 3, tuple(rng.randint(1, 3) for _ in self.window)))
        self.dilation = rng.choice((1, 1, 1, 2, tuple(rng.randint(1, 2) for _ in self.window)))
        letters = LETTERS[self.rank]
        layouts = (f"NC{letters}", f"NC{letters}", f"N{letters}C", letters)
        self.layout = "NCHW" if "roi" in self.name else rng.choice(layouts)
        self.semantics = rng.choice(("torch", "torch", "onnx", "tensorflow", "tensorrt", "caffe"))
        self.nan = rng.choice((None, None, "propagate", "ignore"))
        self.indices = rng.random() < 0.4
        self.norm = rng.choice((1.0, 2.0, 3.0, 1.5, 0.5, float("inf"), 2))
        self.border = rng.choice(("reflect", "zero", "edge", "symmetric", "constant", "replicate"))
        self.mode = rng.choice(("avg", "max"))

    @property
    def large(self) -> float:
        """A large value whose powers are finite where powers are summed, in float32 as in the reference."""
        return 1e4 if "lp_" in self.name or "gem" in self.name else 1e30

    @property
    def dilations(self) -> tuple[int, ...]:
        """One for each axis."""
        given = self.dilation
        return given if isinstance(given, tuple) else (given,) * self.rank


def shape_of(shaper: Shaper, rng: random.Random) -> tuple[int, ...]:
    """A small shape, with axes missing as the layout allows."""
    most = {1: 70, 2: 14, 3: 7}[shaper.rank]
    reach = [(k - 1) * d + 1 for k, d in zip(shaper.window, shaper.dilations, strict=True)]
    spatial = [rng.randint(r, max(r, most)) if rng.random() < 0.9 else rng.randint(1, 3) for r in reach]
    batch, channels = rng.choice((1, 1, 2, 3)), rng.choice((1, 2, 3, 4, 8, 9, 17, 33))
    if rng.random() < 0.02:
        batch = 0
    if len(shaper.layout) == shaper.rank:
        whole = spatial
    elif shaper.layout.endswith("C"):
        whole = [batch, *spatial, channels]
    else:
        whole = [batch, channels, *spatial]
    return tuple(whole[1:] if len(whole) == shaper.rank + 2 and rng.random() < 0.15 else whole)


def values(shape: tuple[int, ...], dtype: np.dtype[Any], rng: random.Random, large: float = 1e30) -> Any:
    """An array of that type; among floats now and then NaN, infinities, zeros of both signs, denormals."""
    source = noise(rng)
    if dtype.kind == "b":
        return source.random(shape) < 0.5
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        wide = rng.random() < 0.2
        low, high = (limits.min, limits.max) if wide else (max(limits.min, -99), min(limits.max, 99))
        return source.integers(low, high, shape, dtype=dtype.newbyteorder("="), endpoint=True).astype(dtype)
    x = source.standard_normal(shape) * rng.choice((1.0, 1.0, 4.0, 1e-3))
    if rng.random() < 0.3:
        x = np.round(x)
    if dtype.kind in "fV" and rng.random() < 0.15:
        for value in rng.sample((np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, large), 3):
            x[source.random(shape) < 0.1] = value
    with np.errstate(all="ignore"):
        return x.astype(dtype)


def _padding(shaper: Shaper, rng: random.Random) -> Any:
    most = [((k - 1) * d + 1) // 2 for k, d in zip(shaper.window, shaper.dilations, strict=True)]
    kind = rng.random()
    if kind < 0.5:
        return 0
    if kind < 0.6:
        return rng.choice(("same", "valid", "same_lower"))
    if kind < 0.8:
        return tuple((rng.randint(0, m), rng.randint(0, m)) for m in most)
    return tuple(rng.randint(0, m) for m in most)


def _output_size(shaper: Shaper, rng: random.Random) -> Any:
    sizes = tuple(rng.choice((1, 2, 3, 5, 7)) for _ in range(shaper.rank))
    if "unpool" in shaper.name:
        return None
    if "roi" in shaper.name or "fractional" in shaper.name:
        return rng.choice((sizes, sizes[0]))
    return rng.choice((sizes, sizes, sizes[0], None))


def _boxes(shaper: Shaper, rng: random.Random) -> Any:
    source = noise(rng)
    corners = np.sort(source.uniform(-2, 16, (rng.randint(0, 4), 2, 2)), axis=1).reshape(-1, 4)
    images = source.integers(0, 2, (len(corners), 1))
    return np.concatenate([images, corners], 1).astype(np.float32)


CHOICES: dict[str, Callable[[Shaper, random.Random], Any]] = {
    "kernel_size": lambda s, r: s.window if len(set(s.window)) > 1 else s.window[0],
    "size": lambda s, r: s.window,
    "stride": lambda s, r: s.stride,
    "dilation": lambda s, r: s.dilation,
    "padding": _padding,
    "layout": lambda s, r: s.layout,
    "semantics": lambda s, r: s.semantics,
    "nan": lambda s, r: s.nan,
    "return_indices": lambda s, r: s.indices,
    "norm_type": lambda s, r: s.norm,
    "p": lambda s, r: s.norm,
    "mode": lambda s, r: s.mode,
    "border": lambda s, r: s.border,
    "ceil_mode": lambda s, r: r.random() < 0.3,
    "count_include_pad": lambda s, r: r.choice((None, True, False)),
    "divisor_override": lambda s, r: r.choice((None, None, None, 1, 3, -2)),
    "output_size": _output_size,
    "output_ratio": lambda s, r: None,
    "boxes": _boxes,
    "spatial_scale": lambda s, r: r.choice((1.0, 0.5, 0.25)),
    "sampling_ratio": lambda s, r: r.choice((-1, 0, 1, 2)),
    "aligned": lambda s, r: r.random() < 0.5,
    "levels": lambda s, r: r.choice(((1, 2), (1, 2, 4), (3,))),
    "filter_size": lambda s, r: r.choice((2, 3, 4, 5)),
    "eps": lambda s, r: r.choice((1e-6, 1e-3)),
    "seed": lambda s, r: r.randint(0, 99),
    "training": lambda s, r: r.random() < 0.7,
    "_random_samples": lambda s, r: None,
    "threads": lambda s, r: r.choice((None, None, 1, 2)),
}


def arguments(shaper: Shaper, rng: random.Random) -> dict[str, Any]:
    """Keyword arguments but for input, indices and out. Some are left out, in a seventh of the cases one is absurd."""
    names = [name for name in inspect.signature(getattr(F, shaper.name)).parameters if name in CHOICES]
    needed = {"kernel_size", "output_size", "size", "norm_type", "boxes", "layout", "semantics", "seed"}
    made = {name: CHOICES[name](shaper, rng) for name in names if name in needed or rng.random() < 0.7}
    if rng.random() < 0.15:
        made[rng.choice(names)] = rng.choice(ODD)
    if made.get("seed", 0) is None:  # another draw in every call
        del made["seed"]
        made["_random_samples"] = 0
    return made
