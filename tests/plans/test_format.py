"""Plan files: the same bits after a trip through a file, shared weights, and a clear refusal of what does not fit."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import cenote
from cenote.codegen import jit
from cenote.plans import format, records
from cenote.plans.format import MAGIC, StalePlanError
from tests.plans.models import picture, small_model, stored_at


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A model and its plan."""
    source, plan = small_model(tmp_path / "m.onnx"), tmp_path / "m.cenote"
    cenote.load(source).save(plan)
    return source, plan


@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_bits(files: tuple[Path, Path], threads: int) -> None:
    source, plan = files
    stored = cenote.load(plan, threads=threads)
    assert np.array_equal(stored(picture()), cenote.load(source)(picture()))
    assert [str(declared) for declared in stored.inputs] == ["x: float32[1,3,8,8]"]
    assert stored.outputs[0].shape == (1, 5)
    steps = stored.plan.describe().steps
    assert {"kernel", "host"} <= {step.kind for step in steps}
    assert str(stored.plan) == str(cenote.load(source).plan)


def test_several_shapes_in_one_file(tmp_path: Path) -> None:
    source, plan = small_model(tmp_path / "m.onnx", "n", "h"), tmp_path / "m.cenote"
    model = cenote.load(source)
    with pytest.raises(cenote.InputError, match="plan_for"):
        model.save(plan)
    for height in (8, 7):
        model.plan_for({"x": (1, 3, height, 8)})
    model.save(plan)
    stored = cenote.load(plan)
    for height in (8, 7):
        assert np.array_equal(stored(picture(1, height)), model(picture(1, height)))
    assert np.array_equal(stored(picture(2)), model(picture(2))), "a batch that no plan was made for"
    assert len(model._classes.plans) == len(stored._classes.plans) == 2, "even and odd heights"
    with pytest.raises(cenote.InputError, match="the model takes"):
        stored(np.zeros((2, 4, 8, 8), np.float32))


def test_loading_imports_neither_onnx_nor_llvm(files: tuple[Path, Path]) -> None:
    code = (
        f"import sys, cenote; cenote.load({str(files[1])!r})\n"
        "print([name for name in ('onnx', 'llvmlite', 'google.protobuf') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize("where", [20, 60, 300, 0.4, 0.99])
def test_damage_is_found(files: tuple[Path, Path], where: float) -> None:
    content = bytearray(files[1].read_bytes())
    position = int(where * len(content)) if where < 1 else int(where)
    content[position] ^= 0xFF
    files[1].write_bytes(content)
    with pytest.raises(cenote.ModelError, match=r"damaged|cut short"):
        cenote.load(files[1])


@pytest.mark.parametrize("keep", [16, 100, 5000, -1])
def test_a_file_cut_short_is_refused(files: tuple[Path, Path], keep: int) -> None:
    files[1].write_bytes(files[1].read_bytes()[:keep])
    with pytest.raises(cenote.ModelError, match=r"damaged|cut short"):
        cenote.load(files[1])


def test_another_cpu_or_version_is_refused(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    for what in ("target", "version", "generator"):
        with monkeypatch.context() as patch:
            made = format.world(jit.host_target())
            patch.setattr(format, "world", lambda target, made=made, what=what: {**made, what: "another"})
            with pytest.raises(StalePlanError, match="compile it again here"):
                cenote.load(files[1])
    later = bytearray(files[1].read_bytes())
    later[len(MAGIC) - 1] = 99
    files[1].write_bytes(later)
    with pytest.raises(StalePlanError, match="format version"):
        cenote.load(files[1])


def test_a_stale_plan_is_compiled_again_when_its_source_is_at_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, plan = small_model(tmp_path / "m.onnx"), tmp_path / "m.cenote"
    with monkeypatch.context() as patch:
        made = format.world(jit.host_target())
        patch.setattr(format, "world", lambda target: {**made, "version": "0.0.0"})
        cenote.load(source, precision="exact").save(plan, source)
    model = cenote.load(plan)
    assert model.precision == "exact", "as it was"
    assert np.array_equal(model(picture()), cenote.load(source, precision="exact")(picture()))
    assert [each.name for each in stored_at(plan).outputs] == ["y"], "the file was written anew"


def test_a_stale_plan_is_compiled_again_as_it_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, plan = small_model(tmp_path / "m.onnx"), tmp_path / "m.cenote"
    graph = onnx.load(source)
    weights = np.ascontiguousarray(numpy_helper.to_array(graph.graph.initializer[2]).T)
    graph.graph.initializer[2].CopyFrom(numpy_helper.from_array(weights, "v"))
    graph.graph.node[-1].attribute.append(helper.make_attribute("transB", 1))
    onnx.save(graph, source)
    narrow = cenote.load(source, precision="exact", weights="bfloat16")
    with monkeypatch.context() as patch:
        made = format.world(jit.host_target())
        patch.setattr(format, "world", lambda target: {**made, "version": "0.0.0"})
        narrow.save(plan, source)
    again = cenote.load(plan)
    assert again.precision == "exact"
    assert np.array_equal(again(picture()), narrow(picture()))
    assert not np.array_equal(again(picture()), cenote.load(source)(picture()))


def test_a_file_that_names_foreign_classes_is_refused() -> None:
    with pytest.raises(cenote.ModelError, match="damaged"):
        records.decode({"class": ["os", "system"], "fields": {}})


def test_processes_share_the_weights(tmp_path: Path) -> None:
    """A process that has run a plan holds no copy of the 20 MB of weights: they are the file's pages."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((1000, 5000)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)], "linear",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 5000])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1000])],
        [numpy_helper.from_array(weights, "w")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    plan = tmp_path / "m.cenote"
    cenote.load(model).save(plan)
    code = (
        f"import cenote, numpy as np, re; model = cenote.load({str(plan)!r})\n"
        "model(np.ones((1, 5000), np.float32))\n"
        "text = open('/proc/self/smaps').read()\n"
        "part = text[text.index('m.cenote'):]\n"
        "print(re.search(r'Anonymous:\\s+(\\d+)', part)[1], re.search(r'Rss:\\s+(\\d+)', part)[1])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    anonymous, resident = map(int, result.stdout.split())
    assert anonymous == 0, "no page of the map was copied into the process"
    assert resident > 15_000, "the weights were read through the map"


def test_a_plan_file_is_loaded_by_its_path(files: tuple[Path, Path]) -> None:
    content = files[1].read_bytes()
    with files[1].open("rb") as opened:
        for source in (content, bytearray(content), memoryview(content), io.BytesIO(content), opened):
            with pytest.raises(cenote.ArgumentError, match="load it by its path"):
                cenote.load(source)
    with files[0].open("rb") as opened:  # looking at the start takes nothing away
        assert cenote.load(opened, threads=1).output_names == ("y",)


def test_what_cannot_be_written_is_named(files: tuple[Path, Path], tmp_path: Path) -> None:
    model = cenote.load(files[0], threads=1)
    for path in (tmp_path / "folder", tmp_path / "missing" / "x.cenote"):
        if path.name == "folder":
            path.mkdir()
        with pytest.raises(OSError, match=rf"{path}'$"):
            model.save(path)
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".new")] == []
