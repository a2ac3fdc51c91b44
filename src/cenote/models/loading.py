"""Loading: from a file, bytes or a parsed model to a `Model`."""

from __future__ import annotations

import contextlib
import logging
import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, BinaryIO

from cenote.codegen import jit
from cenote.core.collector import collector_paused
from cenote.core.errors import (
    ArgumentError,
    CenoteError,
    MissingPackageError,
    ModelError,
    UnsupportedError,
    refusals,
)
from cenote.core.load_options import NO_OPTIONS, OPTIONS, LoadOptions
from cenote.core.locks import importing
from cenote.core.options import Denormals, Format, Precision, Tune, Weights
from cenote.models.model import Again, Model
from cenote.models.values import ModelsOfValues
from cenote.plans.cache import CacheEntry, cache_entry_of, content_of
from cenote.plans.format import is_plan_at, is_plan_file
from cenote.stages.planned import Interface
from cenote.stages.stage import Shared

if TYPE_CHECKING:
    from onnx import ModelProto

    from cenote.graph.graph import Graph, OwnedGraph

_log = logging.getLogger(__name__)
_MAIN_FILES = ("saved_model.pb", "layers.json")


def load(
    source: str | os.PathLike[str] | bytes | BinaryIO | ModelProto,
    *,
    threads: int | None = None,
    precision: Precision = "fast",
    weights: Weights = "float32",
    tune: Tune = "cached",
    denormals: Denormals | None = None,
    shapes: Mapping[str, Sequence[int | str | None]] | None = None,
    format: Format | None = None,
    signature: str | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
) -> Model:
    """Load a model and make it ready to run.

    `source` is the path of a model or of a plan file (`Model.save`), the bytes of a model, an open binary file, or an
    `onnx.ModelProto`. Models are ONNX files, TensorFlow's frozen graphs (.pb, .pbtxt), SavedModel folders and
    MetaGraphDefs beside their checkpoint (.meta), TensorFlow Lite files, Keras models (.keras, .h5), and folders of
    `cenote.extract`; which it is shows in the content, unless `format` ("onnx", "graphdef", "savedmodel", "metagraph",
    "tflite", "keras", "layers", "bat") says it. `signature` chooses one of the functions of a SavedModel
    ("serving_default") or a TensorFlow Lite model (its first graph). `threads` per inference; by default one per
    physical core this process may use (CENOTE_THREADS overrides). `precision`: "fast", or "exact" for convolutions
    without Winograd, whose rounding error is 2 to 3 times that of a plain sum, products in chains of 32 terms (else
    256), averages, sums, norms and statistics in float64. `weights`: "bfloat16" or "float16" keep those of linear
    layers (Gemm, one row at a time) in that type, which nearly halves their time and rounds each weight relatively by
    up to 2^-9 or 2^-12. `tune`: where a layer can be computed in several ways that the cost model finds close, "full"
    times them now, on one thread (a few seconds for a large network), and keeps the figures in the cache; "cached" uses
    the figures kept there; "off" is the cost model alone. `denormals`: "preserve" computes with numbers below the
    smallest normal one (1.2e-38 in float32) as IEEE 754 says, which is slow; "flush" may take and give zero for them,
    in native kernels. By default what CENOTE_DENORMALS says. It is no part of a plan.

    `shapes` says more about inputs than the model does, by input name, with an entry per axis: a size fixes a symbolic
    dimension; "h<=640" bounds it; "h", or None, leaves it open (the name is for the reader, and ties dimensions that
    the model does not name):

        cenote.load(path, shapes={"x": ("n<=8", 3, "h<=640", "w<=640")})

    Where all dimensions have bounds (but for the first axis, which counts as 1), the model is planned, and memory for
    its intermediate values taken, for the largest sizes at once. A run with a size beyond its bound raises ShapeError.
    Bounds are no part of a plan: plan files take them when they are loaded.

    `inputs` and `outputs` name values, anywhere in the model, and what lies between them is loaded. Names are those of
    the file (`cenote inspect`); TensorFlow's are tensors, "scope/node" or "scope/node:1", and a placeholder that would
    be taken as False (`is_training`) is an input if it is named. Without `inputs`, those that the outputs need. Sizes
    that the file does not say are open.

    The compiled model is kept in the cache (but for file objects and ModelProtos). A later load of the same content, by
    any process, compiles nothing and shares the weights with the others. CENOTE_PLAN_CACHE limits the megabytes kept.
    Of models with loops, strings, sequences or optionals only the kernels are kept.

    Raises MissingFileError (a ModelError and a FileNotFoundError) where there is no such file, ModelError for what is
    no valid model or cannot be read, UnsupportedError for a valid one that Cenote cannot run (the message names the
    node), ArgumentError for a bad argument, a name that no value has and an input that is needed and not named,
    CapacityError where there is not enough memory.
    """
    return load_with(source, LoadOptions(
        threads=threads, precision=precision, weights=weights, tune=tune, denormals=denormals,
        shapes={} if shapes is None else shapes, format=format, signature=signature, inputs=inputs, outputs=outputs,
    ))  # fmt: skip


def load_with(
    source: str | os.PathLike[str] | bytes | BinaryIO | ModelProto, options: LoadOptions = NO_OPTIONS
) -> Model:
    """`load` with its options as one value. Besides, it has what `Model.treat` tries: algorithms (`pins`) and rewrites.

    Raises ArgumentError where there is no such node or it has no such algorithm, UnsupportedError for those of a plan
    file (its algorithms are chosen), and as `load`.
    """
    with refusals("loading a model"):
        source = _kept(source)
        model = _loaded(source, options)
    model._again = _again(source, model, options)
    model._changed = partial(_changed, source, options)
    return model


def _kept(source: Any) -> Any:
    """The source as it is now: the caller may change memory and messages, and they are read again for values inside of
    the model, for new sizes and for pickles."""
    if isinstance(source, bytearray | memoryview):
        return bytes(source)
    if not hasattr(source, "CopyFrom"):
        return source
    made = type(source)()
    made.CopyFrom(source)
    return made


def _loaded(source: Any, options: LoadOptions) -> Model:
    if isinstance(source, str | os.PathLike) and is_plan_at(source):
        if options.treated:
            raise UnsupportedError(f"{source} is a plan file: its algorithms are chosen; use its model")
        if options.inputs is not None or options.outputs is not None:
            raise UnsupportedError(
                f"{source} is a plan file: its inputs and outputs are settled; use its model"
            )
        return _load_plan(source, options)
    if is_plan_file(_start(source)):
        raise ArgumentError("source: a plan file is mapped into memory, not read; load it by its path")
    model = _load_graph(main_file(source), Shared(options))
    if options.pins and (plans := model.plans):  # of symbolic sizes there are none yet
        nodes = {step.node for plan in plans for step in plan.describe().steps}
        if unknown := sorted(set(options.pins) - nodes):
            raise ArgumentError(f"pins: no step is of a node {', '.join(map(repr, unknown))}")
    return model


def _again(source: Any, model: Model, options: LoadOptions) -> Again | str:
    """What loads the model again, where its pickle is read; or why nothing can."""
    if hasattr(source, "read"):
        return "it was read from an open file; load it from its path or its bytes"
    if not isinstance(source, str | os.PathLike):
        return load_again, (source, "", options)
    path = os.path.abspath(source)
    return load_again, (path, "" if is_plan_at(path) else model.content, options)


def load_again(source: Any, content: str, options: LoadOptions) -> Model:
    """`load` for a pickle. `content`: the digest that a file must have, if it is known.

    Raises ModelError where the file has changed since, and as `load`.
    """
    if content and content_of(main_file(source)) not in (None, content):
        raise ModelError(f"{source} has changed since the model was pickled; load it, and pickle that")
    return load_with(source, options)


def _changed(source: Any, kept: LoadOptions, /, **others: Any) -> Model:
    """A model of the same source under other options; pins and rewrites are added to those it has."""
    if hasattr(source, "read"):
        raise UnsupportedError(
            "the model was read from an open file; load it by its path to try other options"
        )
    plan = isinstance(source, str | os.PathLike) and is_plan_at(source)
    if plan and (fixed := sorted(name for name in others if OPTIONS[name].keyed)):
        raise UnsupportedError(
            f"{source} is a plan file, in which {', '.join(fixed)} cannot be changed; use the model it was made from"
        )
    others["pins"] = {**kept.pins, **others.get("pins", {})}
    others["rewrites"] = tuple(dict.fromkeys((*kept.rewrites, *others.get("rewrites", ()))))
    return load_with(source, kept.changed(**others))


def unsupported(source: str | os.PathLike[str] | bytes) -> list[str]:
    """Everything that keeps a model from being loaded because Cenote does not have it: a line each, with its node.

    Raises ModelError for what is no valid model, MissingFileError where there is no such file.
    """
    with importing():
        from cenote.frontends.formats import unsupported as found

    return found(main_file(source))


def main_file(source: Any) -> Any:
    """Of a folder, the file in it that says what the model is: of a SavedModel, or of parameters as files."""
    if isinstance(source, str | os.PathLike) and os.path.isdir(source):
        for name in _MAIN_FILES:
            if os.path.exists(path := os.path.join(source, name)):
                return path
    return source


def _load_graph(source: Any, shared: Shared) -> Model:
    """The model of a source, and what gives the values inside it."""
    cache_entry = cache_entry_of(source, shared.options)
    model = _found_or_made(source, shared, cache_entry)
    if not hasattr(source, "read"):
        graph = _graph_of(source, cache_entry, shared.options)
        model._of_values = ModelsOfValues(graph, shared, cache_entry)
    return model


def _found_or_made(source: Any, shared: Shared, cache_entry: CacheEntry | None) -> Model:
    """A model out of the cache, or compiled."""
    stored = None if cache_entry is None else cache_entry.find(None, shared.threads)
    shown = source if isinstance(source, str | os.PathLike) else f"a model of type {type(source).__name__}"
    if cache_entry is not None and stored is not None:
        _log.info("%s: from the cache", shown)
        graph_again = cache(_graph_of(source, cache_entry, shared.options))
        return Model.from_stored(stored, shared, cache_entry, graph_again)
    start = time.perf_counter()
    jit.prepare()
    graph, interface = _imported(source, cache_entry, shared.options)
    model = Model.from_graph(graph, interface, shared, cache_entry)
    _log.info("%s: not in the cache, prepared in %.2f s", shown, time.perf_counter() - start)
    return model


@collector_paused()
def _imported(
    source: Any, cache_entry: CacheEntry | None, options: LoadOptions
) -> tuple[OwnedGraph, Interface]:
    """The graph of a model, and its interface with the outputs that have a type."""
    with importing():
        from cenote.graph.graph import OwnedGraph
        from cenote.models import cutting

    imported = cutting.read(source, options)
    if cache_entry is not None:
        cache_entry.note_external(imported.external)
    outputs = tuple(imported.outputs.values())
    return OwnedGraph(imported.graph), Interface((), outputs, imported.metadata, imported.about)


def _graph_of(source: Any, cache_entry: CacheEntry | None, options: LoadOptions) -> Callable[[], Graph]:
    """Reads the graph of a model again, which must not have changed."""

    def graph() -> Graph:
        if cache_entry is not None and not cache_entry.is_of(source):
            raise ModelError(f"{source} has changed since it was loaded, and is needed again; load it anew")
        return _imported(source, None, options)[0].take()

    return graph


def _start(source: Any) -> bytes:
    """The first bytes of a model given as bytes or as an open file that can go back; else nothing."""
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source[:16])
    with contextlib.suppress(AttributeError, OSError, ValueError):  # the front end says what is wrong
        if source.seekable():
            at = source.tell()
            try:
                start = source.read(16)
            finally:
                source.seek(at)
            return start if isinstance(start, bytes) else b""
    return b""


def _load_plan(path: str | os.PathLike[str], options: LoadOptions) -> Model:
    """A plan file's model; one that is stale or damaged is compiled anew when the model it was made from is at hand.

    That model must be what it was, its weights included: a file that happens to lie at its path is not used.
    """
    try:
        return Model.from_plan_file(path, options)
    except (UnsupportedError, ModelError) as error:
        problem = error
    with importing():
        from cenote.plans.source import is_source, source_of

    made_from = source_of(path)
    if made_from is None or not os.path.isfile(made_from.path):
        raise problem
    if not is_source(made_from.path, made_from.content, made_from.external):
        raise type(problem)(
            f"{problem}; the model that it was made from, {made_from.path}, has changed since and is not used"
        ) from problem
    _log.info("%s; compiled anew from %s", problem, made_from.path)
    try:
        model = _with_pins(made_from.path, options.of_plan(made_from.options.record()), problem)
    except MissingPackageError as missing:
        raise missing.located(str(problem)) from problem
    with contextlib.suppress(CenoteError, OSError):  # a plan that cannot be written is only slower next time
        for known in made_from.shapes:
            model.plan_for({each.name: shape for each, shape in zip(model.inputs, known, strict=True)})
        model.save(path, made_from.path)
    return model


def _with_pins(source: str, options: LoadOptions, problem: CenoteError) -> Model:
    """The model of a plan, compiled anew as the plan was. What `cenote diagnose --apply` chose was measured where the
    plan was made: it stays as far as it is to be had, and whoever loads is told."""
    pins, advice = options.pins, "measure here: cenote diagnose --apply"
    try:
        model = load_with(source, options)
    except ArgumentError as error:
        if not pins:
            raise
        told = f"{problem}; the algorithms that were chosen for {len(pins)} node(s) are not kept ({error}); {advice}"
        warnings.warn(told, RuntimeWarning, stacklevel=2)
        return load_with(source, options.changed(pins={}))
    if pins:
        told = f"{problem}; the algorithms that were chosen for {len(pins)} node(s) there are kept; {advice}"
        warnings.warn(told, RuntimeWarning, stacklevel=2)
    return model
