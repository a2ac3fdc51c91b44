"""Random graphs of typed elementwise, index and shape operators, with branches, loops and sequences inside.

What Cenote answers must be what ONNX's reference evaluator gives node by node, or what ONNX Runtime gives: to the bit
where the operations are exact. The same at other sizes of open extents, and for inputs of any strides beside forbidden
pages; in a second run and for another number of threads the bits are the same.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np

import cenote
from cenote.core.errors import CenoteError, CodegenError, ModelError
from cenote.core.types import is_float
from tests.fuzz.case import Finding, generator
from tests.fuzz.graphs.maker import LARGEST, Leaf, Maker
from tests.fuzz.graphs.moves import MOVES
from tests.fuzz.graphs.nested import NESTED, attempt
from tests.fuzz.graphs.steps import VALUES
from tests.fuzz.graphs.values import BOOL, FLOATS, INTEGERS, Array, Environment, Value, is_near, shape_of
from tests.fuzz.peer import BesidePeer

OPSETS = (12, 13, 15, 17, 18, 21, 22, 24)
AGREES = {8: 1e-7, 4: 1e-4, 2: 8e-2}  # of the largest element, of approximate values
# Where onnxruntime takes more than ONNX says: conditions longer than the axis, slopes with more elements than the data,
# empty arrays of any shape among those that are joined, windows that do not fit.
STRICTER = ("must be a list of at most", "does not broadcast to the input", "differ in more than axis",
            "the output size would be 0")  # fmt: skip
EXTENTS = (1, 2, 3, 5, 7, 8, 16, 19, 31, 64)


def random_graph(rng: random.Random) -> Maker:
    """Some 3 to 16 steps on one input of each of a few types."""
    m = Maker(rng, rng.choice(OPSETS))
    shape = shape_of(rng, rng.random() < 0.06)
    types = [rng.choice((np.dtype(np.float32), np.dtype(np.float32), *FLOATS, *INTEGERS, BOOL))
             for _ in range(rng.randint(1, 2))]  # fmt: skip
    for dtype in types:
        m.add_leaf(dtype, shape, constant=False)
    kinds = rng.choices((VALUES, MOVES, NESTED), (60, 33, 7), k=rng.randint(3, 16))
    for kind in kinds:
        attempt(m, rng.choice(kind))
    return m


class Graphs(BesidePeer):
    name = "graphs"
    limit = 60.0

    def run(self, seed: int) -> str:
        rng = generator(self.name, seed)
        self.fence.clear()
        with np.errstate(all="ignore"):
            m = random_graph(rng)
            made = [name for step in m.steps for name in step.makes]
            if not made:
                return "nothing"
            outputs = list(dict.fromkeys([made[-1], *rng.choices(made, k=rng.randint(0, 3))]))
            extents = {extent for each in m.inputs() for extent in each.shape if each.content is None}
            symbols = {extent: f"s{extent}" for extent in sorted(extents) if rng.random() < 0.35}
            content = m.model(outputs, symbols).SerializeToString()
            return self.compare(m, content, outputs, symbols, rng)

    def compare(
        self, m: Maker, content: bytes, outputs: list[str], symbols: Mapping[int, str], rng: random.Random
    ) -> str:
        given = {each.name: each.array(each.shape) for each in m.inputs()}
        threads = rng.choice((1, 2))
        outcomes = []
        try:
            model = cenote.load(content, threads=threads, tune="off")
        except CenoteError as error:
            return self.refused(content, given, outputs, m.values, error)
        outcomes.append(self.at(model, content, given, outputs, m.values, rng))
        if rng.random() < 0.1 and outcomes[0] not in ("refused by both", "refused"):
            other = cenote.load(content, threads=3 - threads, tune="off")
            same(other.run(given), model.run(given), f"{3 - threads} threads")
        for _ in range(2 if symbols else 0):
            sizes = {extent: rng.choice(EXTENTS) for extent in symbols}
            if any(np.prod(resized(each, sizes), dtype=np.float64) > LARGEST for each in m.inputs()):
                continue
            given = {each.name: each.array(resized(each, sizes)) for each in m.inputs()}
            outcomes.append(self.at(model, content, given, outputs, m.evaluate(given), rng))
        return outcomes[0]

    def at(
        self, model: Any, content: bytes, given: Mapping[str, Array], outputs: list[str], values: Environment,
        rng: random.Random,
    ) -> str:  # fmt: skip
        """One run, at some sizes."""
        inputs = {name: self.view(x, rng) for name, x in given.items()}
        before = {name: x.tobytes() for name, x in inputs.items()}
        try:
            made = model.run(inputs)
        except CenoteError as error:
            return self.refused(content, given, outputs, values, error)
        same(model.run(inputs), made, "a second run")
        if before != {name: x.tobytes() for name, x in inputs.items()}:
            raise Finding("an input was written to")
        wrong = {name: differs(made[name], values.get(name)) for name in outputs}
        if not any(wrong.values()):
            return "agreed" if all(name in values for name in outputs) else "ran"
        theirs = self.peer.run(content, dict(given))
        if isinstance(theirs, str):
            raise Finding(f"{wrong}; onnxruntime: {theirs[:200]}")
        for name, what in wrong.items():
            tells = values.get(name)
            wide = None if tells is None or tells.wide is None else tells.wide
            if what and differs(made[name], Value(theirs[name], wide if wide is None else theirs[name])):
                raise Finding(f"{name}: {what}; onnxruntime differs too: {_shown(theirs[name])}")
        return "as onnxruntime, not as the reference"

    def refused(
        self,
        content: bytes,
        given: Mapping[str, Array],
        outputs: list[str],
        values: Environment,
        error: CenoteError,
    ) -> str:
        theirs = self.peer.run(content, dict(given))
        runs = all(name in values for name in outputs)  # by the reference
        text = f"{type(error).__name__}: {error}"
        if not isinstance(theirs, str) and runs and not any(words in text for words in STRICTER):
            raise Finding(f"refused alone: {text}")
        # Of the compiler's own; others say what does not fit.
        if runs and isinstance(error, ModelError | CodegenError):
            raise Finding(f"refused, though the reference runs it: {text}")
        return "refused by both" if isinstance(theirs, str) else "refused, as the reference"

    def view(self, x: Array, rng: random.Random) -> Array:
        """The same elements between forbidden pages, in any order of memory."""
        if not x.ndim or not x.size:
            return x
        kind = rng.random()
        if kind < 0.6:
            return self.fence.copy(x, rng)
        if kind < 0.75:
            order = list(range(x.ndim))
            rng.shuffle(order)
            return self.fence.copy(x.transpose(order), rng).transpose(np.argsort(order))
        if kind < 0.9:
            turned = tuple(slice(None, None, rng.choice((1, -1))) for _ in x.shape)
            return self.fence.copy(x[turned], rng)[turned]
        raw = self.fence.empty((x.nbytes + 1,), np.uint8, rng)[1:]
        made = raw.view(x.dtype).reshape(x.shape)  # elements at odd addresses
        made[...] = x
        return made


def same(again: Mapping[str, Any], made: Mapping[str, Any], what: str) -> None:
    """Finding unless the bits are the same; of NaN any."""
    for name, y in made.items():
        if np.asarray(y).tobytes() != np.asarray(again[name]).tobytes() and differs(
            again[name], Value(np.asarray(y))
        ):
            raise Finding(f"{what} gives other bits of {name}")


def resized(each: Leaf, sizes: Mapping[int, int]) -> list[int]:
    return [sizes.get(extent, extent) for extent in each.shape]


def differs(y: Any, wanted: Value | None) -> str:
    """What is unlike the value, or nothing; nothing is known of None."""
    if wanted is None:
        return ""
    y, x = np.asarray(y), wanted.array
    if y.shape != x.shape:
        return f"shape {list(y.shape)} is {list(x.shape)}"
    if y.dtype != x.dtype:
        return f"type {y.dtype} is {x.dtype}"
    if wanted.exact:
        near = (y == x) | ((y != y) & (x != x))
        if near.all():
            return ""
    elif is_float(y.dtype):
        if is_near(y, x, AGREES[y.dtype.itemsize]):
            return ""
        near = np.isclose(
            y.astype(np.float64), x.astype(np.float64), rtol=AGREES[y.dtype.itemsize], equal_nan=True
        )
    place = tuple(np.argwhere(~np.asarray(near))[0]) if y.ndim else ()
    return f"{y[place]} is {x[place]} at {[int(i) for i in place]} of {y.dtype}{list(y.shape)}"


def _shown(y: Any) -> str:
    y = np.asarray(y)
    return f"{y.dtype}{list(y.shape)} {y.reshape(-1)[:6].tolist()}"


KIND = Graphs()
