"""Modules of users that hold a kernel, written to a folder and imported from there."""

from __future__ import annotations

import importlib
import itertools
from pathlib import Path
from typing import Any

import pytest

_numbers = itertools.count()

SOFT = """
from dataclasses import dataclass

from cenote.kernels import F32, F64, Call, KernelSpec, Parameter, numbers_named, pass_seconds, pointers_to

BLOCK = 64


@dataclass(frozen=True)
class Soft(KernelSpec):
    lanes: int
    bug: str = ""

    @property
    def words(self):
        return (*pointers_to(F32, "x", "y"), *numbers_named(["size"]), Parameter("threshold", F64))

    def emit(self, target):
        k = self.kernel(target)
        self.plant(k)
        if self.bug == "none":
            return None
        threshold, size = k.number("threshold").to(F32), k.number("size")
        for piece in k.range(k.begin, k.end):
            first = piece * (BLOCK * self.lanes)
            last = k.minimum(size, first + BLOCK * self.lanes)
            for i in k.range(first, last, self.lanes):
                mask = k.tail_mask(last - i, self.lanes)
                x = k.pointer("x").load(i, self.lanes, mask)
                k.pointer("y").store(k.maximum(x - threshold, 0.0) + k.minimum(x + threshold, 0.0), i, mask)
        return k

    def plant(self, k):
        if self.bug == "emit":
            k.pointer("z")  # no such word
        if self.bug == "text":
            k.line("no instruction")
        if self.bug == "assembly":
            k.line('call void asm sideeffect "nop", "=r"()')


def soft_call(x, y, threshold, target):
    spec = Soft(target.lanes(x.type.dtype))
    words = {"x": x, "y": y, "size": x.type.size, "threshold": threshold}
    return Call.named(spec, words, items=-(-x.type.size // (BLOCK * spec.lanes)))
"""


def module_in(folder: Path, monkeypatch: pytest.MonkeyPatch, source: str = SOFT, name: str = "") -> Any:
    """Write a module under a name of its own and import it."""
    name = name or f"shop_kernel_{next(_numbers)}"
    (folder / f"{name}.py").write_text(source)
    if str(folder) not in importlib.import_module("sys").path:
        monkeypatch.syspath_prepend(str(folder))
    importlib.invalidate_caches()
    return importlib.import_module(name)


def line_of(source: str, text: str) -> int:
    """Number of the line of a source that holds a text."""
    return next(number for number, line in enumerate(source.splitlines(), 1) if text in line)
