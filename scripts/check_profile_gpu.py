"""A short check of profiling on an NVIDIA GPU; ten minutes at most.

    PYTHONPATH=. python3 scripts/check_profile_gpu.py --out RESULTS.jsonl

needs this repository, torch and numpy, with nvidia-ml-py for energy and clocks. It measures a plan
of 64 architectures of `s` and 16 architectures of `xl` at their recorded workloads, the energy of a
few by the counter and by integrated power, and a few in the decode and train phases. Each result is
a line of JSON that is written at once. On a machine with hwbench installed,

    python scripts/check_profile_gpu.py --store STORE --device-name h200 --out RESULTS.jsonl

makes a record store of the lines.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hwbench.architectures import Architecture, SearchSpace, space
from hwbench.campaign.plan import make_plan
from hwbench.measure.protocol import Protocol
from hwbench.measure.setup import Outcome, Reading, Setup

SECONDS = {"s": 330, "xl": 130, "energy": 40, "decode": 40, "train": 40}
"""How long each part may take before the next one begins."""

HIDDEN = ("readings", "windows", "before", "after", "card", "setup")
"""What is in the file alone."""

QUICK = Protocol(max_warmup=3, min_repeats=2, min_time_s=1e-3, max_repeats=2)
"""How often a pass of a dry run is run."""


class Results:
    """Lines of JSON in a file."""

    def __init__(self, path: Path) -> None:
        """Append to a file."""
        self.path = path
        self.begun = time.perf_counter()

    def write(self, part: str, **values: Any) -> None:
        """Write one line, and show it in short."""
        line = {"part": part, "at_s": round(time.perf_counter() - self.begun, 3), **values}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        shown = {k: v for k, v in line.items() if k not in HIDDEN}
        print(json.dumps(shown), flush=True)


def parts(setup_of: Any) -> Iterator[tuple[str, SearchSpace, Setup, list[Architecture]]]:
    """What is measured: the part's name, its space, its setup and its architectures."""
    s, xl = space("s"), space("xl")
    plan = make_plan(s)
    planned = [plan.anchor]
    for i, item in enumerate(plan.items, 1):
        planned.append(item.architecture)
        if i % 8 == 0:
            planned.append(plan.anchor)
    yield "s", s, setup_of(s), planned
    yield "xl", xl, setup_of(xl), [xl.largest, xl.smallest, *xl.sample(14, seed=0)]
    few = [s.smallest, s.largest, *s.sample(4, seed=1)]
    yield "decode", s, setup_of(s, phase="decode", seq_len=512, dtype="bfloat16"), few
    yield "train", s, setup_of(s, phase="train"), few


def plain(outcome: Outcome) -> dict[str, Any]:
    """An outcome for JSON, with its median latency in front."""
    latency = outcome.readings["latency_ms"]
    median = statistics.median(latency.values) if isinstance(latency, Reading) else None
    readings = {name: asdict(found) for name, found in outcome.readings.items()}
    states = {"before": asdict(outcome.before), "after": asdict(outcome.after)}
    return {"latency_ms": median, "measured_s": outcome.measured_s, "readings": readings, **states}


def check(out: Path, device: str, *, dry_run: bool) -> None:
    """Measure every part, each within its time."""
    from hwbench.measure.instruments import Instruments

    def setup_of(owner: SearchSpace, **more: Any) -> Setup:
        small = {"batch_size": 1, "seq_len": 16, "protocol": QUICK} if dry_run else {}
        return Setup.of_space(owner, device, **{**more, **small})

    results = Results(out)
    for part, owner, setup, architectures in parts(setup_of):
        start = time.perf_counter()
        bench = Instruments.open(setup)
        results.write("card", of=part, card=bench.card(), setup=asdict(setup))
        done, measured_s = 0, 0.0
        for arch in [owner.smallest] * 2 if dry_run else architectures:
            if time.perf_counter() - start > SECONDS[part]:
                break
            began = time.perf_counter()
            try:
                outcome = bench.measure(arch)
            except RuntimeError as error:  # one that fails must not cost the others
                results.write("failed", of=part, arch=str(arch), reason=str(error))
                continue
            wall_s = time.perf_counter() - began
            done, measured_s = done + 1, measured_s + outcome.measured_s
            results.write(part, space=owner.name, arch=str(arch), wall_s=wall_s, **plain(outcome))
        wall_s = time.perf_counter() - start
        results.write(
            "summary", of=part, measured=done, wall_s=wall_s, overhead=1 - measured_s / wall_s
        )
        if part == "s" and not dry_run:
            compare_energy(results, setup)


def compare_energy(results: Results, setup: Setup) -> None:
    """The energy of the same passes by NVML's counter and by its power, integrated."""
    import torch

    from hwbench.errors import Unsupported
    from hwbench.measure import nvml
    from hwbench.measure.energy import EnergyMeter, EnergyProtocol, NvmlCounter, NvmlPower
    from hwbench.measure.environment import cuda_uuid
    from hwbench.measure.passes import make_pass

    device, protocol = torch.device(setup.device), EnergyProtocol(min_window_s=2.0)
    start, owner = time.perf_counter(), space("s")
    try:
        found = nvml.NvmlDevice.find(nvml.load(), device.index or 0, cuda_uuid(device))
        meters = [EnergyMeter(kind(found), protocol) for kind in (NvmlCounter, NvmlPower)]
    except Unsupported as error:
        results.write("energy", reason=str(error))
        return
    for arch in (owner.smallest, owner.largest, *owner.sample(3, seed=2)):
        if time.perf_counter() - start > SECONDS["energy"]:
            break
        run = make_pass(arch, setup)

        def waited(run: Any = run) -> None:
            run()
            torch.cuda.synchronize(device)

        waited()
        windows: dict[str, list[dict[str, Any]]] = {meter.source.name: [] for meter in meters}
        try:
            for meter in (*meters, *meters[::-1]):  # there and back, since a card warms up
                windows[meter.source.name].append(asdict(meter.window(waited)))
        except Unsupported as error:
            results.write("energy", arch=str(arch), reason=str(error))
            continue
        counter, power = (sum(w["energy_j"] for w in windows[m.source.name]) for m in meters)
        results.write("energy", arch=str(arch), power_over_counter=power / counter, windows=windows)


def make_store(lines: Path, store: Path, device_name: str) -> None:
    """A record store of the results."""
    from hwbench.measure.nvml import DeviceState
    from hwbench.measure.setup import Absent
    from hwbench.records import Condition, Readings, StoreWriter

    writer = StoreWriter.create(
        store,
        name=f"check-{device_name}",
        source=f"scripts/check_profile_gpu.py on {device_name}",
        licence="Apache-2.0",
    )
    setups: dict[str, Setup] = {}
    position = 0
    for line in map(json.loads, lines.read_text("utf-8").splitlines()):
        if line["part"] == "card":
            given = {k: v for k, v in line["setup"].items() if k not in ("protocol", "energy")}
            setups[line["of"]] = Setup(**given)
        if line["part"] not in setups or "readings" not in line:
            continue
        arch = Architecture.parse(line["arch"])
        before, after = (DeviceState(**line[k]) for k in ("before", "after"))
        readings, conditions = [], []
        for name, values in line["readings"].items():
            found = Reading(**values) if "values" in values else Absent(**values)
            place: dict[str, Any] = {
                "device": device_name,
                "workload": setups[line["part"]].workload(found.method),
                "session": 0,
                "position": position,
            }
            if isinstance(found, Reading):
                readings.append(Readings.one(arch, name, found.values, **place))
                more: dict[str, Any] = {
                    "warmup_values": found.warmup,
                    "energy_window_s": found.window_s,
                    "energy_passes": found.passes,
                    "energy_counter": found.counter,
                }
            else:
                more = {"status": found.status, "reason": found.reason}
            state = {
                "clock_sm_before_mhz": before.clock_sm_mhz,
                "clock_memory_before_mhz": before.clock_memory_mhz,
                "temperature_before_c": before.temperature_c,
                **{k: v for k, v in asdict(after).items() if k != "throttle"},
                "throttle": after.throttle or before.throttle,
            }
            conditions.append(Condition(architecture=arch, **place, **state, **more))
        writer.append(*readings, conditions=conditions)
        position += 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="the lines of JSON")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument(
        "--store", type=Path, help="make this store of the lines and measure nothing"
    )
    parser.add_argument("--device-name", default="gpu", help="what the store calls the device")
    parser.add_argument("--dry-run", action="store_true", help="two small ones of each part")
    asked = parser.parse_args()
    if asked.store is not None:
        make_store(asked.out, asked.store, asked.device_name)
    else:
        check(asked.out, asked.device, dry_run=asked.dry_run)
