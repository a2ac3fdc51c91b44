"""Functions on arrays beside their peers: what `bench.operators` measures, a file per family."""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Inputs = tuple[np.ndarray, ...]
Prepare = Callable[[Inputs, int], Callable[[], Any]]


@dataclass(frozen=True)
class OperatorCase:
    """One call of a function.

    `inputs` makes the arrays, always the same. `engines[engine](inputs, threads)` imports the engine, prepares, and
    gives a function without arguments that computes once and returns its result: arrays, or what np.asarray takes.
    Results are compared with those of "numpy" where it takes part, else of the first other engine than Cenote;
    `tolerance` is the error that counts as none, relative to the largest output. `bytes_moved` is for GB/s (0: none).
    """

    name: str
    inputs: Callable[[], Inputs]
    engines: dict[str, Prepare] = field(compare=False)
    tolerance: float = 0.0
    bytes_moved: int = 0


def families() -> list[str]:
    """The names of the files beside this one that have cases."""
    return sorted(name for _, name, _ in pkgutil.iter_modules(__path__) if name != "peers")


def cases_of(family: str) -> list[OperatorCase]:
    """The cases of a family."""
    found: list[OperatorCase] = importlib.import_module(f"{__name__}.{family}").cases()
    return found


def case_named(family: str, name: str) -> OperatorCase:
    """One of them."""
    return next(case for case in cases_of(family) if case.name == name)
