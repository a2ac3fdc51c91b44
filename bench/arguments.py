"""Command-line arguments that both measuring programs share."""

import argparse
import os
import time
from collections.abc import Mapping
from pathlib import Path

from bench.engines import EngineSpec
from bench.files import MODEL_FOLDER, RESULT_FOLDER, ModelFiles, require
from bench.narrow import ISAS


def shared_parser(
    program: str, description: str, engines: Mapping[str, EngineSpec]
) -> argparse.ArgumentParser:
    """A parser with the common options."""
    cores = len(os.sched_getaffinity(0))
    every = ",".join(str(count) for count in sorted({1, cores}))
    chosen = ",".join(name for name, spec in engines.items() if not spec.optional)
    parser = argparse.ArgumentParser(prog=program, description=description)
    parser.add_argument("--engines", default=chosen, help=f"of {', '.join(engines)} (default: {chosen})")
    parser.add_argument("--threads", default=every, help=f"thread counts (default: {every})")
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="per engine and line, in all rounds together"
    )
    parser.add_argument("--rounds", type=int, default=5, help="slices that the seconds are cut into")
    parser.add_argument("--output", type=Path, help="folder for the reports (default: bench/.results/TIME)")
    return parser


def model_parser(
    program: str, description: str, engines: Mapping[str, EngineSpec], models: str
) -> argparse.ArgumentParser:
    """A parser of a program that measures whole models, by default `models`."""
    parser = shared_parser(program, description, engines)
    parser.add_argument("--models", default=models, help=f"names (default: {models})")
    parser.add_argument("--folder", type=Path, default=MODEL_FOLDER, help="where bench.export wrote them")
    parser.add_argument(
        "--isa", default="", choices=("", *ISAS), help="take the CPU for one with this instruction set"
    )
    return parser


def chosen_models(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> list[ModelFiles]:
    """The models that were asked for, which must have been exported."""
    models = [ModelFiles(name, arguments.folder.resolve()) for name in arguments.models.split(",")]
    require(parser, models)
    return models


def chosen_engines(
    parser: argparse.ArgumentParser, text: str, engines: Mapping[str, EngineSpec]
) -> list[EngineSpec]:
    """The engines that were asked for, in the table's order."""
    wanted = text.split(",")
    unknown = sorted(set(wanted) - set(engines))
    if unknown:
        parser.error(f"no such engine: {', '.join(unknown)}; there are {', '.join(engines)}")
    return [spec for name, spec in engines.items() if name in wanted]


def output_folder(given: Path | None) -> Path:
    """The folder for the reports, made if necessary."""
    folder = given or RESULT_FOLDER / time.strftime("%Y%m%d-%H%M%S")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def thread_counts(text: str) -> list[int]:
    """ "1,2" as numbers."""
    return [int(part) for part in text.split(",")]
