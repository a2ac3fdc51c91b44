"""All that is public, with signatures: docs/public_names.txt and docs/stability.md are made from it by `make docs`.

The text file is committed, so that a change of a public name is seen in the review and, from 0.2 on, in the changelog.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
import importlib.util
import inspect
import re
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from types import ModuleType

import cenote

FILE = Path(__file__).with_name("public_names.txt")
# Each with the page that tells more. One that is not there yet is left out until it is.
MODULES = {
    "cenote": "using_models.md",
    "cenote.functional": "functional.md",
    "cenote.ops": "extending.md",
    "cenote.kernels": "extending_kernels.md",
    "cenote.algorithms": "extending.md",
    "cenote.serving": "serving.md",
    "cenote.tiling": "tiling.md",
    "cenote.torch": "from_torch.md",
    "cenote.ray": "distributed.md",
    "cenote.backend": "from_onnxruntime.md",
    "cenote.ort": "from_onnxruntime.md",
    "cenote.ort.extensions": "from_onnxruntime.md",
}
# Classes that Cenote makes and users do not: their constructors are private.
RETURNED = {
    "Accuracy",
    "CachedFile",
    "CallProfile",
    "CenoteBackendRep",
    "Comparison",
    "Compression",
    "Counters",
    "Diagnosis",
    "Found",
    "Imported",
    "Info",
    "MemoryUsage",
    "Model",
    "ModelMetadata",
    "NetworkPlan",
    "NodeArg",
    "OperatorReport",
    "Outputs",
    "Profile",
    "QuantizationReport",
    "Served",
    "TilingPlan",
    "Traced",
    "Verification",
}
# Members of public classes that are for Cenote itself.
PRIVATE = {
    "CenoteError": "located",
    "LoadOptions": "exact user_operators key of_plan of_record record stored_weights",
    "Model": "from_graph from_stored of running",
    "NodeArg": "of",
    "OperatorFunction": "digest module place trials untold",
    "OrtValue": "of",
}
HEADING = "- **Changed and removed names.**"
PROMISED_SINCE = (0, 2)

HEAD = """# What stays as it is

Made by `make docs` from the code. The names below are public, with the parameters and members in
[public_names.txt](public_names.txt). Everything else is private, also where it can be imported: modules below those
of the table (`cenote.core`, `cenote.codegen`, …), names that begin with an underscore, the texts of messages, the
contents of the cache, the kernels that are generated and the algorithms that are chosen.

## The promise

Versions follow semantic versioning, from 0.2 on:

- **0.2.1 after 0.2.0** mends faults. No public name, parameter or default changes, none is added.
- **0.3 after 0.2** may add. A name, parameter or value of an option that goes, or changes its meaning, has warned for
  one minor version before: what is deprecated in 0.3 is there in all of 0.3, and gone in 0.4 at the earliest.
- **From 1.0 on** that takes a major version: what is deprecated in 1.3 is there until 2.0.
- A plan file of another version is compiled again from its model, where that is unchanged, else refused
  ([plan files](plan_files.md)).
- Answers may differ in their last bits from version to version, as better algorithms are chosen.

0.1 promises nothing yet.

A use of a deprecated name warns once per place (`DeprecationWarning`), and says what to use and when it goes. Python
shows such warnings in programs that are run directly, and in tests; `python -W error::DeprecationWarning` makes them
errors.

## How it is kept

`docs/public_names.txt` holds every public name with its parameters; a test compares it with the code. `make docs`
writes it anew, so that the difference is part of the review. From 0.2 on it refuses a name that is gone or has
other parameters until the newest section of the changelog has it, in an entry that begins with **Changed and
removed names.** To deprecate a name, put it into `NAMES` of `src/cenote/core/options/deprecated.py`, with what to
use and the version in which it goes; a parameter or a value warns by `warn_deprecated`, where it is read. When that
version is current, a test fails until the entry is gone.

Pages, examples and their tests use public names where there is one; `tests/test_public_names.py` checks it.

## Public names

| module | names | more |
|---|---|---|
"""


def modules() -> list[str]:
    """The public modules that are there."""
    return [name for name in MODULES if importlib.util.find_spec(name) is not None]


def names_of(module: ModuleType) -> list[str]:
    """The public names of a module: those that it lists, else those that it defines."""
    listed = getattr(module, "__all__", None)
    if listed is None:
        own = (name for name, value in vars(module).items() if _is_from(value, module.__name__))
        listed = [name for name in own if not name.startswith("_")]
    return sorted(name for name in listed if name != "__version__")


def text() -> str:
    """Every public name with its parameters, a line each; of modules whose packages are missing as it was written."""
    before = FILE.read_text(encoding="utf-8").splitlines() if FILE.exists() else []
    lines: set[str] = set()
    homes: dict[object, str] = {}
    for name in modules():
        try:
            module = importlib.import_module(name)
        except ImportError:
            lines.update(line for line in before if re.match(rf"(class |module )?{re.escape(name)}\.", line))
            continue
        for each in names_of(module):
            value, full = getattr(module, each), f"{name}.{each}"
            if inspect.isclass(value) and homes.setdefault(value, full) != full:
                lines.add(f"{full} is {homes[value]}")
            else:
                lines.update(_lines(full, value, homes))
    return "\n".join(sorted(lines, key=_name_in)) + "\n"


def page() -> str:
    """The promise, and the names of each module."""
    held = [_name_in(line) for line in text().splitlines()]
    rows = []
    for module in modules():
        inner = (name.removeprefix(f"{module}.") for name in held if name.startswith(f"{module}."))
        own = sorted(
            {each for each in inner if "." not in each} - {each.rpartition(".")[2] for each in MODULES}
        )
        rows.append(f"| `{module}` | {', '.join(f'`{each}`' for each in own)} | [page]({MODULES[module]}) |")
    return HEAD + "\n".join(rows) + "\n"


def undecided(before: str, after: str, changelog: str, version: str) -> list[str]:
    """The names of `before` that are gone from `after` or have other parameters, and that no entry of the changelog's
    newest section names. Before the promise holds, none."""
    if tuple(map(int, version.split(".")[:2])) < PROMISED_SINCE:
        return []
    newest = changelog.split("\n## ")[1]
    entries = [entry for entry in newest.split("\n- ") if f"- {entry}".startswith(HEADING)]
    told = set(re.findall(r"[\w.]+", " ".join(entries)))
    lost = sorted({*before.splitlines()} - {*after.splitlines()})
    return [
        name
        for name in map(_name_in, lost)
        if not {name, ".".join(name.split(".")[-2:]), name.split(".")[-1]} & told
    ]


def checked_text() -> str:
    """The text, where the changelog names all that is gone or changed. Raises SystemExit otherwise."""
    made = text()
    before = FILE.read_text(encoding="utf-8") if FILE.exists() else ""
    changelog = FILE.parent.with_name("CHANGELOG.md").read_text(encoding="utf-8")
    missing = undecided(before, made, changelog, cenote.__version__)
    if missing:
        raise SystemExit(
            f"public names are gone or have other parameters: {', '.join(missing)}. Keep them (deprecated: "
            f'src/cenote/core/options/deprecated.py), or name them in CHANGELOG.md, in an entry "{HEADING}"'
        )
    return made


def _name_in(line: str) -> str:
    found = re.match(r"(?:class |module )?([\w.]+)", line)
    assert found is not None
    return found[1]


def _lines(name: str, value: object, homes: Container[object]) -> Iterator[str]:
    if isinstance(value, ModuleType):
        yield f"module {name}"
    elif inspect.isclass(value):
        bases = [
            base.__name__
            for base in value.__bases__
            if base is not object and not base.__name__.startswith("_")
        ]
        made = (
            ""
            if value.__name__ in RETURNED or issubclass(value, Exception | enum.Enum)
            else _parameters(value)
        )
        yield f"class {name}{made}{' of ' + ', '.join(bases) if bases else ''}"
        yield from (f"{name}.{member}" for member in _members(value, homes))
    elif callable(value):
        yield name + _parameters(value)
    else:
        yield f"{name}: {type(value).__name__}"


def _members(kind: type, homes: Container[object]) -> Iterable[str]:
    """Methods with their parameters, properties, fields and members of enumerations, but for those of bases that are
    public themselves or not Cenote's."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if not each.__module__.startswith("cenote") or (each is not kind and each in homes):
            continue
        for name, value in vars(each).items():
            if name.startswith("_") and name != "__call__":
                continue
            inner = value.__func__ if isinstance(value, staticmethod | classmethod) else value
            found[name] = name + (_parameters(inner) if inspect.isfunction(inner) else "")
    if dataclasses.is_dataclass(kind):
        own = (each.name for each in dataclasses.fields(kind) if not each.name.startswith("_"))
        found.update(
            {each: each for each in own if not any(each in vars(b) for b in kind.__mro__[1:] if b in homes)}
        )
    private = PRIVATE.get(kind.__name__, "").split()
    return [words for name, words in found.items() if name not in private]


def _parameters(function: object) -> str:
    """Parameters with their kinds and defaults, without types."""
    try:
        given = inspect.signature(function)  # type: ignore[arg-type]  # callable, as the caller saw
    except (TypeError, ValueError):
        return "(…)"
    shown = [
        each.replace(annotation=inspect.Parameter.empty, default=_default(each.default))
        for each in given.parameters.values()
    ]
    return str(given.replace(parameters=shown, return_annotation=inspect.Signature.empty))


class _Written:
    """A default, as it is written in signatures."""

    def __init__(self, words: str) -> None:
        self.words = words

    def __repr__(self) -> str:
        return self.words


def _default(value: object) -> object:
    """The default of a parameter; one without a text that is the same in each process as dots."""
    if value is inspect.Parameter.empty:
        return value
    words = str(value) if isinstance(value, enum.Enum) else repr(value)
    return _Written("…" if "<" in words or " at 0x" in words or len(words) > 60 else words)


def _is_from(value: object, module: str) -> bool:
    return (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__ == module
