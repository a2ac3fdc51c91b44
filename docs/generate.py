"""Writes the pages that are made from the code: settings, operators, functions on arrays, pooling algorithms.

`make docs` runs it; a test compares.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path

import cenote
from cenote.ops.pool.algorithms import PROBLEMS

DOCS = Path(__file__).parent
CASES = DOCS.parent / "tests" / "data" / "onnx_unsupported.txt"
SAMPLES = DOCS.parent / "tests" / "data" / "op_db_counts.txt"
POOLING = """# Pooling algorithms

Made by `make docs` from `src/cenote/ops/pool/algorithms.py`. For each problem, every algorithm that serves it gives
an estimate in seconds, and the smallest is taken; equal ones go by the order below. `cenote inspect` shows the
estimates of the rivals, `tune="full"` measures them, `python -m bench.pool_choices` says how often the first choice is
the fastest. Windows have r rows and k columns; costs are per vector of outputs.

Over the 193 cases with rivals of `python -m bench.pool_choices --grid` (AVX-512, one thread, least of three runs on a
busy machine) the first choice is the fastest, within 3 %, in 177, and costs 1 % on average and 27 % at worst. The fixed
rules that preceded the estimates: 161, 4 % and a factor of two (3x3x3 windows with AVX-512, 2x2 windows one apart). The
rates of the estimates were fitted to the same cases.
[Add a pooling algorithm](add_a_pooling_algorithm.md) is one file and one line.

| problem | algorithm | file | wins | cost |
|---|---|---|---|---|
"""
OTHER_KERNELS = ("pool.whole_map", "pool.adaptive_argmax", "pool_variants", "pool_gradient", "roi")


def settings_page() -> str:
    """The table of environment variables."""
    lines = [
        "# Settings",
        "",
        "Environment variables, read when they are needed. `cenote info` shows what is in force. This page is made by",
        "`make docs` from `src/cenote/core/settings.py`.",
        "",
        "| variable | default | meaning |",
        "|---|---|---|",
    ]
    for item in cenote.info().settings:
        lines.append(
            f"| `{item.variable}` | {f'`{item.default}`' if item.default else 'empty'} | {item.help} |"
        )
    return "\n".join(lines) + "\n"


def pooling_page() -> str:
    """The list of pooling algorithms, and what the other kernels of pools do."""
    lines = POOLING.splitlines()
    for problem, algorithms in PROBLEMS.items():
        for each in algorithms:
            lines.append(
                f"| {problem} | {each.name} | `kernels/pool/{each.name}.py` | {each.wins} | {each.cost} |"
            )
    lines += ["", "Kernels of pools with one algorithm each:", "", "| file | what it does |", "|---|---|"]
    lines += [f"| `kernels/{name.replace('.', '/')}.py` | {text} |" for name, text in other_kernels()]
    return "\n".join(lines) + "\n"


def other_kernels() -> Iterator[tuple[str, str]]:
    """Module and first sentence of its docstring."""
    for name in OTHER_KERNELS:
        module = importlib.import_module(f"cenote.kernels.{name}")
        inner = [f"{name}.{item.name}" for item in pkgutil.iter_modules(getattr(module, "__path__", []))]
        for each in inner or [name]:
            text = (importlib.import_module(f"cenote.kernels.{each}").__doc__ or "").split("\n\n")[0]
            yield each, " ".join(text.split()).rstrip(":")


def _page_of(module: str, *arguments: Path, function: str = "page") -> str:
    """What a function of a module beside this one makes."""
    sys.path.insert(0, str(DOCS))
    try:
        made: str = getattr(importlib.import_module(module), function)(*arguments)
    finally:
        sys.path.remove(str(DOCS))
    return made


def operators_page() -> str:
    """The list of operators."""
    return _page_of("operator_table", CASES)


def functions_page() -> str:
    """The list of functions on arrays."""
    return _page_of("function_table", SAMPLES)


def signatures_page() -> str:
    """The list of functions on arrays from which the site makes their reference."""
    return _page_of("function_table", function="signatures")


PAGES = {
    "operators.md": operators_page,
    "functional.md": functions_page,
    "reference/functional.md": signatures_page,
    "settings.md": settings_page,
    "pooling_algorithms.md": pooling_page,
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
