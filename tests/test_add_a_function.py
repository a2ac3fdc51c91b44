"""docs/add_a_function.md, done: its blocks are written into a copy of the source, its program runs there."""

from __future__ import annotations

from pathlib import Path

from tests.executed_pages import apply, blocks, python

PAGE = "add_a_function.md"


def test_a_stranger_can_add_a_function_and_a_pool(checkout: Path) -> None:
    for order, code in blocks(PAGE):
        if order != "run":
            apply(checkout, order, code)
    python(checkout, "-m", "tests.functional.interface")
    said = python(checkout, "-c", dict(blocks(PAGE))["run"]).splitlines()
    assert said == [
        "[0.303 1.    3.303]",
        "[81.  0. 81.] float32",
        "[0.162 1.    6.162]",
        "[[[[3.62, 5.3], [10.89, 12.83]]]]",
        "(1, 4, 2) (1, 1, 4, 4)",
        "3.615",
        "NCDHW",
    ]
    stub = (checkout / "src/cenote/functional/__init__.pyi").read_text(encoding="utf-8")
    assert "def squareplus( input: A, beta: float = 4.0, *, out: A | None = None" in " ".join(stub.split())
    assert "def sharp_pool1d_backward(" in stub
    offered = (checkout / "src/cenote/functional/differentiable.pyi").read_text(encoding="utf-8")
    assert "sharp_pool3d as sharp_pool3d," in offered
