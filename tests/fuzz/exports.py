"""Random graphs as shared libraries for C: the bits of the model that is planned for the same level of x86-64.

The graphs are those of the kinds `graphs`, `quantized` and `sizes`; of the last, two sizes are two entries of one
library. Arrays and workspaces lie beside forbidden pages and are full of junk before a run. `run_on` gets the parts of
each step in any order, with any numbers of threads. What Cenote runs without NumPy steps may not be refused, but for
steps that call the C library.
"""

from __future__ import annotations

import _ctypes
import ctypes
import random
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import cenote
from cenote.codegen import jit, worker
from cenote.core.errors import CenoteError
from cenote.core.target import plain_target
from cenote.export.header import C_TYPES
from cenote.runtime.steps import HostStep
from tests.fuzz.case import Finding, generator
from tests.fuzz.graphs.kind import random_graph as of_any_types
from tests.fuzz.graphs.kind import same
from tests.fuzz.peer import BesidePeer
from tests.fuzz.quantized.kind import random_graph as of_bytes
from tests.fuzz.sizes.kind import random_graph as of_open_sizes
from tests.targets import runnable

Array = np.ndarray[Any, Any]
Shapes = dict[str, tuple[int, ...]]
LEVELS = {"x86-64": "generic", "x86-64-v3": "avx2", "x86-64-v4": "avx512"}
ENTRIES = 2  # of a graph of open sizes
THREADS = 3  # whose scratch memory `run_on` has
_SIZE, _POINTER = ctypes.c_size_t, ctypes.c_void_p
_PIECE = ctypes.CFUNCTYPE(None, _POINTER, _SIZE, _SIZE, _SIZE)
_PARALLEL = ctypes.CFUNCTYPE(None, _POINTER, _POINTER, _POINTER, _SIZE, _SIZE)


class Case:
    """A graph, and its inputs for each set of sizes."""

    def __init__(self, proto: Any, given: Sequence[Mapping[str, Array]]) -> None:
        self.content, self.given = proto.SerializeToString(), given
        self.names = [output.name for output in proto.graph.output]
        self.shown = [node.op_type for node in proto.graph.node]


def typed(rng: random.Random, seed: int) -> Case | None:
    m = of_any_types(rng)
    made = [name for step in m.steps for name in step.makes]
    if not made:
        return None
    outputs = list(dict.fromkeys([made[-1], *rng.choices(made, k=rng.randint(0, 3))]))
    return Case(m.model(outputs, {}), [{each.name: each.array(each.shape) for each in m.inputs()}])


def quantized(rng: random.Random, seed: int) -> Case | None:
    m = of_bytes(seed)
    made = [each.name for each in m.values if each.name not in {x.name for x in m.inputs}]
    if not made or any(np.prod(each.shape) > 1 << 16 for each in m.values):
        return None
    outputs = list(dict.fromkeys([*(name for name in made if rng.random() < 0.3), made[-1]]))
    given = {
        each.name: m.noise.standard_normal(each.shape).astype(each.dtype)
        if each.dtype.kind == "f"
        else m.whole(each.shape, each.dtype)
        for each in m.inputs
    }
    return Case(m.model(outputs, {}), [given])


def sized(rng: random.Random, seed: int) -> Case | None:
    m = of_open_sizes(rng)
    places = [int(place) for place in np.flatnonzero(m.alive)[:ENTRIES]]
    if not m.nodes or not places:
        return None
    noise = np.random.default_rng(seed)
    given = []
    for place in places:
        shapes = {
            name: tuple(int(m.sizes[axis][place]) if isinstance(axis, str) else axis for axis in axes)
            for name, axes in m.inputs.items()
        }
        given.append({name: noise.standard_normal(shape, np.float32) for name, shape in shapes.items()})
    return Case(m.model(), given)


class Exports(BesidePeer):
    name = "exports"
    limit = 60.0

    def prepare(self) -> None:
        super().prepare()
        import cenote.export.exporting  # noqa: F401

    def run(self, seed: int) -> str:
        rng = generator(self.name, seed)
        self.fence.clear()
        levels = {level: name for level, name in LEVELS.items() if runnable(name)}
        level = rng.choice([*levels])
        target = plain_target(levels[level], "x86_64-unknown-linux-gnu")
        folder = Path(tempfile.mkdtemp(prefix="export-"))
        try:
            with (
                np.errstate(all="ignore"),
                patch.object(jit, "host_target", lambda: target),
                patch.object(worker, "worth_processes", lambda _: False),
            ):
                case = rng.choices((typed, quantized, sized), (5, 3, 3))[0](rng, seed)
                return self.compare(case, level, folder, rng) if case else "nothing"
        except Finding as finding:
            raise Finding(f"{level}, {case.shown if case else ''}: {finding}") from None
        finally:
            shutil.rmtree(folder)

    def compare(self, case: Case, level: str, folder: Path, rng: random.Random) -> str:
        sizes: list[Shapes] = [{name: x.shape for name, x in given.items()} for given in case.given]
        beside = rng.random() < 0.2
        try:
            models = [cenote.load(case.content, threads=1, tune="off", shapes=each) for each in sizes]
            wanted = [model.run(dict(given)) for model, given in zip(models, case.given, strict=True)]
        except CenoteError:
            return "refused by load"
        try:
            weights: Any = "beside" if beside else "inside"
            cenote.export_model(case.content, folder, target=level, name="net", shapes=sizes, weights=weights)
        except CenoteError as error:
            return refused(error, models, wanted)
        constants = np.fromfile(folder / "net.bin", np.uint8) if beside else None
        native = ctypes.CDLL(str(folder / "libnet.so"))
        try:
            several = len({tuple(each.items()) for each in sizes}) > 1
            for given, expected in zip(case.given, wanted, strict=True):
                suffix = "_".join("x".join(map(str, given[x.name].shape)) for x in models[0].inputs)
                called = Called(native, f"net_{suffix}" if several else "net", constants, self, rng)
                inputs = [np.asarray(given[x.name]) for x in models[0].inputs]
                outputs = [np.asarray(expected[name]) for name in case.names]
                for made, what in (
                    (called.run(inputs, outputs), "run"),
                    (called.run_on(inputs, outputs), "run_on"),
                ):
                    same(
                        dict(zip(case.names, made, strict=True)),
                        dict(zip(case.names, outputs, strict=True)),
                        what,
                    )
        finally:
            _ctypes.dlclose(native._handle)
        return "same bits"


class Called:
    """An entry of a library, called on memory of the fence."""

    def __init__(
        self, native: Any, prefix: str, constants: Array | None, kind: Exports, rng: random.Random
    ) -> None:
        self.native, self.prefix, self.fence, self.rng = native, prefix, kind.fence, rng
        self.constants = constants

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> list[Array]:
        return self._called("run", inputs, outputs, self._workspace("workspace"))

    def run_on(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> list[Array]:
        called = _PARALLEL(self._parallel)
        workspace = self._workspace("workspace_on", _SIZE(THREADS))
        return self._called("run_on", inputs, outputs, workspace, called, None)

    def _parallel(self, pool: Any, piece: int, job: int, items: int, grain: int) -> None:
        """Call the parts of a step, which are of any lengths, in any order."""
        run, parts, begin = _PIECE(piece), [], 0
        while begin < items:
            end = min(items, begin + self.rng.choice((grain, grain, 1, 3 * grain, items)))
            parts.append((begin, end))
            begin = end
        self.rng.shuffle(parts)
        for begin, end in parts:
            run(job, begin, end, self.rng.randrange(THREADS))

    def _workspace(self, name: str, *arguments: Any) -> Array:
        function = self.native[f"{self.prefix}_{name}"]
        function.restype = _SIZE
        made = self.fence.empty((function(*arguments),), np.uint8, self.rng)
        made[:] = 0xFF
        return made

    def _called(
        self, name: str, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Array, *rest: Any
    ) -> list[Array]:
        copies = [self.fence.copy(x, self.rng) for x in inputs]
        results = [self.fence.empty(y.shape, y.dtype, self.rng) for y in outputs]
        own = []
        if self.constants is not None:
            own = [self.fence.copy(self.constants, self.rng)]
        pointers = [_POINTER(each.ctypes.data) for each in (*copies, *results, *own, workspace)]
        status = self.native[f"{self.prefix}_{name}"](*pointers, *rest)
        if status:
            raise Finding(f"{name} returns {status}")
        if any(copy.tobytes() != x.tobytes() for copy, x in zip(copies, inputs, strict=True)):
            raise Finding(f"{name} writes an input")
        return results


def refused(error: CenoteError, models: Sequence[cenote.Model], wanted: Sequence[Mapping[str, Any]]) -> str:
    """Judge the refusal of what the models have run."""
    text = f"{type(error).__name__}: {error}"
    chains = [model.plans for model in models]
    steps = [step for chain in chains for plan in chain for step in plan.program.steps]
    if "steps run as NumPy" in text and any(isinstance(step, HostStep) for step in steps):
        return "refused for NumPy steps"
    # A part that ends at a cut may be the last one: where nothing is left to compile behind it.
    cut = any(stage.tail is not None for model in models for stage in model._stages.values())
    if "depend on the content" in text and cut:
        return "refused for sizes by content"
    if "functions of the C library" in text:
        return "refused for the C library"
    if any(np.asarray(y).dtype.name not in C_TYPES for made in wanted for y in made.values()):
        return "refused for types"
    raise Finding(f"the export is refused: {text}")


KIND = Exports()
