"""Calls of the functions of cenote.functional that are no pools, whose arguments are turned into something else.

What is left valid must give the same bits for any strides, for any number of threads and with `out`; what is not must
raise an error of Cenote. Inputs lie beside forbidden pages and stay as they are.
"""

from __future__ import annotations

import copy
import random
import re
from typing import Any

import numpy as np

import cenote.functional as F
from cenote.core.errors import CenoteError
from cenote.core.types import BFLOAT16
from tests.fuzz.call_samples import samples
from tests.fuzz.case import Finding, generator
from tests.fuzz.guard import Fence

TYPES = (np.float32, np.float32, np.float64, np.float16, BFLOAT16)
RANDOM = ("dropout", "depth")
# Reads transposed views where they lie, in blocks of another size.
ANY_ORDER = ("scaled_dot_product_attention",)
# What Python itself says of a call that does not fit a signature, or of a text that is no text.
SIGNATURE = re.compile(r"argument|takes \d+ positional")


ABSURD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 7, 1 << 31, 1 << 63, -(1 << 63), (1 << 64) - 1, 10**400, -(10**400), 0.0, -0.0, 0.5,
    -1.5, float("nan"), float("inf"), -float("inf"), 1e308, 1e-320, "x", "", "mean", b"x", 1j, (), [], {}, [1], (1, 2),
    [[1], [2]], (-1, 0, 1, 2, 3, 4, 5, 6, 7, 8), (1 << 62,) * 2, [None], ["a", 1], (0.5, 2), object(), {1}, range(3),
    np.float32(2), np.int8(3), np.bool_(True), np.longdouble(2), np.str_("x"), np.float64("nan"),
    np.datetime64("2020"), len, F, Ellipsis, slice(None),
)  # fmt: skip
OTHER_TYPES: tuple[Any, ...] = (
    np.int8, np.uint8, np.int32, np.int64, np.uint64, np.float16, np.float64, np.bool_, BFLOAT16, np.complex64, object,
    "S3", "U2", ">f4", ">i8", "datetime64[s]", np.longdouble,
)  # fmt: skip


def absurd(rng: random.Random) -> Any:
    """Something that hardly any argument takes."""
    return rng.choice(ABSURD)


def odd_array(x: Any, rng: random.Random) -> Any:
    """Another array in the place of one."""
    kind = rng.randrange(14)
    if kind < 5:
        target = rng.choice(OTHER_TYPES)
        return (
            np.nan_to_num(x.astype(np.float32)).astype(target)
            if target != "datetime64[s]"
            else x.astype(int).astype(target)
        )
    if kind == 5:
        return x.reshape(-1)
    if kind == 6:
        return x[..., None]
    if kind == 7:
        return x[:0]
    if kind == 8:
        return np.array(x.reshape(-1)[0] if x.size else 0, x.dtype)
    if kind == 9:
        return x.tolist()
    if kind == 10:
        return np.concatenate([x, x], 0) if x.ndim else x
    if kind == 11:
        return np.full_like(
            x, rng.choice((127, -128, 100)) if x.dtype.kind in "iu" else rng.choice((np.nan, np.inf, -1))
        )
    if kind == 12:
        return np.zeros((1,) * rng.choice((7, 20, 33, 60)), x.dtype)
    return x.swapaxes(0, -1) if x.ndim else x


class Calls:
    name = "calls"
    limit = 20.0

    def __init__(self) -> None:
        self.fence = Fence()

    def prepare(self) -> None:
        for name in F.__all__:
            getattr(F, name)

    def close(self) -> None:
        self.fence.clear()

    def run(self, seed: int) -> str:
        rng = generator(self.name, seed)
        source = np.random.default_rng(rng.getrandbits(60))
        found = samples(source, np.dtype(rng.choice(TYPES)))
        name = rng.choice(sorted(found))
        arguments, keywords = found[name]
        self.fence.clear()
        given, more = list(arguments), dict(keywords)
        for _ in range(rng.choice((0, 0, 1, 1, 2))):
            self.spoil(given, more, rng)
        text = f"F.{name}({', '.join(map(_shown, given))}, {', '.join(f'{k}={_shown(v)}' for k, v in more.items())})"
        try:
            with np.errstate(all="ignore"):
                return self.call(name, given, more, rng)
        except CenoteError as error:
            if not str(error):
                raise Finding(f"{text}: an error without a message") from error
            return "refused"
        except TypeError as error:
            if (
                SIGNATURE.search(str(error))
                and error.__traceback__
                and error.__traceback__.tb_next
                and (error.__traceback__.tb_next.tb_next is None)
            ):
                return "not in the signature"
            error.add_note(text)
            raise
        except Exception as error:
            error.add_note(text)
            raise

    def spoil(self, given: list[Any], more: dict[str, Any], rng: random.Random) -> None:
        """Turn one argument into something else."""
        place: Any = rng.choice((*range(len(given)), *more, "threads", "out"))
        holder: Any = more if isinstance(place, str) else given
        was = holder.get(place) if isinstance(place, str) else holder[place]
        if isinstance(was, np.ndarray) and rng.random() < 0.7:
            holder[place] = odd_array(was, rng)
        elif isinstance(was, list) and was and rng.random() < 0.6:
            at = rng.randrange(len(was))
            was[at] = (
                odd_array(was[at], rng)
                if isinstance(was[at], np.ndarray) and rng.random() < 0.6
                else absurd(rng)
            )
        elif isinstance(was, tuple) and was and rng.random() < 0.6:
            items = list(was)
            items[rng.randrange(len(items))] = absurd(rng)
            holder[place] = tuple(items)
        else:
            holder[place] = absurd(rng)

    def call(self, name: str, given: list[Any], more: dict[str, Any], rng: random.Random) -> str:
        function = getattr(F, name)
        before = copy.deepcopy([x for x in given if isinstance(x, np.ndarray)])
        plain = function(*given, **more)
        after = [x for x in given if isinstance(x, np.ndarray)]
        in_place = (
            more.get("inplace")
            or "out" in more
            or (len(given) > 3 and name in ("instance_norm", "batch_norm"))
        )
        if not in_place:
            for x, was in zip(after, before, strict=True):
                if x.dtype.kind != "O" and x.tobytes() != was.tobytes():
                    raise Finding("an input was written to")
        if (
            in_place
            or (any(word in name for word in RANDOM) and more.get("seed") is None)
            or "threads" in more
        ):
            return "ran"
        if name in ANY_ORDER:
            return self.with_out(function, given, more, plain, rng)
        views = [self.view(x, rng) for x in given]
        same(function(*views, **more), plain, f"{name} of views {[_shown(x) for x in views]}")
        same(
            function(*given, **more, threads=2), function(*given, **more, threads=1), f"{name} by two threads"
        )
        return self.with_out(function, given, more, plain, rng)

    def with_out(
        self, function: Any, given: list[Any], more: dict[str, Any], plain: Any, rng: random.Random
    ) -> str:
        results = plain if isinstance(plain, tuple) else (plain,)
        if "out" not in (function.__kwdefaults__ or {}) or not all(
            isinstance(y, np.ndarray) and y.dtype.kind != "O" for y in results
        ):
            return "ran"
        out = []
        for y in results:
            made = (
                self.fence.empty((*y.shape[:-1], y.shape[-1] * 2), y.dtype, rng)[..., ::2]
                if y.ndim and rng.random() < 0.4
                else self.fence.empty(y.shape, y.dtype, rng)
            )
            out.append(made)
        target = tuple(out) if isinstance(plain, tuple) else out[0]
        if function(*given, **more, out=target) is not target:
            raise Finding("out is not what is returned")
        same(target, plain, "with out the result")
        self.overlapping(function, given, more, results, rng)
        return "ran"

    def overlapping(
        self,
        function: Any,
        given: list[Any],
        more: dict[str, Any],
        results: tuple[Any, ...],
        rng: random.Random,
    ) -> None:
        """Refused, or right."""
        for place, x in enumerate(given):
            if len(results) > 1 or not isinstance(x, np.ndarray) or x.dtype != results[0].dtype or not x.size:
                continue
            y = results[0]
            whole = np.resize(x, (x.size + max(y.size, x.size),))
            copied = whole[: x.size].reshape(x.shape)
            copied[...] = x
            shift = rng.choice((0, 0, 1, x.size // 2))
            target = whole[shift : shift + y.size].reshape(y.shape)
            try:
                function(*given[:place], copied, *given[place + 1 :], **more, out=target)
            except CenoteError:
                continue
            same(target, y, f"with out over argument {place}, {shift} elements on, the result")

    def view(self, x: Any, rng: random.Random) -> Any:
        """The same values, in another order of memory."""
        if isinstance(x, list):
            return [self.view(item, rng) for item in x]
        if (
            not isinstance(x, np.ndarray)
            or not x.ndim
            or not x.size
            or (x.dtype.kind in "OSUMV" and x.dtype != BFLOAT16)
        ):
            return x
        kind = rng.randrange(6)
        if kind == 0:
            return self.fence.copy(x, rng)
        if kind == 1:
            order = list(range(x.ndim))
            rng.shuffle(order)
            return self.fence.copy(x.transpose(order), rng).transpose(np.argsort(order))
        if kind == 2:
            turned = tuple(slice(None, None, rng.choice((1, -1))) for _ in x.shape)
            return self.fence.copy(x[turned], rng)[turned]
        if kind == 3:
            made = self.fence.empty((x.nbytes + 1,), np.uint8, rng)[1:].view(x.dtype).reshape(x.shape)
        elif kind == 4:
            made = self.fence.empty((*x.shape[:-1], x.shape[-1] * 3), x.dtype, rng)[..., 1::3]
        else:
            return x.astype(x.dtype.newbyteorder()) if x.dtype != BFLOAT16 else x
        made[...] = x
        if rng.random() < 0.3:
            made.flags.writeable = False
        return made


def same(made: Any, wanted: Any, what: str) -> None:
    pairs = zip(made, wanted, strict=True) if isinstance(wanted, tuple) else ((made, wanted),)
    for y, other in pairs:
        if isinstance(other, tuple):
            same(y, other, what)
        elif isinstance(other, np.ndarray) and (
            y.shape != other.shape or y.dtype != other.dtype or y.tobytes() != other.tobytes()
        ):
            raise Finding(
                f"{what} is {_shown(y)} {y.reshape(-1)[:6]}, not {_shown(other)} {other.reshape(-1)[:6]}"
            )


def _shown(x: Any) -> str:
    if isinstance(x, np.ndarray):
        return f"{x.dtype}{list(x.shape)}"
    if isinstance(x, list | tuple) and any(isinstance(item, np.ndarray) for item in x):
        return f"[{', '.join(map(_shown, x))}]"
    return repr(x)[:60] if not isinstance(x, int) or abs(x) < 1 << 70 else "10**400"


KIND = Calls()
