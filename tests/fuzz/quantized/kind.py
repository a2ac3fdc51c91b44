"""Random quantised graphs: the bits that ONNX gives where it gives them, else one step of the scale now and then.

Values that are compared are outputs. The judge computes each of them from what Cenote gave for those before it, so that
one step more or less is not carried on. It is ONNX Runtime where the CPU adds products of bytes in 32 bits; where that
saturates, and for scales that are no ordinary factors, the references of the operators.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

import cenote
from cenote.codegen import jit, worker
from cenote.compiler import schedule
from cenote.core.errors import CenoteError
from cenote.core.machine import cpuid
from cenote.core.target import PAIRS
from cenote.frontends.onnx import load_onnx
from cenote.graph.interpreter import evaluate
from tests.fuzz.case import Finding, generator
from tests.fuzz.peer import BesidePeer
from tests.fuzz.quantized.maker import SELDOM, Array, Maker
from tests.fuzz.quantized.others import OTHERS
from tests.fuzz.quantized.overflow import overflowing, without_tiny_biases
from tests.fuzz.quantized.sums import SUMS
from tests.fuzz.sizes.kind import STRICTER

OPSETS = (10, 11, 13, 13, 17, 19, 21, 21, 23, 24)
EXTENTS = (1, 2, 3, 5, 7, 8, 9, 12, 17)
LARGEST = 1 << 16  # elements of a value
FAMILY = 4  # seeds that share kernels: compiling took 85 % of a case that had its own (0.27 s)
LARGER = (0, 0, 1, 2, 6, 13)  # by how much an extent of one of a family exceeds the least


def random_graph(seed: int) -> Maker:
    """Some operators on one or two inputs. The graphs of a family are alike but for their numbers and the extents of
    maps."""
    rng = generator("quantized", seed // FAMILY, "structure")
    m = Maker(rng, generator("quantized", seed), rng.choice(OPSETS))
    rank = rng.choice((2, 3, 4, 4, 4, 4, 5))
    least = [rng.choice(EXTENTS) for _ in range(max(0, rank - 2))]
    extents = [extent + m.numbers.choice(LARGER) for extent in least]
    channels = rng.choice((1, 2, 3, 3, 4, 8, 16, 17, 24, 32, 40, 65))
    images = 0 if rng.random() < 0.03 else rng.choice((1, 1, 2, 3))
    for _ in range(rng.choice((1, 1, 2))):
        m.input((images, channels, *extents))
    with np.errstate(all="ignore"):
        for _ in range(rng.randint(1, 6)):
            rng.choice((*SUMS, *OTHERS) if rng.random() < 0.5 else SUMS)(m)
    return m


@contextmanager
def shaken(seed: int) -> Iterator[None]:
    """Multiply estimates by random factors, one for each algorithm of a family, so that all algorithms are taken."""
    total = schedule._Scheduler._total

    def other(self: Any, node: Any, option: Any) -> float:
        factor = generator("quantized", seed // FAMILY, option.name).uniform(-4, 4)
        return total(self, node, option) * 2**factor

    with patch.object(schedule._Scheduler, "_total", other):
        yield


def answer(model: cenote.Model, given: Mapping[str, Array]) -> dict[str, Array]:
    return {name: np.asarray(y) for name, y in model.run(dict(given)).items()}


class Quantized(BesidePeer):
    name = "quantized"
    limit = 40.0

    def run(self, seed: int) -> str:
        self.fence.clear()
        m = random_graph(seed)
        made = [each.name for each in m.values if each.name not in {x.name for x in m.inputs}]
        if not made or any(np.prod(each.shape) > LARGEST for each in m.values):
            return "nothing"
        outputs = list(dict.fromkeys([*(name for name in made if m.chance(0.6)), made[-1]]))
        target = jit.host_target()
        narrow = m.chance(0.4)
        shown = f"opset {m.opset}, {[node.op_type for node in m.nodes]}{', pairs' if narrow else ''}"
        saturates = not cpuid.features() & {"avx512vnni", "avxvnni"}
        if narrow:
            target = replace(target, dots=PAIRS)
        with (
            patch.object(jit, "host_target", lambda: target),
            patch.object(worker, "worth_processes", lambda _: False),  # their start takes longer than a case
            shaken(seed) if m.chance(0.6) else nullcontext(),
            np.errstate(all="ignore"),
        ):
            try:
                return self.compare(m, outputs, saturates)
            except Finding as finding:
                raise Finding(f"{shown}: {finding}") from None

    def compare(self, m: Maker, outputs: list[str], saturates: bool) -> str:
        opened = {axis: f"s{axis}" for axis in (0, 2, 3) if m.chance(0.25)}
        content = m.model(outputs, opened).SerializeToString()
        given = {each.name: self.array(m, each.shape, each.dtype) for each in m.inputs}
        try:
            model = cenote.load(content, threads=m.rng.choice((1, 2)), tune="off")
            found = answer(model, given)
        except CenoteError as error:
            return self.refused(m, content, given, error)
        if any(y.tobytes() != found[name].tobytes() for name, y in answer(model, given).items()):
            raise Finding("a second run gives other bits")
        outcome = self.judged(m, outputs, given, found, saturates)
        if opened and min(m.inputs[0].shape):
            sizes = {axis: m.numbers.choice(EXTENTS) for axis in opened}
            other = {
                each.name: self.array(
                    m, [sizes.get(axis, n) for axis, n in enumerate(each.shape)], each.dtype
                )
                for each in m.inputs
            }
            try:
                again = answer(model, other)
            except CenoteError:
                return outcome  # of windows that do not fit
            self.judged(m, outputs, other, again, saturates)
        return outcome

    def array(self, m: Maker, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
        if dtype.kind == "f":
            return self.fence.copy((m.noise.standard_normal(shape) * 1.5).astype(dtype), m.numbers)
        return self.fence.copy(m.whole(shape, dtype), m.numbers)

    def refused(self, m: Maker, content: bytes, given: Mapping[str, Array], error: CenoteError) -> str:
        text = f"{type(error).__name__}: {error}"
        if not str(error):
            raise Finding("an error without a message")
        if m.broken or any(words in text for words in STRICTER):
            return "refused"
        theirs = self.peer.run(content, dict(given))
        if not isinstance(theirs, str):
            raise Finding(f"refused alone: {text}")
        return "refused by both"

    def judged(
        self, m: Maker, outputs: list[str], given: Mapping[str, Array], found: Mapping[str, Any], saturates: bool
    ) -> str:  # fmt: skip
        """Compare outputs with what a judge makes of those before them."""
        proto = without_tiny_biases(m.cut(outputs))
        read = {each.name for each in proto.graph.input}
        feed = {name: x for name, x in {**given, **found}.items() if name in read}
        content = proto.SerializeToString()
        theirs: Mapping[str, Any] | str = "not asked"
        if not saturates and not m.odd:
            theirs = self.peer.run(content, feed)
        judge = "onnxruntime"
        if isinstance(theirs, str):
            judge, theirs = "references", evaluate(load_onnx(content).graph, feed)
        steps, share = roundings(m, outputs)
        # Which of ±infinity and NaN a sum is whose terms overflow depends on the order of its terms.
        unknown = overflowing(proto, feed) if m.odd else set()
        for name in outputs:
            if f"{name}.made" in unknown:
                continue
            apart, stray = share[name], 0.0
            # Denormal numbers; sums of the largest numbers alone, whose means are ties; by a scale near zero, what is
            # nearly 0 comes out anywhere.
            if m.odd and steps[name]:
                apart, stray = 1.0, SELDOM
            wanted = np.asarray(theirs[f"{name}.made"])
            wrong = unlike(found[name], wanted, apart if steps[name] <= 1 else None, stray)
            if wrong:
                raise Finding(f"{name} {wrong} ({judge}, {steps[name]} steps)")
        return f"as {judge}"


def roundings(m: Maker, outputs: Sequence[str]) -> tuple[dict[str, int], dict[str, float]]:
    """How many roundings lie between a value and the outputs that it was made of, and the share of its elements that
    may be one step off."""
    steps: dict[str, int] = {}
    shares: dict[str, float] = {}
    for node in m.nodes:
        read = [name for name in node.input if name not in outputs]
        before = max((steps.get(name, 0) for name in read), default=0)
        for name in node.output:
            share = m.share.get(name, 0.0)
            steps[name] = before + (name in m.share and (share > 0 or before > 0))
            shares[name] = share
    return steps, shares


def unlike(y: Array, wanted: Array, share: float | None, stray: float = 0) -> str:
    """What is unlike, or nothing. `share`: of elements that may be one step off; None where more than one value was
    rounded on the way. `stray`: of those that may be anything."""
    if y.shape != wanted.shape or y.dtype != wanted.dtype:
        return f"{y.dtype}{list(y.shape)} is {wanted.dtype}{list(wanted.shape)}"
    right = (near_floats if y.dtype.kind == "f" else near_numbers)(y, wanted, share)
    if right.all() or (~right).mean() <= stray:
        return ""
    place = tuple(np.argwhere(~right)[0])
    where = f"{list(map(int, place))} of {y.dtype}{list(y.shape)}, {1 - right.mean():.1%}"
    return f"{y[place]} is {wanted[place]} at {where}"


def near_floats(y: Array, wanted: Array, share: float | None) -> Array:
    relative = 2e-6 if share is not None else 0.1
    largest = np.abs(wanted[np.isfinite(wanted)]).max(initial=0)
    return np.isclose(y, wanted, rtol=relative, atol=relative * largest, equal_nan=True)


def near_numbers(y: Array, wanted: Array, share: float | None) -> Array:
    apart = np.abs(y.astype(np.int64) - wanted.astype(np.int64))
    fine = (1 << (8 * y.dtype.itemsize)) >> 8  # steps of 16 bits in one of 8
    if share is None:
        return np.asarray((apart <= 16 * fine) if not y.size or apart.mean() <= 2 * fine else apart == 0)
    # Three standard deviations more: of eight means of two numbers, six may be ties.
    most = share * y.size * (1 if fine == 1 else 10) + 3 * np.sqrt(share * (1 - share) * y.size)
    if (apart > 0).sum() > max(2 if share else 0, most):
        return np.asarray(apart == 0)
    # Of 16 bits: sums of floats differ in their last bits, by 8 steps where terms of 3,000 cancel to 0.75.
    return np.asarray(apart <= (1 if fine == 1 else 32))


KIND = Quantized()
