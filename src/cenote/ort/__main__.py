"""Runner of programs in which Cenote stands in for onnxruntime.

python -m cenote.ort [--fallback onnxruntime] -m module arguments…
python -m cenote.ort [--fallback onnxruntime] script.py arguments…
"""

from __future__ import annotations

import logging
import os
import runpy
import sys
from importlib.metadata import entry_points
from importlib.util import find_spec

from cenote.ort.standin import install

_USAGE = "usage: python -m cenote.ort [--fallback onnxruntime] (-m MODULE | SCRIPT | COMMAND) [ARGUMENT …]"


def main(arguments: list[str]) -> None:
    """Run the program that the command line names, with the rest of the command line as its arguments."""
    fallback = None
    if arguments[:1] == ["--fallback"]:
        fallback = arguments[1] if len(arguments) > 1 else ""
        if fallback != "onnxruntime":
            sys.exit(f"{_USAGE}\n--fallback: '{fallback}' is not known (onnxruntime)")
        arguments = arguments[2:]
    module = arguments[:1] == ["-m"]
    rest = arguments[1:] if module else arguments
    if not rest or rest[0] in ("-h", "--help"):
        print(_USAGE)
        sys.exit(0 if rest else 2)
    _show_warnings()
    install(fallback)
    name, sys.argv = rest[0], rest
    runnable = _is_module(name) if module else os.path.exists(name)
    command = None if runnable else next(iter(entry_points(group="console_scripts", name=name)), None)
    if command is not None:
        sys.exit(command.load()())
    if not runnable:
        what = "a module" if module else "a script or an installed command"
        sys.exit(f"{_USAGE}\n'{name}' is not {what}")
    if module:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
        return
    sys.path[0] = os.path.dirname(os.path.abspath(name))
    runpy.run_path(name, run_name="__main__")


def _is_module(name: str) -> bool:
    """Return whether Python can run it with -m: a module, or a package with a `__main__`."""
    try:
        spec = find_spec(name)
    except ModuleNotFoundError:
        # The package that would contain it is missing.
        return False
    if spec is None or spec.submodule_search_locations is None:
        return spec is not None
    return find_spec(f"{name}.__main__") is not None


def _show_warnings() -> None:
    """Print Cenote's warnings to standard error, unless the program sets up logging itself."""
    handler = logging.StreamHandler()
    handler.addFilter(lambda record: not logging.getLogger().handlers)
    logging.getLogger("cenote").addHandler(handler)


if __name__ == "__main__":
    main(sys.argv[1:])
