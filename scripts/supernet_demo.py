"""Train a small GPT-2, make it a supernet, and compare the supernet with training alone.

    python scripts/supernet_demo.py TEXT [TEXT ...] --work WORK --results docs/supernet

A tokeniser and a GPT-2 of three million parameters are trained on the texts, of which the last
twentieth each is held out. The GPT-2 becomes the parent of a supernet, 60 subnetworks are scored on
what was held out before and after its training, and 12 of them, drawn by seed before any training,
are trained alone from their inherited weights for as many steps. Every stage goes on where it was
interrupted. `--quick` does the same with little of everything.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import torch

from hwbench.architectures import Architecture, ArchitectureTable, SearchSpace
from hwbench.cli.output import table
from hwbench.encode import Features
from hwbench.model import Model, ModelConfig
from hwbench.records.files import sha256
from hwbench.supernet import (
    Alone,
    Data,
    Perplexity,
    Subnetworks,
    Supernet,
    Tau,
    Tokeniser,
    TrainSettings,
    Windows,
    calibration_batches,
    perplexity,
    rank_correlation,
    stratified,
    subnetwork_perplexity,
    train,
    write_gpt2,
)
from hwbench.surrogate.fit import Measurements, fit_surrogate

SPACE = SearchSpace.from_file(Path(__file__).with_suffix(".toml"))
HELD_OUT = 20  # one part in so many
SEED = 0
TRAINED = ("importance", "strided")  # the strategies of the supernet that is trained


@dataclass(frozen=True)
class Size:
    """How much of everything."""

    vocabulary: int = 2048
    context: int = 128
    parent_steps: int = 1500
    steps: int = 500
    batch_size: int = 16
    subnetworks: int = 60
    alone: int = 12
    held_out: int = 15  # subnetworks that the surrogate is tested on
    characters: int | None = None  # of each text


QUICK = Size(
    vocabulary=512, context=32, parent_steps=60, steps=20, batch_size=8, subnetworks=24, alone=6,
    held_out=6, characters=60_000,
)  # fmt: skip


class Demonstration:
    """The stages, each of which leaves its result in the work folder."""

    def __init__(self, texts: Sequence[Path], work: Path, size: Size) -> None:
        """Split the texts and make the tokeniser."""
        self.work, self.size = work, size
        work.mkdir(parents=True, exist_ok=True)
        whole = [path.read_text("utf-8")[: size.characters] for path in texts]
        cuts = [len(text) - len(text) // HELD_OUT for text in whole]
        parts = {
            "train.txt": [text[:cut] for text, cut in zip(whole, cuts, strict=True)],
            "held_out.txt": [text[cut:] for text, cut in zip(whole, cuts, strict=True)],
        }
        for name, pieces in parts.items():
            (work / name).write_text("".join(pieces), "utf-8")
        self._check_work()
        tokenizer = work / "tokenizer.json"
        if not tokenizer.is_file():
            made = Tokeniser.trained(iter(parts["train.txt"]), size.vocabulary)
            tokenizer.write_text(made.to_text(), "utf-8")
        tokeniser = Tokeniser.of_checkpoint(work)
        self.train = Data.open(work / "train.txt", tokeniser, size.vocabulary)
        self.held_out = Data.open(work / "held_out.txt", tokeniser, size.vocabulary)
        self.tokens = self.train.tokens()
        sampled = dict.fromkeys(SPACE.sample(2 * size.subnetworks, SEED))
        self.subnetworks = list(sampled)[: size.subnetworks]
        self.chosen = stratified(self.subnetworks, size.alone, SEED)

    def _check_work(self) -> None:
        """Let a work folder go on with the sizes and the texts that it was begun with only."""
        begun = self.work / "begun.json"
        this = json.dumps({**asdict(self.size), "sha256": sha256(self.work / "train.txt")})
        if begun.is_file() and begun.read_text("utf-8") != this:
            raise SystemExit(f"{self.work} was begun with other sizes or texts; give another one.")
        begun.write_text(this, "utf-8")

    def settings(self, steps: int, rate: float, strategy: str = "sandwich") -> TrainSettings:
        """How everything is trained: the same batches, warm-up and decay."""
        return TrainSettings(
            strategy=strategy,
            steps=steps,
            batch_size=self.size.batch_size,
            context=self.size.context,
            learning_rate=rate,
            warmup_steps=steps // 10,
            save_every=50,
            precision="float32",
            seed=SEED,
        )

    def about(self) -> dict[str, str]:
        """What is trained on."""
        return {"data": self.train.path.name, "data_sha256": self.train.sha256}

    def parent(self) -> Path:
        """The small GPT-2, as a Hugging Face checkpoint."""
        folder, size = self.work / "parent", self.size
        if not (folder / "config.json").is_file():
            config = ModelConfig.of(
                SPACE.largest, "gpt2", vocabulary=size.vocabulary, context=size.context
            )
            alone = Alone(Model.built(config, seed=SEED), SPACE.largest)
            settings = self.settings(size.parent_steps, 1e-3, "standard")
            out = self.work / "parent-training"
            done = train(alone, self.tokens, settings, out, data=self.about(), device="cpu")
            write_gpt2(done.model, folder)
        (folder / "tokenizer.json").write_text((self.work / "tokenizer.json").read_text("utf-8"))
        return folder

    def inherited(self, widths: str, layers: str) -> Supernet:
        """The supernet before its training."""
        calibration = calibration_batches(self.tokens, self.size.context, seed=SEED)
        return Supernet.from_pretrained(
            self.parent(), SPACE, widths=widths, layers=layers, calibration=calibration
        )

    def trained(self) -> Supernet:
        """The supernet after its training."""
        what = Subnetworks(self.inherited(*TRAINED))
        settings, out = self.settings(self.size.steps, 5e-4), self.work / "supernet"
        train(what, self.tokens, settings, out, data=self.about(), device="cpu")
        return what.supernet

    def of_slices(self, name: str, supernet: Supernet) -> list[float]:
        """Perplexity of every subnetwork as a slice."""

        def score(arch: Architecture) -> Perplexity:
            return subnetwork_perplexity(supernet, arch, self.held_out, self.windows())

        return [self._kept(name, a, lambda a=a: score(a)) for a in self.subnetworks]

    def of_trained_alone(self) -> list[float]:
        """Perplexity of the chosen ones, each trained alone from its inherited weights."""
        supernet = self.inherited(*TRAINED)
        settings = self.settings(self.size.steps, 5e-4)

        def score(arch: Architecture) -> Perplexity:
            alone = Alone(supernet.extract(arch), arch)
            out = self.work / "alone" / str(self.chosen.index(arch))
            done = train(alone, self.tokens, settings, out, data=self.about(), device="cpu")
            return perplexity(done.model, self.held_out, self.windows())

        return [self._kept("alone", a, lambda a=a: score(a)) for a in self.chosen]

    def windows(self) -> Windows:
        """How perplexity is measured: windows side by side."""
        return Windows(context=self.size.context, stride=self.size.context, batch_size=16)

    def surrogate_tau(self, scores: Sequence[float]) -> Tau:
        """Kendall's tau of a surrogate on the last subnetworks, which its fit has not seen."""
        cut = len(scores) - self.size.held_out
        first, last = map(ArchitectureTable.of, (self.subnetworks[:cut], self.subnetworks[cut:]))
        position = np.arange(cut)
        values = np.asarray(scores[:cut])[:, None]
        measured = Measurements(first, values, np.zeros_like(position), position)
        labels = np.full(cut, "both")  # each trains, and calibrates a fit without it
        surrogate = fit_surrogate(measured, labels, "perplexity").surrogate
        found = surrogate.quantiles(Features(last), np.array([0.5]))[:, 0]
        return rank_correlation(found, scores[cut:], seed=SEED)

    def parameters(self, arch: Architecture) -> int:
        """Parameters of a subnetwork, with the vocabulary and context that it has here."""
        size = self.size
        config = ModelConfig.of(arch, "gpt2", vocabulary=size.vocabulary, context=size.context)
        with torch.device("meta"):
            return sum(p.numel() for p in Model(config).parameters())

    def _kept(self, name: str, arch: Architecture, score: object) -> float:
        """A score from the work folder, or made and put there."""
        path = self.work / "scores.jsonl"
        lines = path.read_text("utf-8").splitlines() if path.is_file() else []
        for line in map(json.loads, lines):
            if (line["name"], line["architecture"]) == (name, str(arch)):
                return float(line["perplexity"])
        found: Perplexity = score()  # type: ignore[operator]
        with path.open("a", encoding="utf-8") as file:
            values = {"name": name, "architecture": str(arch), **found.to_dict()}
            file.write(json.dumps(values) + "\n")
        return found.perplexity


def run(demo: Demonstration, results: Path) -> None:
    """All stages, and their results."""
    clock = _Clock(demo.work / "seconds.json")
    with clock("train the parent"):
        demo.parent()
    before = {}
    with clock("score the slices before training"):
        for widths in ("prefix", "importance"):
            for layers in ("prefix", "strided"):
                supernet = demo.inherited(widths, layers)
                before[widths, layers] = demo.of_slices(f"{widths}-{layers}", supernet)
    with clock("train the supernet"):
        supernet = demo.trained()
    with clock("score the slices after training"):
        after = demo.of_slices("trained", supernet)
    with clock("train and score some alone"):
        alone = demo.of_trained_alone()
    with clock("fit the surrogate"):
        surrogate = demo.surrogate_tau(after)
    at = [demo.subnetworks.index(a) for a in demo.chosen]
    params = [demo.parameters(a) for a in demo.subnetworks]
    scores = {
        "supernet": [after[i] for i in at],
        "parameter count": [-params[i] for i in at],
        "slices before training": [before[TRAINED][i] for i in at],
    }
    taus = {
        **{k: rank_correlation(v, alone, seed=SEED) for k, v in scores.items()},
        "surrogate on unseen subnetworks": surrogate,
    }
    widths = [a.embed_dim for a in demo.chosen]
    alike = {k: among_equals(widths, v, alone) for k, v in scores.items()}
    rows = [
        {
            "architecture": str(a),
            "params": params[i],
            **{f"{w}_{la}": before[w, la][i] for w, la in before},
            "supernet": after[i],
            "alone": alone[demo.chosen.index(a)] if a in demo.chosen else "",
        }
        for i, a in enumerate(demo.subnetworks)
    ]
    means = {" + ".join(k): float(np.mean(v)) for k, v in before.items()}
    write(results, rows, taus, alike, means, clock)
    picture(results, scores["supernet"], alone, taus["supernet"])


def among_equals(groups: Sequence[int], a: Sequence[float], b: Sequence[float]) -> float:
    """Kendall's tau over the pairs of one group: concordant less discordant, as a share."""
    pairs = [(i, j) for i, j in combinations(range(len(a)), 2) if groups[i] == groups[j]]
    signs = [np.sign(a[i] - a[j]) * np.sign(b[i] - b[j]) for i, j in pairs]
    return float(np.mean(signs)) if signs else math.nan


def write(
    results: Path,
    rows: list[dict[str, object]],
    taus: dict[str, Tau],
    alike: dict[str, float],
    means: dict[str, float],
    clock: _Clock,
) -> None:
    """The table of subnetworks as CSV, and the summary, printed and as Markdown."""
    results.mkdir(parents=True, exist_ok=True)
    with (results / "subnetworks.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})
    tables = (
        [
            {"Kendall's tau of": name, "tau": round(t.value, 3), "low": round(t.low, 3),
             "high": round(t.high, 3), "n": t.n,
             "same embed_dim": round(alike[name], 3) if name in alike else None}
            for name, t in taus.items()
        ],
        [{"before training": k, "mean perplexity": round(v, 1)} for k, v in means.items()],
        [{"stage": k, "seconds": round(v)} for k, v in clock.seconds.items()],
    )  # fmt: skip
    blocks = "\n\n".join(table(t) for t in tables)
    (results / "summary.txt").write_text(blocks + "\n", "utf-8")
    print(blocks)


def picture(results: Path, supernet: list[float], alone: list[float], tau: Tau) -> None:
    """Supernet perplexity against perplexity after training alone."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(5, 4), layout="constrained")
    axes.scatter(supernet, alone, color="#0072b2")
    axes.set(
        xlabel="perplexity as a slice of the supernet",
        ylabel="perplexity after training alone",
        title=f"Kendall's tau {tau.value:.2f} [{tau.low:.2f}, {tau.high:.2f}], n = {tau.n}",
    )
    figure.savefig(results / "supernet_against_alone.png", dpi=150)


class _Clock:
    """Seconds of each stage, over all interrupted runs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seconds: dict[str, float] = json.loads(path.read_text()) if path.is_file() else {}

    def __call__(self, stage: str) -> _Clock:
        self.stage = stage
        return self

    def __enter__(self) -> None:
        self.began = time.perf_counter()
        print(f"{self.stage} ...", flush=True)

    def __exit__(self, *_: object) -> None:
        took = time.perf_counter() - self.began
        self.seconds[self.stage] = self.seconds.get(self.stage, 0.0) + took
        self.path.write_text(json.dumps(self.seconds))


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("texts", type=Path, nargs="+", help="UTF-8 texts")
    parser.add_argument("--work", type=Path, required=True, help="weights and scores")
    parser.add_argument("--results", type=Path, required=True, help="table and picture")
    parser.add_argument("--quick", action="store_true", help="two minutes instead of 75")
    given = parser.parse_args()
    size = QUICK if given.quick else Size()
    run(Demonstration(given.texts, given.work, size), given.results)


if __name__ == "__main__":
    main()
