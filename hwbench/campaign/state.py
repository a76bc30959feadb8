"""What a store holds of a campaign: what was asked for, its plan, and what is measured already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from hwbench.architectures import Architecture, SearchSpace
from hwbench.errors import InvalidStore, InvalidValue, UnknownName
from hwbench.records import Store

_LATENCY = "latency_ms"


def recorded_campaign(
    asked: Mapping[str, Any], store: Store, space: SearchSpace
) -> dict[str, Any] | None:
    """What a store says of a campaign of the same device and space.

    Args:
        asked: What is asked for, `device` and `workload` among it, ready for JSON.
        store: The store.
        space: The space.

    Returns:
        Its plan, sessions and learning curve, or None where there is no such campaign.

    Raises:
        InvalidStore: The campaign is damaged.
        InvalidValue: It was asked for otherwise, the store knows another space by that name, or it
            holds observations of the device that are not a campaign's.
    """
    _check_space(store, space)
    device = asked["device"]
    found = store.campaign(device, space)
    if found is None:
        if store.metrics(device, space):
            raise InvalidValue(
                f"{store.path} holds observations of {device} in space {space.name} that no "
                "campaign took; give another store, or the device another name."
            )
        return None
    if not _whole(found):
        raise InvalidStore(f"{store.path} holds a damaged campaign of {device}.")
    before, now = _flat(found["asked"]), _flat(asked)
    for key, value in now.items():
        if before.get(key) != value:
            raise InvalidValue(
                f"{store.path} holds a campaign of {device} in space {space.name} "
                f"with {key} {before.get(key)}. Got {value} instead; give another store."
            )
    return found


def measured_so_far(
    store: Store, device: str, space: SearchSpace
) -> tuple[Counter[Architecture], dict[Architecture, float]]:
    """How often each architecture was measured or given up, and its first median latency.

    Args:
        store: The store.
        device: The device.
        space: The space.

    Returns:
        The counts, and the medians in milliseconds.

    Raises:
        InvalidStore: A file is damaged.
    """
    counts: Counter[Architecture] = Counter()
    medians: dict[Architecture, float] = {}
    frame = store.conditions(device, space)
    if frame is None and not store.metrics(device, space):
        return counts, medians
    recorded = store.architectures(space)
    by_id = dict(zip(recorded.arch_id.tolist(), recorded.table.architectures(), strict=True))
    # An append that was killed between two files may have left only one of the two.
    places: set[tuple[int, int, int]] = set()
    if frame is not None:
        rows = frame[["arch_id", "session", "position"]].itertuples(index=False, name=None)
        places |= {(int(a), int(s), int(p)) for a, s, p in rows}
    if "latency" in store.metrics(device, space):
        seen = store.observations(device, space, _LATENCY)
        if seen is not None:
            columns = (seen.arch_id.tolist(), seen.session.tolist(), seen.position.tolist())
            places |= set(zip(*columns, strict=True))
            for arch_id, median in zip(columns[0], seen.kept.medians, strict=True):
                medians.setdefault(by_id[arch_id], float(median))
    strangers = {arch_id for arch_id, _, _ in places} - by_id.keys()
    if strangers:
        raise InvalidStore(
            f"{store.path} must list every architecture that {device} has conditions of. "
            f"Got arch_id {min(strangers)}."
        )
    for arch_id, _, _ in places:
        counts[by_id[arch_id]] += 1
    return counts, medians


def _whole(state: dict[str, Any]) -> bool:
    """Whether what a store says of a campaign has the parts that are read, in their types."""
    types = {"asked": dict, "plan": dict, "sessions": list, "curve": list}
    if not all(isinstance(state.get(key), kind) for key, kind in types.items()):
        return False
    points = [(p.get("architectures"), p.get("mape")) for p in state["curve"] if type(p) is dict]
    numbers = all(type(n) is int and type(mape) is float for n, mape in points)
    return numbers and len(points) == len(state["curve"])


def _flat(asked: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked for, the fields of the workload among the rest."""
    workload = asked.get("workload")
    return {**asked, "workload": None, **(workload if isinstance(workload, dict) else {})}


def _check_space(store: Store, space: SearchSpace) -> None:
    """Refuse a space that the store knows under the same name with other choices.

    Raises:
        InvalidValue: It does.
    """
    try:
        known = store.space(space.name)
    except UnknownName:
        return
    if known != space:
        raise InvalidValue(
            f"{store.path} knows another space by the name of {space.name!r}; rename one of them, "
            "or give another store."
        )
