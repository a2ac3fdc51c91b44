"""Every native way to compute a convolution against the float64 reference, on every target the host can
run.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pytest

from cenote.codegen import jit
from cenote.core.errors import ArgumentError
from cenote.core.target import Target
from cenote.core.types import TensorType
from cenote.ops.base import Sample, wide
from cenote.ops.conv import Conv
from cenote.ops.conv_transpose import ConvTranspose
from cenote.ops.gemm import Gemm, MatMul
from cenote.ops.reorder import Reorder
from tests.harness import run_lowering


def targets() -> list[Target]:
    found = []
    for name in ("avx512", "avx2", "generic"):
        try:
            found.append(jit.named_target(name))
        except ArgumentError:
            continue
    return found


SAMPLES = [
    (op.name, sample) for op in (Conv, ConvTranspose, Gemm, MatMul, Reorder) for sample in op.samples()
]


def error(got: np.ndarray, wanted: np.ndarray) -> float:
    """Largest error relative to the largest output."""
    if not wanted.size:
        return 0.0
    scale = max(float(np.abs(wanted).max()), 1e-30)
    return float(np.abs(got.astype(np.float64) - wanted.astype(np.float64)).max()) / scale


@pytest.mark.parametrize("target", targets(), ids=lambda target: target.name)
@pytest.mark.parametrize(("name", "sample"), SAMPLES, ids=lambda value: str(value).replace(" ", "_"))
def test_lowerings_match_the_reference(name: str, sample: Sample, target: Target) -> None:
    fixed = (
        0
        if name == "reorder"
        else 3 - (isinstance(sample.op, Conv) and sample.op.residual and len(sample.inputs) == 3)
    )
    names = check(sample, target, range(1, fixed))
    empty = any(x is not None and not x.size for x in sample.inputs)
    assert names or empty or sample.inputs[0].dtype != np.float32


@pytest.mark.parametrize("target", targets(), ids=lambda target: target.name)
@pytest.mark.parametrize(
    "sample", [*Gemm.samples(), *MatMul.samples()], ids=lambda value: str(value).replace(" ", "_")
)
def test_matrices_known_only_when_running(sample: Sample, target: Target) -> None:
    check(sample, target, ())


def check(sample: Sample, target: Target, fixed: Collection[int]) -> list[str]:
    """Run all lowerings with the `fixed` inputs known; every splitting of the work must give the same bits."""
    op, arrays = sample.op, list(sample.inputs)
    (wanted,) = op.reference(*(None if x is None else wide(x) for x in arrays))
    types = [
        None if x is None else TensorType.known(x) if index in fixed else TensorType.of(x.dtype, x.shape)
        for index, x in enumerate(arrays)
    ]
    names = []
    for lowering in op.lowerings(types, target):
        results = set()
        for chunk, junk in ((0, 0x5A), (1, 0xFF), (3, 0xFF)):
            (got,) = run_lowering(op, lowering, arrays, target, constants=bool(fixed), chunk=chunk, junk=junk)
            assert got.shape == wanted.shape
            assert error(got, wanted) <= lowering.tolerance, lowering.name
            results.add(got.tobytes())
        assert len(results) == 1, f"{lowering.name}: the result depends on how the work is split"
        names.append(lowering.name)
    return names
