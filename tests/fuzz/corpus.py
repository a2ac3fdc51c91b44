"""Small real ONNX models of nearly every operator, with inputs: what mutations start from."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

Array = np.ndarray[Any, Any]
_LARGEST = 24_000  # bytes of a model


@dataclass(frozen=True)
class Entry:
    """A model's bytes and inputs by name."""

    name: str
    content: bytes
    inputs: dict[str, Array]


def entries() -> list[Entry]:
    """ONNX's own cases (one operator each), small networks of this project's tests, odd models; in order of names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [*_backend_cases(), *_networks()]
    return sorted((e for e in found if len(e.content) <= _LARGEST), key=lambda entry: entry.name)


def _backend_cases() -> Iterator[Entry]:
    from tests.onnx_cases import cases, data_sets

    for name, case in cases().items():
        if case.model is None:
            continue
        arrays, _ = next(data_sets(case))
        names = [declared.name for declared in case.model.graph.input]
        inputs = {n: x for n, x in zip(names, arrays, strict=False) if isinstance(x, np.ndarray)}
        yield Entry(name, case.model.SerializeToString(), inputs)


def _networks() -> Iterator[Entry]:
    """Several nodes each. They count several times: there are few."""
    from tests.frontends.onnx_network import NETWORK
    from tests.golden.networks import branches, residual
    from tests.odd_models import CASES

    made = {"network": NETWORK, "residual": residual(), "branches": branches(), **CASES}
    for name, proto in made.items():
        for copy in range(8 if name in ("network", "residual", "branches") else 2):
            yield Entry(f"odd {name} {copy}", proto.SerializeToString(), {})


def inputs_for(declared: Any, rng: random.Random) -> Array | None:
    """A small array for a declared input (name, dtype, shape); None where it would not be small."""
    shape = declared.shape
    if shape is None:
        shape = (2, 3)
    extents = [extent if isinstance(extent, int) else rng.choice((1, 2, 3, 8)) for extent in shape]
    # NumPy counts beside empty axes too.
    largest = np.prod([extent for extent in extents if extent], dtype=np.float64)
    if any(extent < 0 for extent in extents) or largest > 200_000:
        return None
    source = np.random.default_rng(rng.getrandbits(60))
    dtype = declared.dtype
    if dtype.kind == "b":
        return source.random(extents) < 0.5
    if dtype.kind in "iu":
        return source.integers(0, 3, extents).astype(dtype)
    if dtype.kind in "OUST":
        return None
    return source.standard_normal(extents).astype(dtype)


def parsed(content: bytes) -> onnx.ModelProto:
    proto: onnx.ModelProto = onnx.ModelProto.FromString(content)
    return proto


def weights_of(proto: onnx.ModelProto) -> dict[str, Array]:
    return {item.name: numpy_helper.to_array(item) for item in proto.graph.initializer}
