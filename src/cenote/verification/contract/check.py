"""`cenote.check_operator`: an operator's samples through the contract that Cenote's own operators are held to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field

import numpy as np

from cenote.codegen import jit
from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError
from cenote.core.extensions.classes import OperatorClass, is_operator_class
from cenote.core.extensions.registry import class_of
from cenote.core.target import Target
from cenote.ops.base import Lowering, Op, Sample, ShapeFromData, ValueNeeded
from cenote.ops.table import operators
from cenote.verification.contract.algorithms import check_algorithm
from cenote.verification.contract.comparison import check_sample
from cenote.verification.contract.harness import lowerings_of, require
from cenote.verification.contract.meaning import (
    check_float64,
    check_meaning,
    check_refusals,
    check_region,
    check_text,
)
from cenote.verification.contract.native import (
    bad_inputs,
    check_in_place,
    check_special,
    check_spread,
    special_inputs,
)
from cenote.verification.contract.open_sizes import check_open_sizes, check_threads
from cenote.verification.contract.report import ContractRow, OperatorReport

_WHOLE = ("threads", "open sizes")
_LEVELS = ("avx512", "avx2", "generic")


def check_operator(operator: type | str) -> OperatorReport:
    """Run the samples of an operator through the contract of operators, and return what was seen.

    operator   a subclass of `cenote.ops.Op`, registered or not; or the name of a registered algorithm ("shop.direct"),
               which is run on samples of Cenote's pools or convolutions that it serves, and compared with their
               references on every instruction set that this CPU has

    Checked are: the reference (types as `types` says, inputs left alone, the same bits twice, float64 answers, regions,
    printing, refusals of too few and too many inputs); every lowering, on every instruction set that this CPU has,
    against the reference within its tolerance, its outputs filled with junk and all buffers between guards, its work
    whole and cut in parts, with other inputs constant or not, in the memory of an input where it says so, on NaN and
    infinities; the same bits on one thread and on two; a plan for all sizes.

    Errors in the operator are results, too. Raises ArgumentError for a class that is no operator or has no samples,
    and for a name of no algorithm.
    """
    if isinstance(operator, str):
        return check_algorithm(operator, runnable_targets())
    if not is_operator_class(operator):
        raise ArgumentError(
            f"operator: {getattr(operator, '__name__', operator)!r} is no subclass of cenote.ops.Op"
        )
    made = class_of(operator) or OperatorClass(operator)
    kind: type[Op] = made.operator
    with np.errstate(all="ignore"):
        samples = tuple(kind.samples())
    if not samples:
        raise ArgumentError(
            f"operator: {made.place} has no samples: yield cenote.ops.Sample(operator, inputs) from its class method "
            "`samples`, at least one for each rank and type that it takes"
        )
    checks = _Checks(kind, samples, runnable_targets())
    names = tuple(target.name for target in checks.targets)
    rows: list[ContractRow] = []
    for check in checks.all:
        # Whole programs have no guards around their buffers: a kernel that leaves them would end this process.
        unsafe = check[0] in _WHOLE and any(row.problem for row in rows)
        rows.append(
            ContractRow(check[0], 0, note="not made after a failure") if unsafe else checks.row(check)
        )
    return OperatorReport(kind.name, made.place, names, tuple(rows))


def runnable_targets() -> tuple[Target, ...]:
    """Return the instruction sets that code can run on here, the widest first: the one that code is generated for, and
    those below it."""
    host = jit.host_target()
    narrower: list[Target] = []
    for name in _LEVELS[_LEVELS.index(host.name) + 1 :] if host.name in _LEVELS else ():
        narrower.append(jit.named_target(name))
    return (host, *narrower)


@dataclass
class _Checks:
    """Checks of one operator. Each yields once per case, with what it was, and raises what is wrong."""

    operator: type[Op]
    samples: tuple[Sample, ...]
    targets: tuple[Target, ...]
    note: str = field(default="", init=False)

    @property
    def all(self) -> tuple[tuple[str, Callable[[], Iterator[str]]], ...]:
        """Names and functions of all checks."""
        return (
            ("name and samples", self._names),
            ("types and values", self._meaning),
            ("float64", lambda: self._each(check_float64)),
            ("printing and equality", lambda: self._each(lambda sample: check_text(sample.op))),
            ("wrong inputs", self._refusals),
            ("regions", self._regions),
            ("lowerings", self._lowerings),
            ("in place", self._in_place),
            ("special values", self._special),
            ("one bad element", self._spread),
            ("threads", self._threads),
            ("open sizes", self._open_sizes),
        )

    def row(self, check: tuple[str, Callable[[], Iterator[str]]]) -> ContractRow:
        """Make one check, until its first problem."""
        name, cases = check
        self.note, count, case = "", 0, ""
        running = cases()
        while True:
            try:
                case = next(running)
            except StopIteration:
                return ContractRow(name, count, note=self.note)
            except Exception as error:  # whatever the user's operator raises is the result of the check
                problem = (
                    str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
                )
                return ContractRow(name, count, f"{problem} [{case}]" if case else problem)
            count += 1

    def _names(self) -> Iterator[str]:
        yield ""
        taken = [
            each for each in operators() if each.name == self.operator.name and each is not self.operator
        ]
        require(
            not taken,
            f"an operator of Cenote's has the name '{self.operator.name}'; put your domain before it",
        )
        documented = self.operator.__doc__ or ""
        require(
            bool(documented) and not documented.startswith(f"{self.operator.__name__}("),
            "the class has no docstring, which says what it computes",
        )
        for sample in self.samples:
            require(isinstance(sample, Sample), f"samples yields {sample!r:.60}, not a cenote.ops.Sample")

    def _each(self, check: Callable[[Sample], object]) -> Iterator[str]:
        for sample in self.samples:
            yield str(sample)
            check(sample)

    def _meaning(self) -> Iterator[str]:
        yield from self._each(check_meaning)

    def _refusals(self) -> Iterator[str]:
        sample = self.samples[0]
        yield str(sample)
        check_refusals(sample.op, bool(sample.inputs))

    def _regions(self) -> Iterator[str]:
        if self.operator.region is Op.region:
            self.note = "it says none: each output needs all of its inputs"
            return
        yield from self._each(check_region)

    def _lowered(self) -> Iterator[tuple[int, Sample, Target, bool, list[Lowering]]]:
        """Yield the lowerings of all samples on all targets, with constants and without."""
        found = False
        for place, target in enumerate(self.targets):
            for sample in self.samples:
                for constants in (True, False) if len(sample.inputs) > 1 else (True,):
                    try:
                        lowerings = lowerings_of(sample.op, sample.inputs, target, constants)
                    except (ShapeFromData, ValueNeeded):
                        continue
                    found = found or bool(lowerings)
                    yield place, sample, target, constants, lowerings
        if not found:
            self.note = "it has no lowerings: it runs as a NumPy step"

    def _lowerings(self) -> Iterator[str]:
        for place, sample, target, constants, lowerings in self._lowered():
            for lowering in lowerings:
                yield f"{sample} on {target.name}"
                check_sample(sample.op, sample.inputs, target, constants, [lowering], halos=not place)

    def _in_place(self) -> Iterator[str]:
        for _, sample, target, constants, lowerings in self._lowered():
            for lowering, index in ((each, index) for each in lowerings for index in each.in_place):
                yield f"{sample} on {target.name}"
                check_in_place(sample.op, lowering, sample.inputs, target, constants, index)

    def _special(self) -> Iterator[str]:
        lowered = any(found for *_, found in self._lowered())
        for target in self.targets if lowered else ():
            for sample, arrays in special_inputs(self.samples):
                yield f"{sample} on {target.name}"
                check_special(sample.op, arrays, target)

    def _spread(self) -> Iterator[str]:
        for _, sample, target, constants, lowerings in self._lowered():
            for arrays in bad_inputs(sample) if constants and lowerings else ():
                yield f"{sample} on {target.name}"
                check_spread(sample.op, arrays, lowerings, target)

    def _threads(self) -> Iterator[str]:
        for sample in self.samples:
            yield str(sample)
            check_threads(sample)

    def _open_sizes(self) -> Iterator[str]:
        reasons = []
        for sample in self.samples:
            yield str(sample)
            reasons.append(check_open_sizes(sample, self.targets[0]))
        if all(reasons):
            self.note = next((reason for reason in reasons if reason.startswith("planned")), reasons[0])
