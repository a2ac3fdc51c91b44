"""What is made from the functions on arrays: `python -m tests.functional.interface` writes it.

- `functional/names.py`: which function is where, so that a family is imported when it is first used;
- `functional/__init__.pyi`: signatures and docstrings for type checkers and editors;
- `functional/differentiable.pyi`: the functions that cenote.torch makes autograd functions of.
"""

from __future__ import annotations

import builtins
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cenote.functional
from cenote.functional import types
from cenote.functional.record import FUNCTIONS

FOLDER = Path(cenote.functional.__file__).parent
MADE_BY = "Made by `python -m tests.functional.interface`."
OFF = "# fmt: off\n# ruff: noqa"
WIDTH = 110
HOMES = {
    "collections.abc": ("Callable", "Sequence"),
    "typing": ("Any", "Literal", "SupportsIndex", "overload"),
}


def families() -> dict[str, list[str]]:
    """The functions of each module, by its name below cenote.functional."""
    for path in sorted(FOLDER.rglob("*.py")):
        words = path.relative_to(FOLDER).with_suffix("").parts
        if words[-1] != "__init__":
            importlib.import_module(".".join((cenote.functional.__name__, *words)))
    found: dict[str, list[str]] = {}
    for name, function in FUNCTIONS.items():
        found.setdefault(function.__module__.removeprefix(f"{cenote.functional.__name__}."), []).append(name)
    return {family: sorted(names) for family, names in sorted(found.items())}


def names_page() -> str:
    """`names.py`."""
    lines = [f'"""Which function of `cenote.functional` is where. {MADE_BY}"""', "", OFF]
    lines.append("FAMILIES: dict[str, tuple[str, ...]] = {")
    for family, names in families().items():
        lines.append(f'    "{family}": (')
        lines += textwrap.wrap(
            ", ".join(f'"{name}"' for name in names) + ",",
            WIDTH,
            initial_indent=" " * 8,
            subsequent_indent=" " * 8,
        )
        lines.append("    ),")
    return "\n".join([*lines, "}"]) + "\n"


def _argument(parameter: inspect.Parameter, changed: dict[str, str]) -> str:
    star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    said = f"{star}{parameter.name}: {changed.get(parameter.name, parameter.annotation)}"
    if parameter.default is parameter.empty:
        return said
    plain = isinstance(parameter.default, str | int | float | tuple | None)
    return f"{said} = {parameter.default!r}" if plain else f"{said} = ..."


def _definition(
    name: str, signature: inspect.Signature, returns: str, changed: dict[str, str]
) -> Iterator[str]:
    """`def name(...) -> returns:` on as few lines as there may be."""
    words, starred = [], False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            starred = True
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            words, starred = [*words, "*"], True
        words.append(_argument(parameter, changed))
    line = f"def {name}({', '.join(words)}) -> {returns}:"
    if len(line) <= WIDTH:
        yield line
        return
    yield f"def {name}("
    text = ", ".join(word.replace(" ", "\0") for word in words) + ","
    yield from (each.replace("\0", " ") for each in
                textwrap.wrap(text, WIDTH, initial_indent="    ", subsequent_indent="    ",
                              break_long_words=False, break_on_hyphens=False))  # fmt: skip
    yield f") -> {returns}:"


def _function(name: str, function: Any) -> Iterator[str]:
    """A function with its docstring; two of them where `return_indices` decides what comes out."""
    signature = inspect.signature(function)
    doc = (function.__doc__ or "").rstrip()
    text = [f'    """{doc}"""' if "\n" not in doc else f'    """{doc}\n    """']
    if "return_indices" not in signature.parameters:
        yield from _definition(name, signature, str(signature.return_annotation), {})
        yield from text
        return
    yield "@overload"
    plain = {"return_indices": "Literal[False]", "out": "A | None"}
    yield from _definition(name, signature, "A", plain)
    yield from text
    yield "@overload"
    yield from _definition(name, signature, str(signature.return_annotation), {})
    yield from text


def stub_page() -> str:
    """`__init__.pyi`."""
    families()
    body: list[str] = []
    imported: list[str] = []
    for name, function in sorted(FUNCTIONS.items()):
        returns = "" if inspect.isclass(function) else str(inspect.signature(function).return_annotation)
        if returns in ("", "Fused", "Explanation"):
            imported.append(f"from {function.__module__} import {name} as {name}")
        else:
            body += ["", *_function(name, function)]
    code = "\n".join(re.sub(r'"""[\s\S]*?"""', "", "\n".join(body)).split("\n"))
    used = set(re.findall(r"\b[A-Z]\w*|\boverload\b", re.sub(r"'[^']*'", "", code)))
    used -= {"None", "True", "False", *dir(builtins)}
    homes = {word: module for module, words in HOMES.items() for word in words}
    where: dict[str, list[str]] = {}
    for word in sorted(used):
        home = homes.get(word) or types.__name__
        assert home != types.__name__ or hasattr(types, word), word
        where.setdefault(home, []).append(word)
    head = [f'"""What `__init__.py` offers, for type checkers and editors. {MADE_BY}"""', "", OFF]
    standard = [f"from {home} import {', '.join(where[home])}" for home in HOMES if home in where]
    own = [f"from {types.__name__} import {', '.join(where[types.__name__])}"]
    return (
        "\n".join([*head, *standard, "", *sorted([*imported, *own]), "", "__all__: list[str]", *body]) + "\n"
    )


def differentiable_page() -> str:
    """`differentiable.pyi`."""
    names = [name for name in sorted(FUNCTIONS) if f"{name}_backward" in FUNCTIONS]
    lines = [f"    {name} as {name}," for name in names]
    head = f'"""The functions that have gradients, for type checkers of cenote.torch. {MADE_BY}"""'
    return "\n".join([head, "", OFF, "from cenote.functional import (", *lines, ")"]) + "\n"


def pages() -> dict[Path, str]:
    """What each file must hold."""
    made = {
        "names.py": names_page(),
        "__init__.pyi": stub_page(),
        "differentiable.pyi": differentiable_page(),
    }
    return {FOLDER / name: text for name, text in made.items()}


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
