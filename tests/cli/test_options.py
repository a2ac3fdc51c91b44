"""Every option of `cenote.load` is one of every command that loads a model."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command

import cenote
from cenote.cli.app import app
from cenote.cli.shapes import parse_bounds
from tests.cli.conftest import Command

LOADING = ("run", "inspect", "bench", "profile", "diagnose", "compile", "verify", "warm", "serve")
FLAGS = {
    each.metadata["option"].flag
    for each in dataclasses.fields(cenote.LoadOptions)
    if each.metadata["option"].flag
}
GIVEN = (
    *(
        "--threads",
        1,
        "--precision",
        "exact",
        "--weights",
        "bfloat16",
        "--tune",
        "off",
        "--denormals",
        "flush",
    ),
    *("--bounds", "x=1,3,4,w<=6", "--format", "onnx", "--feed", "x", "--fetch", "y"),
    *("--algorithms", "y=reference", "--algorithms", "add=reference"),
)
LOADED = cenote.LoadOptions(
    threads=1,
    precision="exact",
    weights="bfloat16",
    tune="off",
    denormals="flush",
    shapes={"x": [1, 3, 4, "w<=6"]},
    format="onnx",
    inputs=("x",),
    outputs=("y",),
    algorithms={"y": "reference", "add": "reference"},
)


def flags_of(name: str) -> set[str]:
    """The options of a command."""
    command = get_command(app).commands[name]  # type: ignore[attr-defined]
    return {flag for each in command.params for flag in each.opts}


@pytest.mark.parametrize("name", LOADING)
def test_every_command_that_loads_takes_every_option(name: str) -> None:
    assert flags_of(name) >= FLAGS


def test_every_option_of_load_has_a_flag() -> None:
    named = {each.name for each in dataclasses.fields(cenote.LoadOptions) if each.metadata["option"].flag}
    assert named == set(inspect.signature(cenote.load).parameters) - {"source"}


@pytest.mark.parametrize("name", ["run", "bench"])
def test_options_reach_the_load(
    name: str, cenote_command: Command, identity: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = list[cenote.LoadOptions]()

    def load_with(source: Any, options: cenote.LoadOptions) -> cenote.Model:
        found.append(options)
        raise typer.Exit

    monkeypatch.setattr(cenote, "load_with", load_with)
    cenote_command(name, identity, *GIVEN)
    assert found == [cenote.LoadOptions.changed(LOADED, inputs=("x",))]


def test_a_model_is_loaded_with_all_of_them(cenote_command: Command, identity: Path) -> None:
    ended = cenote_command("bench", identity, "--shape", "x=1,3,4,6", "--seconds", 0.01, *GIVEN)
    assert ended.code == 0, ended.err
    assert "exact" in ended.out


def test_bounds_are_read_as_load_takes_them(cenote_command: Command, identity: Path) -> None:
    assert parse_bounds(["x=n<=8,3, h<=640,?,w"]) == {"x": ["n<=8", 3, "h<=640", None, "w"]}
    ended = cenote_command("bench", identity, "--bounds", "n<=8,3")
    assert (ended.code, "NAME=n<=8" in ended.err) == (2, True)


def test_help_groups_them(cenote_command: Command) -> None:
    assert "Loading" in cenote_command("bench", "--help").out


@pytest.mark.parametrize("given", ["conv1", "=direct", "conv1="])
def test_an_algorithm_without_a_name_is_refused(given: str, identity: Path, cenote_command: Command) -> None:
    ended = cenote_command("inspect", identity, "--algorithms", given)
    assert ended.code != 0
    assert "takes NAME=ALGORITHM (conv1=direct)" in ended.err


def test_an_algorithm_is_named_behind_the_last_sign(identity: Path, cenote_command: Command) -> None:
    ended = cenote_command("inspect", identity, "--algorithms", "a=b=generic")
    assert ended.code != 0
    assert "no node and no operator 'a=b'" in " ".join(ended.err.split())
