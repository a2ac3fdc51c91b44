"""The builder: what its loops, masks, constants and conversions compute, on every target this machine can run."""

from __future__ import annotations

import ctypes
import textwrap
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cenote.codegen
from cenote.codegen import builder, jit
from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import BF16, F16, F32, F64, I8, I32, I64, U8, Scalar
from cenote.core.target import Target
from cenote.core.types import Array
from cenote.kernels.layout.memcpy import MemcpySpec
from tests.harness import KERNEL
from tests.targets import TARGETS

Build = Callable[[Kernel], None]


@pytest.fixture(params=TARGETS, ids=lambda target: target.name)
def target(request: pytest.FixtureRequest) -> Target:
    found: Target = request.param
    return found


def run(
    target: Target, name: str, build: Build, arrays: list[Array], numbers: list[int] | None = None
) -> None:
    """Build a kernel over pointers a, b, c … (one per array) and numbers n0, n1 …, and call it once."""
    pointers = [Parameter("abcdef"[i], Scalar.of(x.dtype), pointer=True) for i, x in enumerate(arrays)]
    numbers = numbers or []
    k = Kernel(
        f"test_{name}_{target.name}", target, [*pointers, *(Parameter(f"n{i}") for i in range(len(numbers)))]
    )
    build(k)
    words = (ctypes.c_int64 * 8)(*[x.ctypes.data for x in arrays], *numbers)
    KERNEL(jit.addresses([k], target)[k.symbol])(ctypes.addressof(words), 0, 1, None)


def test_nested_loops_and_a_variable(target: Target) -> None:
    def build(k: Kernel) -> None:
        total = k.variable(k.integer(0))
        for i in k.range(0, k.number("n0")):
            for j in k.range(i, k.number("n0"), 2):
                total.value = total.value + i * 10 + j
        k.pointer("a").store(total.value)

    result = np.zeros(1, np.int64)
    run(target, "loops", build, [result], [7])
    assert result[0] == sum(i * 10 + j for i in range(7) for j in range(i, 7, 2))


@pytest.mark.parametrize(("start", "stop"), [(0, 0), (3, 3), (5, 2), (-2, 1)])
def test_a_loop_may_run_zero_times(target: Target, start: int, stop: int) -> None:
    def build(k: Kernel) -> None:
        count = k.variable(k.integer(0))
        for _ in k.range(k.number("n0"), k.number("n1")):
            count.value = count.value + 1
        k.pointer("a").store(count.value)

    result = np.full(1, 99, np.int64)
    run(target, "zero_times", build, [result], [start, stop])
    assert result[0] == max(0, stop - start)


def test_the_first_lanes_are_stored(target: Target) -> None:
    lanes = target.lanes()

    def build(k: Kernel) -> None:
        k.store_first(k.pointer("a").load(0, lanes), k.pointer("b"), k.number("n0"))

    given = np.arange(1, lanes + 1, dtype=np.float32)
    for count in range(-2, lanes + 3):
        result = np.zeros(lanes, np.float32)
        run(target, "store_first", build, [given, result], [count])
        np.testing.assert_array_equal(result, np.where(np.arange(lanes) < count, given, 0))


def test_constants_fold() -> None:
    k = Kernel("folding", jit.named_target("generic"), [Parameter("n")])
    before = len(k._lines)
    value = (k.integer(6) * 7 + 0) // 2 % 5 - 1
    assert value.constant == (6 * 7) // 2 % 5 - 1
    assert (k.integer(-7) // 2).constant == -3, "division goes toward zero, as in LLVM"
    assert (k.integer(-7) % 2).constant == -1
    assert k.number("n") + 0 is k.number("n")
    assert k.number("n") * 1 is k.number("n")
    assert list(k.range(3, 3)) == []
    assert len(k._lines) == before


@pytest.mark.parametrize("count", range(10))
def test_masks_touch_nothing_outside(target: Target, count: int) -> None:
    lanes = target.lanes()

    def build(k: Kernel) -> None:
        mask = k.tail_mask(k.number("n0"), lanes)
        k.pointer("b").store(k.pointer("a").load(0, lanes, mask) + 1.0, 0, mask)

    x, y = np.arange(12, dtype=np.float32), np.full(12, -1, np.float32)
    run(target, f"mask{lanes}", build, [x, y], [count])
    reached = min(count, lanes)
    assert np.array_equal(y[:reached], x[:reached] + 1)
    assert (y[reached:] == -1).all()


def test_when_and_unless(target: Target) -> None:
    def build(k: Kernel) -> None:
        with k.when(k.number("n0") > 3):
            k.pointer("a").store(k.integer(1))
        with k.unless(k.number("n0") > 3):
            k.pointer("a").store(k.integer(2))

    for n, want in ((3, 2), (4, 1)):
        result = np.zeros(1, np.int64)
        run(target, "when", build, [result], [n])
        assert result[0] == want


SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.5, 3.0], np.float32)


def test_nan_rules_of_maximum_and_larger(target: Target) -> None:
    other = np.roll(SPECIAL, 3)

    def build(k: Kernel) -> None:
        for at in range(0, 8, 4):
            a, b = k.pointer("a").load(at, 4), k.pointer("b").load(at, 4)
            k.pointer("c").store(k.maximum(a, b), at)
            k.pointer("d").store(k.minimum(a, b), at)
            k.pointer("e").store(k.max_drop_nan(a, b), at)

    high, low, larger = (np.zeros(8, np.float32) for _ in range(3))
    run(target, "nan", build, [SPECIAL, other, high, low, larger])
    assert np.array_equal(high, np.maximum(SPECIAL, other), equal_nan=True)
    assert np.array_equal(low, np.minimum(SPECIAL, other), equal_nan=True)
    with np.errstate(invalid="ignore"):
        assert np.array_equal(larger, np.where(other < SPECIAL, SPECIAL, other), equal_nan=True)


def test_comparisons_with_nan_are_false_but_for_differs(target: Target) -> None:
    def build(k: Kernel) -> None:
        a = k.pointer("a").load(0, 8)
        one, zero = k.constant(I32, 1, 8), k.constant(I32, 0, 8)
        for row, condition in enumerate((a < a, a <= a, a.equals(a), a.differs(a), a.is_nan())):
            k.pointer("b").store(k.select(condition, one, zero), row * 8)

    rows = np.full((5, 8), 9, np.int32)
    run(target, "compare", build, [SPECIAL, rows])
    nan = np.isnan(SPECIAL)
    assert np.array_equal(rows, np.array([nan & False, ~nan, ~nan, nan, nan]).astype(np.int32))


def test_reductions_add_in_one_order(target: Target) -> None:
    def build(k: Kernel) -> None:
        a = k.pointer("a").load(0, 8)
        k.pointer("b").store(k.reduce(a, "add"))
        k.pointer("b").store(k.reduce(a, "maximum"), 1)

    x = np.random.default_rng(0).standard_normal(8).astype(np.float32)
    result = np.zeros(2, np.float32)
    run(target, "reduce", build, [x, result])
    assert result[0] == ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]))
    assert result[1] == x.max()


HALVES = [(F16, np.dtype(np.float16)), (BF16, np.dtype(ml_dtypes.bfloat16))]


@pytest.mark.parametrize(("half", "dtype"), HALVES, ids=["f16", "bf16"])
def test_every_half_widens_exactly(target: Target, half: Scalar, dtype: np.dtype[Any]) -> None:
    def build(k: Kernel) -> None:
        for at in k.range(0, 65536, 8):
            k.pointer("b").store(k.pointer("a").load(at, 8).to(F32), at)

    x, y = np.arange(65536, dtype=np.uint16).view(dtype), np.zeros(65536, np.float32)
    run(target, f"widen_{half.name}", build, [x, y])
    with np.errstate(invalid="ignore"):  # an Arm CPU tells NumPy of signalling NaN
        assert np.array_equal(y, x.astype(np.float32), equal_nan=True)


@pytest.mark.parametrize(("half", "dtype"), HALVES, ids=["f16", "bf16"])
def test_narrowing_rounds_to_nearest_even(target: Target, half: Scalar, dtype: np.dtype[Any]) -> None:
    def build(k: Kernel) -> None:
        for at in k.range(0, k.number("n0"), 8):
            k.pointer("b").store(k.pointer("a").load(at, 8).to(half), at)

    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        every = np.arange(65536, dtype=np.uint16).view(dtype).astype(np.float32)
        ties = (every[:-1] + every[1:]) / 2
        x = np.concatenate(
            [ties, rng.integers(0, 2**32, 1 << 17, dtype=np.uint64).astype(np.uint32).view(np.float32)]
        )
        x = np.concatenate([x, [65519.99, 65520, 3e-8, 2.98e-8, np.inf, -np.inf, np.nan]]).astype(np.float32)
        x = np.resize(x, -(-len(x) // 8) * 8)
        want = x.astype(dtype)
    y = np.zeros(len(x), dtype)
    run(target, f"narrow_{half.name}", build, [x, y], [len(x)])
    nan = np.isnan(want.astype(np.float32))
    assert np.array_equal(y.view(np.uint16)[~nan], want.view(np.uint16)[~nan])
    assert np.isnan(y.astype(np.float32)[nan]).all()


def test_integer_conversions_keep_signs(target: Target) -> None:
    def build(k: Kernel) -> None:
        k.pointer("c").store(k.pointer("a").load(0, 4).to(I64))
        k.pointer("c").store(k.pointer("b").load(0, 4).to(I64), 4)
        k.pointer("d").store(k.pointer("a").load(0, 4).to(F64))

    signed, unsigned = np.array([-128, -1, 0, 127], np.int8), np.array([0, 1, 200, 255], np.uint8)
    wide, real = np.zeros(8, np.int64), np.zeros(4)
    run(target, "signs", build, [signed, unsigned, wide, real])
    assert wide.tolist() == [-128, -1, 0, 127, 0, 1, 200, 255]
    assert real.tolist() == [-128, -1, 0, 127]


def test_a_prefetch_may_leave_its_memory() -> None:
    """Pointer arithmetic that says "in bounds" and is not gives poison."""
    k = Kernel("test_prefetch", jit.host_target(), [Parameter("a", F32, pointer=True)])
    k.prefetch(k.pointer("a"), 1 << 20)
    assert "getelementptr float" in k.module()
    assert "inbounds float" not in k.module()


def test_mixed_operands_are_refused() -> None:
    k = Kernel("mixed", jit.named_target("generic"), [Parameter("x", F32, pointer=True)])
    with pytest.raises(TypeError, match=r"convert one with \.to"):
        k.pointer("x").load() + k.integer(1)
    with pytest.raises(TypeError, match="storing i64 through a pointer to f32"):
        k.pointer("x").store(k.integer(1))
    with pytest.raises(TypeError, match="cannot splat"):
        k.splat(k.pointer("x").load(0, 4), 8)


def test_ir_and_assembly_of_a_spec_can_be_printed() -> None:
    text = cenote.codegen.ir(MemcpySpec(), "generic")
    assert 'define void @"MemcpySpec"' in text
    assert "memcpy" in cenote.codegen.assembly(MemcpySpec(), "generic")


def test_scalars_by_name_and_dtype() -> None:
    assert Scalar.named("bf16") is BF16
    assert Scalar.of(np.int8) is I8
    assert Scalar.of(np.bool_) is U8


def test_the_first_example() -> None:
    """The program in the module's docstring makes a kernel that LLVM takes."""
    lines = (builder.__doc__ or "").splitlines()
    program = textwrap.dedent("\n".join(line for line in lines if line.startswith("    ")))
    names: dict[str, Any] = {
        "Kernel": Kernel,
        "Parameter": Parameter,
        "F32": F32,
        "target": jit.named_target("generic"),
    }
    exec(program, names)
    kernel = names["k"]
    assert isinstance(kernel, Kernel)
    assert jit.assembly(kernel)


def test_a_kernel_that_moves_its_addresses_is_compiled_as_written_and_others_are_not(target: Target) -> None:
    """The switch is the process's: it must be back when the next kernel comes."""

    def code(moves: bool) -> str:
        kernel = Kernel("strided", target, [Parameter("x", F32, pointer=True), Parameter("step")])
        kernel.moves_addresses = moves
        x, step = kernel.pointer("x"), kernel.number("step")
        for i in kernel.range(kernel.begin, kernel.end):
            x.store(x.load(i * step) * 2.0, i * step)
        return jit.assembly(kernel)

    first, as_written, second = code(False), code(True), code(False)
    assert first == second
    assert first != as_written


def test_cursors_move_by_constants_and_values(target: Target) -> None:
    def build(k: Kernel) -> None:
        place = k.cursor(k.pointer("a"))
        for i in k.range(0, 3):
            place.at.store(i.to(F32))
            place.at.store(k.constant(F32, -1.0), 1)
            place.move(2)
            place.move(k.number("n0"))

    memory = np.zeros(12, np.float32)
    run(target, "cursor", build, [memory], [3])
    np.testing.assert_array_equal(memory, [0, -1, 0, 0, 0, 1, -1, 0, 0, 0, 2, -1])
