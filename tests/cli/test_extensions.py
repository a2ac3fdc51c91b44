"""`--operators`: modules and files of the user's that register operators."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from cenote.core.extensions import registry
from tests.cli.conftest import Command
from tests.shop_models import between, convolved, picture

SHOP = """
import numpy as np
import cenote

@cenote.register("shop.Frobnicate")
def frobnicate(x, alpha=1.0):
    return np.tanh(x) * x.dtype.type(alpha)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder at hand: a model, an input, and a module that registers its operator; nothing is registered yet."""
    monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "shop_cli", raising=False)
    Path("m.onnx").write_bytes(between(alpha=2.0))
    Path("shop_cli.py").write_text(SHOP)
    np.save("x.npy", picture(1, 3, 8, 8))
    return tmp_path


@pytest.mark.parametrize("module", ["shop_cli", "shop_cli.py"])
def test_a_module_or_a_file_adds_its_operators(cenote_command: Command, module: str) -> None:
    ended = cenote_command("run", "m.onnx", "x.npy", "--operators", module, "--save", "y.npz")
    assert ended.code == 0, ended.err
    with np.load("y.npz") as made:
        np.testing.assert_allclose(
            made["y0"], np.maximum(2 * np.tanh(convolved(np.load("x.npy"))), 0), atol=1e-5
        )


def test_plan_files_and_verify(cenote_command: Command) -> None:
    shape, operators = ("--shape", "x=1,3,8,8"), ("--operators", "shop_cli.py")
    assert cenote_command("compile", "m.onnx", "-o", "p.cenote", *shape, *operators).code == 0
    assert cenote_command("run", "p.cenote", "x.npy").code == 0
    verified = cenote_command("verify", "m.onnx", "--input", "x=x.npy", *operators)
    assert verified.code == 0, verified.out + verified.err
    assert "shop.Frobnicate" in cenote_command("inspect", "m.onnx", *shape, *operators).out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No module named 'shop_bad'"),
        ("x = 1", "registers no operator"),
        ("raise LookupError('no table')", "LookupError: no table"),
        ("import cenote\ncenote.register('Frobnicate')", "no name of an operator"),
    ],
)
def test_what_cannot_be_imported_is_refused(cenote_command: Command, text: str | None, said: str) -> None:
    if text is not None:
        Path("shop_bad.py").write_text(text)
    sys.modules.pop("shop_bad", None)
    module = "shop_bad" if text is None else "shop_bad.py"
    ended = cenote_command("run", "m.onnx", "x.npy", "--operators", module)
    assert ended.code != 0
    assert "--operators: shop_bad" in ended.err
    assert said in " ".join(ended.err.split())


def test_without_the_operator_the_way_to_add_it_is_named(cenote_command: Command) -> None:
    ended = cenote_command("run", "m.onnx", "x.npy")
    assert ended.code != 0
    assert "operators=" in ended.err
