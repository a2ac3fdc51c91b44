"""The source system's three cases, measured, treated, measured again: `python -m bench.source_cases --help`

Its text states shapes and gains and no machine, so its figures stand beside ours as claims and not as a race. Run this
on a machine that does nothing else. Efficiency of compute, bandwidth: of the step that computes, against what this
machine was measured to do (`roofs`); cores: the part of the threads' time in which they compute. All are of the model
after treatment, which is the model before where nothing was kept. Cache hits need hardware counters, which virtual
machines seldom have: they are left out rather than guessed. Foreign cores: what other processes took meanwhile.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import cenote
from bench.arguments import output_folder, thread_counts
from bench.report import table
from cenote.core.types import Array
from cenote.profile.data import Profile
from tests.diagnosis.causes.models import model, noise

Case = tuple[Any, dict[str, Array]]
COLUMNS = [
    "case", "threads", "ms before", "ms after", "compute", "bandwidth", "cores", "memory, MB", "kept", "findings",
    "the source claims", "foreign cores",
]  # fmt: skip


def convolution() -> Case:
    x, w = noise(32, 3, 224, 224), noise(64, 3, 3, 3, scale=0.1)
    node = ("Conv", ["x", "w"], ["y"], {"pads": [1, 1, 1, 1]})
    return model([node], {"x": x.shape}, ["y"], {"w": w}), {"x": x}


def layer_normalisation() -> Case:
    x, half = noise(4096, 4096, dtype=np.float16), np.float16
    node = ("LayerNormalization", ["x", "scale", "bias"], ["y"], {"axis": -1})
    constants = {"scale": np.ones(4096, half), "bias": np.zeros(4096, half)}
    return model([node], {"x": x.shape}, ["y"], constants, half), {"x": x}


def product() -> Case:
    a = noise(1024, 1024)
    return model([("MatMul", ["a", "b"], ["y"], {})], {"a": a.shape, "b": a.shape}, ["y"], {}), {
        "a": a,
        "b": a.copy(),
    }


CASES: dict[str, tuple[Callable[[], Case], str]] = {
    "convolution [32,3,224,224] x [64,3,3,3]": (convolution, "compute 35 to 80 %, 2 times as fast"),
    "layer normalisation [4096,4096] float16": (layer_normalisation, "512 to 128 MB"),
    "matrix product 1024^3": (product, "cores 40 to 85 % on 8, 1.6 times as fast"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--threads", type=thread_counts, default=[1, 2], help="counts (default: 1,2)")
    parser.add_argument("--output", type=Path, help="folder for the reports (default: bench/.results/TIME)")
    parser.add_argument("--page", type=Path, help="page of the documentation to write")
    arguments = parser.parse_args()
    folder = output_folder(arguments.output)
    rows = [
        measured(name, *CASES[name], threads) for name in CASES for threads in arguments.threads
    ]  # fmt: skip
    (folder / "source_cases.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    cells = [[_shown(row[column]) for column in COLUMNS] for row in rows]
    text = "# The source system's cases\n\n" + table(COLUMNS, cells) + "\n"
    (folder / "source_cases.md").write_text(text, encoding="utf-8")
    print(text)
    if arguments.page is not None:
        arguments.page.write_text(page(rows), encoding="utf-8")


def page(rows: list[dict[str, Any]]) -> str:
    """The page of the documentation: the cases before and after, beside the roofs of the machine."""
    first = Profile.from_dict(rows[0]["profile"])
    assert first.roofs is not None
    roofs = ", ".join(
        f"{roof.gigaops.value:,.0f} Gop/s of {roof.dtype} on {roof.threads} thread(s)"
        for roof in first.roofs.compute
    )
    moved = ", ".join(
        f"{roof.level} {roof.read.value:,.0f}" for roof in first.roofs.bandwidth if roof.threads == 1
    )
    shown = [column for column in COLUMNS if column not in ("memory, MB", "foreign cores")]
    lines = [
        "# Three cases of the method",
        "",
        "Made by `python -m bench.source_cases --page docs/benchmarks/source_cases.md`;",
        f"{first.processor}, {first.target}, Cenote {first.version}.",
        "",
        "The text on the method (look, listen, ask, treat: [from paper to Cenote](../from_paper.md)) ends with three",
        "cases and the gains that it had. Its machine is not named, so its figures stand beside these as claims. Here",
        "each case is profiled, diagnosed, and treated by what helps beyond doubt; `ms after` is `ms before` where",
        "nothing was kept. `compute` and `bandwidth` are shares of the roofs of this machine, of the step that",
        "computes; `cores` is the part of the threads' time in which they compute. Looking at these cases has itself",
        "had an effect: the convolution took 83 ms on two threads where it now takes 40, since the algorithm that",
        "reads rows of plain memory was offered for weights at run time only.",
        "",
        table(shown, [[_shown(row[column]) for column in shown] for row in rows]).rstrip(),
        "",
        f"Roofs: {roofs}; GB/s read by one thread: {moved}.",
        "",
    ]
    return "\n".join(lines)


def measured(name: str, make: Callable[[], Case], claim: str, threads: int) -> dict[str, Any]:
    """One row: as the model is loaded, what is found, and after what helped without changing more than rounding."""
    source, inputs = make()
    loaded = cenote.load(source.SerializeToString(), threads=threads)
    found = loaded.diagnose(inputs)
    treated, best = loaded.treat(found, inputs)
    after = found.profile if best is loaded else best.profile(inputs)
    return {
        "case": name, "threads": threads, "ms before": found.profile.wall_ms, "ms after": after.wall_ms,
        **efficiencies(after), "memory, MB": memory(after) / 1e6,
        "kept": ", ".join(str(dict(each.treatment)) for each in treated.treatments if each.kept) or "nothing",
        "findings": "; ".join(f"{each.cause} {each.share:.0%}" for each in found.findings) or "none",
        "the source claims": claim, "foreign cores": after.environment.foreign_cores,
        "profile": after.to_dict(),
    }  # fmt: skip


def efficiencies(found: Profile) -> dict[str, Any]:
    """Of the call, and of the step that computes: shares of what the machine can do; None where that is not known."""
    main = max(found.steps, key=lambda step: (step.operations, step.ms))
    threads = len(main.busy_ms)
    cores = sum(sum(step.busy_ms) for step in found.steps) / (threads * found.recorded_ms)
    compute = bandwidth = None
    if found.roofs is not None:
        gigaops = found.roofs.gigaops(main.dtype, threads)
        compute = main.executed_operations / (main.kernels_ms * 1e6) / gigaops if gigaops else None
        moved = found.roofs.transfer_seconds(main.read_bytes, main.written_bytes, threads)
        bandwidth = moved[0] * 1e3 / main.kernels_ms if moved else None
    return {"compute": compute, "bandwidth": bandwidth, "cores": cores}


def memory(found: Profile) -> int:
    """Bytes of intermediate values, and of what must be read and written at least."""
    arena = max((block.offset + block.nbytes for block in found.arena), default=0)
    return arena + max(step.bytes for step in found.steps)


def _shown(value: Any) -> str:
    if value is None:
        return "unknown"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
