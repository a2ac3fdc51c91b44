"""`cenote check-operator`: the operators and algorithms of a module of yours, held to the contract of operators."""

from __future__ import annotations

from typing import Annotated

import typer

import cenote
from cenote.cli.console import say, say_json, say_within, terminal_width, waiting
from cenote.cli.extensions import algorithm_names, import_operators, operator_classes
from cenote.cli.options import Json


def check_operator(
    module: Annotated[
        str,
        typer.Argument(
            help="A module, or a file of Python, that registers operators as classes, or algorithms.",
            metavar="MODULE_OR_FILE",
            show_default=False,
        ),
    ],
    as_json: Json = False,
) -> None:
    """Run the samples of operators through all that Cenote's own are tested for, on every instruction set of this CPU.

    References (types, float64, regions, refusals), each lowering against them (junk in outputs, guards around buffers,
    parts of the work, in place, NaN), threads, open sizes. Algorithms are run on the samples of Cenote's pools and
    convolutions that they serve. Ends with 1 where a check fails, and says what was seen.
    """
    import_operators([module])
    checked: tuple[type | str, ...] = (*operator_classes(module), *algorithm_names(module))
    if not checked:
        raise cenote.ArgumentError(
            f"{module} registers no class, which is a cenote.ops.Op under @cenote.register (functions have no samples) "
            "and no algorithm (rewrites have none either: `cenote verify --extensions` compares a model's answers)"
        )
    with waiting(f"checking {module}"):
        reports = [cenote.check_operator(each) for each in checked]
    if as_json:
        say_json([report.as_dict() for report in reports])
    else:
        for report in reports:
            for line in str(report).splitlines():
                say_within(line, terminal_width()) if line.startswith("failed: ") else say(line)
    if not all(report.ok for report in reports):
        raise typer.Exit(1)
