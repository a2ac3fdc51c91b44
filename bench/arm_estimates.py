"""Estimated speed of the hot loops on Arm processors, by llvm-mca: nothing here was measured on one.

    python -m bench.arm_estimates resnet18 mobilenet_v2 [--mca llvm-mca-19]

For each kernel of these networks: the innermost loop with most multiply-adds, its share of the peak of multiply-adds,
and how many of its instructions read or write the stack.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from unittest import mock

from bench.files import MODEL_FOLDER, ModelFiles
from cenote.codegen.builder import Kernel
from cenote.codegen.objects import assembly
from cenote.core.load_options import LoadOptions
from cenote.export import targets
from cenote.export.planning import Exporter
from cenote.frontends.onnx import load_onnx

NAME = "aarch64"
LEAST = 8  # multiply-adds of a loop that counts
# Vector multiply-adds that a core can begin in a cycle.
CORES = {"neoverse-v2": 4, "neoverse-n1": 2}
_ITERATIONS = 100
_LABEL = re.compile(r"^(\.L\w+):")
_BRANCH = re.compile(r"^\tb(?:\.\w+|l?)?\t?\s*(\.L\w+)|^\t(?:cbn?z|tbn?z)\t.*?(\.L\w+)")


def kernels(files: ModelFiles, by_lane: bool) -> dict[str, Kernel]:
    """Return the kernels of a network as it is exported for aarch64, by symbol: by lanes, or with broadcasts."""
    target = replace(targets.TARGETS[NAME], by_lane=by_lane)
    with mock.patch.dict(targets.TARGETS, {NAME: target}):  # type: ignore[arg-type]  # a dict
        exporter = Exporter(load_onnx(files.onnx).graph, LoadOptions(tune="off"), NAME)
        return dict(exporter.program(files.name, {}, ()).kernels)


def innermost_loop(text: str) -> list[str]:
    """Return the lines of the loop without loops in it that has most multiply-adds."""
    lines = text.splitlines()
    places = {match.group(1): i for i, line in enumerate(lines) if (match := _LABEL.match(line))}
    best: list[str] = []
    for i, line in enumerate(lines):
        match = _BRANCH.match(line)
        label = match and (match.group(1) or match.group(2))
        if not label or places.get(label, i) >= i:
            continue
        body = lines[places[label] + 1 : i + 1]
        inner = any(_LABEL.match(each) for each in body)
        if not inner and count(body) > count(best):
            best = body
    return best


def count(lines: list[str]) -> int:
    """Return the number of vector multiply-adds."""
    return sum("\tfmla\t" in line for line in lines)


def share(loop: list[str], core: str, mca: str) -> float:
    """Return a loop's share of the peak of multiply-adds."""
    text = "\n".join([*(line for line in loop if not _BRANCH.match(line)), ""])
    command = [mca, "-mtriple=aarch64", f"-mcpu={core}", f"-iterations={_ITERATIONS}"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    cycles = int(re.search(r"Total Cycles:\s+(\d+)", done.stdout).group(1))  # type: ignore[union-attr]  # llvm-mca prints it
    return _ITERATIONS * count(loop) / cycles / CORES[core]


def report(files: ModelFiles, by_lane: bool, mca: str) -> None:
    """Print a line for each kernel with a loop of multiply-adds."""
    for symbol, kernel in kernels(files, by_lane).items():
        loop = innermost_loop(assembly(kernel.body_module("body"), kernel.target))
        if count(loop) < LEAST:
            continue
        stack = sum("[sp" in line for line in loop)
        shares = "  ".join(f"{share(loop, core, mca):12.0%}" for core in CORES)
        print(
            f"{'lanes' if by_lane else 'broadcasts':10}  {count(loop):13}  {stack:5}  {shares}  {symbol[:90]}",
            flush=True,
        )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.arm_estimates", description=__doc__)
    parser.add_argument("models", nargs="*", default=["resnet18", "mobilenet_v2"])
    parser.add_argument("--folder", type=Path, default=MODEL_FOLDER, help="where bench.export wrote them")
    parser.add_argument("--mca", default="llvm-mca-19")
    arguments = parser.parse_args()
    print(f"{'form':10}  multiply-adds  stack  {'  '.join(CORES)}  kernel")
    for name in arguments.models:
        for by_lane in (False, True):
            report(ModelFiles(name, arguments.folder), by_lane, arguments.mca)


if __name__ == "__main__":
    main()
