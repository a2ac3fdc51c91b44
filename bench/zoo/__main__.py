"""Checks and times the zoo's networks, and writes the page: `python -m bench.zoo FOLDER`.

    python -m bench.zoo FOLDER --check             answers, of fixed and open sizes
    python -m bench.zoo FOLDER --time              times beside the peers, in turns, each engine in its own process
    python -m bench.zoo FOLDER --time-open         times of the files of open sizes
    python -m bench.zoo FOLDER --page docs/benchmarks/zoo.md

FOLDER is where `bench.zoo.export` wrote (and `bench.zoo.convert_litert`, for LiteRT). What was found is kept per
network in --output, and not asked again, so that a run may be cut and continued; --again asks again.
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from pathlib import Path
from typing import Any

from bench.arguments import chosen_engines, shared_parser, thread_counts
from bench.engines import MODEL_ENGINES, OPEN_SIZE_ENGINES, EngineSpec
from bench.files import RESULT_FOLDER, ModelFiles
from bench.machine import describe
from bench.models import measure
from bench.report import say
from bench.rounds import Plan
from bench.verdict import TOLERANCE
from bench.zoo import results
from bench.zoo.architectures import ARCHITECTURES
from bench.zoo.checks import check_fixed, check_open
from bench.zoo.page import page

ENGINES = "cenote,onnxruntime,openvino,litert"


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = shared_parser("python -m bench.zoo", __doc__ or "", MODEL_ENGINES)
    made.formatter_class = argparse.RawDescriptionHelpFormatter
    made.set_defaults(engines=ENGINES, seconds=0.6, rounds=3, output=RESULT_FOLDER / "zoo")
    made.add_argument("folder", type=Path, help="of the networks")
    made.add_argument("names", nargs="*", default=list(ARCHITECTURES), help="networks (default: all)")
    made.add_argument("--check", action="store_true", help="compare answers")
    made.add_argument("--time", action="store_true", help="measure times")
    made.add_argument(
        "--time-open",
        action="store_true",
        help="of the files of open sizes, beside fixed ones and ONNX Runtime",
    )
    made.add_argument("--again", action="store_true", help="also of what was found before")
    made.add_argument("--page", type=Path, help="write this page of all that was found")
    return made


def check(found: results.Found, folder: Path) -> None:
    """Compare the answers of one network and say what is not right."""
    one, files = ARCHITECTURES[found.name], ModelFiles(found.name, folder)
    found.tolerance = files.tolerance or TOLERANCE
    found.fixed = check_fixed(one, folder)
    found.open = check_open(one, folder, found.tolerance) if files.of_open_sizes.onnx.exists() else None
    print(f"{found.name}: {found.fixed} open: {found.open} tolerance {found.tolerance:.1e}", flush=True)


def time(found: results.Found, files: ModelFiles, specs: list[EngineSpec], plan: Plan, opened: bool) -> None:
    """Measure one network with one number of threads."""
    row = measure(files, specs, plan, opened=opened)
    found.add(row, opened)
    say(row)


def machine(folder: Path) -> dict[str, Any]:
    """The machine on which the times were measured, described at the first of them."""
    path = folder / "machine"
    if not path.exists():
        path.write_text(json.dumps(describe()))
    described: dict[str, Any] = json.loads(path.read_text())
    return described


def main() -> None:
    """Command line."""
    given = parser().parse_intermixed_args()
    specs = chosen_engines(parser(), given.engines, MODEL_ENGINES)
    if unknown := sorted(set(given.names) - set(ARCHITECTURES)):
        parser().error(f"no such network: {', '.join(unknown)}")
    measured = [opened for opened, wanted in ((False, given.time), (True, given.time_open)) if wanted]
    given.output.mkdir(parents=True, exist_ok=True)
    for name in given.names:
        files, found = ModelFiles(name, given.folder.resolve()), results.read(given.output, name)
        if not files.arrays.exists():
            print(f"{name}: not exported", flush=True)
            continue
        if given.check and (given.again or found.fixed is None):
            check(found, files.folder)
            results.write(given.output, found)
        for opened, count in product(measured, thread_counts(given.threads)):
            missing = given.again or found.timed(count, opened=opened) is None
            if missing and (not opened or files.of_open_sizes.onnx.exists()):
                machine(given.output)
                chosen = list(OPEN_SIZE_ENGINES.values()) if opened else specs
                time(found, files, chosen, Plan(count, given.seconds, given.rounds), opened)
                results.write(given.output, found)
    if given.page:
        everything = [results.read(given.output, name) for name in ARCHITECTURES]
        given.page.write_text(page(everything, machine(given.output)))


if __name__ == "__main__":
    main()
