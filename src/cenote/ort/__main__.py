"""Runs a program in which Cenote stands in for onnxruntime.

python -m cenote.ort [--fallback onnxruntime] -m module arguments…
python -m cenote.ort [--fallback onnxruntime] script.py arguments…
"""

from __future__ import annotations

import logging
import os
import runpy
import sys

from cenote.ort.standin import install

_USAGE = "usage: python -m cenote.ort [--fallback onnxruntime] (-m MODULE | SCRIPT) [ARGUMENT …]"


def main(arguments: list[str]) -> None:
    """Run what the command line says, with the rest of it as its own."""
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
    sys.argv = rest
    if module:
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        return
    sys.path[0] = os.path.dirname(os.path.abspath(rest[0]))
    runpy.run_path(rest[0], run_name="__main__")


def _show_warnings() -> None:
    """What Cenote warns of goes to standard error, unless the program sets up logging itself."""
    handler = logging.StreamHandler()
    handler.addFilter(lambda record: not logging.getLogger().handlers)
    logging.getLogger("cenote").addHandler(handler)


if __name__ == "__main__":
    main(sys.argv[1:])
