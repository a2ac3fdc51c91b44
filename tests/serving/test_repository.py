"""Folders of models: what is found, loaded, replaced while requests go on, and refused."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

import cenote
from cenote.serving import Repository, Served
from tests.serving.models import Doubling, save_times

X = {"x": np.ones((1, 4), np.float32)}


def first(repository: Repository, name: str) -> float:
    return float(repository.submit(name, X).result(60)["y"][0, 0])


def test_models_in_folders_and_in_versions(tmp_path: Path) -> None:
    save_times(tmp_path / "plain" / "model.onnx", 2)
    save_times(tmp_path / "versions" / "9" / "model.onnx", 9)
    save_times(tmp_path / "versions" / "10" / "model.onnx", 10)
    (tmp_path / "versions" / "11").mkdir()  # an empty one, being copied say
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "notes.txt").write_text("no model")
    repository = Repository(tmp_path, workers=1)
    assert [(row["name"], row["state"]) for row in repository.index()] == [
        ("plain", "UNAVAILABLE"),
        ("versions", "UNAVAILABLE"),
    ]
    repository.load_all()
    assert [first(repository, name) for name in ("plain", "versions")] == [2, 10]
    assert [(row["version"], row["state"]) for row in repository.index()] == [("1", "READY"), ("10", "READY")]
    repository.close()
    assert not repository.loaded()


def test_a_plan_beside_its_model_is_taken(tmp_path: Path) -> None:
    model = cenote.load(save_times(tmp_path / "m" / "model.onnx", 2, rows=1))
    model.save(tmp_path / "m" / "model.cenote", source=tmp_path / "m" / "model.onnx")
    repository = Repository(tmp_path, workers=1, max_batch=4)  # its first axis is fixed: it is not batched
    assert repository.load("m").found.path.name == "model.cenote"
    assert first(repository, "m") == 2
    repository.close()


def test_loading_anew_loses_no_request(tmp_path: Path) -> None:
    path = save_times(tmp_path / "m" / "model.onnx", 2)
    repository = Repository(tmp_path, workers=1, load=lambda path: Doubling())
    repository.load("m")
    stop, answers = threading.Event(), list[float]()

    def call() -> None:
        while not stop.is_set():
            answers.append(first(repository, "m"))

    caller = threading.Thread(target=call)
    caller.start()
    for _ in range(20):
        repository.load("m")
    stop.set()
    caller.join(60)
    assert answers
    assert set(answers) == {2}
    assert path.exists()
    repository.close()


def test_what_was_accepted_before_an_unload_is_answered(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "model.onnx").touch()
    model = Doubling(held=True)
    repository = Repository(tmp_path, workers=1, load=lambda path: model)
    repository.load("m")
    futures = [repository.submit("m", X) for _ in range(3)]
    unloading = threading.Thread(target=repository.unload, args=("m",))
    unloading.start()
    model.go.set()
    assert [future.result(60)["y"][0, 0] for future in futures] == [2, 2, 2]
    unloading.join(60)
    with pytest.raises(cenote.UnavailableError, match="'m' is not loaded"):
        repository.submit("m", X)
    with pytest.raises(cenote.MissingFileError, match="'m' is not loaded"):
        repository.unload("m")


def test_a_model_that_cannot_be_loaded_leaves_the_former_one(tmp_path: Path) -> None:
    path = save_times(tmp_path / "m" / "model.onnx", 2)
    repository = Repository(tmp_path, workers=1)
    repository.load("m")
    path.write_bytes(b"GIF89a")
    with pytest.raises(cenote.ModelError, match="model"):
        repository.load("m")
    assert first(repository, "m") == 2
    assert "not an ONNX model" in repository.index()[0]["reason"]
    repository.close()


@pytest.mark.parametrize("name", ["", ".", "..", "../m", "m/../m", "/", "M", "m\0"])
def test_names_from_clients_are_no_paths(tmp_path: Path, name: str) -> None:
    save_times(tmp_path / "repository" / "m" / "model.onnx", 2)
    with pytest.raises(cenote.MissingFileError, match="there are: m"):
        Repository(tmp_path / "repository", workers=1).load(name)


def test_folders_without_models(tmp_path: Path) -> None:
    with pytest.raises(cenote.MissingFileError, match="no such folder"):
        Repository(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(cenote.ModelError, match=r"'empty'.*no file 'model'"):
        Repository(tmp_path).load_all()
    with pytest.raises(cenote.ArgumentError, match="max_queue"):
        Repository(tmp_path, max_queue=0)


def test_single_files_are_models_where_no_folder_has_their_name(tmp_path: Path) -> None:
    save_times(tmp_path / "flat.onnx", 2)
    save_times(tmp_path / "both.onnx", 3)
    save_times(tmp_path / "both" / "model.onnx", 4)
    plan = cenote.load(save_times(tmp_path / "planned.onnx", 5, rows=1))
    plan.save(tmp_path / "planned.cenote", source=tmp_path / "planned.onnx")
    (tmp_path / "readme.txt").write_text("no model")
    repository = Repository(tmp_path, workers=1)
    assert repository.names() == ["both", "flat", "planned"]
    repository.load_all()
    assert [first(repository, name) for name in repository.names()] == [4, 2, 5]
    assert repository.find("planned")[0].path.suffix == ".cenote"
    repository.close()


def test_a_folder_without_models_is_refused(tmp_path: Path) -> None:
    with pytest.raises(cenote.MissingFileError, match=r"holds no models: put one at .*NAME/model\.onnx"):
        Repository(tmp_path, workers=1).load_all()


def test_others_are_served_where_that_is_wanted(tmp_path: Path) -> None:
    save_times(tmp_path / "good" / "model.onnx", 2)
    for name in ("damaged", "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "damaged" / "model.onnx").write_bytes(b"no model")
    repository = Repository(tmp_path, workers=1)
    with pytest.raises(cenote.ModelError, match="damaged"):
        repository.load_all()
    repository.load_all(keep_going=True)
    states = {row["name"]: (row["state"], row["reason"]) for row in repository.index()}
    assert states["good"] == ("READY", "")
    assert states["damaged"][0] == states["empty"][0] == "UNAVAILABLE"
    assert "holds no file" in states["empty"][1]
    repository.close()


def test_counts_go_on_when_a_model_is_replaced(tmp_path: Path) -> None:
    save_times(tmp_path / "m" / "model.onnx", 2)
    repository = Repository(tmp_path, workers=1)
    repository.load("m")
    stop, seen = threading.Event(), [0]

    def watch() -> None:
        while not stop.is_set():
            seen.append(repository.counters()["m", "1"].accepted)

    watcher = threading.Thread(target=watch)
    watcher.start()
    for number in range(40):
        first(repository, "m")
        if number % 5 == 4:
            repository.load("m")
    stop.set()
    watcher.join(60)
    assert seen == sorted(seen), "a count fell"
    repository.unload("m")
    assert repository.counters()["m", "1"].answered == 40


def test_a_model_that_is_replaced_is_there_at_any_moment(tmp_path: Path) -> None:
    """Requests take no lock: one that came between two steps of a replacement would be told that it is not loaded."""

    class Kept(dict[str, Served]):
        def pop(self, *arguments: object) -> Served:
            raise AssertionError("the former model is gone before the new one is there")

        __delitem__ = pop  # type: ignore[assignment]

    save_times(tmp_path / "m" / "model.onnx", 2)
    repository = Repository(tmp_path, workers=1)
    former = repository.load("m")
    repository._served = Kept(repository._served)
    assert repository.load("m") is not former
    repository._served = dict(repository._served)
    repository.close()
