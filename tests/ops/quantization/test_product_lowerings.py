"""Products of bytes on tile registers, emulated and by the instructions of AMX: the results of the operators' samples,
and of a model on several threads."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

from cenote.codegen import jit
from cenote.core.target import EMULATED, TILE_EXTENSIONS, Target, TileWays
from cenote.core.types import Array
from cenote.kernels.elementwise.activations import Activation
from cenote.ops.base import Sample
from cenote.ops.quantization.quantized_products import (
    MatMulInteger,
    MatMulIntegerToFloat,
    QLinearMatMul,
    extremes,
)
from cenote.verification.contract.comparison import assert_close
from tests.codegen import bochs
from tests.harness import Native, lowerings_of, native_call, run_alone, run_lowering
from tests.targets import TARGETS, anywhere

SAMPLES = [
    sample
    for operator in (MatMulInteger, MatMulIntegerToFloat, QLinearMatMul)
    for sample in operator.samples()
    if 0 not in sample.inputs[0].shape  # type: ignore[union-attr]
]


def check(sample: Sample, target: Target, native: Native = native_call) -> int:
    """Compare what tiles give, by constant and by computed operands, with the reference; return how often."""
    op, inputs = sample.op, sample.inputs
    (want,), done = op.reference(*inputs), 0
    for constants in (True, False):
        for lowering in lowerings_of(op, inputs, target, constants):
            if lowering.name == "quantized_tiles":
                options = {"constants": constants, "chunk": done % 2, "native": native}
                (got,) = run_lowering(op, lowering, inputs, target, **options)  # type: ignore[arg-type]
                assert_close(got, want, lowering.tolerance, f"{op}, {sample.label}")
                done += 1
    return done


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_samples_on_tiles(target: Target) -> None:
    target = replace(target, tiles=TileWays(target.tiles.int8 or EMULATED))
    assert sum(check(sample, target) for sample in SAMPLES) >= 20


@pytest.mark.skipif(not bochs.PATH, reason=bochs.ABSENT)
@pytest.mark.parametrize("operator", [MatMulIntegerToFloat, QLinearMatMul])
def test_samples_by_the_instructions_of_amx(operator: type) -> None:
    target = replace(anywhere("avx512"), tiles=TILE_EXTENSIONS["avx512"])
    assert sum(check(each, target, bochs.amx_call) for each in SAMPLES if isinstance(each.op, operator)) >= 4


def linear(m: int, k: int, n: int) -> tuple[tuple[Array, ...], Array]:
    """Inputs of QLinearMatMul, with scales per column, and its result by sums in int64."""
    a, b, random = extremes((m, k), 1, np.uint8), extremes((k, n), 2, np.int8), np.random.default_rng(3)
    scales = (random.random(n) * 1e-3 + 1e-4).astype(np.float32)
    bias = random.integers(-(10**5), 10**5, n).astype(np.int32)
    sums = (a.astype(np.int64) - 77) @ b.astype(np.int64) + bias
    factors = np.float32(0.03) * scales / np.float32(0.11)
    want = np.clip(np.rint(sums.astype(np.float32) * factors) + 13, 0, 255).astype(np.uint8)
    one = (np.array(0.03, np.float32), np.array(77, np.uint8))
    return (
        *(a, *one, b, scales, np.zeros(n, np.int8)),
        *(np.array(0.11, np.float32), np.array(13, np.uint8), bias),
    ), want


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_threads_and_pieces_have_the_bits_of_exact_sums(target: Target) -> None:
    """A million results, the last rows and columns of fewer than a tile."""
    target = replace(target, tiles=TileWays(target.tiles.int8 or EMULATED))
    inputs, want = linear(1003, 130, 1021)
    assert want.size > 10**6
    assert np.unique(want).size > 1
    (lowering,) = (
        each for each in lowerings_of(QLinearMatMul(), inputs, target, True) if each.name == "quantized_tiles"
    )
    for chunk, junk in ((0, 0xFF), (3, 0x5A)):
        (got,) = run_lowering(QLinearMatMul(), lowering, inputs, target, chunk=chunk, junk=junk)
        np.testing.assert_array_equal(got, want)
    for threads in (1, 2, 3):
        with patch.object(jit, "host_target", lambda: target):
            (got,) = run_alone(QLinearMatMul(), inputs, threads=threads)
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("clip", [31, 32, 33])
def test_floats_have_the_bits_of_separate_steps(clip: int) -> None:
    """Rows of fewer columns than a step of them, of as many and of more."""
    target = replace(TARGETS[0], tiles=TileWays(TARGETS[0].tiles.int8 or EMULATED))
    a, b = extremes((37, 70), 4, np.int8), extremes((70, clip), 5, np.uint8)
    scale, bias = np.full(clip, 2e-4, np.float32), np.linspace(-9, 9, clip).astype(np.float32)
    inputs = (a, b, scale, np.array(-5, np.int8), np.array(3, np.uint8), bias)
    sums = (a.astype(np.int64) + 5) @ (b.astype(np.int64) - 3)
    op = MatMulIntegerToFloat(Activation("relu"))
    (lowering,) = (each for each in lowerings_of(op, inputs, target, True) if each.name == "quantized_tiles")
    (got,) = run_lowering(op, lowering, inputs, target)
    np.testing.assert_array_equal(got, np.maximum(sums.astype(np.float32) * scale + bias, 0))
