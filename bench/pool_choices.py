"""How often the pooling algorithm that is estimated to be the fastest is the fastest: every algorithm that serves a
case, on one thread, in turns.

    python -m bench.pool_choices [--grid] [part of a case's name …]

The cases are those of bench.pooling; --grid adds windows of 2 to 31 on maps of 7 to 512. An algorithm within 3 % of the
fastest counts as the fastest.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bench.cases import POOL_CASES, PoolCase, average_case, max_case
from cenote.codegen import jit
from cenote.compiler.tune import measure
from cenote.core.types import PLAIN, TensorType
from cenote.graph.graph import Node
from cenote.ops.base import Lowering, Op
from cenote.ops.pool.adaptive import AdaptiveAveragePool
from cenote.ops.pool.average import AveragePool
from cenote.ops.pool.whole_map import GlobalAveragePool
from cenote.ops.pool.window import MaxPool

EQUAL = 1.03  # times the fastest


@dataclass(frozen=True)
class Choice:
    """What was estimated and measured for a case: (algorithm, estimated seconds, measured seconds), the first choice
    first."""

    name: str
    algorithms: tuple[tuple[str, float, float], ...]

    @property
    def loss(self) -> float:
        """The first choice's time over that of the fastest."""
        return self.algorithms[0][2] / min(measured for _, _, measured in self.algorithms)

    def __str__(self) -> str:
        shown = ", ".join(
            f"{name} {estimate * 1e3:.3f} -> {seconds * 1e3:.3f} ms"
            for name, estimate, seconds in self.algorithms
        )
        return f"{'  ' if self.loss <= EQUAL else '! '}{self.name:44} {self.loss:5.2f}  {shown}"


def operator(case: PoolCase) -> Op:
    """The operator of a case."""
    rank = case.rank
    if case.kind == "global average":
        return GlobalAveragePool()
    if case.kind == "adaptive average":
        return AdaptiveAveragePool((case.adaptive_size,) * rank)
    window: dict[str, Any] = {
        "window": (case.kernel,) * rank, "stride": (case.stride,) * rank, "pads": ((case.padding,) * 2,) * rank,
    }  # fmt: skip
    if case.kind == "max":
        return MaxPool(**window, return_indices=case.indices)
    return AveragePool(**window, count_include_pad=case.count_padding)


def choice(case: PoolCase) -> Choice:
    """Every algorithm for a case in plain memory, the first choice first."""
    op, x = operator(case), TensorType.of("float32", case.shape)
    options: list[Lowering] = [
        option for option in op.lowerings((x,), jit.host_target()) if option.inputs == (PLAIN,)
    ]
    options.sort(key=lambda option: option.seconds)
    node = Node(op, ("x",), tuple(f"y{index}" for index, _ in enumerate(op.infer(x))))
    seconds = measure(node, (x,), options, 0)
    pairs = zip(options, seconds, strict=True)
    return Choice(case.name, tuple((option.name, option.seconds, measured) for option, measured in pairs))


def grid() -> Iterator[PoolCase]:
    """Windows of 2 to 31 on maps of 7 to 512, and volumes."""
    for size, channels in ((7, 2048), (14, 1024), (28, 512), (56, 128), (112, 64), (224, 16), (512, 4)):
        for window in (2, 3, 5, 7, 9, 13, 31):
            if window > size:
                continue
            for stride in (1, 2):
                yield max_case((1, channels, size, size), window, stride, window // 2 if window % 2 else 0)
            yield max_case(
                (1, channels, size, size), window, 2, window // 2 if window % 2 else 0, indices=True
            )
            if window % 2:
                yield average_case((1, channels, size, size), window, window // 2)
    for window in (2, 3, 5):
        for stride in (1, 2):
            yield max_case((1, 16, 16, 56, 56), window, stride, window // 2 if window % 2 else 0)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--grid", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    cases = [*POOL_CASES, *(grid() if options.grid else ())]
    rivalries: list[Choice] = []
    for case in cases:
        if options.names and not any(name in case.name for name in options.names):
            continue
        found = choice(case)
        print(found, flush=True)
        if len(found.algorithms) > 1:
            rivalries.append(found)
    right = sum(each.loss <= EQUAL for each in rivalries)
    worst = max((each.loss for each in rivalries), default=1.0)
    print(
        f"first choice the fastest in {right} of {len(rivalries)} cases with rivals; at worst {worst:.2f} times it"
    )


if __name__ == "__main__":
    main()
