"""Origins of models: sources from which their graphs are read once more, and from which they are loaded anew."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

from cenote.core.collector import collector_paused
from cenote.core.errors import InputError, ModelError, UnsupportedError
from cenote.core.load_options import OPTIONS, LoadOptions
from cenote.core.locks import importing
from cenote.plans.cache import CacheEntry
from cenote.plans.source import Source
from cenote.stages.planned import Interface
from cenote.stages.stage import closed

if TYPE_CHECKING:
    from onnx import ModelProto

    from cenote.frontends.imported import ImportedModel
    from cenote.graph.graph import Graph, OwnedGraph

Again = tuple[Callable[..., Any], tuple[Any, ...]]
"""Function that loads a model again, in another process, and its arguments."""
Load = Callable[[Any, str, LoadOptions], Any]
"""Function that loads a source whose digest is given ("" for any) under options."""

_MAIN_FILES = ("saved_model.pb", "layers.json")
_NO_GRAPH = (
    "outputs: the model's graph is not at hand to compile a plan that gives other values: a plan file holds none, and "
    "an open file is read once; load the model from its path"
)


class Origin:
    """Origin of a model without a source, and base of all others. `entry`: the model's place in the cache."""

    has_graph = False
    is_whole = True  # whether its graph is all of what was loaded

    def __init__(self, entry: CacheEntry | None = None, source: Source | None = None) -> None:
        self.entry, self._known = entry, source

    @property
    def source(self) -> Source | None:
        """Files that the model was made from; None if they are not known."""
        return self._known if self.entry is None else self.entry.source

    @property
    def name(self) -> str:
        """Name of the model's file, without its ending; "model" for one that is no file."""
        return "model"

    def imported(self) -> tuple[OwnedGraph, Interface]:
        """Return the graph to compile, and its interface with the outputs of declared types. Raises InputError."""
        raise InputError(_NO_GRAPH)

    def graph(self) -> Graph:
        """Return the graph once more. Raises InputError where that is impossible, ModelError where it has changed."""
        raise InputError(_NO_GRAPH)

    def changed(self, **options: Any) -> Any:
        """Return the model under other options; `algorithms` and `rewrites` are added to those that it
        has.

        Raises UnsupportedError where that is impossible, and as `cenote.load_with`.
        """
        raise UnsupportedError(
            f"{', '.join(options)}: the model was not made by cenote.load, which could make it anew"
        )

    def again(self) -> Again:
        """Return the function and arguments that load the model where its pickle is read. Raises TypeError for none."""
        raise not_pickled("it was not made by cenote.load")


class ClosedOrigin(Origin):
    """Origin of a model that has been closed: it holds no source, which may be all the bytes of a model."""

    def graph(self) -> Graph:
        closed()

    def changed(self, **options: Any) -> Any:
        closed()

    def again(self) -> Again:
        raise not_pickled("it is closed")


def not_pickled(reason: str) -> TypeError:
    """Return the error of a model that cannot be pickled."""
    return TypeError(f"this cenote.Model cannot be pickled: {reason}")


class SourceOrigin(Origin):
    """Origin of a model that was loaded from a path, bytes or a message: it is read again."""

    has_graph = True

    def __init__(
        self, source: str | os.PathLike[str] | bytes | ModelProto, options: LoadOptions, load: Load
    ) -> None:
        # The program may go to another folder before the model is read again, kept or pickled.
        self._path = _lasting(source) if isinstance(source, str | os.PathLike) else None
        self._source, self._options, self._load = source if self._path is None else self._path, options, load
        self._given = main_file(source)
        self._main = self._given if self._path is None else _lasting(self._given)
        files = Source.of(self._main)
        super().__init__(CacheEntry(files, options) if files is not None else None)

    def __str__(self) -> str:
        return (
            f"a model of type {type(self._source).__name__}" if self._path is None else os.fspath(self._given)
        )

    @property
    def name(self) -> str:
        if self._path is None:
            return super().name
        return os.path.splitext(os.path.basename(os.path.normpath(self._path)))[0]

    def imported(self) -> tuple[OwnedGraph, Interface]:
        imported = _read(self._given, self._options)  # errors name the path as the caller gave it
        if self.entry is not None:
            self.entry.source = self.entry.source.beside(imported.external, imported.operators)
        return _declared(imported)

    def graph(self) -> Graph:
        if self.entry is not None and not self.entry.source.is_still(self._main):
            raise ModelError(f"{self} has changed since it was loaded, and is needed again; load it anew")
        return _read(self._main, self._options).graph

    def changed(self, **options: Any) -> Any:
        kept = self._options
        options["algorithms"] = {**kept.algorithms, **options.get("algorithms", {})}
        options["rewrites"] = tuple(dict.fromkeys((*kept.rewrites, *options.get("rewrites", ()))))
        return self._load(self._source, "", kept.changed(**options))

    def again(self) -> Again:
        if self._path is None:
            return self._load, (self._source, "", self._options)
        return self._load, (
            self._path,
            "" if self.entry is None else self.entry.source.content,
            self._options,
        )


class StreamOrigin(Origin):
    """Origin of a model that was read from an open file, which is read once."""

    def __init__(self, source: BinaryIO, options: LoadOptions, load: Load) -> None:
        super().__init__()
        self._source, self._options = source, options

    def __str__(self) -> str:
        return f"a model of type {type(self._source).__name__}"

    def imported(self) -> tuple[OwnedGraph, Interface]:
        return _declared(_read(self._source, self._options))

    def changed(self, **options: Any) -> NoReturn:
        raise UnsupportedError(
            "the model was read from an open file; load it by its path to try other options"
        )

    def again(self) -> NoReturn:
        raise not_pickled("it was read from an open file; load it from its path or its bytes")


class PlanOrigin(Origin):
    """Origin of a model that was loaded from a plan file, which has plans and no graph."""

    def __init__(
        self, path: str | os.PathLike[str], options: LoadOptions, load: Load, source: Source | None
    ) -> None:
        super().__init__(source=source)
        self._path, self._options, self._load = _lasting(path), options, load

    def changed(self, **options: Any) -> Any:
        if fixed := ", ".join(sorted(name for name in options if OPTIONS[name].keyed)):
            raise UnsupportedError(
                f"{self._path} is a plan file, in which {fixed} cannot be changed; use the model it was made from"
            )
        return self._load(self._path, "", self._options.changed(**options))

    def again(self) -> Again:
        return self._load, (self._path, "", self._options)


def _lasting(path: str | os.PathLike[str]) -> str:
    """Return the path that leads to the same file from other folders."""
    text = os.fspath(path)
    return text if os.path.isabs(text) else os.path.abspath(text)


@collector_paused()
def _read(source: Any, options: LoadOptions) -> ImportedModel:
    """Read a model from its file, or between values by name, as the options say."""
    with importing():
        from cenote.models import cutting

    return cutting.read(source, options)


def _declared(imported: ImportedModel) -> tuple[OwnedGraph, Interface]:
    """Return an imported graph to hand over, and its interface, with the outputs whose types are declared."""
    with importing():
        from cenote.graph.graph import OwnedGraph

    outputs = tuple(imported.outputs.values())
    return OwnedGraph(imported.graph), Interface((), outputs, imported.metadata, imported.about)


def main_file(source: Any) -> Any:
    """Return the main file of a folder that is a SavedModel or the parameters of layers; other sources as they are."""
    if isinstance(source, str | os.PathLike) and os.path.isdir(source):
        for name in _MAIN_FILES:
            if os.path.exists(path := os.path.join(source, name)):
                return path
    return source
