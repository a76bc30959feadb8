"""The registry of metrics: name, unit, direction and what is needed to answer for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from hwbench.errors import invalid, unknown


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric of the API.

    Attributes:
        name: The name in the API.
        field: The name in a record store, where the unit is spelled.
        unit: The unit of every number of this metric.
        better: Whether a smaller or a larger value is better.
        needs_device: Whether the value belongs to a device.
        source: "surrogate" where a fitted model answers, "analytic" where a closed form does.
        description: One line for a listing.
        aliases: Other names that are accepted, HW-GPT-Bench's among them.
    """

    name: str
    field: str
    unit: str
    better: Literal["lower", "higher"]
    needs_device: bool
    source: Literal["surrogate", "analytic"]
    description: str
    aliases: tuple[str, ...] = ()


_ALL = (
    Metric(
        "latency",
        "latency_ms",
        "ms",
        "lower",
        True,
        "surrogate",
        "time of one forward; the workload says which clock",
        ("latencies", "latency_ms"),
    ),
    Metric(
        "energy",
        "energy_j",
        "J",
        "lower",
        True,
        "surrogate",
        "energy of one forward; the workload says which meter",
        ("energies", "energy_j"),
    ),
    Metric(
        "memory",
        "memory_mb",
        "MB",
        "lower",
        True,
        "surrogate",
        "device memory still allocated after a forward, 1 MB = 10^6 bytes; not a peak",
        ("float16_memory", "bfloat16_memory", "memory_mb"),
    ),
    Metric(
        "perplexity",
        "perplexity",
        "",
        "lower",
        False,
        "surrogate",
        "perplexity of the subnetwork cut from the trained supernet",
        ("ppl",),
    ),
    Metric(
        "accuracy",
        "accuracy",
        "fraction",
        "higher",
        False,
        "surrogate",
        "share of next tokens that the subnetwork predicts",
    ),
    Metric("params", "params", "parameters", "lower", False, "analytic", "number of parameters"),
    Metric(
        "macs",
        "macs",
        "MAC",
        "lower",
        False,
        "analytic",
        "multiply-accumulates of one forward, matrix products with weights only",
    ),
    Metric(
        "flops",
        "flops",
        "FLOP",
        "lower",
        False,
        "analytic",
        "2 x macs; attention's own products are not counted",
    ),
)

METRICS: Mapping[str, Metric] = MappingProxyType({m.name: m for m in _ALL})
"""All metrics of the API by name, in the order in which they are listed."""

_ALIASES = {alias: m for m in _ALL for alias in m.aliases}


def metric(name: str) -> Metric:
    """The metric of that name or alias.

    Args:
        name: A name from `METRICS`, or an alias such as HW-GPT-Bench's "latencies".

    Returns:
        The `Metric`.

    Raises:
        InvalidValue: The name is no text.
        UnknownName: No metric bears the name.

    >>> metric("latencies").unit
    'ms'
    """
    if not isinstance(name, str):
        raise invalid("metric", "metric", "a str", name)
    found = METRICS.get(name) or _ALIASES.get(name)
    if found is None:
        raise unknown("metric", name, METRICS)
    return found
