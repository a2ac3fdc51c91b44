"""Second and later calls of functions on arrays: by a builtin that knows them, and through Python alone."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cenote.functional as F
from cenote.core.errors import ArgumentError, CenoteError, InputError
from cenote.core.types import BFLOAT16
from cenote.functional import callers
from cenote.kernels import builtin
from cenote.kernels.builtin import Builtin
from cenote.runtime import objects
from cenote.runtime.layouts import FUNCTION, KNOWN
from tests.functional.inputs import noise

NATIVE = pytest.mark.skipif(not Builtin.is_possible(), reason="the interpreter takes no builtins of ours")


@pytest.fixture(params=[pytest.param("builtin", marks=NATIVE), "python"])
def way(request: pytest.FixtureRequest, prepared_anew: None, monkeypatch: pytest.MonkeyPatch) -> str:
    """Calls in both ways, none of them prepared yet."""
    if request.param == "python":
        monkeypatch.setattr(Builtin, "is_possible", staticmethod(lambda: False))
    return str(request.param)


def caller_of(function: Any) -> callers.Caller:
    """Caller of a function, which has run twice, at least."""
    slow = function.__globals__["call"].__self__[1]
    assert isinstance(slow.__self__, callers.Caller)
    return slow.__self__


def known_of(function: Any) -> list[builtin.KnownCall]:
    made = caller_of(function)._builtin
    assert made is not None
    return made._known


def thrice(function: Callable[[], Any]) -> list[Any]:
    """Results of a call that is prepared, one that is learnt, and one that is known."""
    return [function() for _ in range(3)]


def test_every_call_gives_the_same(way: str) -> None:
    x, y = noise(3, 4), noise(4, 3)
    maps = noise(1, 2, 6, 6)
    calls: tuple[Callable[[], Any], ...] = (
        lambda: F.relu(x), lambda: F.add(x, 2.5), lambda: F.add(2, x), lambda: F.add(x, y.T), lambda: F.matmul(x, y),
        lambda: F.matmul(y.T, x.T), lambda: F.max_pool2d(maps, 2), lambda: F.softmax(x, 1), lambda: F.neg(x[0, 0:1]),
        lambda: F.relu(x.astype(BFLOAT16)), lambda: F.add(x, np.float32(3)), lambda: F.relu(np.array(-2.0)),
        lambda: F.relu(x[::2, ::-1]), lambda: F.relu(x.astype(">f4")), lambda: F.fused(lambda v: F.sigmoid(v) * 2.0)(x),
    )  # fmt: skip
    for call in calls:
        first, *others = thrice(call)
        for other in others:
            assert other is not first
            assert (other.dtype, other.shape, other.strides) == (first.dtype, first.shape, first.strides)
            assert other.tobytes() == first.tobytes()
    np.testing.assert_array_equal(F.relu(x), np.maximum(x, 0))
    for pair in thrice(lambda: F.max_pool2d(maps, 2, return_indices=True)):
        assert type(pair) is tuple
        np.testing.assert_array_equal(pair[0], F.max_pool2d(maps, 2))
        np.testing.assert_array_equal(maps[0, 0].ravel()[pair[1][0, 0]], pair[0][0, 0])


@NATIVE
@pytest.mark.parametrize("dtype", ["<f4", ">f4", np.dtype(np.float32).newbyteorder("=")], ids=str)
def test_first_results_are_memory_of_known_calls(prepared_anew: None, dtype: Any) -> None:
    """The first call's result has the very type that NumPy gives its arrays, so that known calls take it."""
    x = noise(3, 4).astype(dtype)
    first = F.abs(x)
    assert first.dtype is np.dtype(np.float32)
    plain = noise(3, 4)
    out = F.relu(plain)
    thrice(lambda: F.relu(plain, out=out))
    seen: list[str] = []
    sys.setprofile(lambda frame, event, _: seen.append(frame.f_code.co_name) if event == "call" else None)
    try:
        F.relu(plain, out=out)
        F.relu(out, out=out)
    finally:
        sys.setprofile(None)
    assert seen == ["relu", "relu"]


@NATIVE
def test_the_third_call_runs_no_python(prepared_anew: None) -> None:
    x = noise(3, 4)
    thrice(lambda: F.relu(x))
    thrice(lambda: F.add(x, 2.5))
    seen: list[str] = []
    sys.setprofile(lambda frame, event, _: seen.append(frame.f_code.co_name) if event == "call" else None)
    try:
        F.relu(x)
        F.add(x, 2.5)
        F.relu(x, out=x)
    finally:
        sys.setprofile(None)
    assert seen == ["relu", "add", "relu"]


def test_other_arrays_are_other_calls(way: str) -> None:
    """One that differs from a known call in nothing but this."""
    x = noise(4, 6)
    thrice(lambda: F.relu(x))
    for other in (x.T, x[:, ::-1], x[::2], x[:, :5], x.reshape(24), x.reshape(2, 12), x.astype(np.float64)):
        for y in thrice(lambda other=other: F.relu(other)):
            np.testing.assert_array_equal(y, np.maximum(other, 0))
    assert type(F.relu(x.view(np.matrix))) is np.ndarray
    with pytest.raises(InputError, match="masked"):
        F.relu(np.ma.masked_array(x, x > 0))
    for wrong in (None, [1.0, 2], "x", 3.0):
        with pytest.raises(InputError, match=r"^relu: "):
            F.relu(wrong)


def test_equal_arguments_are_told_apart(way: str) -> None:
    """1, 1.0 and True are equal, 0.0 and -0.0 too, and a list may change."""
    x = noise(1, 1, 6, 6)
    thrice(lambda: F.max_pool2d(x, 1))
    for wrong in (1.0, True):
        with pytest.raises(ArgumentError, match="kernel_size"):
            F.max_pool2d(x, wrong)
    zeros = np.zeros(3, np.float32)
    for _ in range(3):
        assert not np.signbit(F.hardtanh(zeros - 1, 0.0, 1.0)).any()
        assert np.signbit(F.hardtanh(zeros - 1, -0.0, 1.0)).all()
    window = [2, 2]
    assert [y.shape for y in thrice(lambda: F.max_pool2d(x, window))] == [(1, 1, 3, 3)] * 3
    window[:] = 3, 1
    assert [y.shape for y in thrice(lambda: F.max_pool2d(x, window))] == [(1, 1, 2, 6)] * 3
    for size in (2, 3, 2, 3):
        assert F.max_pool2d(x, (size, *[size])).shape == (1, 1, 6 // size, 6 // size)
    assert F.max_pool2d(x, 2, threads=1).tobytes() == F.max_pool2d(x, 2, threads=2).tobytes()
    with pytest.raises(ArgumentError, match="threads"):
        F.max_pool2d(x, 2, threads=True)


def test_out_is_looked_at_in_every_call(way: str) -> None:
    x = noise(4, 6)
    wanted = np.maximum(x, 0)
    memory = np.zeros(200, np.uint8)
    out, odd = np.full((4, 6), 7, np.float32), memory[1:97].view(np.float32).reshape(4, 6)
    frozen = out.copy()
    frozen.flags.writeable = False
    for _ in range(3):
        assert F.relu(x, out=out) is out
        np.testing.assert_array_equal(out, wanted)
        out[...] = 7
        for wrong in (
            frozen,
            out[:2],
            out.T,
            out.astype(np.float64),
            x.base[1:] if x.base is not None else [out],
            3,
        ):
            with pytest.raises(CenoteError, match=r"^relu: out"):
                F.relu(x, out=wrong)
        assert F.relu(x, out=odd) is odd
        np.testing.assert_array_equal(odd, wanted)
        turned = np.full((6, 4), 7, np.float32)
        F.relu(x, out=turned.T)
        np.testing.assert_array_equal(turned.T, wanted)


def test_out_may_be_an_input_but_not_a_part_of_it(way: str) -> None:
    line = noise(30)
    a, b = line[:20], line[10:]
    for _ in range(3):
        with pytest.raises(ArgumentError, match="overlaps"):
            F.relu(a, out=b)
        x = line[:20].copy()
        assert F.relu(x, out=x) is x
        np.testing.assert_array_equal(x, np.maximum(a, 0))
    square = noise(5, 5)
    for _ in range(3):
        with pytest.raises(ArgumentError, match="overlaps"):
            F.matmul(square, square, out=square)


def test_nothing_is_kept_of_a_call(way: str) -> None:
    """Reference counts, and arrays that nobody holds."""
    x, out, arguments = noise(3, 4), np.empty((3, 4), np.float32), (7, 2.5)
    for _ in range(3):
        F.relu(x), F.relu(x, out=out), F.add(x, arguments[1])
        F.max_pool2d(x, 2, return_indices=True)
        F.matmul(x, x.T)
    watched = (x, out, arguments[1], x.dtype, None, np.empty, (2, 2))
    gc.collect()
    before = [sys.getrefcount(each) for each in watched]
    for _ in range(1000):
        F.relu(x), F.relu(x, out=out), F.add(x, arguments[1])
        F.max_pool2d(x, (2, 2), return_indices=True)
        with pytest.raises(CenoteError):
            F.relu(x, out=3)
    gc.collect()
    after = [sys.getrefcount(each) for each in watched]
    assert all(abs(a - b) < 200 for a, b in zip(after, before, strict=True))
    y = F.relu(x)
    assert sys.getrefcount(y) == 2


@NATIVE
def test_a_function_that_runs_itself_while_it_runs(
    prepared_anew: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a finaliser does that the garbage collector starts when memory for the result is made."""
    x, inner = noise(3, 4), noise(3, 4) + 1
    thrice(lambda: F.relu(x))
    (known,) = known_of(F.relu)
    found: list[Any] = []

    def empty(shape: Any, dtype: Any) -> Any:
        found.append(F.relu(inner))
        callers.forget()  # nothing but the call itself holds the record now
        gc.collect()
        return np.full(shape, 9, dtype)

    known.memory[KNOWN.empty] = id(empty)
    del known
    np.testing.assert_array_equal(F.relu(x), np.maximum(x, 0))
    np.testing.assert_array_equal(found[0], np.maximum(inner, 0))


@NATIVE
@pytest.mark.parametrize("failing", [0, 1])
def test_no_memory_for_a_result(prepared_anew: None, failing: int) -> None:
    """The error is the caller's, and the next call is right."""
    x = noise(1, 1, 4, 4)
    results = thrice(lambda: F.max_pool2d(x, 2, return_indices=True))
    (known,) = known_of(F.max_pool2d)
    made: list[Any] = []

    def empty(shape: Any, dtype: Any) -> Any:
        if len(made) == failing:
            raise MemoryError("no room")
        made.append(np.empty(shape, dtype))
        return made[-1]

    known.memory[KNOWN.empty] = id(empty)
    with pytest.raises(CenoteError, match=r"^max_pool2d: .*memory"):
        F.max_pool2d(x, 2, return_indices=True)
    assert [sys.getrefcount(y) for y in made] == [3] * failing  # the list's, the variable's, the argument's
    known.memory[KNOWN.empty] = id(np.empty)
    assert known.memory[KNOWN.busy] == 0
    for got, wanted in zip(F.max_pool2d(x, 2, return_indices=True), results[0], strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("short", [True, False])
def test_many_threads_at_once(way: str, short: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the GIL and, as longer kernels do, without: no answer is lost or mixed up."""
    monkeypatch.setattr(builtin, "_SHORT", 1.0 if short else -1.0)
    x = noise(16, 16)
    wrong: list[int] = []

    def work(number: int) -> None:
        mine = x + number
        wanted = np.maximum(mine, number)
        for _ in range(200):
            if not np.array_equal(F.maximum(mine, np.float32(number)), wanted):
                wrong.append(number)

    thrice(lambda: F.maximum(x, np.float32(0)))
    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@NATIVE
def test_sizes_without_end(prepared_anew: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many calls are known; when others have long been made, all are forgotten."""
    monkeypatch.setattr(callers, "MOST_KNOWN", 4)
    monkeypatch.setattr(callers, "_PATIENCE", 3)
    lines = [noise(size) for size in range(1, 8)]
    for x in lines:
        for y in thrice(lambda x=x: F.relu(x)):
            np.testing.assert_array_equal(y, np.maximum(x, 0))
    assert len(known_of(F.relu)) <= 4
    assert len(caller_of(F.relu)._known) == len(known_of(F.relu))
    x = lines[-1]
    for _ in range(3):
        F.relu(x)
    assert any(known.memory[KNOWN.inputs] == 1 for known in known_of(F.relu))


@NATIVE
def test_what_is_no_call_goes_to_python(prepared_anew: None) -> None:
    """The builtin itself is within reach of callers."""
    x = noise(3)
    thrice(lambda: F.relu(x))
    call = F.relu.__globals__["call"]
    for wrong in ((), ((x,),), ((x,), ("relu", (None,)), None), ((x,), ("relu", (None,)), None, None, 1)):
        with pytest.raises(TypeError, match="argument"):
            call(*wrong)
    with pytest.raises(TypeError, match="keyword"):
        call((x,), ("relu", (None,)), out=None, threads=None)
    with pytest.raises(CenoteError):
        call((3,), ("relu", (None,)), None, None)
    np.testing.assert_array_equal(call((x,), ("relu", (None,)), None, None), np.maximum(x, 0))


def test_fields_are_tested_before_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interpreter whose objects look otherwise has no builtins."""
    if not objects.natives_take_objects():
        pytest.skip("not here")
    for field in objects.ArrayFields._fields:
        moved = objects.ARRAY_FIELDS._replace(**{field: getattr(objects.ARRAY_FIELDS, field) + 8})
        with monkeypatch.context() as patch:
            patch.setattr(objects, "ARRAY_FIELDS", moved)
            assert not objects.natives_take_objects.__wrapped__(), field
    with monkeypatch.context() as patch:
        patch.setattr(objects, "NEEDED", (*objects.NEEDED, "PyObject_OfNoPython"))
        assert not objects.natives_take_objects.__wrapped__()


def test_nothing_is_known_after_all_is_forgotten(way: str) -> None:
    x = noise(5)
    thrice(lambda: F.relu(x))
    if way == "builtin":
        assert len(known_of(F.relu)) == 1
        callers.forget()
        assert not known_of(F.relu)
        made = caller_of(F.relu)._builtin
        assert made is not None
        assert made._memory[FUNCTION.first] == 0
    np.testing.assert_array_equal(F.relu(x), np.maximum(x, 0))
