"""A model as one HTML file: picture in, answer and pooling maps out, in any browser, from the disk."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from html import escape
from pathlib import Path
from typing import Any

from cenote.core.deferred import dataclass
from cenote.core.errors import UnsupportedError
from cenote.export.c_library import write_files
from cenote.export.program import ExportedProgram, NamedTensor
from cenote.export.targets import TARGETS
from cenote.export.wasm.module import PLAIN, RELAXED, description, encoded_module, loader
from cenote.graph.graph import Graph
from cenote.ops.pool.window import TapPool

TEMPLATE = Path(__file__).parent / "page.html"
_MOST_MAPS = 6  # pooling layers that are shown
_SMALL = 64  # pixels: inputs of drawings are as small, white on black
_TOP = 5


@dataclass(frozen=True)
class PageOptions:
    """Options of a page beyond its model: `labels` of the classes, URLs of example pictures, and how pictures
    become numbers, as `cenote run` has it: `size`, `crop`, `mean`, `std`, `scale`, `layout`, `color`."""

    title: str = ""
    labels: Sequence[str] = ()
    samples: Sequence[str] = ()
    size: Sequence[int] | None = None
    crop: Sequence[int] | None = None
    mean: Sequence[float] = (0.0,)
    std: Sequence[float] = (1.0,)
    scale: float | None = None
    layout: str | None = None
    color: str | None = None
    maps: Mapping[str, str] = field(default_factory=dict)  # labels of pooling layers by their outputs


def with_maps(graph: Graph, options: PageOptions) -> tuple[Graph, PageOptions]:
    """Return the graph whose outputs are also those of its pooling layers, and the options that name these."""
    pools = {
        node.outputs[0]: node.label or node.outputs[0]
        for node in graph.nodes
        if isinstance(node.op, TapPool) and node.outputs[0] not in graph.outputs
    }
    kept = dict([*pools.items()][:_MOST_MAPS])
    return graph.replace(outputs=(*graph.outputs, *kept)), replace(options, maps=kept)


def write_page(program: ExportedProgram, folder: Path, options: PageOptions) -> list[Path]:
    """Write NAME.html and return it. Raises UnsupportedError where the model takes no picture or gives no scores."""
    described = description(program, True)
    described["weights"] = _url("application/octet-stream", b"".join(program.content()))
    for variant in (PLAIN, RELAXED):
        made = replace(program, target=TARGETS[variant], target_name=variant)
        described["modules"][variant] = _url("application/wasm", encoded_module(made, True, 0)[0])
    title = options.title or program.model
    text = TEMPLATE.read_text(encoding="utf-8").replace("%TITLE%", escape(title))
    text = text.replace("%SETTINGS%", _script(_settings(program, options)))
    return write_files(
        folder, {f"{program.name}.html": [text.replace("%LOADER%", loader(described)).encode()]}
    )


def _labels(about: Mapping[str, str]) -> list[str]:
    """Return the names of classes in a model's key-value pairs: a line each, or separated by commas."""
    text = about.get("labels", "").strip()
    return [part.strip() for part in (text.splitlines() if "\n" in text else text.split(","))] if text else []


def _url(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _script(value: Mapping[str, Any]) -> str:
    """Return a value as JavaScript that ends no element of the page."""
    return json.dumps(value).replace("<", "\\u003c")


def _settings(program: ExportedProgram, options: PageOptions) -> dict[str, Any]:
    """Return what the page's script has to know."""
    (entry,) = program.entries
    if len(entry.inputs) != 1:
        raise UnsupportedError(
            f"page: the model has {len(entry.inputs)} inputs; a page shows a model of one picture"
        )
    x = entry.inputs[0]
    channels, height, width, layout = _axes(x, options.layout)
    scores = next(
        (each for each in entry.outputs if each.name not in options.maps and _is_vector(each)), None
    )
    if scores is None:
        found = ", ".join(
            f"'{each.name}' {each.type}" for each in entry.outputs if each.name not in options.maps
        )
        raise UnsupportedError(f"page: no output is a vector of scores, which a page shows as bars: {found}")
    is_float = x.type.dtype.kind == "f"
    resized = _resized(options, height, width)
    return {
        "input": x.name,
        "dtype": x.type.dtype.name,
        "scores": scores.name,
        "labels": [*(options.labels or _labels(program.about))],
        "top": min(_TOP, scores.type.size),
        "channels": channels,
        "model": [height, width],
        "resized": resized,
        "whole": options.crop is None and options.size is None,
        "layout": layout,
        "color": options.color or ("gray" if channels == 1 else "rgb"),
        "scale": options.scale if options.scale is not None else 1 / 255 if is_float else 1,
        "mean": [*options.mean],
        "std": [*options.std],
        "paper": "#000" if max(height, width) <= _SMALL else "#fff",
        "ink": "#fff" if max(height, width) <= _SMALL else "#000",
        "samples": [*options.samples],
        "maps": [
            {"name": each.name, "shape": [*each.type.shape], "label": options.maps[each.name]}
            for each in entry.outputs
            if each.name in options.maps and _is_map(each)
        ],
    }


def _axes(x: NamedTensor, layout: str | None) -> tuple[int, int, int, str]:
    """Return channels, height, width and layout of a picture. Raises UnsupportedError for what is none."""
    shape = x.type.shape
    if len(shape) not in (3, 4) or (len(shape) == 4 and shape[0] != 1):
        raise UnsupportedError(
            f"page: '{x.name}' is {x.type}, which is no picture; a page shows models of one picture"
        )
    a, b, c = shape[-3:]
    layout = layout or ("nhwc" if c in (1, 3) and a not in (1, 3) else "nchw")
    channels, height, width = (a, b, c) if layout == "nchw" else (c, a, b)
    if channels not in (1, 3):
        raise UnsupportedError(f"page: '{x.name}' has {channels} channels, where a picture has 1 or 3")
    return channels, height, width, layout


def _resized(options: PageOptions, height: int, width: int) -> list[int]:
    """Return the size that the square picture is resized to; the middle of it is the input."""
    if options.size is None:
        return [height, width]
    sizes = [*options.size]
    return sizes if len(sizes) == 2 else sizes * 2


def _is_vector(tensor: NamedTensor) -> bool:
    return tensor.type.size > 1 and max(tensor.type.shape, default=1) == tensor.type.size


def _is_map(tensor: NamedTensor) -> bool:
    return (
        len(tensor.type.shape) == 4 and min(tensor.type.shape[2:]) > 1 and tensor.type.dtype.name == "float32"
    )
