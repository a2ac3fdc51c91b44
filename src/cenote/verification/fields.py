"""Content of the result of `cenote.verify`, as frozen data. `found.Verification` prints and writes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from cenote.core.deferred import dataclass

Kind = Literal["kernel", "import", "rounding", "sizes"]
Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class ValueErrors:
    """A value of the plan. `inherited`: its largest difference from the peer's, relative to the peer's largest element
    (None: the peer does not have it); `local`: the same for the node's kernels and its float64 reference on the inputs
    that the kernels had."""

    value: str
    node: str
    inherited: float | None
    local: float


@dataclass(frozen=True)
class SizesRun:
    """A run of the loaded model at sizes of the inputs (`shapes`, by name). `output` is the one that is furthest from
    the peer's, `inherited` its distance (None: the peer does not have it). `refused`: the reason why there was no
    such run; "" where there was one."""

    shapes: Shapes
    output: str = ""
    inherited: float | None = None
    refused: str = ""


@dataclass(frozen=True)
class Divergence:
    """The first value that is wrong, and the kind of fault.

    `kind`: "kernel", the plan computes something else than the operator says; "import", the operator says something
    else than the peer computes; "rounding", neither, but rounding on the way added up to more than the tolerance;
    "sizes", the loaded model, whose plan holds for many sizes, gives something else than a plan for these sizes
    alone: `local` is the difference. `shapes`: the sizes of the inputs at which it occurs.
    """

    value: str
    node: str
    kind: Kind
    inherited: float | None
    local: float
    shapes: Shapes


@dataclass(frozen=True)
class VerificationFields:
    """The result of `verify`: `values` in the order in which the plan makes them, `first` of those that are wrong,
    and `sizes`: the runs of the loaded model, first at the sizes of the inputs, then at others. The loaded model is
    run where a size is open, or follows from content."""

    against: str
    tolerance: float
    first: Divergence | None
    values: tuple[ValueErrors, ...]
    sizes: tuple[SizesRun, ...] = ()

    @property
    def ok(self) -> bool:
        return self.first is None

    @property
    def verdict(self) -> str:
        """Whether all is well, in a sentence; else the first divergence."""
        compared = sum(row.inherited is not None for row in self.values)
        made = [run for run in self.sizes if not run.refused]
        inherited = [row.inherited or 0.0 for row in self.values] + [run.inherited or 0.0 for run in made]
        worst = max(inherited, default=0.0)
        also = f"; so has the loaded model at {len(made)} size{'s' if len(made) > 1 else ''}" if made else ""
        first = self.first
        if first is None and worst > self.tolerance:
            return (
                f"all is well: no wrong kernel and no wrong import; quantised integers that {self.against} rounds "
                f"otherwise make up to {worst:.1e}"
            )
        if first is None:
            return (
                f"all is well: {compared} values as {self.against} has them, within {self.tolerance:g}{also}"
            )
        errors = f"inherited {shown(first.inherited)}, local {shown(first.local)}"
        place = f" at {sizes_text(first.shapes)}" if self.sizes else ""
        if first.kind != "sizes":
            return f"first divergence: '{first.value}' of node '{first.node}'{place}: {first.kind} ({errors})"
        return (
            f"first divergence: output '{first.value}' of node '{first.node}'{place}: sizes: the loaded model gives "
            f"something else than a plan for these sizes alone ({errors})"
        )


def shown(error: float | None) -> str:
    return "-" if error is None else f"{error:.1e}"


def sizes_text(shapes: Shapes) -> str:
    """Return sizes in the form that `--shape` takes."""
    return " ".join(f"{name}={','.join(map(str, shape))}" for name, shape in shapes.items())
