"""Products by tiles: operands read where they lie and copied, remainders, groups of two widths."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cenote.core.target import Target
from cenote.core.types import Array, TensorType
from cenote.kernels.base import Call
from cenote.kernels.product import calls
from cenote.kernels.product.panels import Panels
from cenote.kernels.product.tiles import ProductSpec
from cenote.ops.linear.matmul import MatMul
from tests.harness import calls_of, run_lowering
from tests.targets import LARGE, SMALL, TARGETS, over_targets, target_name

TURNED = (1, 0)


def noise(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape, np.float32)


def check(op: MatMul, arrays: list[Array], target: Target, constants: bool = False) -> None:
    """Against float64, with junk of two kinds around everything; whatever items are computed together."""
    (wanted,) = op.compute(*(x.astype(np.float64) for x in arrays), *[None] * (4 - len(arrays)))
    types = [TensorType.of(x.dtype, x.shape) for x in arrays]
    if constants:
        types[1:] = [TensorType.known(x) for x in arrays[1:]]
    for lowering in op.lowerings(types, target):
        (y,) = run_lowering(op, lowering, arrays, target, constants=constants)
        (again,) = run_lowering(op, lowering, arrays, target, constants=constants, chunk=1, junk=0x5A)
        np.testing.assert_array_equal(y, again)
        scale = max(1.0, float(np.abs(wanted).max()))
        np.testing.assert_allclose(y.astype(np.float64), wanted, rtol=0, atol=1e-5 * scale)


SIZES = (
    (5, 3, 1), (6, 64, 8), (7, 300, 80), (13, 64, 197), (23, 197, 131), (49, 49, 32), (64, 64, 64), (12, 700, 130),
    (50, 1024, 300), (20, 2048, 16), (410, 20, 90),
)  # fmt: skip


@pytest.mark.parametrize(("m", "k", "n", "target"), over_targets(SIZES), ids=target_name)
def test_remainders_in_all_orders(m: int, k: int, n: int, target: Target) -> None:
    a, b = noise(m, k) / np.float32(k**0.5), noise(k, n, seed=1)
    for left in ((), TURNED):
        for right in ((), TURNED):
            given = [np.ascontiguousarray(x.T) if order else x for x, order in ((a, left), (b, right))]
            check(MatMul(permute_a=left, permute_b=right), given, target)
    check(MatMul(), [a, b], target, constants=True)


@pytest.mark.parametrize(
    ("m", "k", "n", "target"),
    over_targets(((9, 3, 1), (13, 64, 197), (23, 197, 131), (12, 700, 530), (50, 300, 300), (20, 600, 16))),
    ids=target_name,
)
def test_rows_copied_in_runs(m: int, k: int, n: int, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """As is done with matrices beyond the second cache."""
    monkeypatch.setattr(calls, "FAR", 0)
    a, b = noise(m, k) / np.float32(k**0.5), noise(k, n, seed=1)
    check(MatMul(), [a, b], target)
    check(MatMul(permute_a=TURNED), [np.ascontiguousarray(a.T), b], target)
    check(MatMul(), [noise(2, m, k) / np.float32(k**0.5), noise(2, k, n, seed=1)], target)
    check(MatMul(alpha=0.5, residual=True), [a, b, noise(n), noise(m, n, seed=2)], target)
    halves = [x.astype(np.float16) for x in (a, b)]
    types = [TensorType.of(x.dtype, x.shape) for x in halves]
    for lowering in MatMul().lowerings(types, target):
        (y,) = run_lowering(MatMul(), lowering, halves, target, constants=False)
        wanted = halves[0].astype(np.float64) @ halves[1].astype(np.float64)
        np.testing.assert_allclose(y.astype(np.float64), wanted, rtol=2e-3, atol=2e-3 * np.abs(wanted).max())


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_batches_read_in_place(target: Target) -> None:
    check(MatMul(), [noise(3, 2, 49, 20), noise(3, 2, 20, 33, seed=1)], target)
    check(MatMul(), [noise(3, 1, 20, 9), noise(2, 9, 70, seed=1)], target)
    heads = MatMul(permute_a=(0, 2, 1, 3), permute_b=(0, 2, 1, 3), permute_y=(0, 2, 1, 3))
    check(heads, [noise(2, 21, 3, 21), noise(2, 21, 3, 16, seed=1)], target)
    scaled = MatMul(alpha=0.5, residual=True)
    check(scaled, [noise(21, 40), noise(40, 77, seed=1), noise(77), noise(21, 77, seed=2)], target)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize(("m", "k", "n"), [(9, 20, 33), (80, 300, 197)])
def test_nan_and_infinity_stay_in_their_row_and_column(m: int, k: int, n: int, target: Target) -> None:
    a, b = noise(m, k), noise(k, n, seed=1)
    a[m - 1, 3], b[k - 1, n - 1] = np.inf, np.nan
    with np.errstate(invalid="ignore"):
        wanted = a.astype(np.float64) @ b.astype(np.float64)
    types = [TensorType.of(x.dtype, x.shape) for x in (a, b)]
    for lowering in MatMul().lowerings(types, target):
        (y,) = run_lowering(MatMul(), lowering, [a, b], target, constants=False)
        np.testing.assert_array_equal(np.isnan(y), np.isnan(wanted))
        np.testing.assert_array_equal(np.isinf(y), np.isinf(wanted))


def product_of(
    a: tuple[int, ...],
    b: tuple[int, ...],
    dtype: object = np.float32,
    op: MatMul | None = None,
    target: Target = LARGE,
) -> Call:
    types = [TensorType.of(dtype, shape) for shape in (a, b)]  # type: ignore[arg-type]
    op = op or MatMul()
    (lowering,) = op.lowerings(types, target)
    return calls_of(op, lowering, types)[-1]


def test_what_is_read_where_it_lies() -> None:
    def modes(*arguments: object, **fields: object) -> tuple[bool, str]:
        spec = product_of(*arguments, **fields).spec  # type: ignore[arg-type]
        assert isinstance(spec, ProductSpec)
        return spec.in_place, spec.b

    assert modes((64, 64), (64, 64)) == (True, "direct")
    assert modes((49, 49), (49, 32)) == (True, "direct")
    assert modes((49, 3072), (3072, 64)) == (True, "direct")
    assert modes((49, 368), (368, 700)) == (True, "rows")  # tiles come back to rows of B that lie apart
    # Rows of A are 4 KiB times 3 apart, B is large: from 1 MB on, on a machine of vectors in one piece from 16 MB on.
    assert modes((49, 3072), (3072, 700)) == (False, "rows")
    assert modes((49, 3072), (3072, 700), target=replace(LARGE, halved=True)) == (False, "runs")
    assert modes((8, 3072), (3072, 700)) == (False, "runs")
    assert modes((49, 3072), (3072, 1400)) == (False, "runs")
    assert modes((2000, 500), (500, 500)) == (True, "packed")
    assert modes((49, 49), (49, 32), np.float16) == (False, "direct")
    assert modes((49, 49), (49, 32), op=MatMul(alpha=2.0)) == (False, "direct")
    assert modes((49, 49), (32, 49), op=MatMul(permute_b=TURNED)) == (True, "columns")


@pytest.mark.parametrize("rows", [20, 100, 197, 1000])
def test_bands_of_packed_matrices_stay_in_the_second_cache(rows: int) -> None:
    """Those of a B in panels, or they have few tiles; a B that is read where it lies is read less often by larger
    ones."""

    def copied(constant: bool) -> int:
        b = noise(1536, 384)
        types = [
            TensorType.of(np.float32, (rows, 1536)),
            TensorType.known(b) if constant else TensorType.of(b.dtype, b.shape),
        ]
        lowering = next(found for found in MatMul().lowerings(types, SMALL) if found.name == "panels")
        call = calls_of(MatMul(), lowering, types)[-1]
        spec = call.spec
        assert isinstance(spec, ProductSpec)
        band = dict(zip((word.name for word in spec.words), call.arguments, strict=True))["band"]
        assert isinstance(band, int)
        return band * spec.width * 1536 * 4

    one_tile = 6 * 1536 * 4
    assert copied(constant=True) <= max(min(8 * one_tile, 8 * SMALL.l2_bytes), SMALL.l2_bytes // 2)
    assert copied(constant=False) <= 8 * SMALL.l2_bytes


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_no_vector_past_the_last_is_computed(target: Target) -> None:
    lanes = target.lanes()
    for m in (1, 3, 49):
        for n in range(1, 700):
            panels = Panels.cut(m, n, 10, target)
            assert panels.padded == -(-n // lanes) * lanes
            assert panels.wide >= 1
            assert panels.wide * panels.blocks + panels.narrow * (panels.blocks - 1) == panels.padded // lanes
