"""Advice on a transformer given by its sizes."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from hwbench.advise.propose import TOLERANCE, Proposal, proposals
from hwbench.advise.tables import (
    finding_rows,
    lost_ms,
    product_rows,
    proposal_rows,
    worst_first,
)
from hwbench.cost.rules import Finding, check
from hwbench.cost.step import Row, Step, Timer, memory_gb, step
from hwbench.cost.transformer import TransformerShape
from hwbench.devices import Hardware

_STEP_OF = {"train": "A training step", "forward": "A forward", "decode": "A decoding step"}


@dataclass(frozen=True, slots=True)
class ShapeAdvice:
    """What is to be said of a shape on a device.

    Attributes:
        step: The step as it is.
        findings: What each rule says.
        proposals: Other shapes of the same size, ranked.
    """

    step: Step
    findings: tuple[Finding, ...]
    proposals: tuple[Proposal, ...]

    @property
    def rows(self) -> list[Row]:
        """The products, the one that wastes most time first."""
        return worst_first(self.step.rows)

    @property
    def broken(self) -> tuple[Finding, ...]:
        """The broken rules."""
        return tuple(f for f in self.findings if f.state == "broken")

    def distinct(self, limit: int) -> list[Proposal]:
        """The faster proposals, of those that differ in the MLP's width alone only the best.

        Args:
            limit: How many at most.
        """
        seen: dict[tuple[int, ...], Proposal] = {}
        for p in self.proposals:
            sizes = (p.shape.hidden, p.shape.heads, p.shape.kv, p.shape.layers, p.shape.vocab)
            if p.gain > 0:
                seen.setdefault(sizes, p)
        return list(seen.values())[:limit]

    @property
    def verdict(self) -> list[str]:
        """What a reader should know first, one sentence a line."""
        return [*self._speed(), self._losses(), self._rules(), *self._best()]

    def to_dict(self, limit: int | None = None) -> dict[str, object]:
        """Everything as plain values, sizes under the flags' names.

        Args:
            limit: How many proposals at most; None for all.
        """
        made = self.step
        return {
            "device": made.hardware.name,
            "shape": {
                **asdict(made.shape),
                "kv_heads": made.shape.kv,
                "head_size": made.shape.head,
                "mlp_width": made.shape.width,
            },
            "parameters": made.shape.parameters,
            "memory_gb": round(memory_gb(made.shape), 3),
            "step_ms": round(made.time_us / 1e3, 4),
            "products_ms": round(made.products_us / 1e3, 4),
            "other_kernels_ms": round(made.others_us / 1e3, 4),
            "tokens_per_s": round(made.tokens_per_s, 1),
            "efficiency": round(made.efficiency, 4),
            "measured_share": round(made.measured_share, 4),
            "lost_ms": lost_ms(made.rows),
            "verdict": self.verdict,
            "gemms": product_rows(self.rows),
            "rules": finding_rows(self.findings, ("broken", "option", "kept", "not here")),
            "proposals": proposal_rows(self.proposals[:limit]),
        }

    def _speed(self) -> list[str]:
        made = self.step
        shape = made.shape
        evidence = "predicted"
        if made.measured_share:
            evidence = (
                f"{made.measured_share:.0%} of the products' time measured, the rest predicted"
            )
        lines = [
            (
                f"{_STEP_OF[shape.phase]} of {shape.parameters / 1e9:.3g} billion parameters takes "
                f"{made.time_us / 1e3:.4g} ms on {made.hardware.name} ({evidence}): "
                f"{made.tokens_per_s:,.0f} tokens a second, {made.efficiency:.0%} of the peak."
            )
        ]
        needs = memory_gb(shape)
        if needs > made.hardware.memory_gb:
            lines.append(
                f"It does not fit: weights and their state need {needs:.1f} GB of "
                f"{made.hardware.memory_gb:g} GB, activations not counted."
            )
        return lines

    def _losses(self) -> str:
        worst = self.rows[0]
        lost = lost_ms(self.step.rows)
        avoidable = [e for e in ("alignment", "tile", "wave") if lost.get(e, 0.0) > 0]
        parts = ", ".join(f"{lost[e]:.3g} ms to {e}" for e in avoidable) or "nothing to its shape"
        return (
            f"{worst.gemm.name} ({worst.gemm.role}) wastes most, {worst.wasted_us / 1e3:.3g} ms at "
            f"{worst.efficiency:.0%} of the peak; by the model, the products lose {parts}."
        )

    def _rules(self) -> str:
        names = ", ".join(f.rule.id for f in self.broken)
        here = [f for f in self.findings if f.state != "not here"]
        return f"{len(self.broken)} of {len(here)} rules broken{': ' + names if names else ''}."

    def _best(self) -> list[str]:
        good = [p for p in self.proposals if p.gain > 0]
        if not good:
            return ["No shape of about this size should be faster."]
        lines = [f"Fastest of {len(self.proposals)} shapes of this size: {_said(good[0])}."]
        single = next((p for p in good if len(p.changes) == 1), None)
        if single is not None and single is not good[0]:
            lines.append(f"Best single change: {_said(single)}.")
        return lines


def advise(
    shape: TransformerShape,
    hardware: Hardware,
    *,
    tolerance: float = TOLERANCE,
    measured: Timer | None = None,
) -> ShapeAdvice:
    """Advise on a shape: predict its step, hold it against every rule, rank other shapes.

    Args:
        shape: The model and the step.
        hardware: The device's figures.
        tolerance: How far proposals' parameters may be from the model's, as a share.
        measured: Looks up measured products, whose times go before predicted ones.

    Returns:
        The advice.

    Raises:
        InvalidValue: The tolerance is not in its range.

    >>> from hwbench.devices import hardware
    >>> gpt3 = TransformerShape(
    ...     hidden=2560, heads=32, layers=32, vocab=50257, seq=2048, microbatch=4
    ... )
    >>> [f.rule.id for f in advise(gpt3, hardware("a100")).broken]
    ['vocab-64', 'head-size-64']
    """
    return ShapeAdvice(
        step(shape, hardware, measured),
        check(shape, hardware),
        tuple(proposals(shape, hardware, tolerance=tolerance, measured=measured)),
    )


def _said(proposal: Proposal) -> str:
    changes = ", ".join(f"{name} {value}" for name, value in proposal.changes.items())
    return (
        f"{changes} ({proposal.gain:+.1%} throughput, {proposal.parameters_change:+.2%} parameters)"
    )
