"""`hwbench profile`: measure a device of one's own into a record store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hwbench.cli.options import JsonOption, example
from hwbench.cli.output import print_json, print_rows, print_text
from hwbench.cli.progress import progress

if TYPE_CHECKING:
    from hwbench.campaign import Campaign, Summary


def register(app: typer.Typer) -> None:
    """Put the command into the app."""
    lines = (
        "hwbench profile --space s --device-name my-gpu --device cuda:0 --out my-store",
        "hwbench profile --space s --device-name my-cpu --batch-size 1 --seq-len 64 --out my-store",
    )
    app.command(epilog=example(*lines))(profile)


def profile(
    space: Annotated[str, typer.Option(help="A space's name, or a TOML file of one's own.")],
    device_name: Annotated[
        str, typer.Option(help="What the device is called in the store and in queries.")
    ],
    out: Annotated[
        Path, typer.Option(metavar="STORE", help="The record store; a campaign in it goes on.")
    ],
    device: Annotated[str, typer.Option(help="cpu, or cuda:<index>.")] = "cpu",
    budget: Annotated[int, typer.Option(help="Architectures to fit on.")] = 64,
    tests: Annotated[
        int, typer.Option(help="Further ones to be scored on, measured in two passes.")
    ] = 0,
    until: Annotated[
        str | None,
        typer.Option(help="Stop at this cross-validated error, such as 0.5%.", show_default=False),
    ] = None,
    block: Annotated[str, typer.Option(help="hwgpt, which was recorded, or gpt2.")] = "hwgpt",
    phase: Annotated[str, typer.Option(help="forward, decode or train.")] = "forward",
    batch_size: Annotated[
        int | None, typer.Option(help="Sequences a pass; the space's unless given.")
    ] = None,
    seq_len: Annotated[
        int | None, typer.Option(help="Tokens a sequence; the space's unless given.")
    ] = None,
    new_tokens: Annotated[
        int | None, typer.Option(help="Tokens that a decoding pass generates; 32 unless given.")
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            help="float32, bfloat16, float16, autocast-bfloat16 or autocast-float16; what was "
            "recorded on such a device unless given."
        ),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="Threads on a CPU; torch's own choice unless given.")
    ] = None,
    min_repeats: Annotated[int, typer.Option(help="Repeats of a pass at least.")] = 10,
    min_time: Annotated[float, typer.Option(help="Seconds that repeats take at least.")] = 1.0,
    peak_memory: Annotated[
        bool,
        typer.Option(
            "--peak-memory", help="On a CPU: peak resident memory too, in a process for each."
        ),
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of the plan.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Measure a device of one's own on a few architectures of a space.

    The same command goes on after an interrupt and measures nothing twice. Fit what was measured
    with `hwbench fit`, and query it with `hwbench query --artifacts`.
    """
    from hwbench.architectures import space as space_of
    from hwbench.campaign import Campaign
    from hwbench.measure.protocol import Protocol
    from hwbench.measure.setup import Setup

    owner = space_of(space)
    setup = Setup.of_space(
        owner,
        device,
        dtype=dtype,
        batch_size=batch_size,
        seq_len=seq_len,
        phase=phase,
        new_tokens=new_tokens,
        block=block,
        threads=threads,
        peak_memory=peak_memory,
        protocol=Protocol(
            min_repeats=min_repeats,
            max_repeats=max(200, min_repeats),
            min_time_s=min_time,
            max_time_s=max(60.0, min_time),
        ),
    )
    campaign = Campaign(
        space=owner,
        device_name=device_name,
        setup=setup,
        budget=budget,
        tests=tests,
        until=_percent(until),
        seed=seed,
    )
    summary = _run(campaign, out)
    if as_json:
        print_json(_plain(summary))
        return
    _say(summary, out, device_name, space)


def _run(campaign: Campaign, out: Path) -> Summary:
    from hwbench.campaign import run_campaign

    with progress("measuring", total=campaign.budget + 2 * campaign.tests) as advance:
        return run_campaign(campaign, out, progress=lambda done, total: advance())


def _percent(text: str | None) -> float | None:
    from hwbench.errors import invalid

    if text is None:
        return None
    try:
        return float(text.strip().removesuffix("%"))
    except ValueError:
        raise invalid("until", "profile", "a percentage such as 0.5%", text) from None


def _plain(summary: Summary) -> dict[str, Any]:
    return {
        "measured": summary.measured,
        "failed": summary.failed,
        "remaining": summary.remaining,
        "wall_s": summary.wall_s,
        "overhead": summary.overhead,
        "stopped_early": summary.stopped_early,
        "learning_curve": [
            {"architectures": p.architectures, "error_percent": p.mape} for p in summary.curve
        ],
        "absent": summary.absent,
    }


def _say(summary: Summary, out: Path, device: str, space: str) -> None:
    """Print how it went; the space as it was given, a file of one's own for instance."""
    print_text(
        f"Measured {summary.measured} times in {summary.wall_s:.0f} s, "
        f"{100 * summary.overhead:.0f}% of it overhead; {summary.failed} failed, "
        f"{summary.remaining} of the plan remain."
    )
    if summary.stopped_early:
        print_text("Stopped early: the cross-validated error is under the target.")
    for name, reason in summary.absent.items():
        print_text(f"No {name}: {reason}.")
    if summary.curve:
        print_text("Cross-validated error:")
        print_rows(
            [
                {"architectures": p.architectures, "error_percent": round(p.mape, 3)}
                for p in summary.curve
            ],
            as_json=False,
        )
    if summary.measured and summary.failed == summary.measured:
        return  # there is nothing to fit
    print_text(
        f"Next: hwbench fit --store {out} --out my-artifacts, then hwbench query --artifacts "
        f"my-artifacts --space {space} --device {device} --arch random."
    )
