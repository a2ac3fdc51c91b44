"""`cenote.core.deferred.dataclass` makes what `dataclasses.dataclass` makes, though later."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import pickle
import pkgutil
import sys
import threading
from dataclasses import FrozenInstanceError, field
from typing import Any, ClassVar

import pytest

import cenote
from cenote.core import deferred

DECORATORS = (dataclasses.dataclass, deferred.dataclass)


@deferred.dataclass(frozen=True)
class Extent:
    """Of module level, for pickles."""

    height: int
    width: int = 3


def shapes(dataclass: Any) -> tuple[type[Any], ...]:
    """Return classes of each kind that the package has, made by a decorator."""

    @dataclass(frozen=True)
    class Plain:
        """Fields of each kind."""

        kind: ClassVar[str] = "plain"
        first: int
        second: str = "two"
        third: list[int] = field(default_factory=list, compare=False)
        fourth: float = field(default=4.0, repr=False)
        fifth: int = field(init=False, default=5)

    @dataclass(frozen=True)
    class Derived(Plain):
        second: str = "other"
        named: tuple[int, ...] = field(default=(), kw_only=True)

        def __post_init__(self) -> None:
            object.__setattr__(self, "fifth", self.first * 2)

    @dataclass
    class Changing:
        first: int
        second: dict[str, int] = field(default_factory=dict)

    @dataclass(frozen=True, eq=False)
    class Same:
        first: int = 0
        second: int = 0

    @dataclass(frozen=True, repr=False)
    class Silent:
        first: int = 0
        second: int = 0

    @dataclass(frozen=True, kw_only=True)
    class Named:
        first: int = 0
        second: int = 0

    @dataclass(frozen=True)
    class Own:
        """Methods of its own stay."""

        first: int = 0
        second: int = 0

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own) and self.first == other.first

        def __hash__(self) -> int:
            return 7

        def __repr__(self) -> str:
            return "own"

    @dataclass(frozen=True)
    class Compares:
        first: int = 0
        second: int = 0

        def __eq__(self, other: object) -> bool:
            return True

    return Plain, Derived, Changing, Same, Silent, Named, Own, Compares


CASES = tuple(zip(*map(shapes, DECORATORS), strict=True))
ARGUMENTS: tuple[tuple[tuple[Any, ...], dict[str, Any]], ...] = (
    ((), {}),
    ((1,), {}),
    ((1, 2), {}),
    ((1,), {"second": 2}),
    ((), {"first": 1, "second": 2}),
    ((), {"first": 1, "second": 2, "named": (3,)}),
    ((1, 2, [3]), {"fourth": 0.5}),
    ((1, 2, 3, 4, 5), {}),
    ((1,), {"first": 1}),
    ((1,), {"unknown": 1}),
)


def made(cls: type[Any], positional: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Return the fields of a new instance, or the words of the error."""
    try:
        return vars(cls(*positional, **named))
    except TypeError as error:
        return str(error).rpartition(".")[2]


@pytest.mark.parametrize(("standard", "ours"), CASES, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("arguments", ARGUMENTS, ids=str)
def test_instances_have_the_same_fields(standard: Any, ours: Any, arguments: Any) -> None:
    for _ in range(2):  # the first call writes the method
        assert made(ours, *arguments) == made(standard, *arguments)


@pytest.mark.parametrize("index", range(len(CASES)))
def test_instances_compare_hash_and_print_alike(index: int) -> None:
    standard, ours = (shapes(dataclass)[index] for dataclass in DECORATORS)
    pairs = [
        [cls(first=1, second=2), cls(first=1, second=2), cls(first=1, second=3)] for cls in (standard, ours)
    ]
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert (pairs[1][a] == pairs[1][b]) == (pairs[0][a] == pairs[0][b])
    assert (ours.__hash__ is None) == (standard.__hash__ is None)
    if standard.__hash__ is not None and standard.__hash__ is not object.__hash__:
        assert [hash(each) for each in pairs[1]] == [hash(each) for each in pairs[0]]
    if standard.__repr__ is not object.__repr__:
        assert repr(pairs[1][0]) == repr(pairs[0][0])
    assert ours.__eq__(pairs[1][0], 3) in (NotImplemented, standard.__eq__(pairs[0][0], 3))


@pytest.mark.parametrize(("standard", "ours"), CASES, ids=lambda cls: cls.__name__)
def test_classes_say_the_same_of_themselves(standard: Any, ours: Any) -> None:
    assert repr(dataclasses.fields(ours)) == repr(dataclasses.fields(standard))
    assert repr(ours.__dataclass_params__) == repr(standard.__dataclass_params__)
    assert ours.__match_args__ == standard.__match_args__
    names = {name for name in vars(standard) if not name.startswith("__")}
    assert {name: vars(ours)[name] for name in names if not callable(vars(standard)[name])} == {
        name: vars(standard)[name] for name in names if not callable(vars(standard)[name])
    }


@pytest.mark.parametrize(("standard", "ours"), CASES, ids=lambda cls: cls.__name__)
def test_frozen_instances_refuse_changes(standard: Any, ours: Any) -> None:
    for cls in (standard, ours):
        value = cls(first=1, second=2)
        if not cls.__dataclass_params__.frozen:
            value.first = 2
            continue
        for name in ("first", "unheard_of"):
            with pytest.raises(FrozenInstanceError, match=f"cannot assign to field '{name}'"):
                setattr(value, name, 2)
            with pytest.raises(FrozenInstanceError, match=f"cannot delete field '{name}'"):
                delattr(value, name)

    class Wider(ours):  # type: ignore[misc]
        pass

    wider = Wider(first=1, second=2)
    wider.more = 3
    del wider.more
    if ours.__dataclass_params__.frozen:
        with pytest.raises(FrozenInstanceError):
            wider.first = 2


@pytest.mark.parametrize(("base", "derived"), [DECORATORS, DECORATORS[::-1]], ids=["ours", "standard"])
def test_either_kind_derives_from_the_other(base: Any, derived: Any) -> None:
    @base(frozen=True)
    class Base:
        first: int
        second: int = 2

    @derived(frozen=True)
    class Derived(Base):
        third: int = 3

    assert Derived(1) == Derived(1, 2, 3) != Derived(1, 2, 4)
    assert repr(Derived(1)).endswith("Derived(first=1, second=2, third=3)")
    assert len({Base(1), Derived(1), Derived(1)}) == 2
    assert dataclasses.replace(Derived(1), second=5) == Derived(1, 5)
    with pytest.raises(FrozenInstanceError):
        Derived(1).first = 2  # type: ignore[misc]


def test_instances_are_copied_pickled_and_matched() -> None:
    value = Extent(1)
    assert copy.deepcopy(value) == pickle.loads(pickle.dumps(value)) == value
    assert dataclasses.asdict(value) == {"height": 1, "width": 3}
    if sys.version_info >= (3, 13):
        assert copy.replace(value, height=2) == Extent(2)
    match value:
        case Extent(height, width):
            assert (height, width) == (1, 3)


def test_threads_may_be_the_first_to_call_together() -> None:
    for _ in range(20):
        _, cls, *_ = shapes(deferred.dataclass)
        barrier, seen = threading.Barrier(4), []

        def run(cls: Any = cls, barrier: threading.Barrier = barrier, seen: list[Any] = seen) -> None:
            barrier.wait()
            seen.append((cls(1) == cls(1), hash(cls(1)), repr(cls(1)), cls(1).fifth))

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(seen) == 4
        assert len(set(seen)) == 1


def test_a_subclass_with_a_constructor_of_its_own_shows_that() -> None:
    @deferred.dataclass(frozen=True)
    class Base:
        first: int = 1

    class Derived(Base):
        def __init__(self, other: int) -> None:
            super().__init__(other)

    assert str(inspect.signature(Derived)) == "(other: 'int') -> 'None'"
    assert str(inspect.signature(Base)) == "(first: 'int' = 1) -> None"
    assert Derived(3).first == 3


def test_a_default_that_is_shared_is_refused() -> None:
    with pytest.raises(ValueError, match="mutable default"):

        @deferred.dataclass
        class _Shared:
            values: list[int] = []


def _classes_of_the_package() -> list[type[Any]]:
    found = []
    for module in pkgutil.walk_packages(cenote.__path__, "cenote."):
        if module.name.startswith(("cenote.core", "cenote.kernels", "cenote.ops", "cenote.runtime")):
            for thing in vars(importlib.import_module(module.name)).values():
                if inspect.isclass(thing) and thing.__module__ == module.name:
                    found.append(thing)
    return [cls for cls in found if "__dataclass_fields__" in vars(cls)]


def test_classes_of_the_package_have_the_standard_constructor() -> None:
    classes = _classes_of_the_package()
    assert len(classes) > 300
    for cls in classes:
        expected = dataclasses.make_dataclass(
            cls.__name__,
            [(each.name, each.type, copy.copy(each)) for each in dataclasses.fields(cls)],
            frozen=cls.__dataclass_params__.frozen,
        )
        assert inspect.signature(cls) == inspect.signature(expected), cls
