"""All of PyTorch's own samples (op_db) of every function that cenote.functional has, counted.

    python -m tests.functional.op_db_table [NAME ...]     counts the named functions, or all, and writes what it found
                                                          into data/op_db_counts.txt, unless something differs

The tests beside this file run a part of them for types other than float32; this runs every sample of every type that
both have, and every error input. A difference is printed and makes the exit code 1.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import cenote.functional as F
from tests.functional.op_db import (
    choice,
    elementwise,
    movement,
    normalization,
    pool,
    products,
    random,
    reductions,
    sampling,
)
from tests.functional.op_db.database import op_db, torch

COUNTS = Path(__file__).parents[1] / "data" / "op_db_counts.txt"
# Entries of op_db that have the name of one of our functions and are something else.
OTHERS = ("unfold", "linalg.norm", "norm")  # of tensors, of matrices too


@dataclass
class Count:
    """What became of a function's samples."""

    types: list[str] = field(default_factory=list)
    passed: int = 0
    errors: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)

    def line(self, name: str) -> str:
        reasons = "; ".join(f"{count} {reason}" for reason, count in sorted(self.left_out.items()))
        return f"{name}: {self.passed} samples of {len(set(self.types))} types, {self.errors} errors" + (
            f", without {reasons}" if reasons else ""
        )


def family_of(op: Any) -> ModuleType | None:
    """The tests that know how an entry is compared."""
    if op.name in {each.name for each in pool.POOLS}:
        return pool if hasattr(F, function_of(op)) else None
    named = (elementwise, movement, reductions, sampling, random)
    for module in named:
        if op.name in module.NAMES:
            return module
    if op.name in choice.SAMPLES:
        return choice
    if any(op is each for each in normalization.OPS):
        return normalization
    return products if op.name in products.NAMES else None


def function_of(op: Any) -> str:
    """The name of our function."""
    for module in (reductions, movement):
        if op.name in module.NAMES:
            return str(module.NAMES[op.name])
    return str(op.name.rpartition(".")[2])


def count(op: Any, family: ModuleType, into: Count) -> None:
    """Every sample of every type, and every error input."""
    for kind in family.TYPES:
        if getattr(torch, kind) not in op.supported_dtypes("cpu"):
            continue
        torch.manual_seed(0)
        for number, sample in enumerate(op.sample_inputs("cpu", getattr(torch, kind), requires_grad=False)):
            into.types.append(kind)
            reason = _tried(
                lambda s=sample, k=kind: family.compare(op, k, s), into, f"{kind} sample {number}"
            )
            into.passed += reason == ""
    for number, error in enumerate(op.error_inputs("cpu") if op.error_inputs_func else ()):
        reason = _tried(
            lambda e=error: family.refuse(op, e), into, f"error input {number}: {error.error_regex}"
        )
        into.errors += reason == ""


def _tried(call: Any, into: Count, what: str) -> str | None:
    """Why it is left out, "" where it agrees, None where it does not."""
    try:
        reason = str(call())
    except BaseException as error:  # what pytest.raises does not see is no Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        text = " ".join(str(error).split())
        into.differences.append(f"{what}: {type(error).__name__}: {text[:200]}")
        return None
    if reason:
        into.left_out[reason] += 1
    return reason


def counts(names: list[str]) -> dict[str, Count]:
    """By function, of those named or of all."""
    found: dict[str, Count] = {}
    for op in op_db:
        name, family = function_of(op), family_of(op)
        if family is None or (names and name not in names):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            counted = found.setdefault(name, Count())
            count(op, family, counted)
        print(
            counted.line(name),
            *(f"\n    {text}" for text in counted.differences),
            file=sys.stderr,
            flush=True,
        )
    return found


def unmapped() -> Iterator[str]:
    """Entries of op_db that have the name of one of our functions, but no test."""
    for op in op_db:
        own = op.name.rpartition(".")[2]
        other = op.name in OTHERS or op.name.startswith(("masked.", "sparse."))
        if own in F.__all__ and family_of(op) is None and not other:
            yield op.name


def kept() -> dict[str, str]:
    """The lines of the table by function."""
    lines = COUNTS.read_text(encoding="utf-8").splitlines() if COUNTS.exists() else []
    return {line.partition(":")[0]: line for line in lines if not line.startswith("#")}


def table(lines: dict[str, str]) -> str:
    """The whole, with what the lines add up to."""
    passed, errors, left = 0, 0, 0
    for line in lines.values():
        told, _, without = line.partition(", without ")
        passed += int(re.findall(r"(\d+) samples", told)[0])
        errors += int(re.findall(r"(\d+) errors", told)[0])
        left += sum(int(part.split()[0]) for part in without.split("; ") if part)
    head = f"# {passed:,} samples and {errors} error inputs of {len(lines)} functions pass, {left} are left out; "
    ordered = [lines[name] for name in sorted(lines)]
    return "\n".join([f"{head}torch {torch.__version__.partition('+')[0]}", *ordered]) + "\n"


def main() -> int:
    found = counts(sys.argv[1:])
    lines = {name: each.line(name) for name, each in found.items()}
    text = table({**kept(), **lines} if sys.argv[1:] else lines)
    wrong = [f"{name} {difference}" for name, each in found.items() for difference in each.differences]
    print("\n".join([text, *wrong]))
    if not wrong:
        COUNTS.write_text(text, encoding="utf-8")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
