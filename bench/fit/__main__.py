"""Constants of the cost model, fitted to measured layers of a folder of models. `python -m bench.fit --help`

    python -m bench.fit collect --models /tmp/zoo   the layers of all models that have several algorithms
    python -m bench.fit measure --seconds 100       time 400 of them, drawn evenly over their kinds; can be repeated
    python -m bench.fit report                      how often the first choice is the fastest within 3 %
    python -m bench.fit fit                         fit the constants of this machine's kind, and store them

`CENOTE_TARGET=avx2` measures and fits AVX2. Everything that is found lies in a folder (`--kept`) and is gone on with.
A candidate is timed alone, on one thread, in the state of the caches that it finds in its model: its input is fresh,
and as many bytes as the model's plan has of other weights were read since its last run.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.fit.cases import Case, outcome
from bench.fit.fitting import Fit
from bench.fit.layers import collect, distinct, drawn
from bench.fit.measurements import measure, read
from bench.fit.record import shown, store, summary
from cenote.codegen import jit
from cenote.core.target import Target
from cenote.kernels.constants import CONSTANTS, DEFAULT, kind_of


@dataclass(frozen=True)
class Kept:
    """The folder of what was found."""

    folder: Path
    count: int

    @property
    def layers(self) -> Path:
        return self.folder / "layers"

    @property
    def times(self) -> Path:
        return self.folder / "times.jsonl"

    def cases(self, target: Target) -> list[Case]:
        """The drawn layers that were measured."""
        times = read(self.times, target.name)
        chosen = drawn(distinct(self.layers, target.name), self.count)
        return [Case.of(layer, times[layer.key]) for layer in chosen if times.get(layer.key)]


def fit(cases: Sequence[Case], target: Target) -> None:
    """Fit and store: the figures with constants that were not fitted, those of each half of the layers by the
    constants that were fitted to the other, and those of all."""
    kind = kind_of(target)
    if kind == DEFAULT:
        raise SystemExit(
            f"{target.name}: this machine is of no kind of its own (cenote.kernels.constants.kind_of)"
        )
    begin = CONSTANTS[kind]
    CONSTANTS[kind] = CONSTANTS[DEFAULT]
    before = summary([outcome(case, target) for case in cases])
    unseen = []
    for half in (0, 1):
        CONSTANTS[kind] = begin
        Fit(cases[half::2], target).run()
        unseen += [outcome(case, target) for case in cases[1 - half :: 2]]
    CONSTANTS[kind] = begin
    fitted = Fit(cases, target).run()
    found = [outcome(case, target) for case in cases]
    store(kind, fitted, found, {"unfitted": before, "unseen": summary(unseen)})
    print(shown(found))


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.fit", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=("collect", "measure", "report", "fit"))
    parser.add_argument("--models", type=Path, help="folder of ONNX files, for collect")
    parser.add_argument("--kept", type=Path, default=Path("/tmp/cenote_fit"), help="default: %(default)s")
    parser.add_argument("--layers", type=int, default=400, help="to draw (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=100.0, help="of measuring (default: %(default)s)")
    parser.add_argument("--times", type=int, default=1, help="that each is measured (default: %(default)s)")
    given = parser.parse_args(arguments)
    kept, target = Kept(given.kept, given.layers), jit.host_target()
    if given.action == "collect":
        if given.models is None:
            parser.error("collect needs --models FOLDER")
        collect(given.models, kept.layers)
    elif given.action == "measure":
        chosen = drawn(distinct(kept.layers, target.name), kept.count)
        missing = measure(chosen, kept.times, given.seconds, given.times)
        print(f"{target.name}: {len(chosen) - missing} of {len(chosen)} layers measured")
    elif given.action == "report":
        print(shown([outcome(case, target) for case in kept.cases(target)]))
    else:
        fit(kept.cases(target), target)


if __name__ == "__main__":
    main()
