"""Options that several commands share, alone and in groups.

A parameter of a command that is annotated with a group, which is a dataclass, stands for an option per field
(`grouped`). `cenote.LoadOptions` is one; its options are made of what the record says.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer

import cenote
from cenote.cli.extensions import OPERATORS, import_operators
from cenote.cli.shapes import parse_bounds

_PANEL = "Loading"
_ALGORITHMS = "--algorithms"
_LOAD = "load_"  # prefix of parameters, since commands have `inputs` of their own

Model = Annotated[Path, typer.Argument(help="A model or a plan file.", metavar="MODEL", show_default=False)]
Shape = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        help="Size of an input with symbolic dimensions: NAME=1,3,224,224. A batch is 1 by default; a "
        "bound (h<=224) counts as its size.",
        show_default=False,
    ),
]
Input = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        help="A real input instead of random numbers: a picture, .npy or .npz, NAME=FILE, or NAME=NUMBER "
        "(sr=16000, sizes=[1,2]).",
        metavar="INPUT",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose parameters are the options of its groups; it makes the groups of what is given."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if dataclasses.is_dataclass(hint)}
    parameters: list[Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        if parameter.name in groups:
            parameters += _parameters(groups[parameter.name])
        else:
            parameters.append(_keyword(parameter.name, hints[parameter.name], parameter.default))

    @functools.wraps(command)
    def called(**given: Any) -> None:
        for name, group in groups.items():
            values = {each.name: given.pop(each.name) for each in _parameters(group)}
            given[name] = _load_options(values) if group is cenote.LoadOptions else group(**values)
        command(**given)

    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer asks for
    called.__annotations__ = {each.name: each.annotation for each in parameters}
    return called


def _keyword(name: str, annotation: Any, default: Any) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _parameters(group: Any) -> Iterator[Parameter]:
    """The options of a group."""
    hints = get_type_hints(group, include_extras=True)
    for each in dataclasses.fields(group):
        if group is not cenote.LoadOptions:
            yield _keyword(each.name, hints[each.name], each.default)
        elif each.metadata["option"].flag:
            default = None if each.default is dataclasses.MISSING else each.default
            shown = _load_option(hints[each.name], each.metadata["option"], default)
            yield _keyword(f"{_LOAD}{each.name}", shown, default)


def _load_option(hint: Any, said: Any, default: Any) -> Any:
    """The type of an option of `cenote.load` on the command line, with its help."""
    kind, more = _without_none(hint), dict[str, Any]()
    if said.flag == OPERATORS:
        kind, more = list[str], {"metavar": "MODULE"}
    elif said.flag == _ALGORITHMS:
        kind, more = list[str], {"metavar": "NAME=ALGORITHM"}
    elif get_origin(kind) is Mapping:
        kind, more = list[str], {"metavar": "NAME=n<=8,3,h<=640"}
    elif get_origin(kind) is Sequence:
        kind, more = list[str], {"metavar": "NAME"}
    elif get_origin(kind) in (Union, types.UnionType):
        # The one option that takes a number or a word.
        kind, more = (
            str,
            {"metavar": f"{said.check.least}..{said.check.most}|bound", "callback": _threads},
        )
    if default is None:
        kind = kind | None
    shown = typer.Option(
        said.flag, help=said.help, rich_help_panel=_PANEL, show_default=default is not None, **more
    )
    return Annotated[kind, shown]


def _without_none(hint: Any) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        others = [each for each in get_args(hint) if each is not type(None)]
        return others[0] if len(others) == 1 else hint
    return hint


def _threads(text: str | None) -> Any:
    """Return a number or a word, checked: a fault is one of the command line."""
    if text is None:
        return None
    try:
        return cenote.LoadOptions(threads=int(text) if text.lstrip("-").isdecimal() else text).threads  # type: ignore[arg-type]  # any word, which is checked
    except cenote.ArgumentError as error:
        raise typer.BadParameter(str(error)) from error


def _load_options(given: Mapping[str, Any]) -> cenote.LoadOptions:
    values = {name.removeprefix(_LOAD): value for name, value in given.items()}
    import_operators(values.pop("operators") or ())
    values["algorithms"] = dict(map(_named_algorithm, values["algorithms"] or ()))
    return cenote.LoadOptions(**{**values, "shapes": parse_bounds(values["shapes"] or ())})


def _named_algorithm(given: str) -> tuple[str, str]:
    """The name of a node or an operator, and the algorithm for it. Raises ArgumentError."""
    name, sign, algorithm = given.rpartition("=")
    if not (name and sign and algorithm):
        raise cenote.ArgumentError(f"{_ALGORITHMS}: takes NAME=ALGORITHM (conv1=direct), not {given!r}")
    return name, algorithm
