"""`hwbench supernet`: train a supernet, score subnetworks, extract one, describe a checkpoint."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hwbench.cli.architectures import architecture_of, architectures_in
from hwbench.cli.options import JsonOption, example
from hwbench.cli.output import print_json, print_rows, print_text
from hwbench.cli.progress import progress
from hwbench.errors import InvalidValue

if TYPE_CHECKING:
    from hwbench.architectures import Architecture
    from hwbench.supernet import Data, Perplexity, Supernet, Windows

_DIGITS = 12  # of a hash, where it is shown in short

CheckpointOption = Annotated[
    str,
    typer.Option(
        metavar="DIR",
        help="A Hugging Face checkpoint of GPT-2, its name on the hub, or a supernet.",
    ),
]
SpaceOption = Annotated[
    str | None,
    typer.Option(help="A space's name, or a TOML file; by the checkpoint's size unless given."),
]
WidthsOption = Annotated[
    str | None,
    typer.Option(
        help="Channels, heads and neurons that a slice keeps: prefix or importance; prefix, or the "
        "supernet's own, unless given."
    ),
]
LayersOption = Annotated[
    str | None,
    typer.Option(
        help="Layers that a slice keeps: prefix or strided; prefix, or the supernet's own, unless "
        "given."
    ),
]
CalibrationOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Text or tokens to sort by importance with.")
]
TokenizerOption = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH",
        help="A tokenizer.json, or a folder with one; the checkpoint's unless given.",
    ),
]
DeviceOption = Annotated[
    str | None, typer.Option(help="cpu or cuda:<index>; a GPU where there is one unless given.")
]


def register(app: typer.Typer) -> None:
    """Put the commands into the app."""
    group = typer.Typer(
        rich_markup_mode=None, help="Perplexity of any subnetwork of a GPT-2, by weight sharing."
    )
    data = "--data wiki.txt"
    for name, command, lines in (
        (
            "train",
            train,
            (f"hwbench supernet train --checkpoint gpt2 {data} --out my-supernet --distill",),
        ),
        (
            "eval",
            evaluate,
            (
                f"hwbench supernet eval --checkpoint my-supernet {data} --arch random --seed 0",
                f"hwbench supernet eval --checkpoint my-supernet {data} --sample 200 --out quality",
            ),
        ),
        (
            "extract",
            extract,
            ("hwbench supernet extract --checkpoint my-supernet --arch random --out my-model",),
        ),
        ("describe", describe, ("hwbench supernet describe my-supernet",)),
    ):
        group.command(name, epilog=example(*lines))(command)
    app.add_typer(group, name="supernet")


def train(
    checkpoint: CheckpointOption,
    data: Annotated[Path, typer.Option(metavar="FILE", help="Text, or tokens in a .npy file.")],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="The supernet's folder; a run in it goes on.")
    ],
    space: SpaceOption = None,
    strategy: Annotated[
        str,
        typer.Option(
            help="What a step trains. sandwich: the largest, the smallest and two random "
            "subnetworks; random: one; standard: the largest."
        ),
    ] = "sandwich",
    distill: Annotated[
        bool,
        typer.Option("--distill", help="The largest one's predictions are targets of the others."),
    ] = False,
    widths: WidthsOption = None,
    layers: LayersOption = None,
    calibration: CalibrationOption = None,
    tokenizer: TokenizerOption = None,
    steps: Annotated[int, typer.Option(help="Optimiser steps.")] = 1000,
    batch_size: Annotated[int, typer.Option(help="Sequences a step, over all processes.")] = 16,
    accumulation: Annotated[
        int, typer.Option(help="Parts that a process computes its share of a step in.")
    ] = 1,
    context: Annotated[
        int | None, typer.Option(help="Tokens a sequence; the model's, at most 1024, unless given.")
    ] = None,
    learning_rate: Annotated[float, typer.Option(help="AdamW's, after warm-up.")] = 3e-4,
    final_share: Annotated[
        float, typer.Option(help="Share of the learning rate that cosine decay ends at.")
    ] = 0.1,
    warmup_steps: Annotated[int, typer.Option(help="Steps of linear warm-up.")] = 100,
    weight_decay: Annotated[float, typer.Option(help="AdamW's, on matrices only.")] = 0.1,
    clip: Annotated[
        float, typer.Option(help="The gradient's greatest norm; 0 for no limit.")
    ] = 1.0,
    precision: Annotated[
        str, typer.Option(help="auto (bfloat16 where the GPU has it), float32 or bfloat16.")
    ] = "auto",
    seed: Annotated[int, typer.Option(help="Of the data's order and the random draws.")] = 0,
    save_every: Annotated[int, typer.Option(help="Steps between checkpoints.")] = 200,
    device: Annotated[
        str | None, typer.Option(help="cpu to stay off a GPU; accelerate's choice unless given.")
    ] = None,
) -> None:
    """Train a supernet that inherits a GPT-2; the same command goes on after an interrupt.

    Several GPUs: accelerate launch -m hwbench.cli supernet train ...
    """
    from hwbench.supernet import Subnetworks, TrainSettings
    from hwbench.supernet import train as train_into

    _check_elsewhere("A supernet must be trained", out, checkpoint)
    settings = TrainSettings(
        strategy=strategy,
        distill=distill,
        steps=steps,
        batch_size=batch_size,
        accumulation=accumulation,
        context=1024 if context is None else context,
        learning_rate=learning_rate,
        final_share=final_share,
        warmup_steps=warmup_steps,
        weight_decay=weight_decay,
        clip=clip,
        precision=precision,
        seed=seed,
        save_every=save_every,
    )
    supernet = _opened(checkpoint, space, widths, layers, calibration or data, tokenizer)
    settings = replace(settings, context=_context(supernet, context))
    text = _data(data, supernet)
    about = {"data": data.name, "data_sha256": text.sha256}
    first = _is_first_process()
    shown = progress("training", total=settings.steps) if first else nullcontext()
    with shown as advance:
        train_into(
            Subnetworks(supernet),
            text.tokens(),
            settings,
            out,
            data=about,
            device=device,
            progress=advance or (lambda steps: None),
        )
    if first:
        print_text(f"{out} holds the supernet after {settings.steps} steps.")


def evaluate(
    checkpoint: CheckpointOption,
    data: Annotated[Path, typer.Option(metavar="FILE", help="Text, or tokens in a .npy file.")],
    arch: Annotated[
        str | None,
        typer.Option(help="An architecture's text, a JSON file with its dict, or 'random'."),
    ] = None,
    many: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file of architectures, one a line.")
    ] = None,
    sample: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Draw so many architectures.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of what is drawn.")] = 0,
    context: Annotated[
        int | None, typer.Option(help="Tokens a window; the model's, at most 1024, unless given.")
    ] = None,
    stride: Annotated[
        int | None,
        typer.Option(help="Tokens between windows; half a window unless given."),
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Windows at once; changes no result.")] = 8,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="STORE",
            help="A record store for perplexity and accuracy; what it has is not scored again.",
        ),
    ] = None,
    space: SpaceOption = None,
    widths: WidthsOption = None,
    layers: LayersOption = None,
    calibration: CalibrationOption = None,
    tokenizer: TokenizerOption = None,
    device: DeviceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure the perplexity of subnetworks on a text, each token's loss counted once.

    Without --arch, --many or --sample, that of the largest architecture. `hwbench fit` fits a
    surrogate on a store that --out filled.
    """
    from hwbench.supernet import Windows

    given = [o for o, v in (("--arch", arch), ("--many", many), ("--sample", sample)) if v]
    if len(given) > 1:
        raise InvalidValue(f"Give one of --arch, --many and --sample. Got {', '.join(given)}.")
    supernet = _opened(checkpoint, space, widths, layers, calibration, tokenizer)
    if many is not None:
        wanted = architectures_in(many, supernet.space)
    elif sample is not None:
        wanted = supernet.space.sample(sample, seed)
    elif arch is not None:
        wanted = [architecture_of(arch, supernet.space, seed)]
    else:
        wanted = [supernet.space.largest]
    text = _data(data, supernet)
    window = _context(supernet, context)
    windows = Windows(
        context=window,
        stride=max(1, window // 2) if stride is None else stride,
        batch_size=batch_size,
    )
    where = device or _default_device()
    _move(supernet, where)
    if out is not None:
        _record(supernet, wanted, text, out, windows, where, as_json=as_json)
        return
    found = _scored(supernet, wanted, text, windows, where)
    rows = [{"architecture": str(a), **p.to_dict()} for a, p in found.items()]
    if as_json:
        print_json(rows[0] if many is None and sample is None else rows)
    elif len(rows) > 1:
        print_rows([_short(row) for row in rows], as_json=False)
        _say_protocol(rows[0])
    else:
        for name, value in rows[0].items():
            shown = "-" if value is None else f"{value:.6g}" if isinstance(value, float) else value
            print_text(f"{name:<20} {shown}")


def extract(
    checkpoint: CheckpointOption,
    arch: Annotated[
        str, typer.Option(help="An architecture's text, a JSON file with its dict, or 'random'.")
    ],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for config.json and model.safetensors.")
    ],
    seed: Annotated[int, typer.Option(min=0, help="Draws the random architecture.")] = 0,
    space: SpaceOption = None,
    widths: WidthsOption = None,
    layers: LayersOption = None,
    calibration: CalibrationOption = None,
    tokenizer: TokenizerOption = None,
) -> None:
    """Write a subnetwork as a dense model of its own, which hwbench.model.Model.load reads."""
    _check_elsewhere("A subnetwork must be written", out, checkpoint)
    supernet = _opened(checkpoint, space, widths, layers, calibration, tokenizer)
    architecture = architecture_of(arch, supernet.space, seed)
    supernet.extract(architecture).save(out)
    print_text(f"{out} holds {architecture}.")


def describe(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A supernet's folder, or a checkpoint's of GPT-2.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Say what a checkpoint is: parent, space, architectures, training, strategies, files."""
    from hwbench.supernet import describe as describe_folder

    found = describe_folder(folder)
    if as_json:
        print_json(found)
        return
    model, space = found["model"], found["space"]
    sizes = f"embed_dim {model['embed_dim']}, {len(model['n_head'])} layers"
    print_text(f"kind           {found['kind']}")
    print_text(f"parent         {found['parent']['name']} ({sizes})")
    if found["kind"] == "supernet":
        for name, digest in found["parent"]["files"].items():
            print_text(f"               {name} {digest}")
    if space is None:
        print_text("space          of one's own: give it with --space")
    else:
        print_text(f"space          {space['name']}")
        print_text(f"architectures  {found['architectures']:,}")
    if found["widths"] is not None:
        print_text(f"slices         widths {found['widths']}, layers {found['layers']}")
    print_text(f"steps trained  {found['steps']:,}")
    for run in found["runs"]:
        print_text(f"run            {_run_line(run)}")
    for name, entry in found["files"].items():
        print_text(f"file           {name} {entry['bytes']:,} bytes {entry['sha256']}")


def _run_line(run: dict[str, Any]) -> str:
    settings, data = run["settings"], run["data"]
    done = run["steps"] if "steps" in run else f"{run['step']} of {settings['steps']}, unfinished"
    distilled = " with distillation" if settings["distill"] else ""
    return (
        f"{settings['strategy']}{distilled}, steps {done}, batch {settings['batch_size']} x "
        f"{settings['context']} tokens, seed {settings['seed']}, data {data.get('data')} "
        f"{str(data.get('data_sha256'))[:_DIGITS]}"
    )


def _is_first_process() -> bool:
    """Whether this is the one of a launcher's processes that speaks, or there is no launcher."""
    return os.environ.get("RANK", "0") == "0"


def _check_elsewhere(what: str, out: Path, checkpoint: str) -> None:
    if out.resolve() == Path(checkpoint).resolve():
        raise InvalidValue(f"{what} into another folder than {checkpoint}.")


def _opened(
    checkpoint: str,
    space: str | None,
    widths: str | None,
    layers: str | None,
    calibration: Path | None,
    tokenizer: Path | None,
) -> Supernet:
    """The supernet of a command's options."""
    from hwbench.supernet import Supernet, Tokeniser

    tokeniser = None
    if tokenizer is not None:
        tokeniser = Tokeniser.of_checkpoint(tokenizer)
        if tokeniser is None:
            raise InvalidValue(f"There is no tokenizer.json in {tokenizer}.")
    return Supernet.open(
        checkpoint,
        space,
        widths=widths,
        layers=layers,
        calibration=calibration,
        tokeniser=tokeniser,
    )


def _data(path: Path, supernet: Supernet) -> Data:
    from hwbench.supernet import Data

    return Data.open(path, supernet.tokeniser, supernet.model.config.vocabulary)


def _context(supernet: Supernet, given: int | None) -> int:
    return min(1024, supernet.model.config.context) if given is None else given


def _default_device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _move(supernet: Supernet, device: str) -> None:
    import torch

    try:
        if torch.device(device).type == "meta":
            raise ValueError("it computes nothing")
        supernet.to(device)
    except (RuntimeError, AssertionError, ValueError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise InvalidValue(f"Cannot use the device {device!r}: {reason}.") from None


def _scored(
    supernet: Supernet, wanted: list[Architecture], data: Data, windows: Windows, device: str
) -> dict[Architecture, Perplexity]:
    from hwbench.supernet import subnetwork_perplexity

    if len(wanted) == 1:
        with progress("scoring tokens", total=None) as advance:
            one = subnetwork_perplexity(
                supernet, wanted[0], data, windows, device=device, progress=advance
            )
        return {wanted[0]: one}
    found = {}
    with progress("scoring", total=len(wanted)) as advance:
        for arch in wanted:
            found[arch] = subnetwork_perplexity(supernet, arch, data, windows, device=device)
            advance()
    return found


def _record(
    supernet: Supernet,
    wanted: list[Architecture],
    data: Data,
    store: Path,
    windows: Windows,
    device: str,
    *,
    as_json: bool,
) -> None:
    from hwbench.supernet import record_quality

    with progress("scoring", total=len(set(wanted))) as advance:
        scored = record_quality(
            supernet, wanted, data, store, windows, device=device, progress=advance
        )
    if as_json:
        print_json({"store": str(store), "scored": scored, "there": len(set(wanted)) - scored})
    else:
        print_text(
            f"{store}: scored {scored} architectures, {len(set(wanted)) - scored} were there. "
            f"Fit with: hwbench fit --store {store} --out my-artifacts"
        )


def _short(row: dict[str, Any]) -> dict[str, Any]:
    names = ("perplexity", "perplexity_per_word", "accuracy")
    figures = {n: None if row[n] is None else float(f"{row[n]:.6g}") for n in names}
    return {"architecture": row["architecture"], **figures}


def _say_protocol(row: dict[str, Any]) -> None:
    tokeniser = row["tokeniser_sha256"]
    print_text(
        f"{row['tokens']:,} tokens of {row['data']} ({row['data_sha256'][:_DIGITS]}), context "
        f"{row['context']}, stride {row['stride']}, tokeniser "
        f"{'none' if tokeniser is None else tokeniser[:_DIGITS]}."
    )
