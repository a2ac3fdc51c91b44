"""scipy.ndimage: filters whose cost does not grow with the window. Stride 1 only.

They use one thread whatever is asked; they stay in the race, because their user has no other choice either.
"""

import numpy as np
from scipy import ndimage

from bench.cases import PoolCase
from bench.engines.base import Arrays, PoolEngine, UnavailableError


class Pool(PoolEngine):
    """Pooling at stride 1 as a filter."""

    distribution = "scipy"

    def load(self, work: PoolCase, threads: int) -> None:
        if work.stride != 1 or work.indices or work.kind not in ("max", "average"):
            raise UnavailableError("no such filter in scipy.ndimage")
        if work.kind == "average" and not work.count_padding:
            raise UnavailableError("scipy.ndimage counts the padding")
        self.case = work
        self.result = np.empty(work.shape, np.float32)
        self.size = (1, 1, *[work.kernel] * work.rank)
        # One output per input; the wanted ones begin where the window reaches `padding` beyond the edge.
        start = work.kernel // 2 - work.padding
        inside = (slice(start, start + work.output_size(size)) for size in work.shape[2:])
        self.wanted = (slice(None), slice(None), *inside)

    def run(self, x: np.ndarray) -> np.ndarray:
        if self.case.kind == "max":
            ndimage.maximum_filter(x, self.size, output=self.result, mode="constant", cval=-np.inf)
        else:
            ndimage.uniform_filter(x, self.size, output=self.result, mode="constant", cval=0.0)
        return self.result[self.wanted]

    def outputs(self, y: np.ndarray) -> Arrays:
        return (np.array(y),)
