"""Ctrl-C at one moment after another: signals are handled after a call has returned and where a function starts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupted(moment: int, *files: str) -> Iterator[None]:
    """KeyboardInterrupt at the moment of this number, from 1 on, among those in code of these files; or none."""
    passed = 0

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal passed
        if frame.f_code.co_filename in files and event in ("call", "c_return"):
            passed += 1
            if passed == moment:
                raise KeyboardInterrupt

    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)
