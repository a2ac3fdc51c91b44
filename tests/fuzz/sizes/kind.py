"""Random graphs of open sizes, loaded once and run at six sizes in an order that changes classes.

Each answer must be ONNX Runtime's, which rounds otherwise, and at some sizes that of the same graph with its sizes
declared, bit for bit with `precision="exact"` (but for what `deviations.ROUNDED` names). Sizes follow each other at
random: a small one after a large one, 1 by 1, other batches; at last the first again.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import cenote
from cenote.compiler.constants import ConstantPool
from cenote.core.errors import CenoteError
from tests.fuzz.case import Finding, generator
from tests.fuzz.deviations import explained, rounded
from tests.fuzz.sizes.maker import BATCHES, MIDDLE, SIDES, Array, Maker, Unfit, Value, fixed
from tests.fuzz.sizes.moves import MOVES, blocks, concat, pad, resize, skip, tile
from tests.fuzz.sizes.numbers import NESTED, NUMBERS, sample
from tests.fuzz.sizes.windows import WINDOWS, conv, transposed

COUNT = 6  # sizes of a graph
FIXED = 3  # of these, where the graph of fixed sizes is made, too: that takes as long as all the rest
TOLERANCE = 2e-4  # of the largest element, beside ONNX Runtime
# A place is half the extent times a number of the grid: where a picture that was sampled makes the next grid, 1.2e-7 of
# the first grid was 1.4e-5 of the picture and 4e-4 of what was sampled next (seed 4005717, extent 63).
AMPLIFIED = 16
ROUNDING = 1e-5  # of the largest element, of what `deviations.ROUNDED` names
# Where ONNX Runtime takes more than ONNX says.
STRICTER = ("holds padding only",)


def drawn(rng: random.Random) -> dict[str, Array]:
    """Batch, height and width at each of the sizes. Most graphs never see sides below 5, where little fits."""
    least = rng.choice((1, 1, 4, 5, 5))
    sides = [side for side in SIDES if side >= least]
    rows = [(rng.choice(BATCHES), rng.choice(sides), rng.choice(sides)) for _ in range(COUNT - 2)]
    rows += [(rng.choice(BATCHES), rng.choice(MIDDLE), rng.choice(MIDDLE)), (1, sides[0], sides[0])]
    rng.shuffle(rows)
    columns = np.array(rows, np.int64).T
    return dict(zip("nhw", columns, strict=True))


def detour(m: Maker) -> Value:
    """A picture made larger or smaller, and brought to the size of another: skips of a U-Net, warps of a flow net."""
    m.rng.choice((conv, transposed, transposed, pad, concat, tile, blocks, resize))(m)
    return m.rng.choice((skip, resize, sample))(m)


def random_graph(rng: random.Random) -> Maker:
    """Two to eight steps on one or two inputs."""
    m = Maker(rng, drawn(rng), rng.choice((18, 20, 21)), careless=rng.random() < 0.08)
    channels = rng.choice((2, 4, 4))
    shape = rng.choice((("n", channels, "h", "w"),) * 6 + ((1, channels, "h", "w"), (2, channels, "h", "h"),
                       ("n", channels, "w"), ("n", channels, 8, "w")))  # fmt: skip
    m.input(*shape)
    if rng.random() < 0.2:
        m.input(*rng.choice((shape, ("n", 4, "h", "w"), ("n", 2, "w", "h"))))
    left = rng.choice((2, 2, 3, 3, 4, 4, 5, 6, 7, 8))
    for _ in range(60):
        before = len(m.nodes), len(m.values), m.alive.copy()
        kind = rng.choices((WINDOWS, MOVES, NUMBERS, NESTED, (detour,)), (32, 29, 25, 2, 12))[0]
        try:
            rng.choice(kind)(m)
            left -= 1
        except Unfit:
            del m.nodes[before[0] :], m.values[before[1] :]
            m.alive = before[2]
        if not left:
            break
    return m


class Sizes:
    name = "sizes"
    limit = 60.0

    def prepare(self) -> None:
        import onnxruntime

        import cenote.compiler.compile  # what compiles is there before workers are forked
        import cenote.models.loading
        import cenote.ops.table

        onnxruntime.set_default_logger_severity(4)
        cenote.ops.table.operators()
        # For some bytes of weights: the first page of a usual slab is 2 MB of zeros, a twentieth of a load here.
        ConstantPool._SLAB = 1 << 18

    def close(self) -> None:
        pass

    def run(self, seed: int) -> str:
        rng = generator(self.name, seed)
        m = random_graph(rng)
        if not m.nodes:
            return "nothing"
        return Case(m, rng).compare()


class Case:
    """One graph, its model and its peer."""

    def __init__(self, m: Maker, rng: random.Random) -> None:
        self.proto, self.content = m.model(), b""
        self.m, self.rng = m, rng
        self.rounded = rounded(self.proto.graph)
        samplers = sum(node.op_type == "GridSample" for node in self.proto.graph.node)
        self.tolerance = TOLERANCE * AMPLIFIED ** max(0, samplers - 1)
        self.noise = np.random.default_rng(rng.getrandbits(60))
        self.peers: dict[bool, Any] = {}
        self.names = [item.name for item in self.proto.graph.output]

    def compare(self) -> str:
        self.content = self.proto.SerializeToString()
        model = cenote.load(self.proto, threads=1, precision="exact", tune="off")
        outcomes, first = [], None
        known = self.rng.sample(range(COUNT), FIXED)
        for place in range(COUNT):
            shapes = {
                name: tuple(
                    int(self.m.sizes[axis][place]) if isinstance(axis, str) else axis for axis in axes
                )
                for name, axes in self.m.inputs.items()
            }
            given = {name: self.noise.standard_normal(shape, np.float32) for name, shape in shapes.items()}
            ours = answer(model, given)
            if place in known or not self.m.alive[place]:
                outcomes.append(self.like_fixed(ours, shapes, given))
            if self.m.alive[place]:  # engines differ about empty values, which most operators refuse here
                outcomes.append(self.like_peer(ours, given, shapes))
            first = first or (ours, given, shapes)
        assert first is not None
        if not isinstance(first[0], Exception):
            again = answer(model, first[1])
            if isinstance(again, Exception) or any(
                again[n].tobytes() != first[0][n].tobytes() for n in self.names
            ):
                raise Finding(f"the first size again gives other bits, at {first[2]}")
        return max(outcomes, key=lambda outcome: (outcome != "agreed", outcome))

    def like_fixed(self, ours: Any, shapes: dict[str, tuple[int, ...]], given: dict[str, Array]) -> str:
        """The graph with its sizes declared gives the same."""
        try:
            wanted = answer(
                cenote.load(fixed(self.proto, shapes), threads=1, precision="exact", tune="off"), given
            )
        except CenoteError as error:
            wanted = error
        if isinstance(ours, Exception) or isinstance(wanted, Exception):
            if type(ours) is not type(wanted):
                raise Finding(f"open: {_told(ours)}\nfixed: {_told(wanted)}\nat {shapes}")
            return "refused by both"
        other = {name: what for name in self.names if (what := differs(ours[name], wanted[name]))}
        for name, what in other.items():
            if name not in self.rounded or unlike(ours[name], wanted[name], ROUNDING):
                raise Finding(f"{name} of a fixed size: {what}, at {shapes}")
        return "rounded otherwise, as named" if other else "agreed"

    def like_peer(self, ours: Any, given: dict[str, Array], shapes: dict[str, tuple[int, ...]]) -> str:
        theirs = self.peer(False, given)
        if isinstance(ours, Exception):
            if isinstance(theirs, str) or any(0 in y.shape for y in theirs.values()):
                return "refused by both"
            if any(words in str(ours) for words in STRICTER):
                return "refused alone, as documented"
            raise Finding(f"refused alone: {_told(ours)}\nat {shapes}")
        if isinstance(theirs, str):
            again = self.peer(True, given)
            if isinstance(again, str):
                return "refused by onnxruntime"
            theirs = again
        wrong = {
            name: (ours[name], theirs[name])
            for name in self.names
            if unlike(ours[name], theirs[name], self.tolerance)
        }
        if not wrong:
            return "agreed"
        other = self.peer(True, given)
        if not isinstance(other, str) and not any(
            unlike(ours[name], other[name], self.tolerance) for name in wrong
        ):
            return "as onnxruntime with its optimisations"
        if explained(self.content, wrong, lambda a, b: unlike(a, b, self.tolerance)):
            return "a known deviation"
        told = {name: unlike(a, b, self.tolerance) for name, (a, b) in wrong.items()}
        raise Finding(f"onnxruntime: {told}, at {shapes}")

    def peer(self, optimised: bool, given: dict[str, Array]) -> Any:
        """ONNX Runtime's answers by name, or its words."""
        try:
            if optimised not in self.peers:
                self.peers[optimised] = session(self.content, optimised)
            return dict(zip(self.names, self.peers[optimised].run(self.names, given), strict=True))
        except Exception as error:
            return str(error)[:2000]


def session(content: bytes, optimised: bool) -> Any:
    """Plain nodes one after another, on one thread; or with all rewritings."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.enable_cpu_mem_arena = False
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimised else level.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def answer(model: Any, given: dict[str, Array]) -> Any:
    try:
        return model.run(given)
    except CenoteError as error:
        return error


def differs(a: Array, b: Array) -> str:
    """The place of other bits, or nothing."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype}{list(a.shape)} is {b.dtype}{list(b.shape)}"
    if a.tobytes() == b.tobytes():
        return ""
    return unlike(a, b, 0.0) or "the sign of a zero"


def unlike(a: Any, b: Any, tolerance: float) -> str:
    """The largest difference beyond this share of the largest element, or nothing."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype}{list(a.shape)} is {b.dtype}{list(b.shape)}"
    if not a.size:
        return ""
    apart = np.abs(a.astype(np.float64) - b.astype(np.float64))
    limit = tolerance * max(1.0, float(np.abs(b).max())) if a.dtype == np.float32 else 0.0
    if (apart <= limit).all():
        return ""
    if np.isnan(apart).any() and np.array_equal(a, b, equal_nan=True):
        return ""
    place = np.unravel_index(int(np.nanargmax(apart)), a.shape)
    return f"{a[place]} is {b[place]} at {[int(i) for i in place]} of {a.dtype}{list(a.shape)}"


def _told(x: Any) -> str:
    return f"{type(x).__name__}: {x}"[:600] if isinstance(x, Exception) else "answers"


KIND = Sizes()
