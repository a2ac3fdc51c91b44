"""Every native way to compute a convolution against the float64 reference, on every target the host can
run.
"""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from tests.harness import run_lowering

from cenote.codegen import jit
from cenote.core.errors import ArgumentError
from cenote.core.target import Target
from cenote.core.types import TensorType
from cenote.ops.base import Lowering, Op, Sample
from cenote.ops.conv import Conv
from cenote.ops.conv_transpose import ConvTranspose
from cenote.ops.gemm import Gemm, MatMul
from cenote.ops.reorder import Reorder


def targets() -> list[Target]:
    found = []
    for name in ("avx512", "avx2", "generic"):
        try:
            found.append(jit._target(name))
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
    check(sample.op, sample, target)


def check(op: Op, sample: Sample, target: Target) -> list[str]:
    arrays = list(sample.inputs)
    wide = [None if x is None else x.astype(np.float64) if x.dtype == np.float32 else x for x in arrays]
    (wanted,) = op.reference(*wide)
    constants = not getattr(op, "residual", False)
    names = []
    for lowering in lowerings(op, sample, target):
        results = []
        for chunk in (0, 1, 3):
            junk = 0xFF if chunk else 0x5A
            (got,) = run_lowering(op, lowering, arrays, target, constants=constants, chunk=chunk, junk=junk)
            results.append(zlib.crc32(got.tobytes()))
            assert got.shape == wanted.shape
            assert error(got, wanted) <= lowering.tolerance, lowering.name
        assert len(set(results)) == 1, f"{lowering.name}: the result depends on how the work is split"
        names.append(lowering.name)
    return names


def lowerings(op: Op, sample: Sample, target: Target) -> list[Lowering]:
    """Candidates with weights known; a residual is never a constant."""
    types = []
    for index, array in enumerate(sample.inputs):
        fixed = 0 < index < 3 - (isinstance(op, Conv) and op.residual and len(sample.inputs) == 3)
        if array is None:
            types.append(None)
        elif fixed:
            types.append(TensorType.known(array))
        else:
            types.append(TensorType.of(array.dtype, array.shape))
    return list(op.lowerings(types, target))
