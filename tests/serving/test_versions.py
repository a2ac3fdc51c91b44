"""Several versions of a model at once: which are chosen, and that each answers, is counted and ends by itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import cenote
from cenote.serving.repository import Repository
from cenote.serving.versions import VersionPolicy, addressed, parted, policy_in, version_policy
from tests.serving.models import save_times

X = {"x": np.ones((1, 4), np.float32)}
LATEST = version_policy(1)


def folder_of(folder: Path, *versions: int, config: str = "") -> Path:
    for version in versions:
        save_times(folder / "m" / str(version) / "model.onnx", version)
    if config:
        (folder / "m" / "config.pbtxt").write_text(config)
    return folder


def served(repository: Repository) -> list[str]:
    return [row["version"] for row in repository.index() if row["state"] == "READY"]


@pytest.mark.parametrize(
    ("versions", "config", "expected"),
    [
        (1, "", ["10"]),
        ("2", "", ["10", "9"]),
        ("all", "", ["10", "9", "2"]),
        (7, "", ["10", "9", "2"]),
        (1, "version_policy: { all { } }", ["10", "9", "2"]),
        (1, 'name: "m"\nversion_policy { latest { num_versions: 2 } }  # newest', ["10", "9"]),
        ("all", "version_policy: {latest{}}", ["10"]),
        (1, "version_policy: { specific: { versions: [2, 9, 11] } }", ["9", "2"]),
        (1, "version_policy { specific { versions: 2 versions: 10 } }", ["10", "2"]),
        ("all", "# version_policy: { latest { num_versions: 1 } }\nmax_batch_size: 8", ["10", "9", "2"]),
    ],
)
def test_the_policy_chooses(tmp_path: Path, versions: int | str, config: str, expected: list[str]) -> None:
    with_policy = Repository(folder_of(tmp_path, 2, 9, 10, config=config), versions=versions, workers=1)
    with_policy.load_all()
    assert served(with_policy) == expected
    for version in expected:
        answer = with_policy.submit("m", X, version).result()
        np.testing.assert_array_equal(answer["y"], int(version) * X["x"])
    np.testing.assert_array_equal(with_policy.submit("m", X).result()["y"], int(expected[0]) * X["x"])
    with_policy.close()


@pytest.mark.parametrize("given", [0, -1, "some", "1.5", ""])
def test_other_numbers_of_versions_are_refused(given: int | str) -> None:
    with pytest.raises(cenote.ArgumentError, match="neither a number of versions"):
        version_policy(given)


@pytest.mark.parametrize(
    "text",
    ["version_policy: { newest {} }", "version_policy { specific { versions: [a] } }", "version_policy {"],
)
def test_a_policy_that_cannot_be_read_is_an_error(tmp_path: Path, text: str) -> None:
    repository = Repository(folder_of(tmp_path, 1, config=text), workers=1)
    with pytest.raises(cenote.ModelError, match=r"config\.pbtxt: the version_policy is none of"):
        repository.load("m")
    assert served(repository) == []


def test_versions_that_are_not_there_are_named(tmp_path: Path) -> None:
    policy = "version_policy { specific { versions: [4] } }"
    repository = Repository(folder_of(tmp_path, 1, 3, config=policy), workers=1)
    with pytest.raises(cenote.ModelError, match="there are: 1, 3"):
        repository.load("m")


def test_each_version_is_counted_and_goes_on_counting(tmp_path: Path) -> None:
    repository = Repository(folder_of(tmp_path, 1, 2), versions="all", workers=1)
    repository.load("m")
    for version, count in (("1", 3), ("2", 1)):
        for _ in range(count):
            repository.submit("m", X, version).result()
    (tmp_path / "m" / "2").rename(tmp_path / "m" / "old")
    repository.load("m")
    assert served(repository) == ["1"]
    assert repository.get("m", "2") is None
    with pytest.raises(cenote.UnavailableError, match="version 2 of model 'm' is not loaded"):
        repository.submit("m", X, "2")
    repository.submit("m", X).result()
    counted = {key: counts.answered for key, counts in repository.counters().items()}
    assert counted == {("m", "1"): 4, ("m", "2"): 1}
    repository.unload("m")
    assert {key: counts.answered for key, counts in repository.counters().items()} == counted


def test_a_damaged_version_leaves_all_former_ones(tmp_path: Path) -> None:
    repository = Repository(folder_of(tmp_path, 1, 2), versions=2, workers=1)
    repository.load("m")
    (tmp_path / "m" / "3").mkdir()
    (tmp_path / "m" / "3" / "model.onnx").write_bytes(b"nonsense")
    with pytest.raises(cenote.CenoteError, match="model 'm'"):
        repository.load("m")
    assert served(repository) == ["2", "1"]
    np.testing.assert_array_equal(repository.submit("m", X, "1").result()["y"], X["x"])
    assert "3" in repository.index()[0]["reason"]
    repository.close()


def test_the_configuration_states_the_policy() -> None:
    assert version_policy(2).as_dict() == {"latest": {"num_versions": 2}}
    assert version_policy("all").as_dict() == {"all": {}}
    assert VersionPolicy(0, (1, 3)).as_dict() == {"specific": {"versions": [1, 3]}}
    assert LATEST.as_dict() == {"latest": {"num_versions": 1}}


def test_a_folder_without_the_file_has_the_servers_policy(tmp_path: Path) -> None:
    assert policy_in(tmp_path, LATEST) is LATEST


def test_a_name_and_a_version_are_one_word_and_two_again() -> None:
    assert parted(addressed("m", "3")) == ("m", "3")
    assert parted(addressed("m", "")) == ("m", "")
    assert "/" not in addressed("m", "3")
