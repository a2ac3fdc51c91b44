"""Messages of Triton's protocol that kserve lacks, in protobuf's encoding (Protocol Buffers: Encoding)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cenote.core.text import split_words

_VARINT, _LENGTH = 0, 2  # kinds of fields
Fields = Mapping[int, Any]

# Triton's DataType, by number.
_KINDS = split_words(
    "INVALID BOOL UINT8 UINT16 UINT32 UINT64 INT8 INT16 INT32 INT64 FP16 FP32 FP64 STRING BF16",
)


def encoded(fields: Fields) -> bytes:
    """Return a message: values by the numbers of fields. Numbers are varints, texts, bytes and messages have their
    length before them, and a list is a field that is repeated."""
    return b"".join(
        _field(number, each)
        for number, value in fields.items()
        for each in (value if isinstance(value, list | tuple) else [value])
    )


def _field(number: int, value: int | str | bytes | Fields) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3 | _VARINT) + _varint(value % (1 << 64))
    content = (
        encoded(value) if isinstance(value, Mapping) else value.encode() if isinstance(value, str) else value
    )
    return _varint(number << 3 | _LENGTH) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    """Return a number in groups of seven bits, the lowest first."""
    made = bytearray()
    while value > 127:
        made.append(value % 128 + 128)
        value //= 128
    return bytes([*made, value])


def index_fields(rows: Sequence[Mapping[str, str]]) -> Fields:
    """Return a RepositoryIndexResponse."""
    names = ("name", "version", "state", "reason")
    return {1: [{i: row[name] for i, name in enumerate(names, 1)} for row in rows]}


def statistics_fields(found: Mapping[str, Any]) -> Fields:
    """Return a ModelStatisticsResponse of `statistics.statistics`."""
    return {1: [_statistics(row) for row in found["model_stats"]]}


def _statistics(row: Mapping[str, Any]) -> Fields:
    durations = ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output")
    each = (row["inference_stats"][name] for name in durations)
    return {
        1: row["name"],
        2: row["version"],
        4: row["inference_count"],
        5: row["execution_count"],
        6: {i: {1: duration["count"], 2: duration["ns"]} for i, duration in enumerate(each, 1)},
    }


def configuration_fields(found: Mapping[str, Any]) -> Fields:
    """Return a ModelConfigResponse of `statistics.configuration`."""
    config = {
        1: found["name"],
        2: found["platform"],
        4: found["max_batch_size"],
        5: [_tensor(each, 4) for each in found["input"]],
        6: [_tensor(each, 3) for each in found["output"]],
        17: found["backend"],
    }
    return {1: config}


def _tensor(words: Mapping[str, Any], dims: int) -> Fields:
    """Return an input, whose sizes are field 4, or an output, field 3."""
    return {
        1: words["name"],
        2: _KINDS.index(words["data_type"].removeprefix("TYPE_")),
        dims: list(words["dims"]),
    }
