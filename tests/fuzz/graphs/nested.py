"""The nodes of random graphs that have graphs inside: branches and loops."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import numpy as np
from onnx import helper

from tests.fuzz.graphs.maker import EXACT, Maker, Step, run_steps
from tests.fuzz.graphs.moves import concat, gather, reshape, slice_, transpose
from tests.fuzz.graphs.steps import ALL, I64, VALUES
from tests.fuzz.graphs.values import BOOL, Array, Dropped, Environment, Value, element_type

SIMPLE = (*VALUES[:11], transpose, reshape, slice_, gather, concat)


def some_steps(m: Maker, most: int = 3) -> None:
    for _ in range(m.rng.randint(1, most)):
        attempt(m, m.rng.choice(SIMPLE))


def attempt(m: Maker, step: Callable[[Maker], None]) -> None:
    with contextlib.suppress(Dropped):
        step(m)


def _made(m: Maker) -> list[str]:
    return [name for step in m.steps for name in step.makes]


def adopt_leaves(m: Maker, *inner: Maker) -> None:
    """What graphs inside drew belongs to the whole."""
    for each in inner:
        m.values.update({leaf.name: each.values[leaf.name] for leaf in m.leaves if leaf.name in each.values})


def _captured(m: Maker, *inner: Maker) -> tuple[str, ...]:
    """What graphs inside read of the values outside."""
    used = {name for each in inner for step in each.steps for name in step.reads}
    return tuple(name for name in used if name in m.values or name in {leaf.name for leaf in m.leaves})


def branch(m: Maker) -> None:
    """If: a result of one type, maybe of another shape in either branch."""
    condition = m.pick((BOOL,), (0,), exact=True)
    then, other = m.child(), m.child()
    for each in (then, other):
        some_steps(each)
    pairs = [(a, b) for a in _made(then) for b in _made(other) if then.of(a).dtype == other.of(b).dtype]
    if not pairs:
        raise Dropped("no common type")
    a, b = m.rng.choice(pairs)
    adopt_leaves(m, then, other)
    result = m.name()
    node = helper.make_node(
        "If",
        [condition],
        [result],
        then_branch=then.graph("then", [], [a]),
        else_branch=other.graph("else", [], [b]),
    )

    def run(values: Environment) -> None:
        taken, name = (then, a) if values[condition].array.item() else (other, b)
        inside = dict(values)
        run_steps(taken.steps, inside, m.opset)
        if name not in inside:
            raise Dropped("the branch is of no use")
        values[result] = inside[name]

    m.enter(Step((node,), (condition, *_captured(m, then, other)), (result,), EXACT, run))


def loop(m: Maker) -> None:
    """Loop with one carried value of any size, scanned values, and rounds from none to four."""
    start = m.pick(ALL, (0, 1, 2, 3))
    rounds, on = m.constant(m.rng.choice((0, 1, 2, 4))), m.constant(m.rng.random() < 0.9, np.bool_)
    number, going, carried = m.name(), m.name(), m.name()
    inner = m.child(
        {number: Value(np.int64(0).reshape(())), going: Value(np.array(True)), carried: m.values[start]}
    )
    for _ in range(m.rng.randint(1, 3)):
        attempt(inner, m.rng.choice(SIMPLE))
    kept = [name for name in _made(inner) if inner.of(name).dtype == m.of(start).dtype
            and inner.of(name).ndim == m.of(start).ndim]  # fmt: skip
    if not kept:
        raise Dropped("nothing to carry on")
    state = m.rng.choice(kept)
    scanned = [m.rng.choice(_made(inner))] if m.rng.random() < 0.6 else []
    adopt_leaves(m, inner)
    inner.add("Identity", [going])
    again = _made(inner)[-1]
    scans = []
    for name in scanned:
        scans += inner.add("Identity", [name])
    formals = [helper.make_tensor_value_info(number, element_type(I64), []),
               helper.make_tensor_value_info(going, element_type(BOOL), []), inner.declared(carried)]  # fmt: skip
    (last,) = inner.add("Identity", [state])
    body = inner.graph("body", formals, [again, last, *scans])
    makes = tuple(m.name() for _ in range(1 + len(scans)))
    node = helper.make_node("Loop", [rounds, on, start], list(makes), body=body)

    def run(values: Environment) -> None:
        inside, collected = dict(values), list[Value]()
        inside[carried] = values[start]
        trips = int(values[rounds].array) if values[on].array else 0
        for trip in range(max(trips, 1)):
            inside[number], inside[going] = Value(np.asarray(trip, np.int64)), Value(np.asarray(True))
            for step in inner.steps:
                step.apply(inside, m.opset)
            collected += [inside[name] for name in scans]
            if trips:
                inside[carried] = inside[last]
        values[makes[0]] = inside[carried]
        if scans:
            values[makes[1]] = _stacked(collected, trips)

    reads = (rounds, on, start, *_captured(m, inner))
    m.enter(Step((node,), reads, makes, EXACT, run))


def _stacked(collected: list[Value], trips: int) -> Value:
    if len({x.array.shape for x in collected}) > 1:
        raise Dropped("scanned values of many shapes")
    whole: Array = np.stack([x.array for x in collected])[:trips]
    if all(x.exact for x in collected):
        return Value(whole)
    return Value(whole, np.stack([x.widened() for x in collected])[:trips])


NESTED: tuple[Callable[[Maker], None], ...] = (branch, loop)
