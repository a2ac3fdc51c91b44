"""A stale or damaged plan file is compiled again from the model that it was made from, and from no other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, external_data_helper, helper

import cenote
from cenote.codegen import jit
from cenote.core.load_options import LoadOptions
from cenote.models.loading import load_with
from cenote.plans import format
from cenote.plans.classes import StoredPlan
from cenote.plans.format import StalePlanError
from tests.diagnosis.causes.models import convolution
from tests.plans.models import changed, picture, small_model, stored_at

Saved = Callable[[cenote.Model, Path, Path], None]


@pytest.fixture
def save_stale(monkeypatch: pytest.MonkeyPatch) -> Saved:
    """Saves a plan file as another version of Cenote would."""

    def save(model: cenote.Model, path: Path, source: Path) -> None:
        with monkeypatch.context() as patch:
            made = format.world(jit.host_target())
            patch.setattr(format, "world", lambda target: {**made, "version": "0.0.0"})
            model.save(path, source)

    return save


@pytest.mark.parametrize("caching", ["0", "100"])
def test_a_source_that_changed_is_not_used(
    tmp_path: Path, save_stale: Saved, monkeypatch: pytest.MonkeyPatch, caching: str
) -> None:
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CENOTE_PLAN_CACHE", caching)
    source, plan = small_model(tmp_path / "m.onnx"), tmp_path / "m.cenote"
    save_stale(cenote.load(source), plan, source)
    changed(source, 2.0)
    before = plan.read_bytes()
    with pytest.raises(StalePlanError, match=r"another version of Cenote.*m\.onnx, has changed since"):
        cenote.load(plan)
    assert plan.read_bytes() == before
    source.unlink()
    with pytest.raises(StalePlanError, match=r"compile it again here$"):
        cenote.load(plan)


def test_a_damaged_file_too(tmp_path: Path) -> None:
    source, plan = small_model(tmp_path / "m.onnx"), tmp_path / "m.cenote"
    expected = cenote.load(source)(picture())
    cenote.load(source).save(plan, source)
    content = bytearray(plan.read_bytes())
    content[-5000] ^= 1
    plan.write_bytes(content)
    assert np.array_equal(cenote.load(plan)(picture()), expected), "the same model: compiled again"
    assert stored_at(plan).source, "and written again"
    content[-5000] ^= 1
    plan.unlink()
    plan.write_bytes(content[:-4096])
    changed(source, 2.0)
    with pytest.raises(cenote.ModelError, match=r"cut short.*has changed since"):
        cenote.load(plan)


def test_weights_beside_the_source_count(tmp_path: Path, save_stale: Saved) -> None:
    source, plan = small_model(tmp_path / "m.onnx"), tmp_path / "m.cenote"
    model = onnx.load(source)
    external_data_helper.convert_model_to_external_data(model, location="w.bin", size_threshold=0)
    onnx.save(model, source)
    save_stale(cenote.load(source), plan, source)
    content = bytearray((tmp_path / "w.bin").read_bytes())
    content[2] ^= 0x40
    (tmp_path / "w.bin").write_bytes(content)
    with pytest.raises(StalePlanError, match="has changed since"):
        cenote.load(plan)
    content[2] ^= 0x40
    (tmp_path / "w.bin").write_bytes(content)
    assert cenote.load(plan)(picture()).shape == (1, 5)


def test_plans_for_several_shapes_are_saved_again(tmp_path: Path, save_stale: Saved) -> None:
    source, plan = small_model(tmp_path / "m.onnx", "n", "h"), tmp_path / "m.cenote"
    model = cenote.load(source)
    for height in (8, 7):
        model.plan_for({"x": (1, 3, height, 8)})
    save_stale(model, plan, source)
    again = cenote.load(plan)
    assert np.array_equal(again(picture(3, 7)), model(picture(3, 7)))
    written = stored_at(plan)
    made_with = {sized.made_with for _, sized in written.sized}
    assert made_with == {((1, 3, 8, 8),), ((1, 3, 7, 8),)}, "the file was written anew"


def test_a_plan_of_a_part_of_a_file_is_made_of_that_part_again(tmp_path: Path, save_stale: Saved) -> None:
    source, plan = small_model(tmp_path / "m.onnx"), tmp_path / "m.cenote"
    part = cenote.load(source, inputs=["a"], outputs=["c"])
    save_stale(part, plan, source)
    again = cenote.load(plan)
    assert ([each.name for each in again.inputs], [each.name for each in again.outputs]) == (["a"], ["c"])
    x = np.random.default_rng(2).standard_normal((1, 12, 8, 8)).astype(np.float32)
    assert np.array_equal(again(x), part(x))
    assert stored_at(plan).options.outputs == ("c",), "the file was written anew"


def test_a_source_that_the_model_was_not_made_from_is_refused(tmp_path: Path) -> None:
    source, plan = small_model(tmp_path / "m.onnx"), tmp_path / "m.cenote"
    model, ready = cenote.load(source), tmp_path / "ready.cenote"
    model.save(ready, source)
    other = tmp_path / "copy.onnx"
    other.write_bytes(source.read_bytes())
    for each in (model, cenote.load(ready), cenote.load(source.read_bytes())):
        each.save(plan, other)
    changed(other, 2.0)
    for each in (model, cenote.load(ready), cenote.load(source.read_bytes())):
        with pytest.raises(cenote.ArgumentError, match="not what this model was made from"):
            each.save(plan, other)
    with pytest.raises(cenote.ArgumentError, match="cannot be read"):
        model.save(plan, tmp_path / "missing.onnx")


@pytest.fixture
def treated(tmp_path: Path) -> tuple[Path, Path, cenote.Model]:
    """A model, where its plan goes, and the model with another algorithm and a rewrite."""
    made, _ = convolution(16, 16, 28)
    source = tmp_path / "m.onnx"
    onnx.save(made, source)
    model = load_with(
        source, LoadOptions(algorithms={"y0": "direct"}, rewrites=("space_to_batch",), threads=1)
    )
    assert algorithms(model) == {"direct"}
    assert algorithms(cenote.load(source, threads=1)) != {"direct"}
    return source, tmp_path / "m.cenote", model


def algorithms(model: cenote.Model) -> set[str]:
    return {step.algorithm for step in model.plan.describe().steps if step.operations}


def test_what_diagnose_chose_is_kept_and_told(
    treated: tuple[Path, Path, cenote.Model], save_stale: Saved
) -> None:
    source, plan, model = treated
    save_stale(model, plan, source)
    with pytest.warns(
        RuntimeWarning,
        match=r"another version.*1 node\(s\) or operator\(s\) there are kept.*diagnose --apply",
    ):
        again = cenote.load(plan, threads=1)
    assert algorithms(again) == {"direct"}
    written = stored_at(plan)
    assert (written.options.algorithms, written.options.rewrites) == ({"y0": "direct"}, ("space_to_batch",))
    copy = plan.with_name("copy.cenote")
    cenote.load(plan, threads=1).save(copy, source)
    assert stored_at(copy).options.algorithms == {"y0": "direct"}, "a plan of a plan has them too"


def test_what_is_not_to_be_had_here_is_told_and_left_out(
    treated: tuple[Path, Path, cenote.Model], save_stale: Saved, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, plan, model = treated
    named = model._shared.options.changed(algorithms={"y0": "of another CPU"})
    monkeypatch.setattr(model._shared, "options", named)
    save_stale(model, plan, source)
    with pytest.warns(
        RuntimeWarning, match=r"1 node\(s\) or operator\(s\) are not kept.*of another CPU.*diagnose --apply"
    ):
        again = cenote.load(plan, threads=1)
    assert algorithms(again) == algorithms(cenote.load(source, threads=1))
    assert stored_at(plan).options.rewrites == ("space_to_batch",)


def argmax_model(path: Path) -> Path:
    graph = helper.make_graph(
        [helper.make_node("ArgMax", ["x"], ["y"], axis=1), helper.make_node("Relu", ["x"], ["z"])], "argmax",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 7])],
        [
            helper.make_tensor_value_info("y", TensorProto.INT64, ["n", 1]),
            helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n", None]),
        ],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_outputs_are_known_before_the_first_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CENOTE_PLAN_CACHE", "100")
    source, plan = argmax_model(tmp_path / "m.onnx"), tmp_path / "m.cenote"
    for _ in ("imported", "out of the cache"):
        model = cenote.load(source)
        assert list(map(str, model.outputs)) == ["y: int64[n,1]", "z: float32[n,7]"]
        assert model.outputs[0].shape == ("n", 1)
    model.plan_for({"x": (2, 7)})
    assert list(map(str, model.outputs)) == ["y: int64[2,1]", "z: float32[2,7]"]
    model.save(plan)
    assert list(map(str, stored_at(plan).outputs)) == ["y: int64[n,1]", "z: float32[n,7]"]
    loaded = cenote.load(plan)
    assert list(map(str, loaded.outputs)) == ["y: int64[2,1]", "z: float32[2,7]"]
    loaded(np.zeros((5, 7), np.float32))
    assert list(map(str, loaded.outputs)) == ["y: int64[5,1]", "z: float32[5,7]"]


def test_text_that_is_no_text_is_refused_when_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONNX gives text that is not UTF-8 as bytes."""
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CENOTE_PLAN_CACHE", "100")
    source = small_model(tmp_path / "m.onnx")
    content = onnx.load(source)
    content.metadata_props.add(key="key", value="value that is text")
    onnx.save(content, source)
    source.write_bytes(source.read_bytes().replace(b"value that is text", b"value that is \xff\xfe!!"))
    model = cenote.load(source)
    assert model(picture()).shape == (1, 5), "not kept, without a word"
    with pytest.raises(cenote.UnsupportedError, match="cannot hold this model"):
        model.save(tmp_path / "m.cenote")


def test_weights_may_lie_behind_a_folder_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CENOTE_PLAN_CACHE", "100")
    source = small_model(tmp_path / "m.onnx")
    content = onnx.load(source)
    external_data_helper.convert_model_to_external_data(content, location="w.bin", size_threshold=0)
    onnx.save(content, source)
    content = onnx.load(source, load_external_data=False)
    for tensor in content.graph.initializer:
        for entry in tensor.external_data:
            entry.value = "sub/../w.bin" if entry.key == "location" else entry.value
    source.write_bytes(content.SerializeToString())
    expected = cenote.load(source)(picture())
    again = cenote.load(source)
    assert np.array_equal(again(picture()), expected)
    assert isinstance(again.plan, StoredPlan), "kept"


def test_a_size_without_a_plan_is_told_with_what_to_do(tmp_path: Path) -> None:
    """Without the model's file no plan can be made: a plan holds for sizes that pad alike (SAME, by parity)."""
    made = {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}
    nodes = [helper.make_node("MaxPool", ["x"], ["y"], **made)]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8, "h", "w"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    opset = [helper.make_opsetid("", 17)]
    onnx.save(
        helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=opset, ir_version=8),
        tmp_path / "m.onnx",
    )
    model = cenote.load(tmp_path / "m.onnx")
    model(np.zeros((1, 8, 8, 8), np.float32))
    model.save(tmp_path / "m.cenote")
    (tmp_path / "m.onnx").unlink()
    plan = cenote.load(tmp_path / "m.cenote")
    assert plan(np.zeros((2, 8, 10, 12), np.float32)).shape == (2, 8, 5, 6)
    said = (
        r"no plan for x \[1, 8, 9, 9\] \(it has: 1 class\(es\) of sizes, such as that of x \[1, 8, 8, 8\]; x "
        r"\[2, 8, 10, 12\]\): load the model, call plan_for\(\{'x': \(1, 8, 9, 9\)\}\), and save it again"
    )
    with pytest.raises(cenote.InputError, match=said):
        plan(np.zeros((1, 8, 9, 9), np.float32))
