"""The environment card: on what machine, with what software, a session measured."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

_LIBRARIES = ("hwbench", "torch", "numpy", "nvidia-ml-py")
_ROOT = Path("/")


def environment_card(root: Path = _ROOT) -> dict[str, Any]:
    """What can be said of this machine without its device.

    Args:
        root: The root of the file system that /proc and /sys are read from.

    Returns:
        System, Python, library versions, CPU model, cores, governor, load and memory, ready for
        JSON; None for what the machine does not tell.
    """
    return {
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "python": platform.python_version(),
        "libraries": {name: _version(name) for name in _LIBRARIES},
        "cpu": {
            "model": _field(root / "proc/cpuinfo", "model name"),
            "cores": os.cpu_count(),
            "usable_cores": len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count(),
            "governor": _line(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            "hypervisor": _line(root / "sys/hypervisor/type")
            or ("yes" if "hypervisor" in (_field(root / "proc/cpuinfo", "flags") or "") else None),
        },
        "load_average": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
        "memory": _field(root / "proc/meminfo", "MemTotal"),
    }


def torch_card(device: Any) -> dict[str, Any]:
    """What torch says of a device and of how it computes: threads, build, and on CUDA the card.

    Args:
        device: A `torch.device`.
    """
    import torch

    found: dict[str, Any] = {
        "torch_device": str(device),
        "threads": torch.get_num_threads(),
        "cuda": torch.version.cuda,
    }
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        found |= {
            "name": properties.name,
            "uuid": cuda_uuid(device),
            "capability": f"{properties.major}.{properties.minor}",
            "memory_mb": properties.total_memory / 1e6,
            "allow_tf32": torch.backends.cuda.matmul.allow_tf32,
        }
    return found


def cuda_uuid(device: Any) -> str | None:
    """The UUID that CUDA gives a device; None before torch 2.4, which does not pass it on."""
    import torch

    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
    return None if uuid is None else str(uuid)


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _line(path: Path) -> str | None:
    try:
        return path.read_text("utf-8").strip() or None
    except OSError:
        return None


def _field(path: Path, name: str) -> str | None:
    """The first value of a "name : value" file."""
    for line in (_line(path) or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return None
