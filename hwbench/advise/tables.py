"""Rows for a reader or a program: products, findings and proposals as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hwbench.advise.propose import FIELDS, Proposal
from hwbench.cost.rules import Finding
from hwbench.cost.step import Row


def worst_first(rows: Iterable[Row]) -> list[Row]:
    """Products by the time that they waste, the worst first."""
    return sorted(rows, key=lambda row: -row.wasted_us)


def product_rows(rows: Iterable[Row]) -> list[dict[str, object]]:
    """One row a product: its size, its time, and which effect costs most."""
    return [
        {
            "gemm": row.gemm.name,
            "role": row.gemm.role,
            "m": row.gemm.m,
            "n": row.gemm.n,
            "k": row.gemm.k,
            "batch": row.gemm.batch,
            "count": row.gemm.count,
            "gflop": round(row.gemm.total_flops / 1e9, 3),
            "time_ms": round(row.total_us / 1e3, 4),
            "source": "predicted" if row.measured_us is None else "measured",
            "efficiency": round(row.efficiency, 4),
            "wasted_ms": round(row.wasted_us / 1e3, 4),
            "loses_most_to": row.estimate.largest_loss,
            "bound": row.estimate.bound,
            "waves": row.estimate.waves or None,
        }
        for row in rows
    ]


def lost_ms(rows: Iterable[Row]) -> dict[str, float]:
    """Milliseconds that each effect costs in a step, as the model of the hardware has it."""
    lost: dict[str, float] = {}
    for row in rows:
        for effect, us in row.estimate.lost_us.items():
            lost[effect] = lost.get(effect, 0.0) + us * row.gemm.count / 1e3
    return {effect: round(ms, 4) for effect, ms in sorted(lost.items(), key=lambda e: -e[1])}


def finding_rows(findings: Iterable[Finding], states: Sequence[str]) -> list[dict[str, object]]:
    """One row a rule whose finding is in one of these states."""
    return [
        {
            "rule": f.rule.id,
            "state": f.state,
            "field": f.field,
            "got": f.got,
            "nearest": list(f.nearest),
            "detail": f.detail,
            "says": f.rule.says,
            "reason": f.rule.reason,
            "holds_in": [*f.rule.phases, *(f"{a} attention" for a in f.rule.attentions)],
            "source": f.rule.source,
        }
        for f in findings
        if f.state in states
    ]


def proposal_rows(found: Iterable[Proposal]) -> list[dict[str, object]]:
    """One row a proposal: its sizes under the flags' names, its changes and what they bring."""
    rows = []
    for proposal in found:
        shape = proposal.shape
        sizes = {name: getattr(shape, name) for name in FIELDS[:-1]}
        rows.append(
            {
                **{name: value for name, value in sizes.items() if value is not None},
                "mlp_width": shape.width,
                "head_size": shape.head,
                "changes": dict(proposal.changes),
                "parameters": shape.parameters,
                "parameters_change": round(proposal.parameters_change, 5),
                "tokens_per_s": round(proposal.step.tokens_per_s, 1),
                "gain": round(proposal.gain, 5),
            }
        )
    return rows
