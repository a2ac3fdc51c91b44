"""Types, errors, the target machine and settings: the base of every other package.

It refuses platforms on which nothing else could even be imported: Cenote needs the system calls of Linux, 64-bit
machine code and CPython's memory layout of arrays.
"""

from __future__ import annotations

import os
import sys

from cenote.core.errors import UnsupportedError

MACHINES = ("x86_64", "aarch64")


class UnsupportedPlatformError(UnsupportedError, ImportError):
    """Cenote cannot run here. It is an ImportError for programs that can do without."""


def check_platform(system: str, machine: str, python: str, bits: int) -> None:
    """Raise UnsupportedPlatformError, which names the remedy, for a platform that Cenote cannot run on.

    `system`: as sys.platform; `machine`: as uname; `python`: as sys.implementation.name; `bits`: the width of its
    addresses.
    """
    here = f"this is {system} on {machine or 'an unknown processor'}, {python}, {bits} bits"
    what = "Cenote runs on Linux, x86-64 or aarch64, with 64-bit CPython"
    if system != "linux":
        help = {
            "win32": "on Windows use it in WSL 2 or in a Linux container",
            "darwin": "on macOS use it in a Linux container or virtual machine",
        }.get(system, "use it in a Linux container or virtual machine")
        raise UnsupportedPlatformError(f"{what}; {here}: {help}")
    if machine not in MACHINES:
        raise UnsupportedPlatformError(f"{what}; {here}: its machine code is for {' and '.join(MACHINES)}")
    if python != "cpython" or bits != 64:
        raise UnsupportedPlatformError(f"{what}; {here}: use a 64-bit CPython")


def check_this_platform() -> None:
    """Raise as `check_platform` where this process runs."""
    machine = os.uname().machine if hasattr(os, "uname") else ""
    check_platform(sys.platform, machine, sys.implementation.name, 64 if sys.maxsize > 1 << 32 else 32)


check_this_platform()  # before anything uses what only Linux has
