"""The test suite under each Python that is installed here: `python -m tests.pythons [arguments of pytest]`

Looked for are Python 3.11 and newer, free-threaded ones (3.14t) too, on the path and among pyenv's. Each gets a virtual
environment of its own (.venv-3.12), with Cenote as pip installs it and what most tests need; oracles that are not in
it (PyTorch, onnxruntime) are missed by the tests that want them, which skip. Ends with a line for each version: passed,
failed, or not installed here; the exit code is 1 where one failed. `--python PATH` (several times) names interpreters
instead. Needs nothing but Python itself.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSIONS = ("3.11", "3.12", "3.13", "3.14", "3.14t")
NEEDS = ("pytest>=8", "pytest-xdist>=3.6", "hypothesis>=6.100", "scipy>=1.13")
_VERSION = (
    "import sys, sysconfig\n"
    "free = 't' if sysconfig.get_config_var('Py_GIL_DISABLED') else ''\n"
    "print('%d.%d%s' % (*sys.version_info[:2], free))"
)


def version_of(python: str) -> str:
    """ "3.14t", say; "" where it does not run (pyenv has a script for a version that is not chosen)."""
    try:
        done = subprocess.run([python, "-c", _VERSION], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def candidates() -> Iterator[str]:
    """What may be an interpreter of a version: by its name on the path, then pyenv's."""
    for version in VERSIONS:
        yield f"python{version}"
    installed = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    for folder in sorted(installed.glob("*/bin")):
        yield str(folder / "python")


def found(named: Sequence[str]) -> dict[str, str]:
    """Interpreters by version, the first of each."""
    pythons: dict[str, str] = {}
    for python in named or candidates():
        pythons.setdefault(version_of(python), python)
    return {version: python for version, python in pythons.items() if named or version in VERSIONS}


def tested(version: str, python: str, arguments: Sequence[str]) -> str:
    """What came of the tests under an interpreter."""
    folder = ROOT / f".venv-{version}"
    own = str(folder / "bin" / "python")
    pip = [own, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    commands: dict[str, list[str]] = {"no virtual environment": [python, "-m", "venv", str(folder)]}
    if folder.exists():
        commands.clear()
    commands["not installable"] = [*pip, "--editable", str(ROOT), *NEEDS]
    commands["FAILED"] = [own, "-m", "pytest", *arguments]
    for problem, command in commands.items():
        if subprocess.run(command, cwd=ROOT, check=False).returncode:
            return problem
    return "passed"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", action="append", default=[], help="an interpreter, instead of all")
    options, arguments = parser.parse_known_args()
    pythons = found(options.python)
    results = dict.fromkeys(() if options.python else VERSIONS, "not installed here")
    for version, python in pythons.items():
        print(f"Python {version}: {python}", flush=True)
        results[version] = tested(version, python, arguments) if version else f"{python} does not run"
    for version, result in results.items():
        print(f"Python {version}: {result}")
    return any(result not in ("passed", "not installed here") for result in results.values())


if __name__ == "__main__":
    sys.exit(main())
