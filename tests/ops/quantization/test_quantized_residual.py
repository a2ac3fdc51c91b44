"""Convolutions of bytes with a residual beside PyTorch's sums in float64 and float32 steps of NumPy: every bit, in
every way in which this machine multiplies bytes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cenote.codegen import jit
from cenote.core.target import EMULATED, PAIRS, Target, TileWays
from cenote.core.types import Array
from cenote.ops.conv.conv import Conv
from cenote.ops.quantization import quantized_residual
from cenote.ops.quantization.quantized_linear import QLinearConv
from cenote.ops.quantization.quantized_residual import QLinearConvAdd
from tests.harness import calls_of, input_types, lowerings_of, run_lowering
from tests.targets import TARGETS

torch = pytest.importorskip("torch")

WAYS = [replace(target, dots=way) for target in TARGETS for way in dict.fromkeys((target.dots, PAIRS))]
named = pytest.mark.parametrize("target", WAYS, ids=lambda target: f"{target.name}-{target.dots}")


@dataclass(frozen=True)
class Case:
    """A convolution of x of `c` channels by windows of a size, one apart, and what differs from the plain one. `zeros`:
    of x, the convolution's result, the residual, the sum; `scales`: of those three."""

    n: int
    c: int
    size: int
    k: int
    window: int
    signed: bool = False
    zeros: tuple[int, int, int, int] = (3, 130, 7, 101)
    scales: tuple[float, float, float] = (0.21, 0.13, 0.29)
    own: tuple[int, int] | None = None
    bounds: tuple[int, int] | None = None

    def operator(self) -> QLinearConvAdd:
        pads = ((self.window // 2,) * 2,) * 2
        return QLinearConvAdd(QLinearConv(Conv(pads=pads), self.own), self.bounds)

    def arrays(self) -> list[Array]:
        """The operator's inputs; sums of products reach beyond both ends of the bytes."""
        random, kind = np.random.default_rng(hash(self) % 2**32), self.kind
        x = random.integers(0, 256, (self.n, self.c, self.size, self.size)).astype(np.uint8).view(kind)
        weights = random.integers(-128, 128, (self.k, self.c, self.window, self.window)).astype(np.int8)
        w_scales = (random.random(self.k) * 0.02 + 0.01).astype(np.float32)
        x_scale = np.float32(1 / np.sqrt(self.c * self.window**2) / 40)
        residual = random.integers(0, 256, (self.n, self.k, self.size, self.size)).astype(np.uint8).view(kind)
        x_zero, *zeros = (np.array(zero, np.uint8).view(kind) for zero in self.zeros)
        own, other, total = (np.array(scale, np.float32) for scale in self.scales)
        bias = random.integers(-5000, 5000, self.k).astype(np.int32)
        front = [x, np.array(x_scale), x_zero, weights, w_scales, np.array(0, np.int8), own, zeros[0]]
        return [*front, residual, other, zeros[1], total, zeros[2], bias]

    @property
    def kind(self) -> Any:
        return np.int8 if self.signed else np.uint8

    def expected(self) -> Array:
        """The three steps: bytes by the rule for sums, both dequantised and added, the sum quantised."""
        x, x_scale, x_zero, w, w_scales, _, own, own_zero, *rest = self.arrays()
        residual, other, other_zero, total, total_zero, bias = rest
        margin = self.window // 2
        centred = np.pad(x.astype(np.float64) - float(x_zero), ((0, 0), (0, 0), *((margin, margin),) * 2))
        sums = torch.nn.functional.conv2d(
            torch.from_numpy(centred), torch.from_numpy(w.astype(np.float64)), torch.from_numpy(bias.astype(np.float64))
        ).numpy()  # fmt: skip
        scaled = sums.astype(np.float32) * (x_scale * w_scales / own).reshape(1, -1, 1, 1)
        low, high = self.own or (np.iinfo(self.kind).min, np.iinfo(self.kind).max)
        bytes_ = np.clip(np.rint(scaled).astype(np.float64) + float(own_zero), low, high)
        floats = (bytes_ - float(own_zero)).astype(np.float32) * own
        added = floats + (residual.astype(np.float32) - np.float32(other_zero)) * other
        low, high = self.bounds or (np.iinfo(self.kind).min, np.iinfo(self.kind).max)
        result: Array = np.clip(np.rint(added / total).astype(np.float64) + float(total_zero), low, high)
        return result.astype(self.kind)


def check(case: Case, target: Target) -> list[str]:
    """Run every lowering, whole and in pieces; return their names."""
    operator, arrays, want = case.operator(), case.arrays(), case.expected()
    found = lowerings_of(operator, arrays, target, True)
    for index, lowering in enumerate(found):
        chunk, junk = (0, 0xFF) if index % 2 else (1, 0x5A)
        (y,) = run_lowering(operator, lowering, arrays, target, chunk=chunk, junk=junk)
        np.testing.assert_array_equal(y, want, err_msg=f"{case} by {lowering.name}")
    return [lowering.name for lowering in found]


@named
@pytest.mark.parametrize(
    "case",
    [
        Case(2, 20, 9, 36, 1),
        Case(1, 24, 9, 40, 3, bounds=(101, 255)),
        Case(1, 48, 8, 24, 3, signed=True, own=(-126, 90)),
        Case(1, 3, 7, 16, 5),
    ],
    ids=str,
)
def test_each_algorithm_has_every_bit(case: Case, target: Target) -> None:
    found = check(case, target)
    assert "quantized" in found
    assert ("quantized_winograd_f4" in found) == (case.window == 3)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("window", [1, 3])
def test_both_formulas_of_the_sum(window: int, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two multiply-adds where the target rounds them once; one step after another where no factors are known."""
    case = Case(1, 48, 8, 24, window, own=(11, 250), bounds=(101, 200))

    def short_sums() -> set[bool]:
        assert check(case, target)
        found = lowerings_of(case.operator(), case.arrays(), target, True)
        calls = (calls_of(case.operator(), each, input_types(case.arrays(), True))[-1] for each in found)
        return {call.spec.short_sum for call in calls}  # type: ignore[attr-defined]  # of the specs with a residual

    assert short_sums() == {target.has_fma}
    monkeypatch.setattr(quantized_residual, "_factors", lambda *_: None)
    assert short_sums() == {False}


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_tiles_have_every_bit(target: Target) -> None:
    tiles = TileWays(target.tiles.int8 or EMULATED)
    case = Case(2, 24, 9, 40, 3, signed=True, own=(-126, 90), bounds=(-101, 127))
    assert "quantized_tiles" in check(case, replace(target, tiles=tiles))


@given(
    window=st.sampled_from([1, 3]), c=st.integers(1, 24), k=st.integers(1, 40), size=st.integers(3, 8),
    signed=st.booleans(), zeros=st.tuples(*[st.integers(0, 255)] * 4),
    scales=st.tuples(*[st.floats(0.03125, 3.0, width=32)] * 3), relu=st.booleans(),
)  # fmt: skip
@settings(max_examples=15)
def test_any_scales_and_zero_points_have_every_bit(
    window: int, c: int, k: int, size: int, signed: bool, zeros: tuple[int, int, int, int],
    scales: tuple[float, float, float], relu: bool,
) -> None:  # fmt: skip
    zero = int(np.array(zeros[3], np.uint8).view(np.int8)) if signed else zeros[3]
    bounds = (zero, 127 if signed else 255) if relu else None
    assert "quantized" in check(
        Case(1, c, size, k, window, signed, zeros, scales, bounds=bounds), jit.host_target()
    )


@pytest.mark.parametrize("place", [6, 9, 11])
@pytest.mark.parametrize("value", [0.0, -0.5, 1e38, 1e-45, np.inf, np.nan])
def test_scales_that_are_no_ordinary_factors_are_left_to_the_reference(place: int, value: float) -> None:
    case = Case(1, 16, 4, 16, 1)
    arrays = case.arrays()
    arrays[place] = np.array(value, np.float32)
    assert not lowerings_of(case.operator(), arrays, jit.host_target(), True)


def test_a_residual_of_other_bytes_is_left_to_the_reference() -> None:
    case = Case(1, 16, 4, 16, 1)
    arrays = case.arrays()
    arrays[8], arrays[10] = arrays[8].view(np.int8), arrays[10].view(np.int8)
    assert not lowerings_of(case.operator(), arrays, jit.host_target(), True)


@named
@pytest.mark.parametrize("window", [1, 3])
def test_kernels_know_that_the_result_may_lie_where_the_residual_does(window: int, target: Target) -> None:
    case = Case(1, 32, 8, 32, window)
    types = input_types(case.arrays(), True)
    for lowering in lowerings_of(case.operator(), case.arrays(), target, True):
        *_, call = calls_of(case.operator(), lowering, types)
        assert lowering.in_place
        assert {word.name for word in call.spec.words if word.may_alias} == {"residual", "y"}
