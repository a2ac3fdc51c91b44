"""Denormals: kept exactly or flushed, on every thread, whatever mode the caller is in, which stays as it was."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import cenote
import cenote.functional as F
from cenote.codegen import jit
from cenote.codegen.builder import F32, Kernel, Parameter
from cenote.core.errors import ArgumentError
from cenote.core.target import Target
from cenote.core.types import TensorType
from cenote.functional import callers
from cenote.kernels.driver import CALL_ON_ARRAYS, DRIVER, FUNCTION_ON_ARRAYS, driver_abi
from cenote.runtime.program import Program
from cenote.runtime.steps import KernelStep, Slot, SlotKind

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="reads the x86 control register")
SIZE = 4096
FLUSHING = 0x9FC0  # MXCSR with FTZ and DAZ
CONTROL = 0xFFC0  # its bits that are no exception flags


@dataclass(frozen=True)
class Register:
    """A function that reads (`get`) or writes (`set`) MXCSR."""

    symbol: str
    target: Target

    def emit(self, target: Target) -> Register:
        return self

    def module(self) -> str:
        which = "st" if self.symbol.endswith("get") else "ld"
        return (
            f"declare void @llvm.x86.sse.{which}mxcsr(ptr)\n"
            f"define void @{self.symbol}(ptr %p) {{ call void @llvm.x86.sse.{which}mxcsr(ptr %p)\n ret void }}"
        )


def _register(which: str) -> int:
    source = Register(f"test_mxcsr_{which}", jit.host_target())
    return jit.addresses([source], jit.host_target())[source.symbol]


def get_mode() -> int:
    word = ctypes.c_uint32()
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_register("get"))(ctypes.addressof(word))
    return word.value


def set_mode(value: int) -> None:
    word = ctypes.c_uint32(value)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_register("set"))(ctypes.addressof(word))


@pytest.fixture(params=["caller keeps", "caller flushes"])
def caller(request: pytest.FixtureRequest) -> Iterator[int]:
    """The caller's mode, which must not change."""
    before = get_mode()
    mode = (before & ~CONTROL & 0xFFFF) | (FLUSHING if request.param == "caller flushes" else 0x1F80)
    set_mode(mode)
    yield mode
    after = get_mode()
    set_mode(before)
    assert after & CONTROL == mode & CONTROL


def denormals() -> np.ndarray:
    return np.arange(1, SIZE + 1, dtype=np.uint32).view(np.float32)  # 1.4e-45 to 5.7e-42


def halves(flush: bool, threads: int) -> Program:
    """x * 2: exact for denormals."""
    target = jit.named_target("generic")
    k = Kernel("test_double", target, [Parameter(name, F32, pointer=True) for name in ("x", "y")])
    for i in k.range(k.begin, k.end):
        k.pointer("y").store(k.pointer("x").load(i * 4, 4) * 2.0, i * 4)
    address = jit.addresses([k], target)["test_double"]
    type = TensorType.of(np.float32, (SIZE,))
    step = KernelStep(
        "double", "test_double", address, (Slot(SlotKind.INPUT, 0), Slot(SlotKind.OUTPUT, 0)), SIZE // 4, 8, 0
    )
    return Program((step,), (type,), (type,), (), 0, driver_abi(), threads, flush=flush)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_programs_keep_or_flush_on_every_thread(threads: int, caller: int) -> None:
    x = denormals()
    want = (x.view(np.uint32) * 2).view(np.float32)
    keeping, flushing = halves(False, threads), halves(True, threads)
    for _ in range(50):  # in turns, on one team
        assert keeping.run([x])[0].tobytes() == want.tobytes()
        assert not flushing.run([x])[0].view(np.uint32).any()


def model() -> bytes:
    shape = [1, 8, 16, 16]
    node = helper.make_node("Mul", ["x", "two"], ["y"])
    graph = helper.make_graph(
        [node], "double",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [helper.make_tensor("two", TensorProto.FLOAT, [1], [2.0])],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return made.SerializeToString()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_model_takes_the_option_or_the_setting(
    threads: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caller: int
) -> None:
    x = denormals()[: 8 * 256].reshape(1, 8, 16, 16)
    want = (x.view(np.uint32) * 2).tobytes()
    kept = cenote.load(model(), threads=threads)
    flushed = cenote.load(model(), threads=threads, denormals="flush")
    assert (kept.denormals, flushed.denormals) == ("preserve", "flush")
    assert kept(x).tobytes() == want
    assert not flushed(x).view(np.uint32).any()
    flushed.save(tmp_path / "model.plan")
    assert cenote.load(tmp_path / "model.plan", threads=threads)(x).tobytes() == want
    again = cenote.load(tmp_path / "model.plan", threads=threads, denormals="flush")
    assert not again(x).view(np.uint32).any()
    monkeypatch.setenv("CENOTE_DENORMALS", "flush")
    assert not cenote.load(model(), threads=threads)(x).view(np.uint32).any()
    assert cenote.load(model(), threads=threads, denormals="preserve")(x).tobytes() == want


@pytest.mark.parametrize("side", [8, 1024])
def test_functions_take_the_setting(
    side: int, prepared_anew: None, monkeypatch: pytest.MonkeyPatch, caller: int
) -> None:
    x = np.full((1, 2, side, side), 4096, np.uint32).view(np.float32)
    assert (F.avg_pool2d(x, 2, threads=2).view(np.uint32) == 4096).all()
    callers.forget()
    monkeypatch.setenv("CENOTE_DENORMALS", "flush")
    assert not F.avg_pool2d(x, 2, threads=2).view(np.uint32).any()


def test_other_values_are_the_same_bits_in_both_modes() -> None:
    x = np.random.default_rng(0).standard_normal((1, 8, 16, 16)).astype(np.float32)
    assert cenote.load(model())(x).tobytes() == cenote.load(model(), denormals="flush")(x).tobytes()


@pytest.mark.parametrize("triple", ["x86_64-linux-gnu", "aarch64-linux-gnu", "riscv64-linux-gnu"])
def test_the_driver_is_valid_code_for_every_machine(triple: str) -> None:
    from llvmlite import binding

    target = replace(jit.named_target("generic"), triple=triple)
    for source in (*DRIVER, CALL_ON_ARRAYS, FUNCTION_ON_ARRAYS):
        binding.parse_assembly(source.emit(target).module()).verify()


def test_what_is_no_mode_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ArgumentError, match="denormals: 'zero' is not known"):
        cenote.load(model(), denormals="zero")
    monkeypatch.setenv("CENOTE_DENORMALS", "zero")
    with pytest.raises(ArgumentError, match="CENOTE_DENORMALS: 'zero' is not known"):
        cenote.load(model())
    assert replace(halves(False, 1), flush=True).flush


@pytest.mark.parametrize("name", ["generic", ""])
@pytest.mark.parametrize("to", [TensorProto.FLOAT, TensorProto.FLOAT16])
def test_small_numbers_of_float16_are_no_denormals(
    name: str, to: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those below 6.1e-5, float16's smallest normal number, are normal in float32, also where the conversion is made
    of other instructions."""
    monkeypatch.setenv("CENOTE_TARGET", name)
    every = np.arange(0x400, dtype=np.uint16).view(np.float16)
    other = TensorProto.FLOAT if to == TensorProto.FLOAT16 else TensorProto.FLOAT16
    x, want = (every.astype(np.float32 if kind == TensorProto.FLOAT else np.float16) for kind in (other, to))
    graph = helper.make_graph(
        [helper.make_node("Cast", ["x"], ["y"], to=to)], "cast",
        [helper.make_tensor_value_info("x", other, x.shape)], [helper.make_tensor_value_info("y", to, x.shape)],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    y = cenote.load(made.SerializeToString(), denormals="flush")(x)
    np.testing.assert_array_equal(y.astype(np.float32), want.astype(np.float32))
