"""A function on arrays as one record: a definition whose parameters say what they take and whose body makes the
operator.

    @function(gradient=PoolGradient)
    def soft_pool(input: Map, window: WindowArguments, *, semantics: Rules = TORCH) -> Op:
        \"\"\"sum x exp(x) / sum exp(x) of each window.\"\"\"
        return SoftPool(**input.windows(window, semantics))

The body gets checked values: an array as its type (TensorType) or as a map (Form), bool, int, float and Literal as
such, for other annotations what their kind (`kinds.py`) reads, and else what the caller gave. From the record come

- the function that callers see, with `out`, `threads` and, for maps, `layout` among its keywords. Its own code is one
  call of the dispatcher, so that a second call costs what it would cost if it were written by hand;
- with `ranks`, a function for each number of spatial axes: max_pool1d, max_pool2d, max_pool3d;
- its gradient (pool/backward.py), its twin in cenote.torch, its line in `__init__.pyi` and in the table of names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeVar, get_args, get_origin

from cenote.functional.arguments import (
    LETTERS,
    Form,
    Operation,
    Semantics,
    Types,
    as_tuple,
    form,
    layout_rank,
    operation_on,
    plain,
)
from cenote.functional.dispatch import call
from cenote.functional.kinds import ANY, ArrayKind, Early, Flag, Hidden, Kind, MapKind, Real, Whole, Word
from cenote.ops.base import Op

Made = TypeVar("Made", bound=Callable[..., Any])
_PLAIN: dict[str, Kind] = {"bool": Flag(), "int": Whole(), "float": Real()}
_LAST = ("semantics", "nan", "accumulate")
"""Keywords that come behind `out`, `layout` and `threads`."""


@dataclass(frozen=True)
class FunctionParameter:
    """One parameter of a function: `text` is the annotation that callers see."""

    name: str
    text: str
    kind: Kind = ANY
    keyword: bool = False
    default: tuple[Any, ...] = ()
    group: tuple[str, type] | None = None

    def read(self, where: str, value: object) -> Any:
        """The checked value of what a caller gave."""
        return None if value is None and self.optional else self.kind.read(where, self.name, value)

    @property
    def optional(self) -> bool:
        return self.text.endswith("| None")


OUT = FunctionParameter("out", "A | None", keyword=True, default=(None,))
THREADS = FunctionParameter("threads", "int | None", keyword=True, default=(None,))


def _kind_of(text: str, names: dict[str, Any]) -> Any:
    """The kind of an annotation, or the class that stands for several parameters."""
    if text in _PLAIN:
        return _PLAIN[text]
    found = eval(text, names) if text.startswith("Literal[") else names.get(text)
    if get_origin(found) is Literal:
        return Word(allowed=get_args(found))
    if dataclasses.is_dataclass(found):
        return found
    return next((each for each in getattr(found, "__metadata__", ()) if isinstance(each, Kind)), ANY)


def parameters_of(body: Callable[..., Any]) -> Iterator[FunctionParameter]:
    """Read a body's signature. A dataclass stands for its fields."""
    code, texts, names = body.__code__, body.__annotations__, body.__globals__
    positional = code.co_varnames[: code.co_argcount]
    defaults = dict(zip(reversed(positional), reversed(body.__defaults__ or ()), strict=False))
    defaults |= body.__kwdefaults__ or {}
    for place, name in enumerate(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]):
        written = texts[name]
        base = written.removesuffix(" | None")
        kind = _kind_of(base, names)
        if isinstance(kind, type):
            for each in dataclasses.fields(kind):
                default = () if each.default is dataclasses.MISSING else (each.default,)
                yield FunctionParameter(each.name, str(each.type), default=default, group=(name, kind))
            continue
        text = written if not kind.text else written.replace(base, kind.text)
        default = (defaults[name],) if name in defaults else ()
        if default and isinstance(default[0], Semantics):
            default = (default[0].name,)
        yield FunctionParameter(name, text, kind, place >= len(positional), default)


# ---- the record -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Record:
    """A function: what it is called, what it takes, and how it becomes an operator.

    rank      its number of spatial axes; None: what the layout says, if there is one
    gradient  the operator of its gradient by the function's own; `indexed`: that may be given the result's indices
    returns, out  the annotations of the result and of `out`, which "" leaves out
    arrays    makes the operator's arrays of those that are given, by name, and of other arguments; `where` is the
              function's name, `rank` that of the record
    target    finds where the result goes in the same way; by default that is `out`
    """

    name: str
    body: Callable[..., Op | Operation]
    parameters: tuple[FunctionParameter, ...]
    doc: str | None
    rank: int | None = None
    gradient: Callable[[Any], Op] | None = None
    indexed: bool = False
    returns: str = "A"
    out: str = "A | None"
    arrays: Callable[..., tuple[Any, ...]] | None = None
    target: Callable[..., Any] | None = None

    def of(self, kind: type[Kind]) -> tuple[FunctionParameter, ...]:
        """The parameters of a kind."""
        return tuple(each for each in self.parameters if isinstance(each.kind, kind))

    @cached_property
    def layout(self) -> tuple[FunctionParameter, ...]:
        """The layout's parameter, where there is a map."""
        if not self.of(MapKind):
            return ()
        letters = LETTERS[self.rank or 2]
        return (
            FunctionParameter("layout", f"Layout{self.rank or ''}", keyword=True, default=(f"NC{letters}",)),
        )

    @cached_property
    def arguments(self) -> tuple[FunctionParameter, ...]:
        """The parameters handed to `parse` beside the arrays."""
        own = (each for each in self.parameters if not isinstance(each.kind, ArrayKind | Early | Hidden))
        return (*self.layout, *own)

    def signature(self) -> tuple[FunctionParameter, ...]:
        """The parameters of callers, in order: the record's own parameters, and `out`, `layout` and `threads`."""
        own = [each for each in self.parameters if not isinstance(each.kind, Hidden)]
        added = [*self.layout, THREADS]
        if self.out and not any(each.name == "out" for each in own):
            added.insert(0, replace(OUT, text=self.out))
        last = [each for each in own if each.keyword and each.name in _LAST]
        return (*(each for each in own if each not in last), *added, *last)

    def rank_by(self, where: str, layout: object) -> int:
        """The number of spatial axes of a call."""
        return layout_rank(where, layout) if self.rank is None and self.layout else self.rank or 0

    def parse(self, types: Types, where: str, *values: object) -> Operation:
        """The operation for inputs of these types and the arguments' values."""
        given = dict(zip((each.name for each in self.arguments), values, strict=True))
        rank, left = self.rank_by(where, given.get("layout")), iter(types)
        read: dict[str, Any] = {}
        groups: dict[tuple[str, type], dict[str, object]] = {}
        for each in self.parameters:
            kind, value = each.kind, given.get(each.name)
            if isinstance(kind, MapKind):
                read[each.name] = form(where, next(left), rank, given["layout"], kind.plain)
            elif isinstance(kind, ArrayKind):
                read[each.name] = next(left, None)
            elif isinstance(kind, Hidden):
                read[each.name] = where if kind.text == "name" else rank
            elif each.group:
                groups.setdefault(each.group, {})[each.name] = value
            else:
                read[each.name] = each.read(where, value)
        read |= {name: made(**fields) for (name, made), fields in groups.items()}
        made = self.body(**read)
        if isinstance(made, Operation):
            return made
        first = read[self.parameters[0].name]
        if isinstance(first, Form):
            return operation_on(made, first)
        return plain(made, *types)

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The function that callers see."""
        values = (f"{each.kind.key}({each.name})" if each.kind.key else each.name for each in self.arguments)
        out = "out" if any(each.name == "out" for each in self.signature()) else "None"
        if self.target:
            out = f"target({self.names_of(self.target)})"
        line = f"call(parse, {self.in_arrays()}, ({', '.join((repr(self.name), *values))},), {out}, threads)"
        names = {"call": call, "parse": self.parse, "as_tuple": as_tuple, "arrays": self.arrays}
        names["target"] = self.target
        return written(self.name, self.signature(), self.returns, line, names, self.body, self.doc)

    def names_of(self, early: Callable[..., Any]) -> str:
        """The arguments of a function that runs with each call, by its own parameters' names."""
        known = {"where": repr(self.name), "rank": repr(self.rank)}
        names = early.__code__.co_varnames[: early.__code__.co_argcount]
        return ", ".join(known.get(name, name) for name in names)

    def in_arrays(self) -> str:
        """The tuple of a call's arrays, in the function's own code."""
        if self.arrays:
            return f"arrays({self.names_of(self.arrays)})"
        names = [each.name for each in self.of(ArrayKind)]
        everything = f"({', '.join(names)},)"
        if not self.of(ArrayKind)[-1].optional:
            return everything
        return f"({', '.join(names[:-1])},) if {names[-1]} is None else {everything}"


RECORDS: dict[str, Record] = {}
FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""The records, and all that callers see, of families that have been imported, by name."""


def public(made: Made) -> Made:
    """Enter a function, or a class, that is no record into FUNCTIONS."""
    FUNCTIONS[made.__name__] = made
    return made


def function(
    *, ranks: Sequence[int] = (), twins: str = "", **options: Any
) -> Callable[[Callable[..., Op | Operation]], Callable[..., Any]]:
    """Make functions of a body. `ranks`: one for each number of spatial axes, whose names end in 1d, 2d and 3d; the
    docstring is that for two axes, and `twins` that of the others. Other options are fields of Record."""

    def made(body: Callable[..., Op | Operation]) -> Callable[..., Any]:
        parameters = tuple(parameters_of(body))
        if any(each.name == "return_indices" for each in parameters):
            options.update(returns="Any", out="A | tuple[A, A] | None")
        records = [Record(body.__name__, body, parameters, body.__doc__, **options)]
        if ranks:
            docs = {rank: body.__doc__ if rank == 2 else _twin(twins, rank) for rank in ranks}
            records = [
                Record(f"{body.__name__}{rank}d", body, parameters, docs[rank], rank, **options)
                for rank in ranks
            ]
        for record in records:
            RECORDS[record.name] = record
            body.__globals__[record.name] = public(record.function)
        return records[-1].function

    return made


def _twin(doc: str, rank: int) -> str:
    """The docstring of a function for 1 or 3 spatial axes."""
    letters = LETTERS[rank]
    axes = "1 spatial axis" if rank == 1 else f"{rank} spatial axes"
    return doc.format(rank=rank, axes=axes, layouts=f"NC{letters}, N{letters}C, {letters}")


def written(
    name: str,
    signature: Sequence[FunctionParameter],
    returns: str,
    line: str,
    names: Mapping[str, Any],
    body: Callable[..., Any],
    doc: str | None,
) -> Callable[..., Any]:
    """A function of exactly this signature whose code is one line. Tracebacks and `inspect` find it where `body` is."""
    first, optional = True, [each for each in signature if each.default]
    words: list[str] = []
    for each in signature:
        if each.keyword and first:
            words, first = [*words, "*"], False
        words.append(f"{each.name}=None" if each.default else each.name)
    code = body.__code__
    source = "\n" * (code.co_firstlineno - 1) + f"def {name}({', '.join(words)}): return {line}"
    space: dict[str, Any] = {**names, "__name__": body.__module__}
    exec(compile(source, code.co_filename, "exec"), space)
    made: Callable[..., Any] = space[name]
    made.__defaults__ = tuple(each.default[0] for each in optional if not each.keyword) or None
    made.__kwdefaults__ = {each.name: each.default[0] for each in optional if each.keyword} or None
    made.__annotations__ = {each.name: each.text for each in signature} | {"return": returns}
    made.__doc__ = doc
    return made
