"""The pooling cases: what networks use, and the large windows that tell a good algorithm from a naive one."""

from dataclasses import dataclass
from math import prod
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["max", "average", "global average", "adaptive average"]


@dataclass(frozen=True)
class PoolCase:
    """One call of a pooling operator; the same window, stride and padding in each spatial direction."""

    name: str
    kind: Kind
    shape: tuple[int, ...]
    kernel: int = 0
    stride: int = 1
    padding: int = 0
    count_padding: bool = True
    indices: bool = False
    adaptive_size: int = 0

    @property
    def rank(self) -> int:
        """Number of spatial directions."""
        return len(self.shape) - 2

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        return (*self.shape[:2], *(self.output_size(size) for size in self.shape[2:]))

    def output_size(self, size: int) -> int:
        """Length of the output along an axis of the given length."""
        if self.kind == "global average":
            return 1
        if self.kind == "adaptive average":
            return self.adaptive_size
        return (size + 2 * self.padding - self.kernel) // self.stride + 1

    @property
    def bytes_moved(self) -> int:
        """Bytes read and written when each is touched once: the floor for any implementation."""
        bytes_out = 4 + (8 if self.indices else 0)  # indices are int64
        return 4 * prod(self.shape) + bytes_out * prod(self.output_shape)


def max_case(
    shape: tuple[int, ...], kernel: int, stride: int, padding: int = 0, indices: bool = False
) -> PoolCase:
    """A max-pool with a readable name."""
    label = "max with indices" if indices else "max"
    name = f"{rank_label(shape)}{label} k{kernel} s{stride} p{padding} {times(shape)}"
    return PoolCase(name, "max", shape, kernel, stride, padding, indices=indices)


def average_case(shape: tuple[int, ...], kernel: int, padding: int, count_padding: bool = True) -> PoolCase:
    """An average-pool at stride 1 with a readable name."""
    label = "average" if count_padding else "average without padding"
    name = f"{rank_label(shape)}{label} k{kernel} s1 p{padding} {times(shape)}"
    return PoolCase(name, "average", shape, kernel, 1, padding, count_padding)


def rank_label(shape: tuple[int, ...]) -> str:
    """Says so where it is not the usual two spatial directions."""
    rank = len(shape) - 2
    return "" if rank == 2 else f"{rank}D "


def times(shape: tuple[int, ...]) -> str:
    """1x64x112x112."""
    return "x".join(map(str, shape))


INPUT_SEED = 11
LARGE = (1, 3, 2048, 2048)
VOLUME = (1, 32, 32, 112, 112)

POOL_CASES: tuple[PoolCase, ...] = (
    max_case((1, 64, 224, 224), 2, 2),
    max_case((1, 64, 112, 112), 3, 2, 1),
    max_case((1, 64, 112, 112), 3, 2, 1, indices=True),
    max_case((8, 192, 28, 28), 3, 1, 1),
    max_case((1, 512, 20, 20), 5, 1, 2),
    max_case((1, 512, 20, 20), 9, 1, 4),
    max_case((1, 512, 20, 20), 13, 1, 6),
    average_case((1, 256, 56, 56), 3, 1),
    average_case((1, 256, 56, 56), 3, 1, count_padding=False),
    PoolCase("global average 1x2048x7x7", "global average", (1, 2048, 7, 7)),
    PoolCase("adaptive average 37 to 7 1x512x37x37", "adaptive average", (1, 512, 37, 37), adaptive_size=7),
    max_case((16, 64, 56, 56), 2, 2),
    max_case(VOLUME, 2, 2),
    average_case(VOLUME, 3, 1),
    max_case((8, 64, 16000), 4, 4),
    max_case((1, 1, 2048, 2048), 8, 1),
    max_case((1, 1, 2048, 2048), 64, 1),
    max_case(LARGE, 31, 1, 15),
    average_case(LARGE, 31, 15),
)
