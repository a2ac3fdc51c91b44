"""Folders of models, in Triton's layout: FOLDER/NAME/model.onnx, or FOLDER/NAME/VERSION/model.onnx; single files."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from cenote.core.deferred import dataclass
from cenote.core.errors import CenoteError, MissingFileError, ModelError, UnavailableError
from cenote.core.types import Array
from cenote.models.loading import load as load_model
from cenote.models.model import Model
from cenote.runtime.threads import resolve_threads
from cenote.serving.batcher import Batcher, Counters, ServableModel, why_alone
from cenote.serving.versions import LATEST, VersionPolicy, policy_in, version_policy

_log = logging.getLogger(__name__)

SUFFIXES = (".cenote", ".onnx", ".tflite", ".pb", ".pbtxt", ".savedmodel", ".meta", ".keras", ".h5")
"""Endings of files (of folders: .savedmodel) named `model`, in the order in which they are looked for."""


@dataclass(frozen=True)
class Found:
    """A version of a model in its folder, "1" where the folder has none; `policy`: that by which it is served."""

    name: str
    version: str
    path: Path
    policy: VersionPolicy = LATEST


@dataclass(frozen=True)
class Served:
    """A model that is loaded, and the Batcher that answers requests to it."""

    found: Found
    batcher: Batcher

    @property
    def key(self) -> tuple[str, str]:
        """Name and version."""
        return self.found.name, self.found.version

    def close(self) -> None:
        """Answer the accepted requests, then free the model's memory."""
        self.batcher.close()
        if isinstance(self.batcher.model, Model):
            self.batcher.model.close()


# The versions of a model that are loaded, the largest first; another load makes another dict.
Versions = Mapping[str, Served]


class Repository:
    """The models of a folder, by name: loaded models answer requests.

    folder: holds a folder for each model. In it lies `model` with one of SUFFIXES, or folders named by numbers that
        hold one: as many of the largest as `versions` says. Of several files, the first of SUFFIXES is taken (a plan).
        A file NAME.onnx (or with another of SUFFIXES) is a model, too, where there is no folder NAME.
    versions: how many versions of a model are served at once, from the largest down, or "all"; requests that name none
        get the largest. The `version_policy` of a config.pbtxt in a model's folder (Triton's) goes before it.
    workers: threads for each model, by default one per physical core that this process may use. Each runs whole
        requests on one thread; all of them run one set of weights.
    max_batch, max_delay, max_queue: those of `Batcher`. A model whose first axis is fixed gets max_batch=1.
    load: makes a model of a path; by default `cenote.load(path, threads=1)`.

    Raises MissingFileError where there is no such folder, ArgumentError for numbers out of range.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        versions: VersionPolicy | int | str = 1,
        workers: int | None = None,
        max_batch: int = 1,
        max_delay: float = 0.0,
        max_queue: int = 128,
        load: Callable[[Path], ServableModel] | None = None,
    ) -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise MissingFileError(
                f"{self.folder}: there is no such folder of models", os.fspath(self.folder)
            )
        self._policy = version_policy(versions)
        self._max_batch = max_batch
        self._options: dict[str, Any] = {
            "max_delay": max_delay,
            "max_queue": max_queue,
            "workers": resolve_threads(workers),
        }
        self._load = load or (lambda path: load_model(path, threads=1))
        # Numbers out of range raise their error now.
        Batcher(_Nothing(), **self._options).close()
        self._served: dict[str, Versions] = {}
        # Of models that were replaced or unloaded: counts by name and version, and Batchers that still answer.
        self._before: dict[tuple[str, str], Counters] = {}
        self._ending: list[Served] = []
        self._counting = threading.Lock()
        self._problems: dict[str, str] = {}
        # One load or unload at a time; requests never take it.
        self._lock = threading.Lock()

    # ---- the models in the folder -----------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Return the names of the models in the folder, loaded or not."""
        return sorted(self._places())

    def _places(self) -> dict[str, Path]:
        """Return the folders of models, and the models that lie in the repository themselves, by name."""
        entries = [path for path in self.folder.iterdir() if not path.name.startswith(".")]
        places = {
            path.stem: path
            for suffix in reversed(SUFFIXES)
            for path in entries
            if path.suffix == suffix and (path.is_file() or suffix == ".savedmodel")
        }
        return places | {
            path.name: path for path in entries if path.is_dir() and path.suffix != ".savedmodel"
        }

    def find(self, name: str) -> list[Found]:
        """Return the places of the versions of a model that are to be served, the largest first. Raises
        MissingFileError for a name that is none of `names`, ModelError where its folder holds no such model."""
        places = self._places()
        # A name from a client is compared only, never made part of a path.
        if name not in places:
            there = ", ".join(sorted(places)) or "none"
            raise MissingFileError(f"there is no model '{name}' in the repository; there are: {there}", name)
        folder = places[name]
        if folder.suffix in SUFFIXES and folder.stem == name:
            return [Found(name, "1", folder)]
        policy = policy_in(folder, self._policy)
        models = {
            int(entry.name): path
            for entry in folder.iterdir()
            if _is_version(entry.name) and entry.is_dir() and (path := _model_in(entry))
        }
        if chosen := policy.chosen(list(models)):
            return [Found(name, str(version), models[version], policy) for version in chosen]
        if models:
            there = ", ".join(map(str, sorted(models)))
            raise ModelError(
                f"model '{name}': no version that its version_policy names is there; there are: {there}"
            )
        if path := _model_in(folder):
            return [Found(name, "1", path)]
        known = ", ".join(SUFFIXES)
        raise ModelError(f"model '{name}': {folder} holds no file 'model' with one of the endings {known}")

    def index(self) -> list[dict[str, str]]:
        """Return a row for each version of a model that is loaded, and for each other model: name, version, state
        (READY or UNAVAILABLE) and the reason where loading failed."""
        rows = []
        for name in sorted({*self.names(), *self._served}):
            reason = self._problems.get(name, "")
            for version in self._served.get(name) or ("",):
                state = "READY" if version else "UNAVAILABLE"
                rows.append({"name": name, "version": version, "state": state, "reason": reason})
        return rows

    def get(self, name: str, version: str = "") -> Served | None:
        """Return the loaded model of that name: of that version, or the largest."""
        served = self._served.get(name)
        if served is None:
            return None
        return served.get(version) if version else next(iter(served.values()))

    def versions(self, name: str) -> list[str]:
        """Return the versions of a model that are loaded, the largest first."""
        return list(self._served.get(name, ()))

    def loaded(self) -> list[Served]:
        """Return every version of every loaded model."""
        return [served for versions in dict(self._served).values() for served in versions.values()]

    # ---- loading ----------------------------------------------------------------------------------------------

    def load(self, name: str) -> Served:
        """Load the versions of a model, or reload them, and return the largest. The former ones answer until all new
        ones are ready, and complete the requests that they have accepted.

        Raises the errors of `find` and of the first load that fails; the former versions then stay.
        """
        with self._lock:
            start = time.perf_counter()
            try:
                served = self._made(name)
            except CenoteError as error:
                if name in self.names():  # others are a client's words, which belong into its answer alone
                    self._problems[name] = str(error)
                    _log.warning("%s: not loaded: %s", name, error)
                raise
            self._problems.pop(name, None)
            former = self._replace(name, served)
            done, took = "loaded" if former is None else "reloaded", time.perf_counter() - start
            _log.info("%s: version %s %s in %.2f s", name, ", ".join(served), done, took)
            self._end(former or {})
            return next(iter(served.values()))

    def _made(self, name: str) -> Versions:
        made: dict[str, Served] = {}
        try:
            for found in self.find(name):
                made[found.version] = Served(found, self._batcher(name, self._load(found.path)))
        except CenoteError as error:
            for served in made.values():
                served.close()
            raise error.located(f"model '{name}'") from error
        return made

    def _replace(self, name: str, served: Versions | None) -> Versions | None:
        """Put versions of a model in the place of the former ones, which are returned, and end. Requests, which take no
        lock, find either at any moment."""
        with self._counting:
            former = self._served.get(name)
            if served is not None:
                self._served[name] = served
            else:
                self._served.pop(name, None)
            self._ending.extend((former or {}).values())
            return former

    def _end(self, former: Versions) -> None:
        for served in former.values():
            served.close()
            with self._counting:
                self._ending.remove(served)
                self._before[served.key] = self._before.get(served.key, Counters()) + served.batcher.counters

    def load_all(self, keep_going: bool = False) -> None:
        """Load every model in the folder. Raises MissingFileError where it holds none, and the error of the first that
        cannot be loaded, once all have been tried; with `keep_going` only where none can."""
        names, errors = self.names(), list[CenoteError]()
        if not names:
            raise MissingFileError(
                f"{self.folder} holds no models: put one at {self.folder / 'NAME' / 'model.onnx'}, or as NAME.onnx",
                os.fspath(self.folder),
            )
        for name in names:
            try:
                self.load(name)
            except CenoteError as error:
                errors.append(error)
        if errors and not (keep_going and self._served):
            raise errors[0]

    def unload(self, name: str) -> None:
        """Take no more requests to a model, answer the accepted ones, and free it.

        Raises MissingFileError where it is not loaded.
        """
        with self._lock:
            served = self._replace(name, None)
            if served is None:
                raise MissingFileError(f"model '{name}' is not loaded", name)
            self._end(served)
            _log.info("%s: unloaded", name)

    def close(self) -> None:
        """Unload all models: every accepted request is answered."""
        for name in list(self._served):
            self.unload(name)

    def counters(self) -> dict[tuple[str, str], Counters]:
        """Return the counts of the work of each model that is or was loaded, by name and version, over all loads of
        it: none ever falls."""
        with self._counting:
            counts = dict(self._before)
            for served in (*self._ending, *self.loaded()):
                counts[served.key] = counts.get(served.key, Counters()) + served.batcher.counters
        return counts

    def submit(self, name: str, inputs: Mapping[str, Any], version: str = "") -> Future[dict[str, Array]]:
        """Submit inputs to a model by name, and by version or to the largest, as `Batcher.submit`. Raises
        UnavailableError also for a model that is not loaded."""
        while True:
            served = self.get(name, version)
            if served is None:
                raise UnavailableError(not_loaded(name, version))
            try:
                return served.batcher.submit(inputs)
            except UnavailableError:
                if self.get(name, version) in (served, None):
                    raise
                # The model was reloaded meanwhile: the new one answers.

    def _batcher(self, name: str, model: ServableModel) -> Batcher:
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


def not_loaded(name: str, version: str = "") -> str:
    """Return the message for a model that is requested and not loaded."""
    return (
        f"version {version} of model '{name}' is not loaded" if version else f"model '{name}' is not loaded"
    )


def _is_version(name: str) -> bool:
    return name.isascii() and name.isdigit() and not name.startswith("0")


def _model_in(folder: Path) -> Path | None:
    for suffix in SUFFIXES:
        path = folder / f"model{suffix}"
        if path.exists():
            return path
    return None
