"""The words of a call are given by name, and checked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import cenote
from cenote.codegen import jit
from cenote.kernels.base import Argument, Call
from cenote.kernels.conv.gemv import GemvSpec
from cenote.kernels.elementwise.activations import Activation

SPEC = GemvSpec(4, Activation())
WORDS: dict[str, Argument] = {
    "n": 3,
    "k": 4,
    "block": 8,
    "fan": 2,
    "x": None,
    "w": None,
    "bias": None,
    "y": None,
}


def test_words_come_in_the_order_of_the_kernel() -> None:
    call = Call.named(SPEC, WORDS, 2)
    assert call.arguments == (None, None, None, None, 3, 4, 8, 2)
    assert [word.name for word in SPEC.words] == ["x", "w", "bias", "y", "n", "k", "block", "fan"]
    assert SPEC.emit(jit.named_target("generic")).parameters == SPEC.words
    assert call.word("k") == 4
    assert call.changed(n=7).arguments == (None, None, None, None, 7, 4, 8, 2)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({name: word for name, word in WORDS.items() if name != "bias"}, r"missing: \['bias'\]"),
        ({**WORDS, "m": 1}, r"unknown: \['m'\]"),
        (
            {**{name: word for name, word in WORDS.items() if name != "n"}, "m": 1},
            r"\['n'\], unknown: \['m'\]",
        ),
    ],
)
def test_other_words_are_refused(words: dict[str, Argument], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Call.named(SPEC, words)


def test_kernels_call_no_library() -> None:
    """Exported programs have no C library: a kernel's calls are LLVM's own, or memcpy, which exports bring."""
    called = set[str]()
    for path in (Path(cenote.__file__).parent / "kernels").rglob("*.py"):
        called |= set(re.findall(r'\.(?:call|declare)\(\s*f?"([^"]+)"', path.read_text()))
    assert {name for name in called if not name.startswith("llvm.")} == {"memcpy"}
