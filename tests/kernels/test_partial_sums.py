"""Long sums of products: what float32 loses does not grow with their length, by whatever kernel they are added.

The terms are 0.1 or uniform: all of one sign, so that one chain of additions loses most: 4e-5 of 4,096 terms of 0.1,
6e-4 of 65,536. Blocks lose 3e-6 at any length, the shorter ones of precision="exact" 5e-7. Strassen's algorithm adds
its blocks in one chain: 3.2e-6 of 65,536 terms.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from cenote.core.target import Target
from cenote.core.types import Array, TensorType
from cenote.kernels.partial_sums import SumBlocks
from cenote.ops.base import Lowering, Op
from cenote.ops.conv.conv import Conv
from cenote.ops.conv.conv_transpose import ConvTranspose
from cenote.ops.conv.deform_conv import DeformConv
from cenote.ops.linear.gemm import Gemm
from cenote.ops.linear.matmul import MatMul
from cenote.ops.sequence.scaled_dot_product import ScaledDotProduct
from tests.harness import run_lowering
from tests.targets import TARGETS, over_targets, target_name

FAST, EXACT = 3e-6, 5e-7  # of the largest result
STRASSEN = 4e-6
TURNED = (1, 0)
Given = tuple[Op, list[Array], bool]  # whether all but the first are constants

targets = pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
precisions = pytest.mark.parametrize("exact", [False, True], ids=["fast", "exact"])


def terms(kind: str, *shape: int, seed: int = 0) -> Array:
    if kind == "tenths":
        return np.full(shape, 0.1 if seed == 0 else 1.0, np.float32)
    return np.random.default_rng(seed).random(shape, np.float32)


def products(kind: str) -> Iterator[tuple[str, Given]]:
    """Matrix products of 1 to 64 rows, B constant and not, in all orders."""
    for rows, depth, columns in ((1, 4099, 40), (2, 5000, 35), (8, 65536, 16), (40, 4096, 130)):
        a, b = terms(kind, rows, depth), terms(kind, depth, columns, seed=1)
        yield f"{rows} rows", (MatMul(), [a, b], False)
        yield f"{rows} rows, constant", (MatMul(), [a, b], True)
    a, b = terms(kind, 9, 5000), terms(kind, 5000, 70, seed=1)
    given = [np.ascontiguousarray(a.T), np.ascontiguousarray(b.T)]
    yield "turned", (MatMul(permute_a=TURNED, permute_b=TURNED), given, False)
    rows = [terms(kind, 1, 65537), terms(kind, 9, 65537, seed=1)]
    yield "one row, rows of weights", (Gemm(transpose_b=True), rows, True)
    yield "one column", (MatMul(), [terms(kind, 9, 65537), terms(kind, 65537, 1, seed=1)], False)
    scaled = [terms(kind, 6, 4096), terms(kind, 4096, 20, seed=1), terms(kind, 6, 20)]
    yield "scaled", (Gemm(alpha=0.5, beta=2.0), scaled, False)


def convolutions(kind: str) -> Iterator[tuple[str, Given]]:
    """Few and many channels, ragged ones, groups, windows, weights that are known late, taps that are moved."""
    for name, channels, filters, window, size, groups in (
        ("1x1", 4096, 40, 1, 3, 1),
        ("1x1, one pixel", 65536, 17, 1, 1, 1),
        ("3x3", 520, 33, 3, 6, 1),
        ("ragged", 29, 16, 13, 13, 1),
        ("few channels", 3, 16, 37, 38, 1),
        ("groups", 1024, 36, 2, 3, 2),
    ):
        x = terms(kind, 1, channels, size, size)
        w = terms(kind, filters, channels // groups, window, window, seed=1)
        yield name, (Conv(groups=groups), [x, w], True)
    for name, channels, filters, window, groups in (
        ("depthwise", 19, 19, 31, 19),
        ("depthwise, three filters a channel", 5, 15, 17, 5),
        ("groups of 2", 34, 34, 17, 17),
    ):
        x = terms(kind, 1, channels, window + 1, window + 9)
        w = terms(kind, filters, channels // groups, window, window, seed=1)
        yield name, (Conv(groups=groups), [x, w], True)
    x, w = terms(kind, 1, 9, 33, 34), terms(kind, 9, 1, 31, 31, seed=1)
    yield "transposed, depthwise", (ConvTranspose(groups=9, pads=((30, 30), (30, 30))), [x, w], True)
    x, w = terms(kind, 1, 1100, 4, 4), terms(kind, 20, 1100, 2, 2, seed=1)
    yield "late weights", (Conv(), [x, w], False)
    yield "transposed", (ConvTranspose(strides=(2, 2)), [x, terms(kind, 1100, 20, 4, 4, seed=1)], True)
    yield "moved taps", (DeformConv(), [x, w, np.zeros((1, 8, 3, 3), np.float32)], False)


def lowered(given: Given, target: Target) -> Iterator[tuple[Lowering, Array]]:
    """Each lowering with its result."""
    op, arrays, constants = given
    types = [
        TensorType.known(x) if constants and index else TensorType.of(x.dtype, x.shape)
        for index, x in enumerate(arrays)
    ]
    found = list(op.lowerings(types, target))
    assert found, "no kernel"
    for lowering in found:
        yield lowering, run_lowering(op, lowering, arrays, target, constants=constants)[0]


def errors(given: Given, target: Target) -> dict[str, float]:
    op, arrays, _ = given
    (wanted,) = op.reference(*(x.astype(np.float64) for x in arrays))
    scale = float(np.abs(wanted).max())
    found = {}
    for lowering, y in lowered(given, target):
        found[lowering.name] = float(np.abs(y.astype(np.float64) - wanted).max()) / scale
        assert found[lowering.name] <= lowering.tolerance
    return found


@pytest.mark.parametrize(
    ("family", "exact", "target"),
    over_targets([*itertools.product([products, convolutions], [False, True])]),
    ids=target_name,
)
def test_errors_do_not_grow_with_the_length(family: object, exact: bool, target: Target) -> None:
    assert callable(family)
    for kind in ("tenths", "uniform"):
        for name, (op, arrays, constants) in family(kind):
            found = errors((replace(op, exact=exact), arrays, constants), target)
            for way, error in found.items():
                bound = EXACT if exact else FAST
                assert error <= (FAST if way.startswith("winograd") else bound), (kind, name, way, error)


@pytest.mark.parametrize(("family", "target"), over_targets([(products,), (convolutions,)]), ids=target_name)
def test_caches_do_not_lengthen_a_chain(
    family: Callable[[str], Iterator[tuple[str, Given]]], target: Target
) -> None:
    """On a processor whose first cache holds the weights of all terms."""
    large = replace(target, l1_bytes=4 << 20, l2_bytes=64 << 20)
    for name, given in family("tenths"):
        for way, error in errors(given, large).items():
            assert error <= (STRASSEN if way == "strassen" else FAST), (name, way, error)


@targets
def test_a_million_terms(target: Target) -> None:
    a, b = terms("tenths", 2, 1_000_003), terms("tenths", 1_000_003, 3, seed=1)
    assert max(errors((MatMul(), [a, b], False), target).values()) <= FAST
    assert max(errors((MatMul(exact=True), [a, b], False), target).values()) <= EXACT


@targets
def test_channels_of_winograd(target: Target) -> None:
    x, w = terms("uniform", 1, 2048, 6, 6), terms("uniform", 16, 2048, 3, 3, seed=1)
    found = errors((Conv(pads=((1, 1), (1, 1))), [x, w], True), target)
    assert "winograd_f4" in found
    assert max(found.values()) <= FAST


@targets
@precisions
def test_windows_of_thousands_of_elements(exact: bool, target: Target) -> None:
    """Of depthwise convolutions the blocks' sums are one chain: neither is longer than the root of the number of terms,
    or a block. 1.7e-5 in one chain."""
    x, w = terms("tenths", 1, 17, 65, 70), terms("tenths", 17, 1, 63, 63, seed=1)
    found = errors((Conv(groups=17, exact=exact), [x, w], True), target)
    assert "depthwise" in found
    assert max(found.values()) <= (2 * EXACT if exact else FAST)


@targets
@pytest.mark.parametrize("queries", [1, 8])
def test_attention_to_many_keys(queries: int, target: Target) -> None:
    """Equal scores: an average of 20,000 rows."""
    q, k, v = terms("tenths", queries, 16), terms("tenths", 20000, 16), terms("uniform", 20000, 20)
    assert max(errors((ScaledDotProduct(), [q, k, v], False), target).values()) <= FAST


@targets
@precisions
def test_the_bits_do_not_depend_on_how_many_rows_and_columns_there_are(exact: bool, target: Target) -> None:
    """Nor on where operands lie, nor on the kernel of one row."""
    a, b = terms("uniform", 40, 2100), terms("uniform", 2100, 150, seed=1)
    ((_, whole),) = lowered((MatMul(exact=exact), [a, b], False), target)
    for rows, columns, constant in ((1, 150, False), (2, 40, False), (7, 150, True), (40, 17, False)):
        part = MatMul(exact=exact), [a[:rows].copy(), b[:, :columns].copy()], constant
        for _, y in lowered(part, target):
            np.testing.assert_array_equal(y, whole[:rows, :columns])


@pytest.mark.parametrize(
    ("exact", "steps", "slots"),
    [(False, 0, 1), (False, 256, 1), (False, 257, 2), (False, 4096, 2), (False, 4097, 3), (True, 32, 1),
     (True, 33, 2), (True, 65, 3), (True, 1 << 20, 16)],
)  # fmt: skip
def test_slots(exact: bool, steps: int, slots: int) -> None:
    """As many as are filled, where blocks are added as in the kernel."""
    blocks = SumBlocks.of(exact)
    assert blocks.slots(steps) == slots
    count, base = -(-steps >> blocks.block), 1 << (1 << blocks.fan)
    filled = set[int]()
    for block in range(count - 1):
        level = 0
        while block % base == base - 1:
            block, level = block // base, level + 1
        filled.add(1 + level)
    assert max(filled, default=0) == slots - 1


def test_blocks_of_steps_of_several_terms() -> None:
    assert [SumBlocks.of(False, unroll).block for unroll in (1, 7, 16)] == [8, 5, 4]
    assert [SumBlocks.of(True, unroll).block for unroll in (1, 7, 16, 64)] == [5, 2, 1, 0]


def test_open_lengths_have_slots_for_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cenote.kernels.partial_sums.is_size", lambda value: True)
    assert [SumBlocks.of(exact).slots(1) for exact in (False, True)] == [9, 33]
