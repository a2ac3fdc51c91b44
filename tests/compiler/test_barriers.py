"""Where threads meet: steps that touch the same memory stay in order, all others may run at once."""

from __future__ import annotations

import random
import sys

import numpy as np
import onnx
import onnx.parser
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cenote
from cenote.codegen import jit
from cenote.compiler.barriers import Extent, PendingStep, StepKind, StepOrigin, levels_of
from cenote.kernels.base import Call, KernelSpec
from cenote.runtime.steps import KernelStep, Slot, SlotKind

CALL = Call(KernelSpec(), ())


def extent(begin: int, end: int, root: str = "") -> Extent:
    return Extent(Slot(SlotKind.ARENA, 0, begin), end - begin, root)


def step(
    node: int, reads: list[Extent], writes: list[Extent], halo_of: str = "", batch: int = 0
) -> PendingStep:
    origin = StepOrigin(node, StepKind.HALO if halo_of else StepKind.KERNEL)
    return PendingStep("", origin, CALL, None, reads, writes, halo_of, batch)


spans = st.tuples(st.integers(0, 40), st.integers(1, 8)).map(lambda t: extent(t[0], t[0] + t[1]))
drafts = st.lists(
    st.builds(lambda r, w: (r, w), st.lists(spans, max_size=2), st.lists(spans, min_size=1, max_size=2)),
    max_size=25,
)


@given(drafts)
def test_levels_are_the_longest_chains_of_waiting(touched: list[tuple[list[Extent], list[Extent]]]) -> None:
    steps = [step(node, reads, writes) for node, (reads, writes) in enumerate(touched)]

    def cells(extents: list[Extent]) -> set[int]:
        return {cell for e in extents for cell in range(e.slot.offset, e.slot.offset + e.nbytes)}

    wanted: list[int] = []
    for j, (reads, writes) in enumerate(touched):
        waits = [
            wanted[i] + 1
            for i, (r, w) in enumerate(touched[:j])
            if cells(w) & cells(reads + writes) or cells(r) & cells(writes)
        ]
        wanted.append(max(waits, default=0))
    assert levels_of(steps) == wanted


def test_calls_of_a_batch_wait_for_those_before_the_batch() -> None:
    """A copy of the input, two calls that read it and write parts of the output, a second pass over the output."""
    x, copy, y = extent(0, 8), extent(8, 16), extent(16, 32)
    steps = [step(0, [x], [y, copy], batch=batch) for batch in (0, 1, 1, 3)]
    assert levels_of(steps) == [0, 1, 1, 2]
    assert levels_of([*steps, step(1, [y], [extent(32, 40)])]) == [0, 1, 1, 2, 3]


def test_halos_are_zeroed_with_the_step_that_fills_the_inside() -> None:
    x, a, b = extent(0, 8), extent(8, 16, "a"), extent(16, 32, "b")
    chain = [step(0, [x], [a]), step(1, [], [b], "b"), step(1, [a], [b]), step(2, [b], [extent(32, 40)])]
    assert levels_of(chain) == [0, 1, 1, 2]
    # What waits for a halo bounds how late it may be: here the reader of one piece is before the writer of another.
    pieces = [
        step(0, [x], [a]), step(1, [], [b], "b"), step(1, [a], [extent(16, 24, "b")]),
        step(2, [x], [extent(24, 32, "b")]), step(3, [extent(24, 32, "b")], [extent(40, 48)]),
    ]  # fmt: skip
    assert levels_of(pieces) == [0, 0, 1, 0, 1]


def model_of(body: str, **weights: tuple[int, ...]) -> onnx.ModelProto:
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 18]> {body}')
    rng = np.random.default_rng(0)
    for name, shape in weights.items():
        array = (rng.standard_normal(shape) / 8).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return model


def kernels(model: cenote.Model) -> list[KernelStep]:
    (stage,) = model._stages.values()
    return [step for step in stage.plan.program.steps if isinstance(step, KernelStep)]


def test_branches_run_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three branches, two steps deep: threads meet after the first steps of all, and after the second."""
    monkeypatch.setattr("cenote.compiler.compile.WORTH_THREADS", 0.0)
    model = model_of(
        """g (float[1,32,14,14] x) => (float[1,72,14,14] y) {
        a = Conv(x, w0)  p = MaxPool<kernel_shape=[3,3], strides=[1,1], pads=[1,1,1,1]>(x)
        b0 = Conv(x, w1)  b = Conv<pads=[1,1,1,1]>(b0, w2)  c = Conv(p, w3)  y = Concat<axis=1>(a, b, c) }""",
        w0=(24, 32, 1, 1), w1=(16, 32, 1, 1), w2=(24, 16, 3, 3), w3=(24, 32, 1, 1),
    )  # fmt: skip
    steps = kernels(cenote.load(model, threads=2, precision="exact"))
    position = {one.label.partition(":")[0]: i for i, one in enumerate(steps)}
    meetings = [i for i, one in enumerate(steps) if one.barrier]
    first = [position[name] for name in ("b0", "p")]
    second = [position[name] for name in ("b", "c")]
    between = [i for i in meetings if max(first) <= i < min(second)]
    assert len(between) == 1
    assert not [i for i in meetings if min(second) <= i < max(second)], "the second steps wait for each other"


def test_parts_of_a_convolution_do_not_wait_for_each_other() -> None:
    """Seven blocks of filters: pairs and a triple, two calls."""
    lanes = jit.host_target().lanes()
    body = f"g (float[1,{lanes},9,9] x) => (float[1,{7 * lanes},9,9] y) {{ y = Conv(x, w) }}"
    model = model_of(body, w=(7 * lanes, lanes, 1, 1))
    steps = kernels(cenote.load(model, threads=2, algorithms={"conv": "direct"}))
    parts = [step for step in steps if step.symbol.startswith("ConvDirect")]
    assert [step.barrier for step in parts] == [False, True]


@pytest.mark.parametrize(
    "body",
    [
        "g (int32[3,5] x, int32[3,2] z) => (int32[3,12] y) { y = Concat<axis=1>(x, z, x) }",
        "g (int32[3,12] x) => (int32[3,4] y, int32[3,4] z, int32[3,4] u) "
        "{ y, z, u = Split<axis=1, num_outputs=3>(x) }",
    ],
)
def test_copies_of_parts_do_not_wait_for_each_other(body: str) -> None:
    copies = kernels(cenote.load(model_of(body), threads=2))
    assert [step.barrier for step in copies] == [False, False, True]


def calls_of(count: int) -> int:
    """Calls of functions in finding the levels of so many copies of one node, each noted with all parts."""
    parts = [extent(8 * i, 8 * i + 8) for i in range(count)]
    whole = [extent(8 * count, 16 * count)]
    steps = [step(0, parts, whole) for _ in range(count)]
    calls = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        levels = levels_of(steps)
    finally:
        sys.setprofile(None)
    assert levels == [0] * count
    return calls


def test_what_many_calls_touch_is_noted_once() -> None:
    assert calls_of(400) < 3 * calls_of(200)  # 2 is linear, 4 quadratic


def touch(a: list[Extent], b: list[Extent]) -> bool:
    return any(
        x.slot.offset < y.slot.offset + y.nbytes and y.slot.offset < x.slot.offset + x.nbytes
        for x in a
        for y in b
    )


def must_wait(a: PendingStep, b: PendingStep) -> bool:
    """Must the later step wait for the earlier one? Said pair by pair."""
    if a.origin.node == b.origin.node and not a.halo_of and not b.halo_of:
        return a.batch != b.batch
    if touch(a.writes, b.reads) or touch(a.reads, b.writes):
        return True
    if bool(a.halo_of) != bool(b.halo_of):
        halo, inside = (a, b) if a.halo_of else (b, a)
        return touch(halo.writes, [extent for extent in inside.writes if extent.root != halo.halo_of])
    return touch(a.writes, b.writes)


@pytest.mark.parametrize("seed", range(60))
def test_levels_with_halos_and_batches_are_those_of_comparing_all_pairs(seed: int) -> None:
    """Levels as early as can be; halos as late as can be, up to the step behind them."""
    chance = random.Random(seed)
    buffers = {
        f"b{i}": extent(begin := chance.randrange(60), begin + chance.randrange(4, 12), f"b{i}")
        for i in range(6)
    }
    steps: list[PendingStep] = []
    used: set[str] = set()

    def part() -> Extent:
        whole = chance.choice(list(buffers.values()))
        first = chance.randrange(whole.nbytes)
        begin = whole.slot.offset
        return extent(begin + first, begin + chance.randrange(first + 1, whole.nbytes + 1), whole.root)

    for node in range(chance.randrange(3, 20)):
        reads, writes = (
            [part() for _ in range(chance.randrange(3))],
            [part() for _ in range(chance.randrange(1, 3))],
        )
        for root in {e.root for e in (*reads, *writes)} - used:
            used.add(root)
            if chance.random() < 0.5:
                steps.append(step(node, [], [buffers[root]], halo_of=root))
        steps += [step(node, reads, writes, batch=batch) for batch in chance.choice([[0], [0, 0], [0, 1, 1]])]

    levels: list[int] = []
    for index, draft in enumerate(steps):
        waits = [levels[i] + 1 for i in range(index) if must_wait(steps[i], draft)]
        levels.append(max(waits, default=0))
    wanted = list(levels)
    for index, draft in enumerate(steps):
        if draft.halo_of:
            behind = range(index + 1, len(steps))
            limit = next(levels[i] for i in behind if not steps[i].halo_of)
            readers = [levels[i] - 1 for i in behind if must_wait(draft, steps[i])]
            wanted[index] = max(levels[index], min([limit, *readers]))
    assert levels_of(steps) == wanted
