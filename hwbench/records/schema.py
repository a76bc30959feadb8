"""The schema of a record store: its folders, files, columns and types."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hwbench.errors import InvalidStore, unknown
from hwbench.metrics import METRICS, metric

MANIFEST = "store.toml"
ARCHITECTURES = "architectures"
OBSERVATIONS = "observations"
CONDITIONS = "conditions"
QUALITY = "quality"
CAMPAIGNS = "campaigns"

_METRIC = pa.dictionary(pa.int32(), pa.string())

ARCHITECTURE_SCHEMA = pa.schema(
    [
        ("arch_id", pa.int32()),
        ("n_layer", pa.int16()),
        ("embed_dim", pa.int16()),
        ("n_head", pa.list_(pa.int16())),
        ("mlp_ratio", pa.list_(pa.int16())),
        ("bias", pa.bool_()),
        ("recorded_params", pa.int64()),
        ("recorded_macs", pa.int64()),
    ]
)

OBSERVATION_SCHEMA = pa.schema(
    [
        ("arch_id", pa.int32()),
        ("workload", pa.int16()),
        ("metric", _METRIC),
        ("session", pa.int16()),
        ("position", pa.int32()),
        ("values", pa.list_(pa.float32())),
    ]
)

QUALITY_SCHEMA = pa.schema(
    [
        ("arch_id", pa.int32()),
        ("metric", _METRIC),
        ("session", pa.int16()),
        ("position", pa.int32()),
        ("values", pa.list_(pa.float32())),
    ]
)

CONDITION_SCHEMA = pa.schema(
    [
        ("arch_id", pa.int32()),
        ("workload", pa.int16()),
        ("session", pa.int16()),
        ("position", pa.int32()),
        ("status", pa.dictionary(pa.int32(), pa.string())),
        ("reason", pa.string()),
        ("warmup_values", pa.list_(pa.float32())),
        ("clock_sm_mhz", pa.float32()),
        ("clock_memory_mhz", pa.float32()),
        ("temperature_c", pa.float32()),
        ("clock_sm_before_mhz", pa.float32()),
        ("clock_memory_before_mhz", pa.float32()),
        ("temperature_before_c", pa.float32()),
        ("throttle", pa.string()),
        ("energy_window_s", pa.float32()),
        ("energy_passes", pa.int32()),
        ("energy_counter", pa.string()),
    ]
)

STATUSES = ("ok", "skipped", "failed")
"""What a condition row's `status` may be: kept, not attempted, or attempted in vain."""

SCHEMAS = {
    ARCHITECTURES: ARCHITECTURE_SCHEMA,
    OBSERVATIONS: OBSERVATION_SCHEMA,
    CONDITIONS: CONDITION_SCHEMA,
    QUALITY: QUALITY_SCHEMA,
}
"""The schema of the files of each folder."""

OPTIONAL = {ARCHITECTURES: ("recorded_params", "recorded_macs")}
"""Columns that a file may lack; what they hold may also be null, as may all that a meter reads."""

NULLABLE = {
    ARCHITECTURES: OPTIONAL[ARCHITECTURES],
    CONDITIONS: tuple(
        n for n in CONDITION_SCHEMA.names if n not in {*OBSERVATION_SCHEMA.names, "status"}
    ),
}
"""Columns that may hold nulls."""

UNITS = {
    **{m.field: m.unit for m in METRICS.values() if m.source == "surrogate"},
    "latency_kernel_ms": "ms",
    "energy_above_idle_j": "J",
    "memory_mb": "1e6 bytes",
    "memory_peak_allocated_mb": "1e6 bytes",
    "memory_peak_reserved_mb": "1e6 bytes",
    "memory_peak_resident_mb": "1e6 bytes",
}
"""The metrics that a store may hold, by field name, with their units."""

QUALITY_FIELDS = tuple(
    m.field for m in METRICS.values() if m.source == "surrogate" and not m.needs_device
)
"""The fields of quality files."""


def field_name(name: str, present: Iterable[str] = ()) -> str:
    """The field of a metric: its name in a store, where the unit is spelled.

    Args:
        name: A metric's API name, field name or alias, or one of the peaks of memory.
        present: Further field names that are there and may be asked for.

    Returns:
        The field name.

    Raises:
        InvalidValue: The name is no text.
        UnknownName: No such metric.

    >>> field_name("latency"), field_name("memory_peak_reserved_mb")
    ('latency_ms', 'memory_peak_reserved_mb')
    """
    if name in UNITS or name in tuple(present):
        return name
    try:
        found = metric(name)
    except LookupError:
        raise unknown("metric", name, [*METRICS, *UNITS]) from None
    return found.field


def api_name(field: str) -> str:
    """The metric's name in the API; a field that is none of the registry's keeps its own.

    >>> api_name("energy_j")
    'energy'
    """
    return next((m.name for m in METRICS.values() if m.field == field), field)


def campaign_path(device: str, space: str) -> str:
    """The path inside its store of what a campaign says about itself.

    >>> campaign_path("my-gpu", "s")
    'campaigns/my-gpu/s.json'
    """
    return f"{CAMPAIGNS}/{device}/{space}.json"


def relative_path(kind: str, space: str, device: str | None = None) -> str:
    """A file's path inside its store, with "/" between the parts.

    >>> relative_path("observations", "s", "h100")
    'observations/h100/s.parquet'
    """
    return "/".join((kind, *([device] if device is not None else []), f"{space}.parquet"))


def read(path: Path, shown: str, kind: str, columns: Iterable[str] | None = None) -> Any:
    """Read a store's Parquet file and check that its columns are those of the schema.

    Args:
        path: The file.
        shown: Its name in an error.
        kind: The folder it is in, a key of `SCHEMAS`.
        columns: What to read; everything unless given.

    Returns:
        The `pyarrow.Table`, in one chunk, its columns cast to the schema's types.

    Raises:
        InvalidStore: The file cannot be read, lacks a column, or a column has another type or
            holds nulls where none may be.
    """
    schema = SCHEMAS[kind]
    names = list(columns) if columns is not None else schema.names
    try:
        file = pq.ParquetFile(path)
        there = set(file.schema_arrow.names)
        table = file.read(columns=[n for n in names if n in there]).combine_chunks()
    except (OSError, pa.ArrowException) as error:
        reason = " ".join(str(error).split())
        raise InvalidStore(f"Cannot read {shown}: {reason.split('. ')[0]}.") from None
    lacking = [n for n in names if n not in there and n not in OPTIONAL.get(kind, ())]
    if lacking:
        raise InvalidStore(
            f"{shown} must have the columns {', '.join(schema.names)}. It lacks {lacking[0]!r}."
        )
    return _conform(table, shown, kind)


def _conform(table: Any, shown: str, kind: str) -> Any:
    schema, nullable = SCHEMAS[kind], NULLABLE.get(kind, ())
    arrays = []
    for name in table.column_names:
        wanted, column = schema.field(name).type, table[name].combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = column.chunk(0) if column.num_chunks else pa.array([], column.type)
        if column.type != wanted:
            try:
                column = column.cast(wanted)
            except pa.ArrowException:
                raise InvalidStore(
                    f"Column {name!r} of {shown} must be {wanted}. Got {column.type} instead."
                ) from None
        nulls = column.null_count
        if pa.types.is_list(column.type):
            nulls += column.flatten().null_count
        if nulls and name not in nullable:
            raise InvalidStore(f"Column {name!r} of {shown} must have no nulls. Got {nulls}.")
        arrays.append(column)
    return pa.table(arrays, names=table.column_names)
