"""The package's `dataclass` makes what the library's makes: the same classes are made by both and compared."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import threading
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from typing import Any, ClassVar

import pytest

from cenote.core import dataclass as module
from cenote.core.dataclass import dataclass

Maker = Callable[..., Any]
MAKERS = (dataclass, dataclasses.dataclass)
NAN = float("nan")


def point(make: Maker, frozen: bool = True) -> Any:
    @make(frozen=frozen)
    class Point:
        """A point."""

        x: int
        y: float = 2.5
        tags: list[str] = field(default_factory=list, compare=False)
        hidden: int = field(default=7, repr=False)
        count: int = field(default=3, init=False)
        made: list[int] = field(default_factory=lambda: [1], init=False, compare=False)
        named: int = field(default=5, kw_only=True)
        kind: ClassVar[str] = "point"

        def twice(self) -> int:
            return 2 * self.x

    return Point


@pytest.mark.parametrize("frozen", [True, False])
def test_both_make_the_same(frozen: bool) -> None:
    ours, theirs = (point(make, frozen) for make in MAKERS)
    for given, named in (((1,), {}), ((1, 3.5), {"hidden": 8, "named": 6}), ((), {"x": 1, "tags": ["a"]})):
        a, b = ours(*given, **named), theirs(*given, **named)
        assert dataclasses.asdict(a) == dataclasses.asdict(b)
        assert repr(a) == repr(b)
        assert a == ours(*given, **named)
        assert a != ours(2)
        assert a != b  # of another class
        assert (a == 1) is False
        assert a.twice() == 2
    if frozen:
        assert hash(ours(1)) == hash(theirs(1)) == hash(ours(1, tags=["b"]))
    assert [each.name for each in dataclasses.fields(ours)] == [
        each.name for each in dataclasses.fields(theirs)
    ]
    assert ours.__match_args__ == theirs.__match_args__
    assert ours(1).tags is not ours(1).tags


@pytest.mark.parametrize("given", [((), {}), ((1, 2, 3, 4, 5), {}), ((1,), {"x": 1}), ((1,), {"no": 1})])
def test_wrong_arguments_are_type_errors(given: tuple[tuple[int, ...], dict[str, int]]) -> None:
    made = point(dataclass)
    for _ in range(2):  # the first call, and one after it
        with pytest.raises(TypeError):
            made(*given[0], **given[1])
    assert made(1).x == 1


def test_frozen_ones_stay_as_they_are() -> None:
    one = point(dataclass)(1)
    for name in ("x", "count", "new"):
        with pytest.raises(FrozenInstanceError, match=f"cannot assign to field '{name}'"):
            setattr(one, name, 2)
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del one.x
    free = point(dataclass, frozen=False)(1)
    free.x = 2
    assert free.x == 2
    with pytest.raises(TypeError, match="unhashable"):
        hash(free)


@dataclass(frozen=True)
class Base:
    """Found by name, as pickle wants it."""

    a: int = 1


@dataclass(frozen=True)
class Derived(Base):
    b: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.a < 0:
            raise ValueError("a")


def test_derived_copied_replaced_and_pickled() -> None:
    one = Derived(2, (3,))
    assert repr(one) == "Derived(a=2, b=(3,))"
    assert dataclasses.replace(one, a=5) == Derived(5, (3,))
    assert pickle.loads(pickle.dumps(one)) == copy.deepcopy(one) == one
    with pytest.raises(ValueError, match="a"):
        dataclasses.replace(one, a=-1)
    assert Derived() != Base()


def test_a_plain_class_on_top_may_add_attributes() -> None:
    class Plain(Derived):
        pass

    one = Plain(2)
    one.extra = 1  # type: ignore[attr-defined]  # that is the point
    assert one.extra == 1  # type: ignore[attr-defined]
    with pytest.raises(FrozenInstanceError):
        one.a = 3  # type: ignore[misc]  # the point
    assert repr(one).endswith("Plain(a=2, b=())")


@pytest.mark.parametrize("lower", MAKERS)
@pytest.mark.parametrize("upper", MAKERS)
def test_classes_of_both_may_be_derived_from_each_other(lower: Maker, upper: Maker) -> None:
    bottom = point(lower)

    @upper(frozen=True)
    class Top(bottom):  # type: ignore[misc]  # it is a class
        z: int = 0

    one = Top(1, z=4)
    assert (one.x, one.y, one.z, one.count) == (1, 2.5, 4, 3)
    assert one == Top(1, z=4)
    with pytest.raises(TypeError, match="frozen"):

        @upper
        class Loose(bottom):  # type: ignore[misc]  # it is a class
            z: int = 0


def test_methods_that_a_class_defines_stay() -> None:
    @dataclass(frozen=True)
    class Own:
        a: int

        def __repr__(self) -> str:
            return "mine"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 5

    assert (repr(Own(1)), Own(1) == Own(2), hash(Own(1))) == ("mine", True, 5)

    @dataclass(frozen=True, eq=False)
    class Identity:
        a: int

    one = Identity(1)
    assert one != Identity(1)
    assert {one: 1}[one] == 1

    @dataclass(frozen=True, repr=False)
    class Quiet:
        a: int

    assert "object at" in repr(Quiet(1))


def test_equality_is_that_of_tuples() -> None:
    @dataclass(frozen=True)
    class One:
        value: float

    @dataclass(frozen=True)
    class Nothing:
        """No fields."""

    assert One(NAN) == One(NAN)  # the same object
    assert Nothing() == Nothing()
    assert hash(Nothing()) == hash(())


def test_an_object_that_holds_itself_prints() -> None:
    @dataclass
    class Ring:
        inner: list[Any]

    one = Ring([])
    one.inner.append(one)
    assert "..." in repr(one)


def test_threads_that_make_the_first_object_at_once() -> None:
    for _ in range(20):
        made, found = point(dataclass), list[int]()
        begin = threading.Barrier(4)

        def work(made: Any = made, found: list[int] = found, begin: threading.Barrier = begin) -> None:
            begin.wait(10)
            found.append(made(1).x)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [1] * 4


def test_nothing_is_compiled_before_an_object_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[str]()
    compiled = module._init_of
    monkeypatch.setattr(
        module, "_init_of", lambda cls, frozen: asked.append(cls.__name__) or compiled(cls, frozen)
    )
    made = point(dataclass)
    assert not asked
    made(1), made(2)
    assert asked == ["Point"]
