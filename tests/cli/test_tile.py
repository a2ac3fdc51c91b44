"""`cenote tile`: a layer, a model, pictures, and what it says when something is wrong."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from onnx import helper

import cenote
from tests.cli.conftest import Command
from tests.verification.open_models import saved, skipped

LAYER = ("tile", "maxpool", "--input", "8x64x56x56", "--kernel", "3", "--stride", "2", "--padding", "1")
MODEL = Path(cenote.__file__).parent / "data" / "fashion.onnx"


def test_a_layer(cenote_command: Command) -> None:
    done = cenote_command(*LAYER, "--hardware", "npu", "--strategy", "both", "--explain")
    assert done.code == 0, done.err
    assert "stage nc" in done.out
    assert "tile     nc 6, d 1, h 28, w 28" in done.out
    assert "stage 1, planes: 6 with whole maps" in done.out
    assert "so this is the optimum" in done.out


def test_json_and_simulation(cenote_command: Command) -> None:
    small = (
        "tile",
        "avgpool",
        "--input",
        "1x3x9x9",
        "--kernel",
        "3x2",
        "--padding",
        "1,0x0,1",
        "--stride",
        "2",
    )
    done = cenote_command(*small, "--simulate", "--json")
    found = json.loads(done.out)
    assert found["simulated"]["cycles"] == found["cycles"]
    assert found["simulated"]["largest_difference"] < 1e-6
    assert {
        "stage",
        "tile",
        "parts",
        "tasks",
        "bytes",
        "fits",
        "fed",
        "cycles",
        "bytes_in",
        "bytes_out",
    } <= set(found)
    assert {"lower_bound", "policy", "trace"} <= set(found)


def test_a_model_with_a_page(cenote_command: Command, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = cenote_command("tile", MODEL, "--svg", page, "--strategy", "search")
    assert done.code == 0, done.err
    assert "layers" in done.out
    assert page.read_text(encoding="utf-8").count("<svg") >= 1
    one = json.loads(cenote_command("tile", MODEL, "--json").out)
    name = one["layers"][0]["layer"]
    assert len(json.loads(cenote_command("tile", MODEL, "--json", "--node", name).out)["layers"]) == 1


def test_a_picture(cenote_command: Command, tmp_path: Path) -> None:
    picture = tmp_path / "tiles.svg"
    assert cenote_command(*LAYER, "--svg", picture).code == 0
    root = ElementTree.parse(picture).getroot()
    assert root.tag.endswith("svg")
    assert "read 1 times" in picture.read_text(encoding="utf-8")


def test_errors(cenote_command: Command) -> None:
    done = cenote_command("tile", "maxpool", "--input", "1x1x8x8", "--kernel", "9")
    assert (done.code, "kernel_size 9" in done.err) == (1, True)
    assert "needs --input" in cenote_command("tile", "maxpool", "--kernel", "3").err
    assert "must be numbers" in cenote_command("tile", "maxpool", "--input", "a").err
    assert "NAME=VALUE" in cenote_command(*LAYER, "--policy", "x").err


def test_open_sizes_are_asked_for(cenote_command: Command, tmp_path: Path) -> None:
    """As the other commands do, which take 1 for a batch alone."""
    path = skipped(tmp_path / "open.onnx")
    done = cenote_command("tile", path)
    assert done.code == 1
    assert "x: float32[n,3,h,w]: give its size" in done.err
    assert "--shape x=1,3,SIZE,SIZE" in done.err
    with pytest.raises(cenote.ArgumentError, match="give its size"):
        cenote.tiling.plan_model(path)
    done = cenote_command("tile", path, "--shape", "x=1,3,8,12", "--json")
    assert done.code == 0, done.err
    assert [layer["input"] for layer in json.loads(done.out)["layers"]] == [[1, 3, 8, 12], [1, 16, 8, 12]]
    nodes = [helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2])]
    batch = saved(tmp_path / "batch.onnx", nodes, ("n", 3, 6, 6))
    assert [plan.layer.inputs[0].shape for plan in cenote.tiling.plan_model(batch).plans] == [(1, 3, 6, 6)]


def test_a_plan_is_printed_as_a_program(cenote_command: Command, tmp_path: Path) -> None:
    small = ("tile", "avgpool", "--input", "1x4x16x16", "--kernel", 3, "--hardware", "npu-small")
    done = cenote_command(*small, "--emit", "c")
    assert done.code == 0, done.err
    assert done.out.startswith("/* avgpool: average_pool(")
    assert "void tiles_run(" in done.out
    assert "func.func @tiles(" in cenote_command(*small, "--emit", "mlir").out
    done = cenote_command("tile", "lppool", *small[2:], "--emit", "c")
    assert done.code == 1
    assert "no program is emitted for lp_pool" in done.err
    model = tmp_path / "m.onnx"
    model.write_bytes(b"")
    done = cenote_command("tile", model, "--emit", "c")
    assert done.code == 1
    assert "--emit is for one layer" in done.err


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        ("conv", ("--filters", 8, "--kernel", 3, "--bias"), "f32[8]"),
        ("lppool", ("--kernel", 3, "--p", 3), "p=3.0"),
        ("avgpool", ("--kernel", 3, "--divisor-override", 7), "divisor_override=7"),
        ("maxpool", ("--kernel", 3, "--stride", 2, "--auto-pad", "SAME_UPPER"), "auto_pad=SAME_UPPER"),
    ],
)
def test_layers_have_all_arguments(
    kind: str, options: tuple[object, ...], said: str, cenote_command: Command
) -> None:
    done = cenote_command("tile", kind, "--input", "1x4x17x17", *options, "--simulate", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert "each output written once" in found["simulated"]["verdict"]
    assert found["simulated"]["largest_difference"] < 1e-6
    assert sum(share["tasks"] for share in found["shares"]) == found["tasks"]
    if kind != "conv":
        assert said in found["operator"].replace("'", "").replace('"', "")
