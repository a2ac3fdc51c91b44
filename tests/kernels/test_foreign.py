"""Kernels from outside the package: what tells them apart, where they are kept, and what is said when they fail."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cenote.codegen import jit, worker
from cenote.core.errors import CodegenError
from cenote.core.types import FLOAT32, FLOAT64, PLAIN, Array, TensorType
from cenote.kernels import F32, I64, Call, Kernel, KernelSpec, View, numbers_named, pointers_to
from cenote.ops.base import Lowering
from cenote.ops.runner import lowering_runner
from cenote.runtime.steps import Slot, SlotKind
from tests.kernels.foreign import SOFT, line_of, module_in

X = np.linspace(-2, 2, 1001, dtype=np.float32)


@pytest.fixture(scope="module", autouse=True)
def workers() -> Iterator[None]:
    """Processes that compile wait for more; they end with these tests."""
    yield
    worker.end_ready()


def run(module: Any, threshold: float = 0.5, threads: int = 1) -> Array:
    """What a module's kernel makes of X."""
    types = (TensorType.known(X).bare,)

    def call(x: View, y: View) -> Call:
        made: Call = module.soft_call(x, y, threshold, jit.host_target())
        return made

    lowering = Lowering.of_call("soft", (PLAIN,), (PLAIN,), call, 1.0)
    (y,) = lowering_runner(lowering, types, types, threads)([X], None)
    return y


def soft(x: Array, threshold: float = 0.5) -> Array:
    return np.maximum(x - np.float32(threshold), 0) + np.minimum(x + np.float32(threshold), 0)


def test_equal_names_in_two_modules_are_two_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = module_in(tmp_path, monkeypatch)
    second = module_in(tmp_path, monkeypatch, SOFT.replace("k.maximum(x - threshold, 0.0) +", ""))
    assert first.Soft(8).symbol != second.Soft(8).symbol
    for threads in (1, 2):
        np.testing.assert_array_equal(run(first, threads=threads), soft(X))
        np.testing.assert_array_equal(run(second, threads=threads), np.minimum(X + np.float32(0.5), 0))


def test_a_kernel_that_was_edited_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the edit is in a module beside it."""
    (tmp_path / "shop_edited_factor.py").write_text("FACTOR = 1.0\n")
    text = SOFT.replace("BLOCK = 64", "from shop_edited_factor import FACTOR\nBLOCK = 64")
    text = text.replace("k.maximum(x", "FACTOR * k.maximum(x")
    before = module_in(tmp_path, monkeypatch, text, "shop_edited")
    old = before.Soft(8).symbol, run(before)
    (tmp_path / "shop_edited_factor.py").write_text("FACTOR = 30.0\n")
    for name in ("shop_edited", "shop_edited_factor"):
        monkeypatch.delitem(sys.modules, name)
    after = module_in(tmp_path, monkeypatch, text, "shop_edited")
    new = after.Soft(8).symbol, run(after)
    assert old[0] != new[0]
    np.testing.assert_array_equal(old[1], soft(X))
    assert new[1].max() == 30 * old[1].max()


def test_a_second_process_compiles_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = module_in(tmp_path, monkeypatch)
    first = run(module)
    symbol = module.Soft(jit.host_target().lanes()).symbol
    for known in (jit._addresses, jit._objects):
        monkeypatch.delitem(known, (symbol, jit.host_target()))
    monkeypatch.setattr(jit, "_compile", None)
    np.testing.assert_array_equal(run(module), first)


@pytest.mark.parametrize(
    ("bug", "place", "text"),
    [
        ("emit", 'k.pointer("z")', "emit failed: KeyError: \"no word 'z' among x, y, size, threshold\""),
        ("none", "def emit", "emit returned None, not the kernel: end it with `return k`"),
        ("text", "def emit", "LLVM refuses a generated kernel"),
        ("assembly", "def emit", "LLVM ended the process that compiled it"),
    ],
)
@pytest.mark.parametrize("many", [False, True])
def test_a_kernel_that_fails_is_named_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bug: str, place: str, text: str, many: bool
) -> None:
    module = module_in(tmp_path, monkeypatch)
    others = [module.Soft(lanes) for lanes in (4, 8, 16, 32, 64)] if many else []
    with pytest.raises(CodegenError) as caught:
        jit.addresses([module.Soft(2, bug), *others], jit.host_target())
    said = str(caught.value)
    assert said.startswith(f"kernel Soft(lanes=2, bug='{bug}')")
    assert text in said
    assert f"({module.__file__}:{line_of(SOFT, place)})" in said


def test_words_of_another_kernel_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = SOFT.replace(
        "k = self.kernel(target)", "from cenote.kernels import Kernel\n        k = Kernel('mine', target, ())"
    )
    module = module_in(tmp_path, monkeypatch, text.replace("self.plant(k)", "return k"))
    with pytest.raises(CodegenError, match=r"begin it with `k = self\.kernel"):
        jit.addresses([module.Soft(8)], jit.host_target())


SCRIPT = f"""
import numpy as np
from cenote.codegen import cache, jit
{SOFT}
address = jit.addresses([Soft(4)], jit.host_target())
print(cache.read(Soft(4).symbol, jit.host_target()) is not None, len(address))
"""


def python(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, cwd=folder,
        env=os.environ | {"CENOTE_CACHE": str(folder / "cache")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_kernels_of_a_script_are_kept_and_those_without_a_source_are_not(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    assert python(tmp_path, "script.py") == "True 1\n"
    ahead = "import sys; sys.modules['llvmlite'] = None; import cenote.codegen.worker as worker\n"
    ahead += "worker.compile_in_processes = None\n"
    (tmp_path / "script.py").write_text(SCRIPT.replace("import numpy", f"{ahead}import numpy", 1))
    python(tmp_path, "-c", SCRIPT)  # compiles anew
    assert python(tmp_path, "-c", SCRIPT) == "False 1\n"


@dataclass(frozen=True)
class Typed(KernelSpec):
    """A kernel that does nothing."""

    text: Any = ""

    @property
    def words(self) -> Any:
        return (*pointers_to(F32, "x"), *numbers_named(["n"]))

    def emit(self, target: Any) -> Kernel:
        return self.kernel(target)


class Undecorated(Typed):
    """A spec whose fields nobody sees."""

    more: int = 1


def test_values_of_fields_tell_kernels_apart() -> None:
    values = [
        "a.b",
        "apb",
        1,
        1.0,
        True,
        "1",
        "1.0",
        -1,
        "m1",
        None,
        "None",
        (1,),
        ((1,),),
        FLOAT32,
        F32,
        np.float32,
        0.0,
        -0.0,
    ]
    assert len({Typed(value).symbol for value in values}) == len(values)


@pytest.mark.parametrize(
    "value",
    [lambda: 1, [1], {1: 2}, object(), (1, [2])],
    ids=["function", "list", "dict", "object", "nested"],
)
def test_fields_without_a_text_are_refused(value: Any) -> None:
    with pytest.raises(CodegenError, match=r"Typed: field 'text' is .*fields of a spec are numbers"):
        _ = Typed(value).symbol


def test_a_spec_is_a_dataclass() -> None:
    with pytest.raises(CodegenError, match=r"Undecorated: a spec is a class under @dataclass\(frozen=True\)"):
        _ = Undecorated().symbol


def view(dtype: Any) -> View:
    return View(TensorType(dtype, (8,)), PLAIN, (1,), Slot(SlotKind.INPUT, 0))


@pytest.mark.parametrize(
    ("x", "n", "counts", "text"),
    [
        (5, 1, {}, "word 'x' is a pointer, and got 5"),
        (np.float32(1), 1, {}, "word 'x' is a pointer"),
        (view(FLOAT64), 1, {}, "word 'x' is a pointer to f32, and got memory of float64"),
        (view(FLOAT32), 1.5, {}, "word 'n' is a whole number, and got 1.5"),
        (view(FLOAT32), None, {}, "word 'n' is a whole number, and got None"),
        (view(FLOAT32), 1 << 63, {}, "word 'n' is 9223372036854775808, which 64 bits do not hold"),
        (view(FLOAT32), 1, {"items": 1.5}, "items is 1.5, which is no whole number"),
        (view(FLOAT32), 1, {"scratch": "8"}, "scratch is '8', which is no whole number"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(x: Any, n: Any, counts: Any, text: str) -> None:
    with pytest.raises(CodegenError) as caught:
        Call.named(Typed(), {"x": x, "n": n}, **counts)
    assert str(caught.value).startswith(f"Typed: {text}")


def test_whole_numbers_become_floats_where_words_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bits of 1 would be those of 5e-324."""
    module = module_in(tmp_path, monkeypatch)
    np.testing.assert_array_equal(run(module, 1), soft(X, 1.0))
    with pytest.raises(CodegenError, match=r"Soft: 1 arguments for 4 words"):
        Call(module.Soft(4), (view(FLOAT32),))


def test_one_lane_is_masked_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM's masked loads and stores are for vectors alone, and end its process otherwise."""
    text = SOFT.replace("spec = Soft(target.lanes(x.type.dtype))", "spec = Soft(1)")
    np.testing.assert_array_equal(run(module_in(tmp_path, monkeypatch, text)), soft(X))


def test_masks_and_truths_of_values_are_checked() -> None:
    k = Kernel("checked", jit.host_target(), pointers_to(F32, "x"))
    x = k.pointer("x").load(0, 4)
    with pytest.raises(TypeError, match="a mask of 8 lanes of bool for 4 lanes of memory"):
        k.pointer("x").store(x, 0, k.tail_mask(3, 8))
    with pytest.raises(TypeError, match=r"not known yet: use k\.select or k\.when"):
        bool(x > 0)
    with pytest.raises(TypeError, match="takes float operands, not i64"):
        _ = k.constant(I64, 4) / 2
    with pytest.raises(TypeError, match="operands f32 and i64 differ"):
        k.maximum(x, k.constant(I64, 4))


def test_where_no_process_starts_kernels_are_compiled_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = module_in(tmp_path, monkeypatch)
    worker.end_ready()
    monkeypatch.setattr(worker, "_started", lambda count, modules: (None, []))
    np.testing.assert_array_equal(run(module), soft(X))
    with pytest.raises(
        CodegenError, match=r"kernel Soft\(lanes=2, bug='text'\) .*: LLVM refuses a generated kernel"
    ):
        jit.addresses([module.Soft(2, "text")], jit.host_target())


def test_fields_of_two_kernels_of_one_model_are_not_mixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are compiled at once, by workers, and each finds its own code."""
    module = module_in(tmp_path, monkeypatch)
    specs = [module.Soft(lanes) for lanes in (1, 2, 4, 8, 16, 32)]
    addresses = jit.addresses(specs, jit.host_target())
    assert len({addresses[spec.symbol] for spec in specs}) == len(specs)
