"""The options of `cenote.load`, each said once: type, default, check, help, flag, and what depends on it.

The cache's keys, plan files, pickles and what compiles read this record.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Self

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, UnsupportedError, shown
from cenote.core.locks import importing
from cenote.core.options import (
    BLOCKS,
    DENORMALS,
    FORMATS,
    PRECISIONS,
    REWRITES,
    TUNINGS,
    WEIGHTS,
    Blocks,
    Denormals,
    Format,
    Precision,
    Rewrite,
    Threads,
    Tune,
    Weights,
)
from cenote.core.options.checks import OneOf, SomeOf, ThreadCount, names, shapes_by_name, text, words_by_name
from cenote.core.settings import MAXIMUM_THREADS

if TYPE_CHECKING:
    from cenote.core.extensions.registry import UserOperator
    from cenote.core.extensions.switched import Mention, UserExtension
else:
    UserOperator = object  # what reads the types of the fields, the command line, asks for no more

Check = Callable[[str, Any], Any]
"""Function from the name of an option and the given value to the value to keep; raises ArgumentError."""


@dataclass(frozen=True)
class Option:
    """Description of an option besides its type and its default.

    `flag`: that of the command line, "" for none. `values`: the values that it takes, as the documentation shows them.
    `keyed`: other values give other plans, so that the value is a part of the cache's key; a function returns the part
    of a value that plans depend on. `stored`: plan files hold the value. `alters`: whether a value changes results by
    more than rounding in float32.
    """

    default: Any
    help: str
    check: Check
    flag: str
    values: str
    keyed: bool | Callable[[Any], object]
    stored: bool
    alters: Callable[[Any], bool]

    @property
    def settled(self) -> bool:
        """Whether a plan is made for one value of the option: a plan file takes no other."""
        return self.keyed is True


def option(
    default: Any,
    help: str,
    check: Check,
    *,
    flag: str = "",
    values: str = "",
    keyed: bool | Callable[[Any], object] = False,
    stored: bool = False,
    alters: Callable[[Any], bool] = lambda given: False,
) -> Any:
    """Return a field of `LoadOptions`. A default that is a class is called for a value."""
    is_class = isinstance(default, type)
    said = {
        "option": Option(
            dataclasses.MISSING if is_class else default, help, check, flag, values, keyed, stored, alters
        )
    }
    if is_class:
        return field(default_factory=default, metadata=said)
    return field(default=default, metadata=said)


thread_count = ThreadCount(1, MAXIMUM_THREADS)


def always(given: object) -> bool:
    """Return True: any value of the option does."""
    return True


def given_operators(name: str, given: object) -> Mapping[str, UserOperator]:
    """Return operators of users by name. What keeps them is imported with the first (6 ms for all of it)."""
    if isinstance(given, Mapping) and not given:
        return {}
    with importing():
        from cenote.core.extensions.registry import operators_by_name

    return operators_by_name(name, given)


def operators_besides(given: Mapping[str, Any]) -> Mapping[str, UserOperator]:
    """Return the operators that a load is given and those that are registered: none before the registry is imported."""
    if not given and "cenote.core.extensions.registry" not in sys.modules:
        return {}
    with importing():
        from cenote.core.extensions.registry import with_registered

    return with_registered(given)


def given_extensions(name: str, given: object) -> tuple[Mention, ...]:
    """Return mentions of algorithms and rewrites of users by their names."""
    if isinstance(given, tuple | list) and not given:
        return ()
    with importing():
        from cenote.core.extensions.switched import extensions_by_name

    return extensions_by_name(name, given)


def without_bounds(shapes: Mapping[str, Any]) -> object:
    """Return the part of `shapes` that a plan depends on."""
    kept = {
        str(name): [str(entry).partition("<=")[0].strip() for entry in entries]
        for name, entries in shapes.items()
        if isinstance(entries, Sequence)
    }
    return sorted(kept.items())


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """The options of `cenote.load` as one value, checked: for `cenote.load_with`, and to load several models alike.

    The fields are the keywords of `cenote.load`. `rewrites` are what `Model.treat` tries besides: rewrites of the
    graph. Raises ArgumentError for a value that an option does not take.
    """

    threads: Threads | None = option(
        None,
        "Threads per inference, the caller's included. Default: CENOTE_THREADS, or one per physical core that the "
        "process may use. bound: as many, each bound to a core of its own during a run, of one NUMA node where it has "
        "enough.",
        thread_count,
        flag="--threads",
        values="1 to 256, bound",
    )
    precision: Precision = option(
        "fast",
        "exact: without Winograd's and Strassen's algorithms, products in short chains, averages, norms and statistics "
        "in float64. bfloat16: convolutions, values between them, and products with constant matrices in bfloat16 "
        "where the CPU multiplies it faster than float32; linear layers keep their weights in it. float16x3: both also "
        "by three products of float16 where the CPU has tiles for them (AMX-FP16), as accurate as plain sums in "
        "float32 unless channels of a pixel lie 2^24 apart.",
        OneOf(PRECISIONS),
        flag="--precision",
        keyed=True,
        stored=True,
        alters=always,
    )
    weights: Weights = option(
        "float32",
        "The type in which linear layers keep their weights: narrower ones take half the memory and time, and are "
        "rounded.",
        OneOf(WEIGHTS),
        flag="--weights",
        keyed=True,
        stored=True,
        alters=always,
    )
    tune: Tune = option(
        "cached",
        "How algorithms are chosen where the cost model finds several close. full: measured now and kept in the cache; "
        "cached: by what is kept there; off: by the cost model alone.",
        OneOf(TUNINGS),
        flag="--tune",
        keyed=True,
    )
    blocks: Blocks = option(
        "usual",
        "Sizes of the blocks in which kernels work, by the caches: smaller or larger ones may be faster where others "
        "use the caches too. Orders of sums may change.",
        OneOf(BLOCKS),
        flag="--blocks",
        keyed=True,
        stored=True,
    )
    denormals: Denormals | None = option(
        None,
        "flush: numbers below the smallest normal one (1.2e-38) may become zero, where they make a model slow. "
        "Default: CENOTE_DENORMALS, or preserve. No part of a plan file: say it when one is loaded.",
        OneOf(DENORMALS),
        flag="--denormals",
        alters=always,
    )
    shapes: Mapping[str, Sequence[int | str | None]] = option(
        dict,
        "Sizes and bounds of symbolic dimensions, by input.",
        shapes_by_name,
        flag="--bounds",
        values='{"x": ("n", 3, "h<=640", "w<=640")}',
        keyed=without_bounds,
    )
    format: Format | None = option(
        None,
        "The format of the file. Default: what its content says.",
        OneOf(FORMATS),
        flag="--format",
        keyed=True,
        stored=True,
    )
    signature: str | None = option(
        None,
        "Which function of a SavedModel or a TensorFlow Lite model. Default: serving_default, the only one, or the "
        "first graph.",
        text,
        flag="--signature",
        values='"serving_default"',
        keyed=True,
        stored=True,
    )
    inputs: Sequence[str] | None = option(
        None,
        "Values inside the model that are to be its inputs, by name (scope/node:0). Default: the model's own that its "
        "outputs need.",
        names,
        flag="--feed",
        values='["scope/image:0"]',
        keyed=True,
        stored=True,
    )
    outputs: Sequence[str] | None = option(
        None,
        "Values that are to be its outputs, by name; nothing that they do not need is loaded. Default: the model's "
        "own.",
        names,
        flag="--fetch",
        values='["scope/logits"]',
        keyed=True,
        stored=True,
    )
    operators: Mapping[str, UserOperator | Callable[..., Any]] = option(
        dict,
        "Functions and classes that compute nodes, by the names of their operators. On the command line: modules, or "
        "files, that register some, or algorithms and rewrites.",
        given_operators,
        flag="--operators",
        values='{"shop.Frobnicate": function}',
        keyed=lambda given: [(name, each.digest) for name, each in sorted(operators_besides(given).items())],
        alters=always,
    )
    algorithms: Mapping[str, str] = option(
        dict,
        "Algorithms by the names of nodes, or of operators, as inspect shows both. A node's own entry wins. Those of "
        "users are switched on, as by extensions.",
        words_by_name,
        flag="--algorithms",
        values='{"conv1": "direct", "max_pool": "generic"}',
        keyed=True,
        stored=True,
    )
    extensions: Sequence[str | tuple[str, str, str]] = option(
        (),
        "Algorithms and rewrites of users that are switched on, by the names under which they are registered.",
        given_extensions,
        flag="--extensions",
        values='("shop.direct", "shop.fold")',
        keyed=True,
        stored=True,
        alters=always,
    )
    rewrites: Sequence[Rewrite] = option(
        (),
        "Rewrites of the graph that are not always good.",
        SomeOf(REWRITES),
        keyed=True,
        stored=True,
        alters=lambda given: "float32" in given,
    )

    def __post_init__(self) -> None:
        self._check(OPTIONS)
        self._switch_on()

    def _check(self, names: Iterable[str]) -> None:
        values = vars(self)
        for name in names:
            given, said = values[name], OPTIONS[name]
            if given is not said.default:
                values[name] = said.check(name, given)

    def _switch_on(self) -> None:
        """Add the algorithms of users that are named, which have a domain, to the extensions."""
        if not any("." in each for each in self.algorithms.values()):
            return
        with importing():
            from cenote.core.extensions.switched import with_algorithms

        mentioned = given_extensions("extensions", self.extensions)
        vars(self)["extensions"] = with_algorithms("algorithms", mentioned, self.algorithms.values())

    @property
    def user_operators(self) -> Mapping[str, UserOperator]:
        """The functions and classes of `operators`, and those that are registered besides."""
        return operators_besides(self.operators)

    def switched_on(self) -> tuple[UserExtension, ...]:
        """Return the algorithms and rewrites of `extensions`, in order, to plan with.

        Raises UnsupportedError where this process does not have one that a plan was made with, or another version.
        """
        mentioned = given_extensions("extensions", self.extensions)
        if not mentioned:
            return ()
        with importing():
            from cenote.core.extensions.switched import resolved

        return resolved(mentioned)

    @property
    def exact(self) -> bool:
        """Whether `precision` is "exact"."""
        return self.precision == "exact"

    @property
    def stored_weights(self) -> Weights:
        """The type in which linear layers keep their weights."""
        return "bfloat16" if (self.precision, self.weights) == ("bfloat16", "float32") else self.weights

    def key(self) -> dict[str, str]:
        """Return the values that plans depend on as texts: equal texts give equal plans."""
        texts = {}
        for name, said in OPTIONS.items():
            value = getattr(self, name)
            if said.keyed:
                texts[name] = repr(said.keyed(value) if callable(said.keyed) else value)
        return texts

    def record(self) -> dict[str, Any]:
        """Return the values that a plan file holds, for JSON."""
        return {name: getattr(self, name) for name, said in OPTIONS.items() if said.stored}

    @staticmethod
    def of_record(record: Mapping[str, Any]) -> LoadOptions:
        """Return the options that a plan file was made with; those that it does not hold have their defaults.

        Raises ArgumentError, and KeyError where one is missing.
        """
        return NO_OPTIONS.changed(**{name: record[name] for name, said in OPTIONS.items() if said.stored})

    def of_plan(self, made: LoadOptions, path: str | os.PathLike[str]) -> Self:
        """Return these options for the plan file at a path, which was made with the options `made`.

        Raises UnsupportedError for an option that is given, differs from theirs and is settled in a plan.
        """
        for name, said in OPTIONS.items():
            given, held = getattr(self, name), getattr(made, name)
            if said.settled and given not in (held, getattr(NO_OPTIONS, name)):
                kept = f", {held!r}" if said.stored else ""
                raise UnsupportedError(
                    f"{os.fspath(path)}: {name}={shown(given)}: a plan file keeps what it was made with{kept}; load the"
                    " model that it was made from"
                )
        return self.changed(**made.record())

    def changed(self, **others: Any) -> Self:
        """Return a copy with other values of some options. Raises ArgumentError."""
        if unknown := others.keys() - OPTIONS:
            raise ArgumentError(f"{', '.join(sorted(unknown))}: no option of cenote.load")
        options = object.__new__(type(self))
        vars(options).update(vars(self), **others)
        options._check(others)
        options._switch_on()
        return options


OPTIONS: dict[str, Option] = {each.name: each.metadata["option"] for each in dataclasses.fields(LoadOptions)}
NO_OPTIONS = LoadOptions()
"""Options that are all at their defaults."""
