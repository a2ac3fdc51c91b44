"""Common parts of kernels that process each (image, channel) plane of a tensor as one item with one owner.

An item of work is one plane (plain memory) or the planes of a group of channels that lie side by side (channel-blocked
or channels-last memory): no two items write the same element, so whatever is added up there is added in one order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cenote.codegen.builder import Kernel
from cenote.codegen.values import Pointer, Value
from cenote.core.deferred import dataclass
from cenote.core.formulas.certain import always_equal
from cenote.kernels.base import View

GROUP = 16  # channels of an item of channels-last memory: a cache line of float32
STRIDES = ("image", "group", "plane", "row", "column")


@dataclass(frozen=True)
class Planes:
    """Layout of a tensor of three spatial axes (missing ones have extent 1): strides in elements."""

    extents: tuple[int, int, int]
    strides: tuple[int, int, int, int, int]

    @property
    def size(self) -> int:
        """Elements of a plane."""
        return self.extents[0] * self.extents[1] * self.extents[2]

    @property
    def is_dense(self) -> bool:
        """Whether positions of a plane are numbered in the order of memory."""
        _, _, plane, row, column = self.strides
        depth, height, width = self.extents
        rows_follow = row == width * column or always_equal(depth * height, 1)
        return rows_follow and (plane == height * width * column or always_equal(depth, 1))


def group_width(view: View, channels_last: bool) -> int:
    """Channels of one item: 1 in plain memory."""
    return view.layout.lanes or (GROUP if channels_last else 1)


def planes_of(view: View, channels_last: bool = False) -> Planes:
    """Return the planes of a view of 1 to 3 spatial axes."""
    rank = len(view.shape) - 2
    first = 1 if channels_last else 2
    extents, strides = view.shape[first : first + rank], view.strides[first : first + rank]
    group = GROUP if channels_last else view.strides[1]
    padding = 3 - rank
    return Planes((1,) * padding + extents, (view.strides[0], group, *(0,) * padding, *strides))  # type: ignore[arg-type]


def channels_of(view: View, channels_last: bool = False) -> int:
    return view.shape[-1] if channels_last else view.shape[1]


def groups_of(view: View, channels_last: bool = False) -> int:
    """Items per image."""
    return -(-channels_of(view, channels_last) // group_width(view, channels_last))


@dataclass(frozen=True)
class Item:
    """Item decoded from its number: the image, the group, its first channel, and how many of its channels are real
    (the constant 1 in plain memory)."""

    image: Value
    group: Value
    channel: Value
    count: Value


def item_of(k: Kernel, item: Value, width: int) -> Item:
    """Decode an item; reads the numbers `groups` and `channels`."""
    image, group = item // k.number("groups"), item % k.number("groups")
    channel = group * width
    if width == 1:
        return Item(image, group, channel, k.integer(1))
    return Item(image, group, channel, k.minimum(k.number("channels") - channel, k.integer(width)))


def start_of(k: Kernel, name: str, item: Item) -> Pointer:
    """Address of the first element of an item's planes in the tensor `name`."""
    return k.pointer(name) + (item.image * k.number(f"{name}_image") + item.group * k.number(f"{name}_group"))


def stride_names(*names: str) -> list[str]:
    """Number parameters for the strides of tensors, in the order of `Planes.strides`."""
    return [f"{name}_{stride}" for name in names for stride in STRIDES]


def named(names: Sequence[str], values: Sequence[int]) -> dict[str, int]:
    """Words by name."""
    return dict(zip(names, values, strict=True))


def stride_words(name: str, planes: Planes) -> dict[str, int]:
    """The words for `stride_names` of a tensor."""
    return named(stride_names(name), planes.strides)


def vectors(k: Kernel, length: Value, lanes: int) -> list[tuple[Value, Value, int]]:
    """Return (begin, end, lanes) of the loops that cover `length` elements: whole vectors, then single elements."""
    whole = length & ~(lanes - 1)
    return [(k.integer(0), whole, lanes), (whole, length, 1)] if lanes > 1 else [(k.integer(0), length, 1)]


def covering_vectors(k: Kernel, length: Value, lanes: int) -> Iterator[tuple[Value, Value | None]]:
    """Yield (begin, mask) of vectors that cover elements whose results may be stored twice: the last one reaches back.
    Only fewer than a vector are masked (see `Kernel.store_first`)."""
    with k.when(length < lanes):
        yield k.integer(0), k.tail_mask(length, lanes)
    with k.unless(length < lanes):
        for begin in k.range(0, length, lanes):
            yield k.min_drop_nan(begin, length - lanes), None
