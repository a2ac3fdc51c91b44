"""Functions on arrays that are made of users' kernels: beside NumPy, and what is said when something does not fit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cenote
from cenote.codegen import worker
from cenote.core.errors import (
    ArgumentError,
    CenoteError,
    CodegenError,
    DTypeError,
    InputError,
    OperatorError,
    ShapeError,
)
from cenote.core.types import BFLOAT16, Array
from cenote.kernels import Call, Kernel, Value, View
from cenote.kernels.custom import BLOCK
from cenote.verification.contract.comparison import assert_close
from tests.functional.custom.kernels import (
    Shifted,
    chosen,
    dequantized,
    row_sums,
    soft_reference,
    soft_threshold,
)
from tests.harness import run_lowering
from tests.targets import TARGETS

SIZES = (0, 1, 7, 64, BLOCK - 1, 2 * BLOCK + 5)


@pytest.fixture(scope="module", autouse=True)
def workers() -> Iterator[None]:
    """Processes that compile wait for more; they end with these tests."""
    yield
    worker.end_ready()


def noise(shape: Any, dtype: Any = np.float32, seed: int = 0) -> Array:
    return (np.random.default_rng(seed).standard_normal(shape) * 3).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, BFLOAT16, np.int32, np.int8], ids=str)
def test_every_type_and_size(dtype: Any) -> None:
    threshold = 1 if np.dtype(dtype).kind == "i" else 0.75
    for size in SIZES:
        x = noise(size, dtype)
        y = soft_threshold(x, threshold=threshold)
        assert y.dtype == x.dtype
        error = np.abs(y.astype(np.float64) - soft_reference(x, threshold))
        assert error.max(initial=0) <= {2: 0.05, 4: 1e-6}.get(np.dtype(dtype).itemsize, 1e-12)


def test_several_arrays_of_several_types_and_several_outputs() -> None:
    x, y, mask = noise((3, 50)), noise((3, 50), np.float64, 1), noise((3, 50), seed=2) > 0
    first, second = chosen(x, y, mask)
    np.testing.assert_array_equal(first, np.where(mask, x, -x))
    np.testing.assert_array_equal(second, y > 0)
    assert (first.dtype, second.dtype) == (np.float32, np.bool_)


def test_numbers_beside_bytes() -> None:
    q = np.arange(-128, 128, dtype=np.int8)
    np.testing.assert_array_equal(
        dequantized(q, scale=0.1, zero=3), (q.astype(np.float32) - 3) * np.float32(0.1)
    )
    with pytest.raises(DTypeError, match="dequantized: argument 'zero' is 300, which int8 does not hold"):
        dequantized(q, scale=0.1, zero=300)


def test_special_values() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45], np.float32)
    np.testing.assert_array_equal(soft_threshold(x), [np.nan, np.inf, -np.inf, 0, 0, 0])


def test_memory_of_all_kinds() -> None:
    x = noise((40, 60))
    want = soft_threshold(x)
    np.testing.assert_array_equal(soft_threshold(x.T), want.T)
    np.testing.assert_array_equal(soft_threshold(x[::2, 3:]), want[::2, 3:])
    np.testing.assert_array_equal(soft_threshold(x.astype(">f4")), want)
    x.flags.writeable = False
    out = np.full_like(x, np.nan)
    assert soft_threshold(x, out=out) is out
    np.testing.assert_array_equal(out, want)
    inside = x.copy()
    assert soft_threshold(inside, out=inside) is inside
    np.testing.assert_array_equal(inside, want)


def test_tensors_of_torch() -> None:
    torch = pytest.importorskip("torch")
    x = torch.linspace(-2, 2, 101)
    y = soft_threshold(x, threshold=0.5)
    assert isinstance(y, torch.Tensor)
    torch.testing.assert_close(y, torch.nn.functional.softshrink(x, 0.5))
    rows = row_sums(torch.ones(3, 5))
    assert rows.tolist() == [5, 5, 5]


def test_threads_give_the_same_bits() -> None:
    x = noise(40 * BLOCK + 3)
    one, two = (soft_threshold(x, threshold=0.3, threads=threads) for threads in (1, 2))
    assert one.tobytes() == two.tobytes()


def test_a_kernel_of_rows() -> None:
    for shape in ((1, 1), (5, 17), (300, 1000)):
        x = noise(shape)
        y = np.full(shape[0], np.nan, np.float32)
        assert row_sums(x, out=y) is y
        np.testing.assert_allclose(y, x.astype(np.float64).sum(1), rtol=0, atol=1e-3)
    assert row_sums(np.zeros((0, 3), np.float32)).shape == (0,)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_on_buffers_full_of_junk_between_guards(target: Any) -> None:
    """The kernels are ways to compute an operator, on every target and in pieces."""
    for function, arrays in (
        (soft_threshold, [noise(2 * BLOCK + 77)]),
        (chosen, [noise(501), noise(501, seed=1), noise(501) > 0]),
        (row_sums, [noise((7, 43))]),
    ):
        op = function._parse(
            tuple(cenote.TensorType(x.dtype, x.shape) for x in arrays), *function.defaults.values()
        ).op
        (lowering,) = op.lowerings(tuple(cenote.TensorType(x.dtype, x.shape) for x in arrays), target)
        for chunk, junk in ((0, 0xFF), (1, 0x5A)):
            made = run_lowering(op, lowering, arrays, target, constants=False, chunk=chunk, junk=junk)
            for got, want in zip(made, op.reference(*arrays), strict=True):
                assert_close(got, want, 1e-6, function.name)


def wrong(by: float, odd: bool = False) -> Any:
    """A kernel that is off in one element."""

    @cenote.jit_elementwise(
        reference=lambda x: np.where(x == 7, 7 + by, x) if not odd else x * np.nan, check=True
    )
    def copied(k: Kernel, x: Value) -> Value:
        return x

    return copied


def test_a_difference_from_the_reference_is_told() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    with pytest.raises(OperatorError) as caught:
        wrong(1.0)(x)
    place = re.escape(f"{__file__}:")
    assert re.fullmatch(
        rf"copied: the kernel wrong\.<locals>\.copied \({place}\d+\) differs from its reference: at \[1, 3\] it "
        r"gives 7 instead of 8; 1 of 12 elements differ by more than 1\.1e-05",
        str(caught.value),
    )
    np.testing.assert_array_equal(wrong(1e-6)(x), x)
    with pytest.raises(OperatorError, match=r"at \[0, 0\] it gives 0 instead of nan; 12 of 12 elements"):
        wrong(0, odd=True)(x)


@pytest.mark.parametrize(
    ("offset", "text"), [(1, "writes behind output 0, outside of its memory"), (-1, "writes before output 0")]
)
def test_a_write_outside_is_told(offset: int, text: str) -> None:
    shifted = Shifted(offset)

    @cenote.jit_kernel(types=lambda x: x, reference=lambda x: x, check=True)
    def copied(target: Any, x: View, y: View) -> Call:
        return Call.named(shifted, {"x": x, "y": y}, items=x.type.size)

    with pytest.raises(OperatorError, match=rf"copied: the kernel .*copied \(.*:\d+\) {text}"):
        copied(X)


def test_a_read_outside_spoils_the_result() -> None:
    @cenote.jit_kernel(types=lambda x: x, reference=lambda x: x, check=True)
    def copied(target: Any, x: View, y: View) -> Call:
        return Call.named(Shifted(0, 1), {"x": x, "y": y}, items=x.type.size)

    with pytest.raises(
        OperatorError, match=r"differs from its reference: at \[3\] it gives nan instead of 1"
    ):
        copied(X)


def test_the_reference_is_asked_once_per_signature() -> None:
    calls: list[Any] = []

    @cenote.jit_elementwise(reference=lambda x: calls.append(x.shape) or x, check=True)
    def copied(k: Kernel, x: Value) -> Value:
        return x

    for shape in ((3,), (3,), (4,), (3,)):
        copied(np.zeros(shape, np.float32))
    assert calls == [(3,), (4,)]


def call_of_nothing(target: Any, x: Any, y: Any) -> Any:
    return None


def fails(k: Kernel, x: Value) -> Any:
    return x.nothing


def truth(k: Kernel, x: Value) -> Any:
    return x if x > 0 else -x


def no_value(k: Kernel, x: Value) -> Any:
    return 0.0


def mixed(k: Kernel, x: Value, y: Value) -> Any:
    return x + y


def elementwise(function: Any) -> Any:
    return cenote.jit_elementwise(reference=lambda *x: x[0])(function)


X = np.ones(4, np.float32)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: soft_threshold(), ArgumentError, "soft_threshold: takes 1 arrays (x), got 0"),
        (lambda: soft_threshold(X, X), ArgumentError, "soft_threshold: takes 1 arrays (x), got 2"),
        (lambda: soft_threshold(X, alpha=1), ArgumentError, "there is no argument 'alpha' (numbers: threshold)"),
        (lambda: soft_threshold(X, threshold="a"), ArgumentError, "'threshold' is 'a', which is no number"),
        (lambda: dequantized(X, scale=1), ArgumentError, "dequantized: argument 'zero' is missing"),
        (lambda: soft_threshold([1.0]), InputError, "soft_threshold: x is a list; pass a NumPy array"),
        (lambda: soft_threshold(X.astype(complex)), DTypeError, "kernels have no elements of type complex128"),
        (lambda: soft_threshold(X, out=np.ones(5, np.float32)), ArgumentError, "out must have shape [4], got [5]"),
        (lambda: soft_threshold(X, threads=-1), ArgumentError, "soft_threshold: "),
        (lambda: elementwise(mixed)(X, X[:3]), ShapeError, "mixed: y has shape [3], x [4]"),
        (lambda: elementwise(mixed)(X, X.astype(int)), CodegenError, f"mixed: mixed ({__file__}:"),
        (lambda: elementwise(fails)(X), CodegenError, f"fails: fails ({__file__}:"),
        (lambda: elementwise(truth)(X), CodegenError, "truth: "),
        (lambda: elementwise(no_value)(X), CodegenError, "no_value: "),
        (lambda: row_sums(X), ShapeError, "row_sums: x is f32[4], not a matrix of float32"),
        (lambda: elementwise(lambda k: k), ArgumentError, "<lambda> ("),
        (lambda: elementwise(3), ArgumentError, "3 is no function under `def`"),
        (lambda: cenote.jit_elementwise(reference=3)(mixed), ArgumentError, "reference: 3 is no function"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told(call: Any, error: type[CenoteError], text: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)


def test_errors_of_formulas_name_the_line() -> None:
    with pytest.raises(
        CodegenError, match=r"'Value' object has no attribute 'nothing' \(.*test_kernel_functions.py:\d+\)"
    ):
        elementwise(fails)(X)
    with pytest.raises(CodegenError, match=r"is not known yet: use k\.select"):
        elementwise(truth)(X)
    with pytest.raises(CodegenError, match="operands f32 and i64 differ"):
        elementwise(mixed)(X, X.astype(np.int64))
    with pytest.raises(CodegenError, match=r"returned 0\.0; return the value of an output"):
        elementwise(no_value)(X)


@pytest.mark.parametrize(
    ("types", "function", "text"),
    [
        (lambda x: x, call_of_nothing, "returned None, not a Call"),
        (lambda x: None, call_of_nothing, "returned None, not types of the outputs"),
        (lambda x: (x, x), call_of_nothing, "takes 2 views, not one for each of 1 inputs and 2 outputs"),
    ],
)
def test_calls_and_types_that_are_none(types: Any, function: Any, text: str) -> None:
    made = cenote.jit_kernel(types=types, reference=lambda x: x)(function)
    with pytest.raises(OperatorError, match=re.escape(text)):
        made(X)


def test_a_reference_of_another_shape() -> None:
    @cenote.jit_elementwise(reference=lambda x: x[:2], check=True)
    def copied(k: Kernel, x: Value) -> Value:
        return x

    with pytest.raises(OperatorError, match=r"the reference .* gives shape \[2\], the kernel \[4\]"):
        copied(X)


def test_two_definitions_of_one_name_are_two_kernels() -> None:
    def scaled(by: float) -> Any:
        @cenote.jit_elementwise(reference=lambda x: x * by, check=True)
        def of(k: Kernel, x: Value) -> Value:
            return x * by

        return of

    assert scaled(2.0)(X).tolist() == [2] * 4
    assert scaled(3.0)(X).tolist() == [3] * 4


def test_what_is_shown() -> None:
    assert soft_threshold.__doc__ == "Move towards zero."
    assert re.fullmatch(r"ElementwiseFunction\(soft_threshold \(.*kernels\.py:\d+\)\)", repr(soft_threshold))
