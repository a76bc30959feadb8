"""Advice on an architecture of our spaces: which layers waste most, and its neighbours."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from hwbench.advise.propose import TOLERANCE
from hwbench.advise.tables import finding_rows, lost_ms, product_rows, worst_first
from hwbench.architectures import Architecture, ArchitectureTable
from hwbench.cost.closed_form import count, count_table
from hwbench.cost.forward import Setting, architecture_gemms, forward_ms, layer_shape, layer_time
from hwbench.cost.gpu import Estimate, estimate
from hwbench.cost.rules import Finding, check
from hwbench.cost.step import Row, Timer
from hwbench.cost.transformer import layer_gemms
from hwbench.devices import Hardware, hardware
from hwbench.errors import InvalidArchitecture, brief, invalid

# The others are about choices that no search space offers.
_RULES = ("vocab-64", "head-size-64", "tokens-64", "hidden-64", "mlp-width-64", "wave")


@dataclass(frozen=True, slots=True)
class LayerRow:
    """One layer of an architecture.

    Attributes:
        layer: Its number, from 0.
        heads: Its heads.
        mlp_ratio: Its MLP ratio.
        time_us: Predicted time of all its kernels.
        efficiency: Share of the peak that its products' FLOPs make of that time.
        wasted_us: What is beyond the time that its FLOPs would need at the peak.
        worst: The product that wastes most.
    """

    layer: int
    heads: int
    mlp_ratio: int
    time_us: float
    efficiency: float
    wasted_us: float
    worst: Estimate


@dataclass(frozen=True, slots=True)
class Neighbour:
    """An architecture that differs in one choice.

    Attributes:
        arch: The architecture.
        change: The choice that differs, in words.
        gain: Predicted throughput over that of the architecture, less 1.
        parameters_change: Its parameters over those of the architecture, less 1.
    """

    arch: Architecture
    change: str
    gain: float
    parameters_change: float


@dataclass(frozen=True, slots=True)
class ArchitectureAdvice:
    """What is to be said of an architecture on a device.

    Attributes:
        arch: The architecture.
        hardware: The device's figures.
        setting: How it is run.
        forward_ms: Predicted time of one forward.
        rows: The products, the worst first.
        layers: The layers, the one that wastes most first.
        findings: What the rules say that are about a space's choices, and the vocabulary.
        neighbours: Architectures that differ in one choice and not much in size, ranked.
    """

    arch: Architecture
    hardware: Hardware
    setting: Setting
    forward_ms: float
    rows: tuple[Row, ...]
    layers: tuple[LayerRow, ...]
    findings: tuple[Finding, ...]
    neighbours: tuple[Neighbour, ...]

    @property
    def verdict(self) -> list[str]:
        """What a reader should know first, one sentence a line."""
        products = sum(row.total_us for row in self.rows) / 1e3
        setting = self.setting
        lines = [
            (
                f"One forward of {setting.batch_size} x {setting.seq_len} tokens takes "
                f"{self.forward_ms:.4g} ms on {self.hardware.name} by the model of the hardware, "
                f"{products / self.forward_ms:.0%} of it in matrix products."
            )
        ]
        lines += lines_of(self.layers)[:3]
        broken = [f.rule.id for f in self.findings if f.state == "broken"]
        lines.append(
            f"{len(broken)} of {len(self.findings)} rules broken"
            f"{': ' + ', '.join(broken) if broken else ''}."
        )
        good = [n for n in self.neighbours if n.gain > 0]
        if good:
            best = good[0]
            lines.append(
                f"Fastest neighbour of this size: {best.change} ({best.gain:+.1%} throughput, "
                f"{best.parameters_change:+.2%} parameters)."
            )
        else:
            lines.append("No neighbour of this size should be faster.")
        return lines

    def to_dict(self, limit: int | None = None) -> dict[str, object]:
        """Everything as plain values.

        Args:
            limit: How many neighbours at most; None for all.
        """
        return {
            "device": self.hardware.name,
            "architecture": str(self.arch),
            "block": self.setting.block,
            "batch_size": self.setting.batch_size,
            "seq_len": self.setting.seq_len,
            "dtype": self.setting.dtype,
            "autocast": self.setting.autocast,
            "forward_ms": round(self.forward_ms, 5),
            "lost_ms": lost_ms(self.rows),
            "verdict": self.verdict,
            "layers": self.layer_rows(),
            "gemms": product_rows(self.rows),
            "rules": finding_rows(self.findings, ("broken", "option", "kept", "not here")),
            "proposals": self.neighbour_rows(limit),
        }

    def layer_rows(self) -> list[dict[str, object]]:
        """One row a layer, the one that wastes most first."""
        return [
            {
                "layer": row.layer,
                "heads": row.heads,
                "mlp_ratio": row.mlp_ratio,
                "time_ms": round(row.time_us / 1e3, 4),
                "efficiency": round(row.efficiency, 4),
                "wasted_ms": round(row.wasted_us / 1e3, 4),
                "worst_gemm": row.worst.gemm.name,
                "loses_most_to": row.worst.largest_loss,
            }
            for row in self.layers
        ]

    def neighbour_rows(self, limit: int | None = None) -> list[dict[str, object]]:
        """One row a neighbour, the fastest first."""
        return [
            {
                "change": n.change,
                "gain": round(n.gain, 5),
                "parameters_change": round(n.parameters_change, 5),
                "architecture": str(n.arch),
            }
            for n in self.neighbours[:limit]
        ]


def recorded_setting(arch: Architecture, figures: Hardware, block: str = "hwgpt") -> Setting:
    """The setting that HW-GPT-Bench recorded in an architecture's space.

    Its batch and sequence, under autocast to bfloat16 where the device has it and else to float16.
    """
    space = arch.search_space
    dtype = "bfloat16" if figures.generation in ("ampere", "hopper") else "float16"
    return Setting(
        block=block, batch_size=space.batch_size, seq_len=space.seq_len, dtype=dtype, autocast=True
    )


def advise_architecture(
    arch: Architecture,
    device: str | Hardware,
    *,
    setting: Setting | None = None,
    tolerance: float = TOLERANCE,
    measured: Timer | None = None,
) -> ArchitectureAdvice:
    """Advise on an architecture.

    Args:
        arch: The architecture.
        device: A device's name, the path of a file of figures, or the figures.
        setting: How it is run; unless given, as HW-GPT-Bench recorded it.
        tolerance: How far neighbours' parameters may be from the architecture's, as a share.
        measured: Looks up measured products, shown in place of predicted ones.

    Returns:
        The advice.

    Raises:
        InvalidArchitecture: `arch` is no `Architecture`.
        InvalidValue: The tolerance is not in [0, 0.5].
        UnknownName: No such device.
        Unsupported: The catalogue holds no figures of the device.
    """
    if not isinstance(arch, Architecture):
        raise InvalidArchitecture(
            f"The 'arch' parameter of advise_architecture must be an Architecture. "
            f"Got {brief(arch)} instead."
        )
    if not 0 <= tolerance <= 0.5:
        raise invalid("tolerance", "advise_architecture", "a number in [0, 0.5]", tolerance)
    figures = device if isinstance(device, Hardware) else hardware(device)
    how = setting or recorded_setting(arch, figures)
    rows = tuple(
        Row(estimate(gemm, figures, how.dtype), measured(gemm) if measured else None)
        for gemm in architecture_gemms(arch, how)
    )
    return ArchitectureAdvice(
        arch,
        figures,
        how,
        float(forward_ms(ArchitectureTable.of([arch]), figures, how)[0]),
        tuple(worst_first(rows)),
        tuple(sorted(_layer_rows(arch, figures, how), key=lambda r: (-r.wasted_us, r.layer))),
        tuple(_findings(arch, figures, how)),
        tuple(_neighbours(arch, figures, how, tolerance)),
    )


def explain(
    arch: Architecture,
    device: str | Hardware,
    lines: int = 3,
    *,
    setting: Setting | None = None,
) -> list[str]:
    """Which layers waste most of a forward's time, and why, one line each.

    Args:
        arch: The architecture.
        device: A device's name, the path of a file of figures, or the figures.
        lines: How many lines at most.
        setting: How it is run; unless given, as HW-GPT-Bench recorded it.

    Returns:
        The lines, the worst layer's first; equal layers share one.

    Raises:
        UnknownName: No such device.
        Unsupported: The catalogue holds no figures of the device, as of a CPU.

    >>> from hwbench.architectures import space
    >>> print(explain(space("s").largest, "h100")[0].split(":")[0])
    layers 0-11 (12 heads, ratio 4)
    """
    figures = device if isinstance(device, Hardware) else hardware(device)
    how = setting or recorded_setting(arch, figures)
    return lines_of(_layer_rows(arch, figures, how))[:lines]


def lines_of(rows: Iterable[LayerRow]) -> list[str]:
    """Layers in one line each, those that are alike together, the worst first."""
    kinds: dict[tuple[int, int], list[LayerRow]] = {}
    for row in sorted(rows, key=lambda row: row.layer):
        kinds.setdefault((row.heads, row.mlp_ratio), []).append(row)
    ranked = sorted(kinds.values(), key=lambda same: (-same[0].wasted_us, same[0].layer))
    return [line_of(same[0], [row.layer for row in same]) for same in ranked]


def line_of(row: LayerRow, layers: list[int]) -> str:
    """Layers that are alike in one line, the first standing for all."""
    many = len(layers) > 1
    name = f"layers {_runs(layers)}" if many else f"layer {row.layer}"
    worst, each = row.worst, " each" if many else ""
    return (
        f"{name} ({row.heads} heads, ratio {row.mlp_ratio}): {row.time_us / 1e3:.3g} ms{each} at "
        f"{row.efficiency:.0%} of the peak; {worst.gemm.name} {worst.gemm.m} x {worst.gemm.n} x "
        f"{worst.gemm.k} loses most, to {worst.largest_loss}"
    )


def _runs(layers: list[int]) -> str:
    """Numbers in order as runs.

    >>> _runs([0, 1, 2, 5])
    '0-2, 5'
    """
    runs: list[list[int]] = []
    for layer in layers:
        if runs and layer == runs[-1][-1] + 1:
            runs[-1].append(layer)
        else:
            runs.append([layer])
    return ", ".join(str(r[0]) if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in runs)


def _layer_rows(arch: Architecture, figures: Hardware, how: Setting) -> list[LayerRow]:
    space, found = arch.search_space, []
    for layer, (heads, ratio) in enumerate(zip(arch.n_head, arch.mlp_ratio, strict=True)):
        shape = layer_shape(space, arch.embed_dim, heads, ratio, how)
        made = [estimate(g, figures, how.dtype) for g in layer_gemms(shape)]
        time = layer_time(space, arch.embed_dim, heads, ratio, figures, how, arch.bias).total_us
        ideal = sum(e.ideal_us * e.gemm.count for e in made)
        worst = max(made, key=lambda e: (e.time_us - e.ideal_us) * e.gemm.count)
        found.append(LayerRow(layer, heads, ratio, time, ideal / time, time - ideal, worst))
    return found


def _findings(arch: Architecture, figures: Hardware, how: Setting) -> list[Finding]:
    """What the rules say of the kinds of layer, the first broken finding of each rule."""
    found: dict[str, Finding] = {}
    for heads, ratio in sorted(set(zip(arch.n_head, arch.mlp_ratio, strict=True))):
        shape = layer_shape(arch.search_space, arch.embed_dim, heads, ratio, how)
        for finding in check(shape, figures):
            seen = found.get(finding.rule.id)
            if finding.rule.id in _RULES and (seen is None or seen.state != "broken"):
                found[finding.rule.id] = finding
    return [found[rule] for rule in _RULES if rule in found]


def _neighbours(
    arch: Architecture, figures: Hardware, how: Setting, tolerance: float
) -> list[Neighbour]:
    others = list(arch.search_space.neighbours(arch))
    if not others:
        return []
    table = ArchitectureTable.of([arch, *others])
    times = forward_ms(table, figures, how)
    sizes = count_table(table, block=how.block).params / count(arch, block=how.block).params - 1
    near = np.flatnonzero(np.abs(sizes[1:]) <= tolerance).tolist()
    found = [
        Neighbour(
            others[i],
            _change(arch, others[i]),
            float(times[0] / times[i + 1] - 1),
            float(sizes[i + 1]),
        )
        for i in near
    ]
    return sorted(found, key=lambda n: -n.gain)


def _change(arch: Architecture, other: Architecture) -> str:
    for name in ("embed_dim", "n_layer", "bias"):
        if getattr(arch, name) != getattr(other, name):
            return f"{name} {getattr(other, name)}"
    for name, word in (("n_head", "heads"), ("mlp_ratio", "mlp_ratio")):
        for layer, (a, b) in enumerate(zip(getattr(arch, name), getattr(other, name), strict=True)):
            if a != b:
                return f"{word} {b} in layer {layer}"
    return "nothing"
