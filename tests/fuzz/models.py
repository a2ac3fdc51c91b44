"""Mutated ONNX models: an error of Cenote, or the answer that ONNX Runtime gives.

Where the two differ, ONNX's reference evaluator decides; where that cannot run the model, it is a finding. Answers are
the same bits in a second run and for another number of threads. Inputs lie beside forbidden pages.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import onnx

import cenote
from cenote.core.errors import CenoteError
from tests.fuzz.case import Finding, generator
from tests.fuzz.corpus import Entry, entries, inputs_for
from tests.fuzz.deviations import explained, is_random
from tests.fuzz.mutate import mutated
from tests.fuzz.peer import BesidePeer

RELATIVE = {"float64": 1e-7, "float32": 2e-3, "float16": 2e-2, "bfloat16": 1e-1}


class Models(BesidePeer):
    name = "models"
    limit = 20.0

    def __init__(self) -> None:
        super().__init__()
        self.corpus: list[Entry] = []

    def prepare(self) -> None:
        self.corpus = entries()
        super().prepare()

    def content(self, seed: int) -> tuple[Entry, bytes]:
        """The mutated model of a seed, and what it was."""
        rng = generator(self.name, seed, "mutation")
        entry, other = rng.choice(self.corpus), rng.choice(self.corpus)
        return entry, mutated(entry.content, other.content, rng)

    def run(self, seed: int) -> str:
        entry, content = self.content(seed)
        rng = generator(self.name, seed)
        self.fence.clear()
        shown = f"a mutation of {entry.name}"
        try:
            with np.errstate(all="ignore"):
                return self.load(content, entry, rng, shown)
        except CenoteError as error:
            if not str(error):
                raise Finding(f"{shown}: an error without a message") from error
            return "refused"
        except Exception as error:
            error.add_note(shown)
            raise

    def load(self, content: bytes, entry: Entry, rng: random.Random, shown: str) -> str:
        threads = rng.choice((1, 2))
        model = cenote.load(content, threads=threads, tune="off")
        inputs = self.inputs(model, entry, rng)
        if inputs is None:
            return "loaded"
        before = {name: x.tobytes() for name, x in inputs.items()}
        made = model.run(inputs)
        if is_random(content):
            return "ran"
        same(model.run(inputs), made, f"{shown}: a second run")
        if rng.random() < 0.1:
            same(
                cenote.load(content, threads=3 - threads, tune="off").run(inputs),
                made,
                f"{shown}: {3 - threads} threads",
            )
        if before != {name: x.tobytes() for name, x in inputs.items()}:
            raise Finding(f"{shown}: an input was written to")
        return self.compare(content, inputs, made, shown)

    def inputs(self, model: cenote.Model, entry: Entry, rng: random.Random) -> dict[str, Any] | None:
        made = {}
        for declared in model.inputs:
            x = entry.inputs.get(declared.name)
            if x is None or x.dtype != declared.dtype or not fits(x.shape, declared.shape):
                x = inputs_for(declared, rng)
            if x is None:
                return None
            made[declared.name] = self.fence.copy(x, rng) if x.dtype.kind in "biufcV" else x
        return made

    def compare(self, content: bytes, inputs: dict[str, Any], made: dict[str, Any], shown: str) -> str:
        theirs = self.peer.run(content, inputs)
        if isinstance(theirs, str):
            return "ran"
        wrong = difference(made, theirs)
        if not wrong:
            return "agreed"
        pairs = {
            name: (np.asarray(made[name]), y)
            for name, y in theirs.items()
            if name in made and isinstance(y, np.ndarray) and unlike(np.asarray(made[name]), y)
        }
        if theirs.keys() <= made.keys() and explained(content, pairs, unlike):
            return "known deviation"
        judge = reference(content, inputs)
        if judge is not None and not difference(made, judge):
            return "as the reference, not as onnxruntime"
        nodes = [node.op_type for node in onnx.ModelProto.FromString(content).graph.node]
        second = "the reference cannot run it" if judge is None else "the reference differs from ours too"
        raise Finding(f"{shown}: {wrong} where onnxruntime; {second}; nodes {nodes[:12]}")


def fits(shape: Any, declared: Any) -> bool:
    if declared is None:
        return True
    return len(shape) == len(declared) and all(
        not isinstance(d, int) or d == n for n, d in zip(shape, declared, strict=True)
    )


def reference(content: bytes, inputs: dict[str, Any]) -> dict[str, Any] | None:
    from onnx.reference import ReferenceEvaluator

    try:
        session = ReferenceEvaluator(onnx.ModelProto.FromString(content))
        return dict(zip(session.output_names, session.run(None, inputs), strict=True))
    except Exception:
        return None


def same(again: dict[str, Any], made: dict[str, Any], what: str) -> None:
    for name, y in made.items():
        if not same_bits(again[name], y):
            raise Finding(f"{what} gives other bits of {name}")


def same_bits(again: Any, y: Any) -> bool:
    """Whether two outputs are alike: arrays, sequences of them, strings, None."""
    if isinstance(y, list | tuple):
        return len(again) == len(y) and all(map(same_bits, again, y))
    y, again = np.asarray(y), np.asarray(again)
    return y.dtype.kind == "O" or (y.shape == again.shape and y.tobytes() == again.tobytes())


def difference(made: dict[str, Any], theirs: dict[str, Any]) -> str:
    """What is unlike, or nothing."""
    for name, wanted in theirs.items():
        if name not in made:
            return f"no output {name}"
        text = unlike_values(made[name], wanted)
        if text:
            return f"{name}: {text}"
    return ""


def unlike_values(y: Any, wanted: Any) -> str:
    """`unlike` of arrays, and of each two of sequences."""
    if isinstance(wanted, list | tuple):
        if not isinstance(y, list | tuple) or len(y) != len(wanted):
            return f"a sequence of {len(wanted)} is {type(y).__name__}"
        return next(filter(None, map(unlike_values, y, wanted)), "")
    return unlike(np.asarray(y), wanted)


_COMPARED = 1 << 22  # elements: a result may have hundreds of millions


def unlike(y: Any, wanted: Any) -> str:
    if not isinstance(wanted, np.ndarray):
        return ""  # maps and the like
    if y.shape != wanted.shape:
        return f"shape {list(y.shape)} is {list(wanted.shape)}"
    if y.dtype.itemsize == wanted.dtype.itemsize and y.dtype.kind == "V":
        wanted = wanted.view(y.dtype)
    if y.dtype != wanted.dtype:
        return f"type {y.dtype} is {wanted.dtype}"
    if y.size > _COMPARED:
        y, wanted = y.reshape(-1)[:_COMPARED], wanted.reshape(-1)[:_COMPARED]
    relative = RELATIVE.get(y.dtype.name)
    if relative is None:
        near = np.abs(y.astype(np.int64) - wanted) <= 1 if y.dtype.name in ("int8", "uint8") else y == wanted
        near |= (y != y) & (wanted != wanted)
    else:
        a, b = y.astype(np.float64), wanted.astype(np.float64)
        finite = np.abs(b[np.isfinite(b)])
        near = np.isclose(
            a, b, rtol=relative, atol=relative * float(finite.max(initial=1e-3)), equal_nan=True
        )
    if np.all(near):
        return ""
    place = tuple(np.argwhere(~np.asarray(near))[0]) if y.ndim else ()
    return f"{y[place]} is {wanted[place]} at {[int(i) for i in place]} of {y.dtype}{list(y.shape)}"


KIND = Models()
