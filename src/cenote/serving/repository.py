"""Folders of models, as Triton lays them out: FOLDER/NAME/model.onnx, or FOLDER/NAME/VERSION/model.onnx."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cenote.core.errors import CenoteError, MissingFileError, ModelError, UnavailableError
from cenote.core.types import Array
from cenote.loading import load as load_model
from cenote.model import Model
from cenote.runtime.threads import resolve_threads
from cenote.serving.batcher import Batcher, Runs, why_alone

_log = logging.getLogger(__name__)

SUFFIXES = (".cenote", ".onnx", ".tflite", ".pb", ".pbtxt", ".savedmodel", ".meta", ".keras", ".h5")
"""Of files (folders: .savedmodel) named `model`, in the order in which they are looked for."""


@dataclass(frozen=True)
class Found:
    """A model as its folder holds it; `version` is "1" where the folder has no versions."""

    name: str
    version: str
    path: Path


@dataclass(frozen=True)
class Served:
    """A model that is loaded, and what answers requests to it."""

    found: Found
    batcher: Batcher

    def close(self) -> None:
        """Answer what was accepted, then let the model's memory go."""
        self.batcher.close()
        if isinstance(self.batcher.model, Model):
            self.batcher.model.close()


class Repository:
    """The models of a folder, by name: those that are loaded answer requests.

    folder: holds a folder for each model. In it lies `model` with one of SUFFIXES, or folders named by numbers that
        hold one: the largest number is served. Of several files, the first of SUFFIXES is taken (a plan).
    workers: threads for each model, by default one per physical core that this process may use. Each runs whole
        requests on one thread; all of them run one set of weights.
    max_batch, max_delay, max_queue: as of `Batcher`. A model whose first axis is fixed gets max_batch=1.
    load: makes a model of a path; by default `cenote.load(path, threads=1)`.

    Raises MissingFileError where there is no such folder, ArgumentError for numbers out of range.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        workers: int | None = None,
        max_batch: int = 1,
        max_delay: float = 0.0,
        max_queue: int = 128,
        load: Callable[[Path], Runs] | None = None,
    ) -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise MissingFileError(
                f"{self.folder}: there is no such folder of models", os.fspath(self.folder)
            )
        self._max_batch = max_batch
        self._options: dict[str, Any] = {
            "max_delay": max_delay,
            "max_queue": max_queue,
            "workers": resolve_threads(workers),
        }
        self._load = load or (lambda path: load_model(path, threads=1))
        Batcher(_Nothing(), **self._options).close()  # numbers out of range are found now
        self._served: dict[str, Served] = {}
        self._problems: dict[str, str] = {}
        self._lock = threading.Lock()  # one load or unload at a time; requests never take it

    # ---- what there is ----------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """The models in the folder, loaded or not."""
        with os.scandir(self.folder) as entries:
            return sorted(e.name for e in entries if e.is_dir() and not e.name.startswith("."))

    def find(self, name: str) -> Found:
        """Where a model lies. Raises MissingFileError for a name that is none of `names`, ModelError where its folder
        holds no model."""
        names = self.names()
        if name not in names:  # whatever a client sends is compared, never made part of a path
            there = ", ".join(names) or "none"
            raise MissingFileError(f"there is no model '{name}' in the repository; there are: {there}", name)
        folder = self.folder / name
        versions = sorted(
            (entry for entry in folder.iterdir() if _is_version(entry.name) and entry.is_dir()),
            key=lambda entry: int(entry.name),
            reverse=True,
        )
        for place in [*versions, folder]:
            if path := _model_in(place):
                return Found(name, "1" if place is folder else place.name, path)
        known = ", ".join(SUFFIXES)
        raise ModelError(f"model '{name}': {folder} holds no file 'model' with one of the endings {known}")

    def index(self) -> list[dict[str, str]]:
        """A row for each model: name, version, state (READY or UNAVAILABLE) and the reason where loading failed."""
        rows = []
        for name in sorted({*self.names(), *self._served}):
            served = self._served.get(name)
            rows.append(
                {
                    "name": name,
                    "version": served.found.version if served else "",
                    "state": "READY" if served else "UNAVAILABLE",
                    "reason": self._problems.get(name, ""),
                }
            )
        return rows

    def get(self, name: str) -> Served | None:
        """The loaded model of that name."""
        return self._served.get(name)

    def loaded(self) -> Mapping[str, Served]:
        """All loaded models, by name."""
        return dict(self._served)

    # ---- loading ----------------------------------------------------------------------------------------------

    def load(self, name: str) -> Served:
        """Load a model, or load it anew: the former one answers until the new one is ready, then what it has accepted.

        Raises what `find` and the load raise; the former one then stays.
        """
        with self._lock:
            found = self.find(name)
            try:
                model = self._load(found.path)
                served = Served(found, self._batcher(name, model))
            except CenoteError as error:
                located = error.located(f"model '{name}'")
                self._problems[name] = str(located)
                raise located from error
            self._problems.pop(name, None)
            former, self._served[name] = self._served.get(name), served
            _log.info("%s: version %s is served", name, found.version)
            if former is not None:
                former.close()
            return served

    def load_all(self) -> None:
        """Load every model in the folder. The first that cannot be loaded raises its error."""
        for name in self.names():
            self.load(name)

    def unload(self, name: str) -> None:
        """Take no more requests to a model, answer those accepted, and let it go.

        Raises MissingFileError where it is not loaded.
        """
        with self._lock:
            served = self._served.pop(name, None)
            if served is None:
                raise MissingFileError(f"model '{name}' is not loaded", name)
            served.close()

    def close(self) -> None:
        """Unload all: every accepted request is answered."""
        for name in list(self._served):
            self.unload(name)

    def submit(self, name: str, inputs: Mapping[str, Any]) -> Future[dict[str, Array]]:
        """As `Batcher.submit`, to a model by name. Raises UnavailableError for one that is not loaded, too."""
        while True:
            served = self._served.get(name)
            if served is None:
                raise UnavailableError(f"model '{name}' is not loaded")
            try:
                return served.batcher.submit(inputs)
            except UnavailableError:
                if self._served.get(name) in (served, None):
                    raise
                # It was loaded anew meanwhile: the new one answers.

    def _batcher(self, name: str, model: Runs) -> Batcher:
        max_batch = self._max_batch
        if max_batch > 1 and (problem := why_alone(model.inputs)):
            _log.warning("%s: requests are not joined: %s", name, problem)
            max_batch = 1
        return Batcher(model, max_batch, **self._options)


class _Nothing:
    """A model that is never called."""

    inputs = ()

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {}


def _is_version(name: str) -> bool:
    return name.isascii() and name.isdigit() and not name.startswith("0")


def _model_in(folder: Path) -> Path | None:
    for suffix in SUFFIXES:
        path = folder / f"model{suffix}"
        if path.exists():
            return path
    return None
