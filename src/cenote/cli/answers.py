"""Text of outputs: the likeliest labels, or statistics of the numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray


def read_labels(path: Path) -> tuple[str, ...]:
    """Read labels from a file: one per line, or a JSON list."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(f"{path}: {error.strerror}", param_hint="--labels") from None
    except UnicodeDecodeError:
        raise typer.BadParameter(f"{path}: not text in UTF-8", param_hint="--labels") from None
    labels = split_labels(text, lines=True)
    if not labels:
        raise typer.BadParameter(f"{path}: it has no labels", param_hint="--labels")
    return labels


def split_labels(text: str, lines: bool = False) -> tuple[str, ...]:
    """Return the labels in the text of a file (lines) or of a model's metadata (a JSON list, lines, or separated by
    commas)."""
    if text.lstrip().startswith("["):
        try:
            return tuple(str(item) for item in json.loads(text))
        except ValueError:
            pass
    parts = text.strip().splitlines() if lines or "\n" in text.strip() else text.split(",")
    return tuple(part.strip() for part in parts if part.strip())


def probabilities(scores: NDArray[Any]) -> NDArray[np.float64]:
    """Return scores along the last axis as probabilities: unchanged if they are some, else their softmax."""
    wide = np.asarray(scores, dtype=np.float64)
    if np.all(wide >= 0) and np.allclose(wide.sum(axis=-1), 1, atol=1e-3):
        return wide
    exponentials = np.exp(wide - wide.max(axis=-1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis=-1, keepdims=True))


def top_lines(scores: NDArray[Any], labels: Sequence[str], count: int) -> list[str]:
    """The likeliest classes of one row of scores, a line each."""
    chances = probabilities(scores)
    best = np.argsort(-chances, kind="stable")[:count]
    width = max(len(_label(labels, index)) for index in best)
    return [f"  {_label(labels, index):{width}}  {chances[index]:7.2%}" for index in best]


def _label(labels: Sequence[str], index: int) -> str:
    return labels[index] if labels else f"class {index}"


def answer_lines(outputs: Mapping[str, NDArray[Any]], labels: Sequence[str], top: int | None) -> list[str]:
    """Lines to print for one run: the top classes of the output that the labels fit (of the first output if there are
    no labels but `top` is set), statistics of every other output."""
    chosen = _scored(outputs, labels, top)
    lines: list[str] = []
    for name, array in outputs.items():
        if name != chosen:
            lines.append(f"  {statistics(name, array)}")
            continue
        rows = array.reshape(-1, array.shape[-1])
        for number, row in enumerate(rows):
            if len(rows) > 1:
                lines.append(f"  {name}[{number}]")
            lines += top_lines(row, labels, top if top is not None else 5)
    return lines


def _scored(outputs: Mapping[str, NDArray[Any]], labels: Sequence[str], top: int | None) -> str:
    """Return the name of the output that holds a score per class, or ""."""
    if not labels and top is None:
        return ""
    for name, array in outputs.items():
        numeric = array.dtype.kind not in "OUSb" and array.ndim >= 1 and array.size
        if numeric and (not labels or array.shape[-1] == len(labels)):
            return name
    return ""


def answer_data(
    outputs: Mapping[str, NDArray[Any]], labels: Sequence[str], top: int | None
) -> dict[str, Any]:
    """Return the answers as data for JSON: for each output its dtype, shape and statistics, and for the output with
    scores the top classes."""
    chosen = _scored(outputs, labels, top)
    data: dict[str, Any] = {}
    for name, array in outputs.items():
        numbers = _numbers(array) or {}
        # JSON has no infinity and no NaN
        shown = {key: value if math.isfinite(value) else None for key, value in numbers.items()}
        data[name] = {"dtype": str(array.dtype), "shape": list(array.shape), **shown}
        if name == chosen:
            rows = array.reshape(-1, array.shape[-1])
            data[name]["top"] = [_top(row, labels, top if top is not None else 5) for row in rows]
    return data


def _top(scores: NDArray[Any], labels: Sequence[str], count: int) -> list[dict[str, Any]]:
    chances = probabilities(scores)
    best = np.argsort(-chances, kind="stable")[:count].tolist()
    return [
        {
            "class": index,
            "label": _label(labels, index),
            "probability": float(chances[index]) if np.isfinite(chances[index]) else None,
        }
        for index in best
    ]


def statistics(name: str, array: NDArray[Any]) -> str:
    """`y: float32[1,10], min -1.2, mean 0.1, max 3.4, 0 NaN`."""
    head = f"{name}: {array.dtype}[{','.join(map(str, array.shape))}]"
    if not array.size:
        return f"{head}, empty"
    numbers = _numbers(array)
    if numbers is None:
        return head
    if numbers["nan"] == array.size:
        return f"{head}, nothing but NaN"
    low, mean, high = (f"{name} {numbers[name]:.6g}" for name in ("min", "mean", "max"))
    return f"{head}, {low}, {mean}, {high}, {numbers['nan']} NaN"


def _numbers(array: NDArray[Any]) -> dict[str, Any] | None:
    """Smallest, mean and largest of the numbers that are not NaN, and the count of NaN; None without numbers."""
    if array.dtype.kind not in "biufV" or not array.size:
        return None
    wide = array.astype(np.float64)
    real = wide[~np.isnan(wide)]
    if not real.size:
        return {"nan": array.size}
    with np.errstate(invalid="ignore"):
        mean = float(real.mean())
    return {"min": float(real.min()), "mean": mean, "max": float(real.max()), "nan": array.size - real.size}
