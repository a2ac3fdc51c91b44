"""Calls of cenote.functional on arrays beside forbidden pages: with and without `out`, odd strides, absurd arguments.

A call must raise an error of Cenote, or give what the operator's reference gives, the same bits for any number of
threads and with `out`, and leave its inputs alone.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import cenote.functional as F
from cenote.core.errors import CenoteError
from cenote.functional import callers, dispatch
from cenote.ops.base import Op
from tests.fuzz.case import Finding, generator
from tests.fuzz.guard import Fence
from tests.fuzz.pool_arguments import Shaper, arguments, shape_of, values

SHARED = 64  # cases that share what decides about kernels
MOST = 20_000  # elements of a result that is compared with the reference
RELATIVE = {"float64": 1e-9, "float32": 2e-4, "float16": 2e-2, "bfloat16": 6e-2}


class Functional:
    name = "functional"
    limit = 20.0

    def __init__(self) -> None:
        self.fence = Fence()
        self.prepared: list[tuple[Op, tuple[Any, ...]]] = []

    def prepare(self) -> None:
        """Listen in on which operator a call becomes."""
        real = dispatch.prepared_runner

        def listening(op: Op, types: Any, *rest: Any) -> Any:
            self.prepared.append((op, types))
            return real(op, types, *rest)

        dispatch.prepared_runner = listening

    def close(self) -> None:
        self.fence.clear()

    def run(self, seed: int) -> str:
        shaper = Shaper(generator(self.name, seed // SHARED, "kernel"))
        rng = generator(self.name, seed)
        self.fence.clear()
        callers.forget()
        x = self.view(values(shape_of(shaper, rng), shaper.dtype, rng, shaper.large), rng)
        given = arguments(shaper, rng)
        shown = f"F.{shaper.name}({x.dtype}{list(x.shape)} strides {list(x.strides)}, {given})"
        try:
            with np.errstate(all="ignore"):
                return self.forward(shaper, rng, x, given)
        except CenoteError as error:
            if not str(error):
                raise Finding(f"{shown}: an error without a message") from error
            return "refused"
        except Exception as error:
            error.add_note(shown)
            raise

    def view(self, x: Any, rng: random.Random) -> Any:
        """The same values between forbidden pages: as they are, transposed, reversed, with gaps, read-only."""
        if x.dtype.kind == "O" or not x.ndim:
            return x
        kind = rng.random()
        if kind < 0.7 or not x.size:
            made = self.fence.copy(x, rng)
        elif kind < 0.8:
            made = np.moveaxis(self.fence.copy(np.moveaxis(x, 1 % x.ndim, -1), rng), -1, 1 % x.ndim)
        elif kind < 0.9:
            made = self.fence.copy(x[..., ::-1], rng)[..., ::-1]
        else:
            wide = self.fence.empty((*x.shape[:-1], x.shape[-1] * 2 - 1), x.dtype, rng)
            made = wide[..., ::2]
            made[...] = x
        if rng.random() < 0.1:
            made.flags.writeable = False
        return made

    def forward(self, shaper: Shaper, rng: random.Random, x: Any, given: dict[str, Any]) -> str:
        inputs = [x]
        if "unpool" in shaper.name:
            inputs.append(self.indices(x, given, rng))
        results = self.check(getattr(F, shaper.name), inputs, given, rng)
        if rng.random() < 0.35 and isinstance(results[0], np.ndarray):
            self.backward(shaper, rng, inputs, given, results)
            return "forward and backward"
        return "forward"

    def indices(self, x: Any, given: dict[str, Any], rng: random.Random) -> Any:
        highest = rng.choice((4, x.size + 1, x.size * 8 + 1, 1 << 62))
        low = -highest if rng.random() < 0.1 else 0
        found = np.random.default_rng(rng.getrandbits(60)).integers(low, highest, x.shape)
        return self.view(found, rng)

    def backward(
        self, shaper: Shaper, rng: random.Random, inputs: list[Any], given: dict[str, Any], results: list[Any]
    ) -> None:
        function = getattr(F, f"{shaper.name}_backward", None)
        if function is None:
            return
        shape = results[0].shape if rng.random() < 0.95 else (*results[0].shape, 1)
        grad = self.view(values(shape, results[0].dtype, rng, shaper.large), rng)
        if "fractional" in shaper.name:
            if len(results) < 2:
                return
            indices = self.view(results[1], rng)
            layout = {"layout": given["layout"]} if "layout" in given else {}
            self.check(function, [grad, inputs[0], indices], layout, rng)
            return
        if shaper.name.startswith(("max_pool", "min_pool")) and len(results) == 2 and rng.random() < 0.5:
            given = {**given, "indices": self.view(results[1], rng)}
        self.check(function, [grad, *inputs], given, rng)

    def check(self, function: Any, inputs: list[Any], given: dict[str, Any], rng: random.Random) -> list[Any]:
        """Call it in several ways, which must agree; the results."""
        before = [x.tobytes() for x in inputs]
        self.prepared.clear()
        made = function(*inputs, **given)
        results = list(made) if isinstance(made, tuple) else [made]
        if not self.prepared:
            raise Finding(f"{function.__name__} has been prepared unheard: nothing to compare it with")
        self.against_reference(function, inputs, results)
        self.with_out(function, inputs, given, results, rng)
        if "threads" not in given and rng.random() < 0.2:
            for threads in (1, 2):
                again = function(*inputs, **given, threads=threads)
                same(again, results, f"{threads} threads")
        if before != [x.tobytes() for x in inputs]:
            raise Finding("an input was written to")
        return results

    def with_out(
        self, function: Any, inputs: list[Any], given: dict[str, Any], results: list[Any], rng: random.Random
    ) -> None:
        if any(y.dtype.kind == "O" for y in results) or rng.random() < 0.3:
            return
        if rng.random() < 0.12:
            self.with_wrong_out(function, inputs, given, results, rng)
            return
        out = [self.view(np.zeros(y.shape, y.dtype), random.Random(rng.random())) for y in results]
        for array in out:
            if array.base is not None and not array.flags.writeable:
                array.flags.writeable = True
        function(*inputs, **given, out=tuple(out) if len(out) > 1 else out[0])
        same(out, results, "out")

    def with_wrong_out(
        self, function: Any, inputs: list[Any], given: dict[str, Any], results: list[Any], rng: random.Random
    ) -> None:
        """An `out` that does not fit must be refused, or filled rightly. One that lies in an input may change that."""
        y, inputs = results[0], [x.copy() for x in inputs]
        wrong: list[Any] = [
            np.zeros((*y.shape, 2), y.dtype), np.zeros(y.size, y.dtype), np.zeros(y.shape, np.int16), inputs[0], None,
            3, np.broadcast_to(np.zeros((), y.dtype), y.shape), [y], (y, y, y), "x", np.zeros(y.shape, ">f4"),
            np.lib.stride_tricks.as_strided(np.zeros(max(1, y.size), y.dtype), y.shape, [y.itemsize] * y.ndim),
        ]  # fmt: skip
        if inputs[0].dtype == y.dtype and inputs[0].size >= y.size > 0 and inputs[0].flags.c_contiguous:
            wrong.append(inputs[0].reshape(-1)[: y.size].reshape(y.shape))
        out = rng.choice(wrong)
        made = function(*inputs, **given, out=out)
        if out is not None:
            same(made, results, f"an out of {type(out).__name__} {getattr(out, 'shape', '')}")

    def against_reference(self, function: Any, inputs: list[Any], results: list[Any]) -> None:
        """Compare with the operator's own definition where that is quick."""
        if len(self.prepared) != 1 or sum(y.size for y in results) > MOST:
            return
        (op, types), reads = self.prepared[0], inputs
        if len(types) != len(reads):
            return
        if any(
            t.size != x.size or t.dtype != x.dtype.newbyteorder("=")
            for t, x in zip(types, reads, strict=True)
        ):
            return
        if any(t.shape[-1] != x.shape[-1] or is_channels_last(x) for t, x in zip(types, reads, strict=True)):
            return  # computed as channels-last, or for a map without channels
        arrays = [
            np.ascontiguousarray(x, t.dtype).reshape(t.shape) for t, x in zip(types, reads, strict=True)
        ]
        for y, wanted in zip(results, op.reference(*arrays), strict=True):
            wanted = wanted.reshape(y.shape)
            if "backward" in function.__name__ and ("lp_" in function.__name__ or "gem" in function.__name__):
                # Of an infinite element in no window: 0 by the reference, infinity times 0 in kernels and torch.
                wanted = np.where(np.isfinite(inputs[1]), wanted, y)
            close(y, wanted, f"{function.__name__} is not its reference")


def is_channels_last(x: Any) -> bool:
    """Row-major once the channels go last, as PyTorch's channels_last tensors."""
    return x.ndim > 2 and not x.flags.c_contiguous and bool(np.moveaxis(x, 1, -1).flags.c_contiguous)


def same(made: Any, results: list[Any], what: str) -> None:
    """Finding unless the bits are the same."""
    again = list(made) if isinstance(made, tuple | list) else [made]
    for y, wanted in zip(again, results, strict=True):
        if y.tobytes() != wanted.tobytes():
            places = np.argwhere(
                np.asarray(y != wanted) & ~(np.isnan(y) & np.isnan(wanted))
                if y.dtype.kind == "f"
                else y != wanted
            )
            raise Finding(
                f"with {what} the result has other bits, first at {places[:1].tolist()} of {y.shape}"
            )


def close(y: Any, wanted: Any, what: str) -> None:
    """Finding unless equal (integers) or nearly so (floats), NaN where NaN is wanted."""
    relative = RELATIVE.get(y.dtype.name, 0.0)
    if not relative:
        if not np.array_equal(y, wanted):
            raise Finding(f"{what}: {y.ravel()[:6]} where {wanted.ravel()[:6]} was wanted")
        return
    a, b = y.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(b)
    largest = float(np.abs(b[finite]).max(initial=1e-30))
    limit = (
        float(np.finfo(np.float64).max)
        if relative < 1e-6
        else {2e-4: 3.4e38, 2e-2: 6.55e4, 6e-2: 3.3e38}[relative]
    )
    near = np.isclose(a, b, rtol=relative, atol=relative * min(largest, 1e30), equal_nan=True)
    edge = (np.abs(a) > limit * 0.99) & (np.abs(b) > limit * 0.99) & (np.sign(a) == np.sign(b))
    if not (near | edge).all():
        place = tuple(np.argwhere(~(near | edge))[0])
        raise Finding(
            f"{what}: {a[place]} where {b[place]} was wanted, at {[int(i) for i in place]} of {y.dtype}{list(y.shape)}"
        )


KIND = Functional()
