"""`hwbench advise` and `hwbench gemm`: what the hardware likes, predicted and measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hwbench.cli.options import JsonOption, example
from hwbench.cli.output import print_json, print_rows, print_text
from hwbench.cli.progress import progress

if TYPE_CHECKING:
    from hwbench.advise import ArchitectureAdvice, ShapeAdvice
    from hwbench.cost.gemm_record import GemmRecord
    from hwbench.cost.transformer import Gemm, TransformerShape
    from hwbench.devices import Hardware

_WORST = 12

Size = int | None
Hidden = Annotated[Size, typer.Option(metavar="N", help="Width of the residual stream.")]
Heads = Annotated[Size, typer.Option(metavar="N", help="Query heads.")]
KvHeads = Annotated[Size, typer.Option(metavar="N", help="Key and value heads; all unless given.")]
HeadSize = Annotated[Size, typer.Option(metavar="N", help="Width of a head, if not hidden/heads.")]
Layers = Annotated[Size, typer.Option(metavar="N", help="Blocks.")]
Vocab = Annotated[Size, typer.Option(metavar="N", help="Rows of the embedding.")]
Seq = Annotated[Size, typer.Option(metavar="N", help="Tokens a sequence.")]
Microbatch = Annotated[Size, typer.Option(metavar="N", help="Sequences a step; 1 unless given.")]
Mlp = Annotated[str | None, typer.Option(metavar="KIND", help="gelu or swiglu.")]
MlpWidth = Annotated[
    Size, typer.Option(metavar="N", help="Inner width of the MLP; 4 or 8/3 x hidden unless given.")
]
Attention = Annotated[str | None, typer.Option(metavar="KIND", help="flash or plain.")]
TensorParallel = Annotated[Size, typer.Option(metavar="N", help="Devices that share a layer.")]
Pipeline = Annotated[Size, typer.Option(metavar="N", help="Stages that share the layers.")]
Phase = Annotated[str | None, typer.Option(metavar="PHASE", help="train, forward or decode.")]
ParallelLayers = Annotated[
    bool, typer.Option("--parallel-layers", help="Attention and MLP read the same norm.")
]
Tied = Annotated[bool, typer.Option("--tied", help="The head shares the embedding's matrix.")]
Dtype = Annotated[str | None, typer.Option(metavar="TYPE", help="float16, bfloat16 or float32.")]
Config = Annotated[
    Path | None, typer.Option(metavar="FILE", help="config.json of a Hugging Face decoder.")
]


def register(app: typer.Typer) -> None:
    """Put the commands into the app."""
    app.command(
        epilog=example(
            "hwbench advise --hidden 2560 --heads 32 --layers 32 --vocab 50257 --seq 2048 "
            "--device a100",
            "hwbench advise --config config.json --device h100 --json",
        )
    )(advise)
    app.command(
        epilog=example(
            "hwbench gemm --device cpu --shapes sizes.txt",
            "hwbench gemm --device cuda:0 --config config.json --out record.json",
        )
    )(gemm)


def advise(
    device: Annotated[
        str, typer.Option(metavar="NAME", help="A GPU of the catalogue, or a .toml of figures.")
    ],
    hidden: Hidden = None,
    heads: Heads = None,
    kv_heads: KvHeads = None,
    head_size: HeadSize = None,
    layers: Layers = None,
    vocab: Vocab = None,
    seq: Seq = None,
    microbatch: Microbatch = None,
    mlp: Mlp = None,
    mlp_width: MlpWidth = None,
    attention: Attention = None,
    tensor_parallel: TensorParallel = None,
    pipeline: Pipeline = None,
    phase: Phase = None,
    parallel_layers: ParallelLayers = False,
    tied: Tied = False,
    dtype: Dtype = None,
    config: Config = None,
    arch: Annotated[
        str | None, typer.Option(metavar="TEXT", help="An architecture of a space, in text form.")
    ] = None,
    measured: Annotated[
        Path | None,
        typer.Option(metavar="RECORD", help="A record of hwbench gemm, to go before the model."),
    ] = None,
    tolerance: Annotated[
        float, typer.Option(metavar="SHARE", help="How far proposals' parameters may be off.")
    ] = 0.01,
    proposals: Annotated[
        int, typer.Option(metavar="N", help="How many proposals to print.", min=0)
    ] = 10,
    as_json: JsonOption = False,
) -> None:
    """Advise on a model's shape: its matrix products, the broken rules, and faster shapes."""
    from hwbench.devices import hardware

    sizes = _given(
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_size=head_size,
        layers=layers,
        vocab=vocab,
        seq=seq,
        microbatch=microbatch,
        mlp=mlp,
        mlp_width=mlp_width,
        attention=attention,
        tensor_parallel=tensor_parallel,
        pipeline=pipeline,
        phase=phase,
        parallel_layers=parallel_layers,
        tied=tied,
        dtype=dtype,
    )
    figures = hardware(device)
    if arch is None:
        _of_shape(_shape(sizes, config), figures, measured, tolerance, proposals, as_json)
    else:
        _of_architecture(arch, sizes, config, figures, measured, tolerance, proposals, as_json)


def gemm(
    device: Annotated[str, typer.Option(metavar="NAME", help="cpu, cuda or cuda:N.")],
    shapes: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Products: m, n, k and perhaps batch a line."),
    ] = None,
    hidden: Hidden = None,
    heads: Heads = None,
    kv_heads: KvHeads = None,
    head_size: HeadSize = None,
    layers: Layers = None,
    vocab: Vocab = None,
    seq: Seq = None,
    microbatch: Microbatch = None,
    mlp: Mlp = None,
    mlp_width: MlpWidth = None,
    attention: Attention = None,
    tensor_parallel: TensorParallel = None,
    phase: Phase = None,
    dtype: Dtype = None,
    config: Config = None,
    figures: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Whose figures to compare with, unless found by name."),
    ] = None,
    repeats: Annotated[int, typer.Option(metavar="N", help="Times to keep of each.", min=1)] = 20,
    out: Annotated[
        Path | None,
        typer.Option(metavar="RECORD", help="Write a record; one that is there is continued."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure a model's matrix products on this machine and compare them with the model's times."""
    from hwbench.devices import hardware
    from hwbench.errors import invalid
    from hwbench.measure.gemm import figures_of

    sizes = _given(
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_size=head_size,
        layers=layers,
        vocab=vocab,
        seq=seq,
        microbatch=microbatch,
        mlp=mlp,
        mlp_width=mlp_width,
        attention=attention,
        tensor_parallel=tensor_parallel,
        phase=phase,
        dtype=dtype,
    )
    compared = hardware(figures) if figures is not None else None
    if shapes is not None:
        from hwbench.cost.gemm_record import read_sizes

        strange = [name for name in sizes if name != "dtype"]
        if strange or config is not None:
            raise invalid("shapes", "gemm", "given alone, without a model", strange or str(config))
        products, type_ = read_sizes(shapes), dtype or "bfloat16"
    else:
        from hwbench.cost.transformer import gemms

        shape = _shape(sizes, config)
        products, type_ = list(gemms(shape)), shape.dtype
    record = _measure(products, device, type_, repeats, out)
    rows = _compared(products, record, compared or figures_of(record.device))
    if as_json:
        print_json({"device": record.device, "dtype": record.dtype, "gemms": rows})
        return
    print_text(f"{record.device}, {record.dtype}: {record.method}")
    print_rows(rows, as_json=False)


def _given(**values: Any) -> dict[str, Any]:
    """The sizes that were given; a flag that is off counts as not given."""
    return {name: v for name, v in values.items() if v is not None and v is not False}


def _shape(sizes: dict[str, Any], config: Path | None) -> TransformerShape:
    """The shape of a config's sizes with the given ones laid over them."""
    from hwbench.advise import sizes_of_config
    from hwbench.cost.transformer import TransformerShape
    from hwbench.errors import InvalidValue

    found = sizes_of_config(config) if config is not None else {}
    if {"hidden", "heads"} & sizes.keys():
        found.pop("head_size", None)
    merged = {"microbatch": 1, **found, **sizes}
    missing = [n for n in ("hidden", "heads", "layers", "vocab", "seq") if n not in merged]
    if missing:
        raise InvalidValue(
            f"A model must be given by --hidden, --heads, --layers, --vocab and --seq, or by "
            f"--config. Got no --{missing[0]}."
        )
    return TransformerShape(**merged)


def _of_shape(
    shape: TransformerShape,
    figures: Hardware,
    measured: Path | None,
    tolerance: float,
    limit: int,
    as_json: bool,
) -> None:
    from hwbench.advise import advise
    from hwbench.advise.tables import finding_rows, product_rows, proposal_rows

    timer = _timer(measured, figures, shape.dtype)
    made: ShapeAdvice = advise(shape, figures, tolerance=tolerance, measured=timer)
    if as_json:
        print_json(made.to_dict(limit))
        return
    print_text("\n".join(made.verdict))
    _section("Products, the worst first", product_rows(made.rows[:_WORST]), _PRODUCT_COLUMNS)
    findings = finding_rows(made.findings, ("broken", "option"))
    _section("Rules", findings, ("rule", "state", "field", "got", "nearest", "says", "detail"))
    good = proposal_rows(made.distinct(limit))
    for row in good:
        row["changes"] = _words(row["changes"])
    _section("Proposals", good, ("gain", "parameters_change", "tokens_per_s", "changes"))


def _of_architecture(
    text: str,
    sizes: dict[str, Any],
    config: Path | None,
    figures: Hardware,
    measured: Path | None,
    tolerance: float,
    limit: int,
    as_json: bool,
) -> None:
    from dataclasses import replace

    from hwbench.advise import advise_architecture
    from hwbench.advise.architecture import recorded_setting
    from hwbench.advise.tables import finding_rows, product_rows
    from hwbench.architectures import Architecture
    from hwbench.errors import invalid

    allowed = {"microbatch": "batch_size", "seq": "seq_len", "dtype": "dtype"}
    strange = [name for name in sizes if name not in allowed]
    if strange or config is not None:
        got = f"--{strange[0].replace('_', '-')}" if strange else "--config"
        raise invalid("arch", "advise", "given without the sizes of another model", got)
    architecture = Architecture.parse(text)
    setting = recorded_setting(architecture, figures)
    setting = replace(setting, **{allowed[name]: value for name, value in sizes.items()})
    made: ArchitectureAdvice = advise_architecture(
        architecture,
        figures,
        setting=setting,
        tolerance=tolerance,
        measured=_timer(measured, figures, setting.dtype),
    )
    if as_json:
        print_json(made.to_dict(limit))
        return
    print_text("\n".join(made.verdict))
    _section("Layers, the worst first", made.layer_rows()[:_WORST])
    _section("Products, the worst first", product_rows(made.rows[:_WORST]), _PRODUCT_COLUMNS)
    findings = finding_rows(made.findings, ("broken", "option"))
    _section("Rules", findings, ("rule", "state", "field", "got", "says", "detail"))
    good = [row for row in made.neighbour_rows() if _number(row["gain"]) > 0][:limit]
    _section("Proposals", good, ("gain", "parameters_change", "change"))


def _timer(path: Path | None, figures: Hardware, dtype: str) -> Any:
    """The look-up of a record of this device and type; one's own device takes any record."""
    if path is None:
        return None
    from hwbench.cost.gemm_record import GemmRecord
    from hwbench.devices import catalogue
    from hwbench.errors import invalid
    from hwbench.measure.gemm import figures_of

    record = GemmRecord.read(path)
    if figures.name in catalogue() and figures_of(record.device) != figures:
        raise invalid("measured", "advise", f"a record of {figures.name}", record.device)
    if record.dtype != dtype:
        raise invalid("measured", "advise", f"a record of {dtype} products", record.dtype)
    return record.time_us


def _measure(
    products: list[Gemm], device: str, dtype: str, repeats: int, out: Path | None
) -> GemmRecord:
    """Measure what a record does not hold yet, writing it after each product."""
    from hwbench.cost.gemm_record import GemmRecord
    from hwbench.errors import invalid
    from hwbench.measure.gemm import measure, new_record

    record = new_record(device, dtype)
    if out is not None and out.exists():
        before, record = record, GemmRecord.read(out)
        if (record.device, record.dtype) != (before.device, before.dtype):
            allowed = f"a new file, or a record of {before.device} in {before.dtype}"
            raise invalid("out", "gemm", allowed, f"{record.device} in {record.dtype}")
    missing = record.missing(products)
    with progress("measuring", total=len(missing)) as advance:
        for one in measure(missing, device, dtype, repeats):
            record = record.with_measured([one])
            if out is not None:
                record.write(out)
            advance()
    return record


def _compared(
    products: list[Gemm], record: GemmRecord, figures: Hardware | None
) -> list[dict[str, object]]:
    from hwbench.cost.gemm_record import key
    from hwbench.cost.gpu import estimate

    found = {key(m.gemm): m for m in record.measured}
    rows: list[dict[str, object]] = []
    for product in products:
        one = found[key(product)]
        predicted = estimate(product, figures, record.dtype) if figures is not None else None
        rows.append(
            {
                "gemm": product.name,
                "role": product.role,
                "m": product.m,
                "n": product.n,
                "k": product.k,
                "batch": product.batch,
                "median_us": round(one.median_us, 3),
                "spread": round(one.spread, 4),
                "tflops": round(product.flops / one.median_us / 1e6, 3),
                "predicted_us": None if predicted is None else round(predicted.time_us, 3),
                "predicted_over_measured": (
                    None if predicted is None else float(f"{predicted.time_us / one.median_us:.4g}")
                ),
            }
        )
    return rows


_PRODUCT_COLUMNS = (
    *("gemm", "role", "m", "n", "k", "batch", "count", "time_ms", "source"),
    *("efficiency", "wasted_ms", "loses_most_to", "waves"),
)


def _section(
    title: str, rows: list[dict[str, object]], columns: tuple[str, ...] | None = None
) -> None:
    if not rows:
        return
    print_text(f"\n{title}")
    kept = [{c: row[c] for c in columns} if columns else row for row in rows]
    print_rows(kept, as_json=False)


def _words(changes: object) -> str:
    return " ".join(f"{n}={v}" for n, v in changes.items()) if isinstance(changes, dict) else ""


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
