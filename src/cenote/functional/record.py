"""A function on arrays as one record: a definition whose parameters say what they take and whose body makes the
operator.

    @function(gradient=PoolGradient)
    def soft_pool(input: Map, window: WindowArguments, *, semantics: Rules = TORCH) -> Op:
        \"\"\"sum x exp(x) / sum exp(x) of each window.\"\"\"
        return SoftPool(**input.windows(window, semantics))

The body gets checked values: an array as its type (TensorType) or as a map (Form), bool, int, float and Literal as
such, for other annotations what their kind (`kinds.py`) reads, and else what the caller gave. A dataclass stands for
its fields. A body under `composed` gets the arrays themselves and runs other functions on them. From the record come

- the function that callers see, with `out`, `threads`, `algorithm` and, for maps, `layout` among its keywords. Its code
  is one call of the dispatcher, so that a second call costs what it would cost if it were written by hand. It puts
  its name before the errors of all that it calls, which need not know it (`dispatch.raise_named`);
- with `ranks`, a function for each number of spatial axes: max_pool1d, max_pool2d, max_pool3d;
- its gradient (pool/backward.py), its twin in cenote.torch, its line in `__init__.pyi` and in the table of names.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeVar, get_args, get_origin

from cenote.core.deferred import cached_property, dataclass
from cenote.functional.arguments import (
    LETTERS,
    Form,
    Operation,
    Semantics,
    Types,
    choice,
    flag,
    form,
    layout_rank,
    operation_on,
    plain,
    real,
    whole,
)
from cenote.functional.callers import Caller, called
from cenote.functional.dispatch import FAILURES, raise_named
from cenote.functional.kinds import (
    ANY,
    ArrayKind,
    ArraysKind,
    Early,
    Hidden,
    Kind,
    MapKind,
)
from cenote.ops.base import Op

Made = TypeVar("Made", bound=Callable[..., Any])
_PLAIN: dict[str, Kind] = {"bool": Kind(reader=flag), "int": Kind(reader=whole), "float": Kind(reader=real)}
_LAST = ("semantics", "nan", "accumulate")
"""Keywords that come behind `out`, `layout`, `threads` and `algorithm`."""


@dataclass(frozen=True)
class FunctionParameter:
    """One parameter of a function: `text` is the annotation that callers see."""

    name: str
    text: str
    kind: Kind = ANY
    keyword: bool = False
    default: tuple[Any, ...] = ()
    group: tuple[str, type] | None = None

    def read(self, value: object) -> Any:
        """The checked value of what a caller gave."""
        reader = self.kind.reader
        return value if reader is None or (value is None and self.optional) else reader(self.name, value)

    @property
    def optional(self) -> bool:
        return self.text.endswith("| None")


OUT = FunctionParameter("out", "A | None", keyword=True, default=(None,))
THREADS = FunctionParameter("threads", "int | None", keyword=True, default=(None,))
ALGORITHM = FunctionParameter("algorithm", "str | None", keyword=True, default=(None,))


def _kind_of(text: str, names: dict[str, Any]) -> Any:
    """The kind of an annotation, or the class that stands for several parameters."""
    if text in _PLAIN:
        return _PLAIN[text]
    found = eval(text, names) if text.startswith("Literal[") else names.get(text)
    if get_origin(found) is Literal:
        return Kind(reader=partial(choice, allowed=get_args(found)))
    if dataclasses.is_dataclass(found):
        return found
    return next((each for each in getattr(found, "__metadata__", ()) if isinstance(each, Kind)), ANY)


def _group(name: str, group: type, keyword: bool) -> Iterator[FunctionParameter]:
    """The fields of a dataclass as parameters."""
    for each in dataclasses.fields(group):
        default = () if each.default is dataclasses.MISSING else (each.default,)
        (read,) = _parameter(each.name, str(each.type), keyword, default, vars(sys.modules[group.__module__]))
        yield replace(read, group=(name, group))


def _parameter(
    name: str, written: str, keyword: bool, default: tuple[Any, ...], names: dict[str, Any]
) -> Iterator[FunctionParameter]:
    """The parameter of an annotation, or those that a dataclass stands for."""
    base = written.removesuffix(" | None")
    kind = _kind_of(base, names)
    if isinstance(kind, type):
        yield from _group(name, kind, keyword)
        return
    if default and isinstance(default[0], Semantics):
        default = (default[0].name,)
    yield FunctionParameter(name, written.replace(base, kind.text or base), kind, keyword, default)


def parameters_of(body: Callable[..., Any]) -> Iterator[FunctionParameter]:
    """Read a body's signature."""
    code, positional = body.__code__, body.__code__.co_argcount
    names = code.co_varnames[: positional + code.co_kwonlyargcount]
    values = body.__defaults__ or ()
    defaults = dict(zip(names[positional - len(values) : positional], values, strict=True))
    defaults |= body.__kwdefaults__ or {}
    for place, name in enumerate(names):
        default = (defaults[name],) if name in defaults else ()
        yield from _parameter(
            name, body.__annotations__[name], place >= positional, default, body.__globals__
        )


# ---- the record -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Record:
    """A function: what it is called, what it takes, and how it becomes an operator.

    rank      its number of spatial axes; None: what the layout says, if there is one
    gradient  the operator of its gradient by the function's own; `indexed`: that may be given the result's indices
    returns, out  the annotations of the result and of `out`, which "" leaves out
    arrays    makes the operator's arrays of those that are given, by name, and of other arguments; `rank` is that of
              the record
    target    finds where the result goes in the same way; by default that is `out`
    order     the arrays that the operator takes first, where that is not the order of parameters; the result is of the
              kind of the first
    then      makes what callers get of the result
    composed  the body runs other functions on the arrays; it makes no operator
    """

    name: str
    body: Callable[..., Any]
    parameters: tuple[FunctionParameter, ...]
    doc: str | None
    rank: int | None = None
    gradient: Callable[[Any], Op] | None = None
    indexed: bool = False
    returns: str = "A"
    out: str = "A | None"
    arrays: Callable[..., tuple[Any, ...]] | None = None
    target: Callable[..., Any] | None = None
    order: tuple[str, ...] = ()
    then: Callable[[Any], Any] | None = None
    composed: bool = False

    def of(self, kind: type[Kind]) -> tuple[FunctionParameter, ...]:
        """The parameters of a kind."""
        return tuple(each for each in self.parameters if isinstance(each.kind, kind))

    @cached_property
    def operands(self) -> tuple[FunctionParameter, ...]:
        """The arrays, in the order in which they are handed over."""
        places = {name: place for place, name in enumerate(self.order)}
        return tuple(sorted(self.of(ArrayKind), key=lambda each: places.get(each.name, len(places))))

    @cached_property
    def optional(self) -> tuple[str, ...]:
        """The arrays that may be left out, where they are several: a call's key says which are."""
        names = tuple(each.name for each in self.operands if each.optional)
        return names if len(names) > 1 and not self.arrays else ()

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
        """The parameters of callers, in order: the record's own, and `out`, `layout`, `threads` and `algorithm`."""
        own = [each for each in self.parameters if not isinstance(each.kind, Hidden)]
        added = [*self.layout, THREADS] if self.composed else [*self.layout, THREADS, ALGORITHM]
        if self.out and not any(each.name == "out" for each in own):
            added.insert(0, replace(OUT, text=self.out))
        last = [each for each in own if each.keyword and each.name in _LAST]
        return (*(each for each in own if each not in last), *added, *last)

    def rank_by(self, layout: object) -> int:
        """The number of spatial axes of a call."""
        return layout_rank(layout) if self.rank is None and self.layout else self.rank or 0

    def read(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The body's arguments, made of what a caller gave for each parameter."""
        rank = self.rank_by(given.get("layout"))
        read: dict[str, Any] = {}
        groups: dict[tuple[str, type], dict[str, object]] = {}
        for each in self.parameters:
            kind, value = each.kind, given.get(each.name)
            if isinstance(kind, MapKind):
                read[each.name] = form(given[each.name], rank, given["layout"], kind.plain)
            elif isinstance(kind, Hidden):
                read[each.name] = rank
            else:
                into = groups.setdefault(each.group, {}) if each.group else read
                into[each.name] = each.read(value)
        return read | {name: made(**fields) for (name, made), fields in groups.items()}

    def parse(self, types: Types, *values: object) -> Operation:
        """The operation for inputs of these types and the arguments' values."""
        names = [each.name for each in self.arguments]
        given: dict[str, Any] = dict(zip(names, values, strict=False))
        absent = dict(zip(self.optional, values[len(names) :], strict=True))
        operands = (each.name for each in self.operands if not absent.get(each.name))
        given |= zip(operands, types, strict=False)
        given |= {each.name: types for each in self.of(ArraysKind)}
        read = self.read(given)
        made = self.body(**read)
        if isinstance(made, Operation):
            return made
        first = read[self.parameters[0].name]
        return operation_on(made, first) if isinstance(first, Form) else plain(made, *types)

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The function that callers see."""
        shown = self.signature()
        names: dict[str, Any] = {"call": Caller(self.parse), "then": self.then}
        names |= {"arrays": self.arrays, "target": self.target, "body": self.body}
        out = "out" if any(each.name == "out" for each in shown) else "None"
        line = f"body({self.in_body(out, names)})" if self.composed else self.in_call(out, names)
        line = f"then({line})" if self.then else line
        return written(self.name, shown, self.returns, line, names, self.body, self.doc)

    def in_call(self, out: str, names: dict[str, Any]) -> str:
        """The call of the dispatcher, in the function's own code, which sees `names`."""
        keys = [*keys_of(self.arguments, names), *(f"{name} is None" for name in self.optional)]
        to = f"target({self.names_of(self.target)})" if self.target else out
        return called(self.in_arrays(), self.name, keys, to)

    def in_body(self, out: str, names: dict[str, Any]) -> str:
        """The arguments of a composed body, in the function's own code, which sees `names`."""
        hidden = {"rank": repr(self.rank), "out": out, "threads": "threads"}
        values: dict[str, list[str]] = {}
        for each in self.parameters:
            name, value = each.name, hidden[each.kind.text] if isinstance(each.kind, Hidden) else each.name
            if each.kind.reader:
                names[f"read_{name}"] = each.kind.reader
                value = f"read_{name}({name!r}, {name})"
                value = f"None if {name} is None else {value}" if each.optional else value
            if each.group:
                names[each.group[1].__name__] = each.group[1]
            values.setdefault(each.group[0] if each.group else name, []).append(value)
        groups = dict(each.group for each in self.parameters if each.group)
        code = self.body.__code__
        made = [f"{groups[n].__name__}({', '.join(v)})" if n in groups else v[0] for n, v in values.items()]
        # By place where they may be: a call takes longer with names.
        keywords = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
        return ", ".join(f"{n}={v}" if n in keywords else v for n, v in zip(values, made, strict=True))

    def names_of(self, early: Callable[..., Any]) -> str:
        """The arguments of a function that runs with each call, by its own parameters' names: all but the last, where
        the function has no such parameter."""
        known = {each.name: each.name for each in self.signature()}
        known["rank"] = repr(self.rank)
        names = early.__code__.co_varnames[: early.__code__.co_argcount]
        return ", ".join(known[name] for name in names if name in known)

    def in_arrays(self) -> str:
        """The tuple of a call's arrays, in the function's own code."""
        if self.arrays:
            return f"arrays({self.names_of(self.arrays)})"
        names = [each.name for each in self.operands]
        everything = f"({', '.join(names)},)"
        if self.optional:
            return f"tuple([x for x in {everything} if x is not None])"
        if not self.operands[-1].optional:
            return everything
        return f"({', '.join(names[:-1])},) if {names[-1]} is None else {everything}"


def keys_of(parameters: Sequence[FunctionParameter], names: dict[str, Any]) -> list[str]:
    """The parts of a call's key that parameters make, in a function's own code, which sees `names`."""
    names |= {f"key_{each.name}": each.kind.key for each in parameters if each.kind.key}
    return [f"key_{each.name}({each.name})" if each.kind.key else each.name for each in parameters]


RECORDS: dict[str, Record] = {}
FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""The records, and all that callers see, of families that have been imported, by name."""


def public(made: Made) -> Made:
    """Enter a function, or a class, that is no record into FUNCTIONS."""
    FUNCTIONS[made.__name__] = made
    return made


def function(
    *, ranks: Sequence[int] = (), twins: str = "", **options: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make functions of a body. `ranks`: one for each number of spatial axes, whose names end in 1d, 2d and 3d; the
    docstring is that for two axes, and `twins` that of the others. Other options are fields of Record. A function
    whose name begins with an underscore is for others of its module; errors name it without."""

    def made(body: Callable[..., Any]) -> Callable[..., Any]:
        name, parameters = body.__name__.lstrip("_"), tuple(parameters_of(body))
        if any(each.name == "return_indices" for each in parameters):
            options.update(returns="Any", out="A | tuple[A, A] | None")
        records = [Record(name, body, parameters, body.__doc__, **options)]
        if name != body.__name__:
            return records[0].function
        if ranks:
            docs = {rank: body.__doc__ if rank == 2 else _twin(twins, rank) for rank in ranks}
            records = [
                Record(f"{name}{rank}d", body, parameters, docs[rank], rank, **options) for rank in ranks
            ]
        for record in records:
            RECORDS[record.name] = record
            body.__globals__[record.name] = public(record.function)
        return records[-1].function

    return made


composed = partial(function, composed=True)
"""Make a function of a body that runs other functions on the arrays; `out: Target` and `threads: Threads` are the
caller's."""


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
    """A function of exactly this signature whose result is that of one line, and whose errors begin with its name.
    Tracebacks and `inspect` find it where `body` is."""
    first, optional = True, [each for each in signature if each.default]
    words: list[str] = []
    for each in signature:
        if each.keyword and first:
            words, first = [*words, "*"], False
        words.append(f"{each.name}=None" if each.default else each.name)
    place = body.__code__
    head, handler = (
        f"def {name}({', '.join(words)}):",
        f"except FAILURES as error: raise_named({name!r}, error)",
    )
    source = "\n" * (place.co_firstlineno - 1) + f"{head}\n try: return {line}\n {handler}"
    space: dict[str, Any] = {**names, "__name__": body.__module__}
    space |= {"FAILURES": FAILURES, "raise_named": raise_named}
    exec(compile(source, place.co_filename, "exec"), space)
    if isinstance(caller := space.get("call"), Caller):
        space["caller"] = caller
        caller.serve(space)
    made: Callable[..., Any] = space[name]
    made.__defaults__ = tuple(each.default[0] for each in optional if not each.keyword) or None
    made.__kwdefaults__ = {each.name: each.default[0] for each in optional if each.keyword} or None
    made.__annotations__ = {each.name: each.text for each in signature} | {"return": returns}
    made.__doc__ = doc
    return made
