"""An emulated Arm machine in a folder: its system, its Python, and how they are run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.wheel import PROJECT

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".arm"
SYSTEM, PYTHON = FOLDER / "system", FOLDER / "bin" / "python"
EMULATOR = "qemu-aarch64-static"
TOOLS = {
    EMULATOR: "qemu-user-static",
    "mmdebstrap": "mmdebstrap",
}  # programs, and Debian's packages that have them
SUITE, VERSION = "bookworm", "3.11"  # of Debian, and of the Python that is in it
DEBIAN = f"python{VERSION}-minimal,libpython{VERSION}-stdlib,libstdc++6,zlib1g"
# Wheels beside Cenote's own requirements. Later onnxruntimes crash under QEMU 7.2 while they ask what CPU it is.
WHEELS = (*PROJECT["project"]["dependencies"], "pytest>=8", "pytest-xdist>=3.6", "hypothesis>=6.100", "scipy>=1.13",
          "h5py>=3.10", "capstone>=5", "onnxruntime==1.20.1")  # fmt: skip
# Tags of wheels that Debian's C library (2.36) runs.
PLATFORMS = ("manylinux2014_aarch64", *(f"manylinux_2_{minor}_aarch64" for minor in range(17, 37)))


def missing() -> list[str]:
    """Debian's packages that preparing and running need, and that are not installed."""
    return [package for program, package in TOOLS.items() if not shutil.which(program)]


def is_prepared() -> bool:
    return PYTHON.exists() and bool(shutil.which(EMULATOR))


def prepare() -> None:
    """Fill the folder. What was left half done is done again."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    made = ["mmdebstrap", "--variant=extract", "--arch=arm64", f"--include={DEBIAN}", SUITE, str(SYSTEM)]
    subprocess.run(made, check=True)
    packages = FOLDER / "lib" / f"python{VERSION}" / "site-packages"
    chosen = [f"--platform={platform}" for platform in PLATFORMS]
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--quiet",
        "--only-binary=:all:",
    ]
    subprocess.run(
        [*pip, *chosen, f"--python-version={VERSION}", f"--target={packages}", *WHEELS], check=True
    )
    (FOLDER / "pyvenv.cfg").write_text(f"home = {SYSTEM}/usr/bin\n")
    PYTHON.parent.mkdir()
    PYTHON.write_text(script())
    PYTHON.chmod(0o755)


def script() -> str:
    """The emulated Python as a program of this machine, which processes of the emulated one can start as well. Its
    compiling processes are this machine's."""
    return f"""#!/bin/sh
if [ "$1 $2" = "-m cenote.codegen.worker" ]; then
    shift 2
    exec '{sys.executable}' -m tests.arm.compiling "$@"
fi
exec {EMULATOR} -L '{SYSTEM}' -0 "$0" '{SYSTEM}/usr/bin/python{VERSION}' "$@"
"""


def run(arguments: Sequence[str]) -> int:
    """Run the emulated Python with these arguments; its exit code."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    cache = os.environ.get("CENOTE_CACHE", str(FOLDER / "cache"))
    environment = {**os.environ, "PYTHONPATH": path, "CENOTE_CACHE": cache, "CENOTE_TARGET": ""}
    return subprocess.run([str(PYTHON), *arguments], cwd=ROOT, env=environment, check=False).returncode
