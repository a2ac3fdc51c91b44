"""Rounding errors of long sums beside NumPy's pairwise sums, PyTorch and ONNX Runtime, on ten distributions.

The error is the largest |found - float64| / (sum of the terms' absolute values), in units of 2^-24, half the distance
from 1 to the next float32: a sum that is rounded once has at most 1.
"""

import argparse
import gc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from bench.accuracy_cases import DISTRIBUTIONS, Arrays, Case, convolutions, products, sums
from bench.report import table

CASES: tuple[Case, ...] = (*products.CASES, *convolutions.CASES, *sums.CASES)
UNIT = 2.0**-24


def _cenote(case: Case, arrays: Arrays, precision: Literal["fast", "exact"]) -> np.ndarray:
    import cenote

    model = cenote.load(case.model(arrays), precision=precision)
    names = [value.name for value in model.inputs]
    return np.asarray(model(**dict(zip(names, arrays, strict=False))))


def _onnxruntime(case: Case, arrays: Arrays) -> np.ndarray:
    import onnxruntime

    session = onnxruntime.InferenceSession(case.model(arrays), providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    found: np.ndarray = session.run(None, dict(zip(names, arrays, strict=False)))[0]
    return found


ENGINES: dict[str, Callable[[Case, Arrays], np.ndarray]] = {
    "fast": lambda case, arrays: _cenote(case, arrays, "fast"),
    "exact": lambda case, arrays: _cenote(case, arrays, "exact"),
    "numpy": lambda case, arrays: case.numpy(arrays),
    "torch": lambda case, arrays: case.torch(arrays),
    "onnxruntime": _onnxruntime,
}


def error(found: np.ndarray, truth: np.ndarray, scale: np.ndarray) -> float:
    """The largest error of an element relative to its scale, in units of 2^-24; infinite where one is no number."""
    difference = np.abs(found.astype(np.float64) - truth)
    smallest = float(np.finfo(np.float32).smallest_subnormal)
    worst = float(np.max(difference / np.maximum(scale * UNIT, smallest / 2), initial=0.0))
    return worst if np.isfinite(worst) else float("inf")


def errors(case: Case, length: int, distribution: str, engines: Sequence[str]) -> list[float]:
    """One for each engine."""
    arrays = case.operands(distribution, length)
    truth, scale = case.truth(arrays)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return [error(ENGINES[engine](case, arrays), truth, scale) for engine in engines]


def report(cases: Sequence[Case], engines: Sequence[str], longest: int) -> str:
    """The tables, one for each case and length: a line per distribution, a column per engine."""
    text = ["# Rounding errors of long sums\n", f"{(__doc__ or '').split(chr(10), 2)[2].strip()}\n"]
    group = ""
    for case in cases:
        if case.group != group:
            group = case.group
            text.append(f"## {group.capitalize()}\n")
        for length in case.lengths:
            if length > longest:
                continue
            rows = []
            for distribution in DISTRIBUTIONS:
                found = errors(case, length, distribution, engines)
                rows.append([distribution, *(f"{value:.2g}" for value in found)])
                gc.collect()
            text.append(f"### {case.name}: {length} terms\n\n{table(['', *engines], rows)}")
            print(text[-1], flush=True)
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.accuracy", description="rounding errors of long sums")
    parser.add_argument("--cases", default="", help="only those with this in their group or name")
    parser.add_argument("--engines", default=",".join(ENGINES), help=f"of {', '.join(ENGINES)}")
    parser.add_argument("--longest", type=int, default=1_000_000, help="leave out longer sums")
    parser.add_argument("--output", type=Path, help="Markdown file for the tables")
    chosen = parser.parse_args()
    engines = chosen.engines.split(",")
    unknown = sorted(set(engines) - set(ENGINES))
    if unknown:
        parser.error(f"no such engine: {', '.join(unknown)}; there are {', '.join(ENGINES)}")
    cases = [case for case in CASES if chosen.cases in f"{case.group} {case.name}"]
    text = report(cases, engines, chosen.longest)
    if chosen.output is not None:
        chosen.output.write_text(text)


if __name__ == "__main__":
    main()
