"""The command `cenote` of `cenote-runtime`: plan files and the installation, with NumPy alone."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

import cenote

_ARRAYS = (".npy", ".npz")


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and end the process: 0 for success, 1 for a fault of the plan or an input, 2 for one of the
    command line. Errors print as one line."""
    parser = _parser()
    given = parser.parse_args(arguments)
    try:
        given.command(given)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except cenote.CenoteError as error:
        _fail(str(error))
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error))
    sys.exit(0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "cenote",
        description="Run plan files, which `cenote compile` writes. All other commands are in the package cenote "
        "(install it instead of cenote-runtime).",
    )
    parser.add_argument(
        "--version", action="version", version=f"cenote {cenote.__version__} (cenote-runtime)"
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="run a plan file on arrays", description=_run.__doc__)
    run.add_argument("model", metavar="PLAN", help="a plan file")
    run.add_argument(
        "inputs", metavar="INPUT", nargs="*", help="a .npz with an array per input; .npy files, or NAME=FILE"
    )
    run.add_argument("--save", metavar="FILE", help="write the outputs to this .npz")
    run.add_argument(
        "--threads", type=int, metavar="N", help="threads per inference (default: one per physical core)"
    )
    run.add_argument("--json", action="store_true", help="print JSON")
    run.set_defaults(command=_run)
    info = commands.add_parser(
        "info", help="show the machine and the installation", description=_info.__doc__
    )
    info.add_argument("--json", action="store_true", help="print JSON")
    info.set_defaults(command=_info)
    return parser


def _fail(message: str) -> NoReturn:
    print("error:", message, file=sys.stderr)
    sys.exit(1)


def _run(given: argparse.Namespace) -> None:
    """Run a plan file on arrays, twice, and print the outputs and the time of the second run."""
    start = time.perf_counter()
    model = cenote.load(given.model, threads=given.threads)
    inputs = _inputs(model, given.inputs)
    outputs = model.run(inputs)
    ready = time.perf_counter() - start
    begin = time.perf_counter()
    outputs = model.run(inputs)
    seconds = time.perf_counter() - begin
    if given.save:
        with open(given.save, "wb") as file:
            np.savez(file, **outputs)  # type: ignore[arg-type]
    shown = {name: _shown(array) for name, array in outputs.items()}
    if given.json:
        found = {"model": given.model, "threads": model.threads, "load_seconds": ready, "seconds": seconds}
        print(json.dumps({**found, "outputs": shown}, indent=2))
        return
    print(
        f"{1e3 * seconds:.3g} ms on {model.threads} thread(s); loaded and run first in {1e3 * ready:.3g} ms"
    )
    for name, each in shown.items():
        print(
            f"{name}: {each['dtype']} {each['shape']}"
            + f", least {each['least']}, largest {each['largest']}" * bool(each["shape"])
        )


def _shown(array: Any) -> dict[str, Any]:
    """Facts of an output, for JSON: no NaN or infinity, which JSON does not have."""
    array = np.asarray(array)
    numbers = array[np.isfinite(array)] if array.dtype.kind in "fc" else array.ravel()
    ends = [float(numbers.min()), float(numbers.max())] if numbers.size else [None, None]
    return {"dtype": str(array.dtype), "shape": [*array.shape], "least": ends[0], "largest": ends[1]}


def _inputs(model: cenote.Model, texts: Sequence[str]) -> dict[str, Any]:
    """Inputs by name, from files. Raises InputError."""
    names = [each.name for each in model.inputs]
    inputs: dict[str, Any] = {}
    for text in texts:
        name, separator, path = text.partition("=")
        if not separator or name not in names:
            name, path = "", text
        if not path.endswith(_ARRAYS):
            raise cenote.InputError(
                f"{path}: this distribution reads {' and '.join(_ARRAYS)}; pictures are read by cenote"
            )
        content = _loaded(path)
        if isinstance(content, dict) and not name:
            inputs |= content
            continue
        free = [each for each in names if each not in inputs]
        if not name and not free:
            raise cenote.InputError(
                f"{len(texts)} files given, the model has {len(names)} inputs: {', '.join(names)}"
            )
        name = name or free[0]
        inputs[name] = content[name] if isinstance(content, dict) else content
    return inputs


def _loaded(path: str) -> Any:
    """An array, or arrays by name. Raises InputError for other content."""
    try:
        content = np.load(path, allow_pickle=False)
        return content if path.endswith(".npy") else {name: content[name] for name in content.files}
    except (ValueError, EOFError) as error:
        raise cenote.InputError(f"{path} holds no arrays of numbers: {error}") from None


def _info(given: argparse.Namespace) -> None:
    """Show the machine, the instruction set of plans that run here, versions and settings."""
    facts = cenote.info()
    if given.json:
        print(json.dumps(facts.as_dict(), indent=2))
        return
    machine, target = facts.machine, facts.target
    print(f"cenote     {facts.version} (cenote-runtime)")
    if facts.problem:
        print(f"           {facts.problem}")
    print(f"system     {machine.system}")
    print(f"processor  {machine.processor}")
    print(f"cores      {machine.physical_cores} physical, {machine.logical_cores} logical, for this process")
    print(f"target     {target.name} ({target.cpu}): {target.lanes} lanes, {target.registers} registers")
    print("versions   " + ", ".join(f"{name} {version}" for name, version in facts.versions.items()))
    for item in facts.settings:
        print(f"{item.variable}={item.value}  {item.problem or item.help}")


if __name__ == "__main__":
    main()
