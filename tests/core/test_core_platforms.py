"""A platform that Cenote does not run on is named, with what would help."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cenote.core import check_platform
from cenote.core.errors import UnsupportedError


@pytest.mark.parametrize(
    ("here", "words"),
    [
        (("win32", "", "cpython", 64), "on Windows use it in WSL 2"),
        (("darwin", "arm64", "cpython", 64), "on macOS use it in a Linux container"),
        (("linux", "riscv64", "cpython", 64), "its machine code is for x86_64 and aarch64"),
        (("linux", "x86_64", "pypy", 64), "use a 64-bit CPython"),
        (("linux", "x86_64", "cpython", 32), "use a 64-bit CPython"),
    ],
)
def test_others_are_refused(here: tuple[str, str, str, int], words: str) -> None:
    with pytest.raises(UnsupportedError, match=words) as caught:
        check_platform(*here)
    assert isinstance(caught.value, ImportError)


def test_these_are_supported() -> None:
    check_platform("linux", "x86_64", "cpython", 64)
    check_platform("linux", "aarch64", "cpython", 64)


def test_the_message_comes_before_any_other_error() -> None:
    """As on Windows: no fork hooks, no uname, and the name of the system."""
    program = (
        "import os, sys\ndel os.register_at_fork, os.uname\nsys.platform = 'win32'\n"
        "try:\n    import cenote\nexcept ImportError as error:\n    print(error)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "Cenote runs on Linux" in ended.stdout, ended.stderr
