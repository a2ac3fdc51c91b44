"""`cenote tile`: tiles of a layer, a node or a whole model for a machine with small buffers."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer

import cenote
from cenote.cli.console import out, say, say_json, write
from cenote.cli.options import Json
from cenote.cli.shapes import parse_shapes

Strategy = Literal["three-stage", "search", "both"]
Language = Literal["c", "mlir"]
_HELP = "One number, or one per axis: 3 or 3x5."
_LAYER, _MODEL = "Of a layer", "Of a model"


def _of_layer(help: str, *flags: str) -> Any:
    return typer.Option(*flags, help=help, rich_help_panel=_LAYER)


def _machines(incomplete: str) -> list[str]:
    return _completed(incomplete, cenote.tiling.hardware_names(), ".json")


def _layers(incomplete: str) -> list[str]:
    return _completed(incomplete, cenote.tiling.layer_kinds())


def _completed(incomplete: str, names: Sequence[str], ending: str = "") -> list[str]:
    """Names that begin like this, and files with that ending: a shell completes no others then."""
    folder, _, begun = incomplete.rpartition("/")
    prefix = incomplete[: len(incomplete) - len(begun)]
    found = [name for name in names if name.startswith(incomplete)]
    with contextlib.suppress(OSError):  # no such folder
        for path in sorted(Path(folder or prefix or ".").iterdir()):
            if path.name.startswith(begun) and (path.is_dir() or path.name.endswith(ending)):
                found.append(f"{prefix}{path.name}{'/' if path.is_dir() else ''}")
    return found


@dataclass(frozen=True)
class LayerGroup:
    """The arguments of a layer, as texts."""

    input: Annotated[
        str | None, _of_layer("N, C and spatial extents: 8x64x56x56; of a product M and K.", "--input")
    ] = None
    kernel: Annotated[str | None, _of_layer(f"Window. {_HELP}")] = None
    stride: Annotated[str | None, _of_layer(f"Step. {_HELP}")] = None
    padding: Annotated[str | None, _of_layer(f"{_HELP} Begin and end: 1,0x1,0.")] = None
    dilation: Annotated[str | None, _of_layer(f"Distance of taps. {_HELP}")] = None
    ceil_mode: Annotated[bool, _of_layer("Round the output size up.", "--ceil-mode")] = False
    count_include_pad: Annotated[bool, _of_layer("Divide by padding too.", "--count-include-pad")] = False
    output: Annotated[str | None, _of_layer("Output extents of adaptive pools.")] = None
    filters: Annotated[int | None, _of_layer("Output channels of a convolution.")] = None
    groups: Annotated[int | None, _of_layer("Groups of a convolution.")] = None
    bias: Annotated[bool, _of_layer("A convolution has a bias.", "--bias")] = False
    p: Annotated[float | None, _of_layer("Exponent of an Lp pool.", "--p")] = None
    divisor_override: Annotated[int | None, _of_layer("Divisor of an average.")] = None
    auto_pad: Annotated[str | None, _of_layer("SAME_UPPER, SAME_LOWER or VALID, in place of padding.")] = None
    output_padding: Annotated[str | None, _of_layer(f"Of a transposed convolution. {_HELP}")] = None
    other: Annotated[str | None, _of_layer("Second matrix of a product: 768x3072.")] = None
    axis: Annotated[int | None, _of_layer("First normalised axis.")] = None
    no_affine: Annotated[bool, _of_layer("A normalisation has no scale and bias.", "--no-affine")] = False
    dtype: Annotated[str, _of_layer("Element type.")] = "float32"
    indices: Annotated[str | None, _of_layer("int64 or int32: maxima with indices.")] = None
    fused: Annotated[list[str] | None, _of_layer("An elementwise operator that follows: relu.")] = None

    def given(self) -> dict[str, Any]:
        """Return those that are given besides the element type, as `cenote.tiling.plan` takes them."""
        arguments = {name: value for name, value in vars(self).items() if name not in ("dtype", "no_affine")}
        for name in ("input", "kernel", "stride", "dilation", "output", "output_padding", "other"):
            arguments[name] = _numbers(f"--{name.replace('_', '-')}", arguments[name])
        arguments["padding"] = _padding(self.padding)
        found = {name: value for name, value in arguments.items() if value is not None and value is not False}
        return {**found, "affine": False} if self.no_affine else found


@dataclass(frozen=True)
class ModelGroup:
    """The parts of a model that are planned."""

    node: Annotated[str | None, typer.Option(help="Only this node.", rich_help_panel=_MODEL)] = None
    shape: Annotated[
        list[str] | None,
        typer.Option(help="An input's size: NAME=1,3,224,224.", rich_help_panel=_MODEL),
    ] = None


@dataclass(frozen=True)
class Planning:
    """Options of planning: the machine, the strategies and the fields of the policy."""

    hardware: Annotated[
        str,
        typer.Option(help="npu, npu-small, npu-large, host, or a JSON file.", autocompletion=_machines),
    ] = "npu"
    strategy: Annotated[Strategy, typer.Option(help="The three stages, the exact search, or both.")] = (
        "three-stage"
    )
    policy: Annotated[list[str] | None, typer.Option(help="A field of the policy: buffers=1.")] = None

    def each(self) -> list[dict[str, Any]]:
        """Return the arguments of `cenote.tiling.plan`, for each strategy."""
        strategies = ("three-stage", "search") if self.strategy == "both" else (self.strategy,)
        common = {"hardware": self.hardware, **_policy(self.policy or ())}
        return [{"strategy": strategy, **common} for strategy in strategies]


@dataclass(frozen=True)
class Wanted:
    """Options for the output: a picture, the decisions, an execution, a program, JSON."""

    svg: Annotated[Path | None, typer.Option(help="Write a picture here; of a model, an HTML page.")] = None
    explain: Annotated[bool, typer.Option("--explain", help="Print each decision.")] = False
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Execute the plan on random data, and check it.")
    ] = False
    emit: Annotated[
        Language | None,
        typer.Option(
            "--emit",
            help="Print the plan as a program in C, or as text like MLIR, and nothing else.",
            show_default=False,
        ),
    ] = None
    as_json: Json = False


def tile(
    what: Annotated[
        str,
        typer.Argument(
            help="A kind of layer (maxpool, maxpool_backward, conv, matmul, ...) or a model file.",
            show_default=False,
            autocompletion=_layers,
        ),
    ],
    layer: LayerGroup,
    parts: ModelGroup,
    planning: Planning,
    wanted: Wanted,
) -> None:
    """Plan tiles of a layer (a pool or its gradient, a convolution, a product, a layer normalisation), or of all layers
    of a model, for a machine with small buffers."""
    if layer.input is None and (Path(what).exists() or "." in what):
        _refuse(layer.given(), "a model, whose layers have their own")
        if wanted.emit:
            raise cenote.ArgumentError("tile: --emit is for one layer; give its kind and --input")
        plans = _of_model(what, parts, planning, wanted)
    else:
        _refuse({"node": parts.node, "shape": parts.shape}, "a layer; it is for models")
        if layer.input is None:
            raise cenote.ArgumentError(f"tile: '{what}' is no file; a layer needs --input")
        plans = _of_layer_alone(what, layer, planning, wanted)
    if wanted.as_json:
        return
    for plan in plans if wanted.explain else ():
        say(f"{plan.layer.title}, {plan.strategy}:")
        for line in plan.trace:
            say(f"  {line}")
    for plan in plans if wanted.simulate else ():
        say(f"{plan.layer.title}, {plan.strategy}, executed: {_executed(plan)['simulated']['verdict']}")


def _of_model(what: str, parts: ModelGroup, planning: Planning, wanted: Wanted) -> list[Any]:
    """Plan the layers of a model, and show them."""
    shapes: Any = dict(parse_shapes(parts.shape or ()))
    models = [
        cenote.tiling.plan_model(what, shapes=shapes, node=parts.node, **how) for how in planning.each()
    ]
    if wanted.svg:
        write(wanted.svg, cenote.tiling.page(models[-1]))
    if wanted.as_json:
        data = [model.to_dict() for model in models]
        say_json(data[0] if len(data) == 1 else data)
    else:
        for model in models:
            _show_model(model)
    return [plan for model in models for plan in model.plans]


def _of_layer_alone(what: str, layer: LayerGroup, planning: Planning, wanted: Wanted) -> list[Any]:
    """Plan a layer, and show it."""
    arguments = layer.given()
    plans = [cenote.tiling.plan(what, dtype=layer.dtype, **arguments, **how) for how in planning.each()]
    if wanted.emit:
        emit = cenote.tiling.emit_c if wanted.emit == "c" else cenote.tiling.emit_text
        say(emit(plans[-1]).rstrip())
        return []
    if wanted.svg:
        write(wanted.svg, cenote.tiling.svg(plans[-1]))
    if wanted.as_json:
        shown = [_as_data(plan, wanted) for plan in plans]
        say_json(shown[0] if len(shown) == 1 else shown)
    else:
        for plan in plans:
            _show(plan)
    return plans


def _as_data(plan: cenote.tiling.TilingPlan, wanted: Wanted) -> dict[str, Any]:
    """Return everything about a plan, also what each core executes."""
    shares = [share.to_dict() for share in cenote.tiling.shares_of(plan)]
    return {**plan.to_dict(), "shares": shares, **(_executed(plan) if wanted.simulate else {})}


def _refuse(given: dict[str, Any], what: str) -> None:
    for name, value in given.items():
        if value:
            raise cenote.ArgumentError(f"tile: --{name.replace('_', '-')} means nothing to {what}")


def _executed(plan: cenote.tiling.TilingPlan) -> dict[str, Any]:
    """Run the plan on random numbers; return the simulator's counts beside the plan's, and whether results agree."""
    generator = np.random.default_rng(0)
    kind = plan.layer.inputs[0]
    assert kind is not None, "the first input of a layer is its data"
    x = (generator.standard_normal(kind.shape) * 8).astype(kind.dtype)
    values, counts = cenote.tiling.simulate(plan, x)
    right = cenote.tiling.reference(plan, x)
    pairs = zip(values, right, strict=True) if isinstance(values, tuple) else [(values, right)]
    worst = max(
        float(np.max(np.abs(y.astype(np.float64) - r.astype(np.float64)), initial=0.0)) for y, r in pairs
    )
    same = all(counts[name] == plan.to_dict()[name] for name in ("bytes_in", "bytes_out", "bursts"))
    verdict = (
        f"{counts['tasks']:,} tasks, each output written once, largest difference {worst:.2g}; "
        f"{counts['cycles']:,} cycles (planned {plan.cycles:,}), bytes {'as planned' if same else 'NOT as planned'}"
    )
    return {"simulated": {**counts, "largest_difference": worst, "verdict": verdict}}


def _show(plan: cenote.tiling.TilingPlan) -> None:
    data = plan.to_dict()
    tile, parts = data["tile"], data["parts"]
    say(f"{data['operator']} on {plan.hardware.name}, {plan.strategy}: stage {data['stage']}")
    say("  tile     " + ", ".join(f"{name} {size}" for name, size in tile.items()))
    say("  parts    " + ", ".join(f"{name} {count}" for name, count in parts.items()))
    cores = f"{plan.hardware.cores} core{'s' if plan.hardware.cores > 1 else ''}"
    say(f"  tasks    {data['tasks']:,} for {cores}{'' if data['fed'] else ': too few'}")
    say(f"  buffer   {data['bytes']:,} of {plan.hardware.ub_bytes:,} bytes")
    say(f"  moved    {data['bytes_in']:,} bytes in, {data['bytes_out']:,} out, {data['bursts']:,} bursts")
    best = "the optimum" if plan.is_optimal else f"no plan takes less than {data['lower_bound']:,}"
    say(f"  cycles   {data['cycles']:,} of the busiest core; {best}")
    for each in data.get("passes", ()):
        sizes = ", ".join(f"{name} {size}" for name, size in each["tile"].items())
        say(
            f"  {each['layer']}: {each['operator']}; tile {sizes}; {each['tasks']:,} tasks, {each['cycles']:,} cycles"
        )


def _show_model(model: cenote.tiling.NetworkPlan) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in ("layer", "input", "stage", "tile", "tasks", "bytes", "cycles"):
        table.add_column(column, no_wrap=column not in ("layer", "input"))
    for plan in model.plans:
        sizes = ",".join(map(str, plan.to_dict()["tile"].values()))
        counts = (f"{count:,}" for count in (plan.tasks, plan.bytes, plan.cycles))
        table.add_row(plan.layer.title, str(plan.layer.inputs[0]), plan.stage, sizes, *counts)
    out().print(table)
    say(
        f"{len(model.plans)} layers ({model.others} other nodes): {model.cycles:,} cycles, {model.bytes_moved:,} bytes"
    )
    for plan in model.worst(3):
        say(f"  most: {plan.layer.title}, {plan.cycles / max(1, model.cycles):.0%} of the cycles")


def _numbers(option: str, text: str | None) -> tuple[int, ...] | None:
    """Parse `3` or `3x5`."""
    if text is None:
        return None
    try:
        return tuple(int(word) for word in text.replace(",", "x").split("x"))
    except ValueError as error:
        raise cenote.ArgumentError(f"tile: {option} must be numbers like 3 or 3x5, got '{text}'") from error


def _padding(text: str | None) -> Any:
    """Parse `1`, `1x2`, or (begin, end) pairs: `1,0x1,0`."""
    if text is None or "," not in text:
        return _numbers("--padding", text)
    return tuple(_numbers("--padding", pair) for pair in text.split("x"))


def _policy(items: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals:
            raise cenote.ArgumentError(f"tile: --policy must be NAME=VALUE, got '{item}'")
        fields[name] = int(value) if value.lstrip("-").isdigit() else value
    return fields
