"""Training, exactly resumable: what a step does depends on the seed and its number alone.

Which subnetworks and which parts of the text a step takes is drawn from the seed and the step, so a
checkpoint needs weights and moments, and a run that was killed ends in the same weights as one that
was not (on the same kind of machine and number of threads). Processes and devices are accelerate's
business.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from hwbench.errors import InvalidArtifact, InvalidValue, invalid
from hwbench.model import Model, ModelConfig
from hwbench.records import files
from hwbench.supernet.settings import TrainSettings
from hwbench.supernet.snapshot import CARD, Snapshot, clear_temporary, write_snapshot
from hwbench.supernet.trainable import LARGEST, Trainable

LOG = "log.jsonl"

_DISTILLED = 0.5  # the largest one's share in a distilled loss


def batch(tokens: NDArray[np.int64], settings: TrainSettings, step: int) -> NDArray[np.int64]:
    """The sequences of a step with the token after each: (batch_size, context + 1)."""
    rng = np.random.default_rng([settings.seed, step, 0])
    starts = rng.integers(0, len(tokens) - settings.context, settings.batch_size)
    return np.asarray(tokens[starts[:, None] + np.arange(settings.context + 1)], np.int64)


def train(
    what: Trainable,
    tokens: NDArray[np.int64],
    settings: TrainSettings,
    out: str | Path,
    *,
    data: Mapping[str, Any],
    device: str | None = None,
    progress: Callable[[int], None] = lambda steps: None,
) -> Trainable:
    """Train into a folder; a run in the folder goes on where its last checkpoint was.

    Args:
        what: What to train; its weights are changed in place.
        tokens: The text as token indices, shape (n,).
        settings: How to train.
        out: Where checkpoints and `log.jsonl` go.
        data: Says what `tokens` are, ready for JSON; a run goes on with the same only.
        device: "cpu" to stay off a GPU; accelerate's choice unless given.
        progress: Called with the number of steps that were done since.

    Returns:
        What was trained, the run in its history.

    Raises:
        InvalidValue: The text is shorter than the context or holds a token that the model does not
            know, the context is longer than the model's, the loss is no longer finite, the folder
            holds another run or is in use, or this process has trained on a GPU and shall not now.
        InvalidArtifact: A checkpoint is damaged or could not be written; the one before remains.
    """
    if device not in (None, "cpu"):
        raise invalid("device", "train", "'cpu', or not given", device)
    _check_text(tokens, settings, what.model.config)
    place = Path(out)
    accelerator = _accelerator(device)
    world = accelerator.num_processes * settings.accumulation
    if settings.batch_size % world:
        raise invalid(
            "batch_size", "train", f"a multiple of processes x accumulation, {world}",
            settings.batch_size,
        )  # fmt: skip
    place.mkdir(parents=True, exist_ok=True)
    with _only_run(place, accelerator):
        run = _Run(what, tokens, settings, place, dict(data), accelerator)
        return run.to_the_end(progress)


class _Run:
    """A run between two checkpoints."""

    def __init__(
        self,
        what: Trainable,
        tokens: NDArray[np.int64],
        settings: TrainSettings,
        out: Path,
        data: dict[str, Any],
        accelerator: Accelerator,
    ) -> None:
        self.what, self.tokens, self.settings, self.out = what, tokens, settings, out
        self.accelerator = accelerator
        self.start = json.loads(json.dumps(what.card()))
        self.run: dict[str, Any] = {"settings": settings.to_dict(), "data": data}
        self.step = 0
        self.parameters = dict(what.model.named_parameters())
        what.model.to(accelerator.device)
        self.half = _in_half(settings, accelerator.device)
        self.optimizer = torch.optim.AdamW(_groups(what.model, settings), betas=(0.9, 0.95))

    def to_the_end(self, progress: Callable[[int], None]) -> Trainable:
        """Train what is left of the run."""
        if (self.out / CARD).is_file():
            snapshot = Snapshot.read(self.out)
            if self._is_done(snapshot):
                return self._finished(snapshot)
            self._resume(snapshot)
            self.accelerator.wait_for_everyone()  # the next checkpoint replaces what they read
        progress(self.step)
        log = self._log()
        while self.step < self.settings.steps:
            log(self._one_step())
            progress(1)
            if self.step % self.settings.save_every == 0 or self.step == self.settings.steps:
                self._save()
        self.what = self.what.trained({**self.run, "steps": self.step})
        self._save(finished=True)
        return self.what

    def _one_step(self) -> dict[str, Any]:
        """One optimiser step; returns its line of the log."""
        began, settings, accelerator = time.perf_counter(), self.settings, self.accelerator
        rate = settings.rate(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        rows = batch(self.tokens, settings, self.step)[accelerator.process_index :: (
            accelerator.num_processes
        )]  # fmt: skip
        drawn = self.what.draw(settings, self.step)
        losses = [0.0] * len(drawn)
        self.optimizer.zero_grad()
        for part in np.split(rows, settings.accumulation):
            both = torch.from_numpy(part).to(accelerator.device)  # (b, T + 1)
            inputs, targets = both[:, :-1], both[:, 1:]
            teacher: Tensor | None = None
            for i, (role, arch) in enumerate(drawn):
                with torch.autocast(inputs.device.type, torch.bfloat16, enabled=self.half):
                    logits = self.what.logits_of(arch, inputs)  # (b, T, V)
                plain = F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())
                loss = plain
                if settings.distill and role == LARGEST:
                    teacher = logits.detach().float()
                elif teacher is not None:
                    loss = (1 - _DISTILLED) * plain + _DISTILLED * _divergence(logits, teacher)
                accelerator.backward(loss / (len(drawn) * settings.accumulation))
                losses[i] += plain.item() / settings.accumulation
        losses = self._averaged(losses)
        norm = self._gradient_norm()
        if not all(map(math.isfinite, (*losses, norm))):
            raise InvalidValue(
                f"The loss must stay finite. At step {self.step} it is not: lower the learning "
                "rate. The last checkpoint remains."
            )
        self.optimizer.step()
        self.step += 1
        return {
            "step": self.step,
            "learning_rate": rate,
            "gradient_norm": norm,
            "losses": [
                {"role": role, "architecture": str(arch), "loss": loss}
                for (role, arch), loss in zip(drawn, losses, strict=True)
            ],
            "tokens": self.step * settings.batch_size * settings.context,
            "seconds": time.perf_counter() - began,
        }

    def _averaged(self, losses: list[float]) -> list[float]:
        """The losses of the whole batch, of which a process has seen its share."""
        accelerator = self.accelerator
        if accelerator.num_processes == 1:
            return losses
        ours = torch.tensor(losses, device=accelerator.device)
        mean: list[float] = accelerator.reduce(ours, reduction="mean").tolist()
        return mean

    def _gradient_norm(self) -> float:
        """Average gradients over processes and clip them; the norm before."""
        accelerator, parameters = self.accelerator, list(self.parameters.values())
        if accelerator.num_processes > 1:
            # All processes draw the same subnetworks, so the same gradients are None in each.
            for p in parameters:
                if p.grad is not None:
                    p.grad = accelerator.reduce(p.grad, reduction="mean")
        limit = self.settings.clip or math.inf
        return float(torch.nn.utils.clip_grad_norm_(parameters, limit))

    def _is_done(self, snapshot: Snapshot) -> bool:
        """Whether the folder holds this very run's end."""
        history = snapshot.values.get("history") or [None]
        before = {**snapshot.values, "history": history[:-1]}
        this = {**self.run, "steps": self.settings.steps}
        return bool(before == self.start and history[-1] == this)

    def _finished(self, snapshot: Snapshot) -> Trainable:
        self._load_weights(snapshot)
        return self.what.trained(snapshot.values["history"][-1])

    def _resume(self, snapshot: Snapshot) -> None:
        """Take over the folder's checkpoint.

        Raises:
            InvalidValue: It is of another run.
        """
        values = dict(snapshot.values)
        there = values.pop("run", None)
        if there is None:
            raise InvalidValue(
                f"{self.out} holds another run that is finished; give another folder."
            )
        step = there.pop("step")
        for name, (old, new) in _differences((values, there), (self.start, self.run)).items():
            raise InvalidValue(
                f"{self.out} holds a run with {name} {old}; this one has {new}. Give the same, or "
                "another folder."
            )
        self._load_weights(snapshot)
        self.step = int(step)
        moments = snapshot.tensors("moments")
        for name, p in self.parameters.items():
            if f"{name}.step" in moments:
                state = self.optimizer.state[p]
                state["step"] = moments[f"{name}.step"]
                for key in ("exp_avg", "exp_avg_sq"):
                    state[key] = moments[f"{name}.{key}"].to(p.device)

    def _load_weights(self, snapshot: Snapshot) -> None:
        with torch.no_grad():
            for name, w in snapshot.tensors("weights").items():
                self.parameters[name].copy_(w)

    def _save(self, *, finished: bool = False) -> None:
        """Replace the folder's checkpoint; a finished run keeps no moments."""
        if not self.accelerator.is_main_process:
            return
        tensors: dict[str, dict[str, Tensor]] = {"weights": self.what.model.state_dict()}
        values = self.what.card()
        if not finished:
            values["run"] = {**self.run, "step": self.step}
            tensors["moments"] = {
                f"{name}.{key}": torch.as_tensor(value)
                for name, p in self.parameters.items()
                for key, value in self.optimizer.state.get(p, {}).items()
            }
        tag = f"{self.step:07d}{'-end' if finished else ''}"
        write_snapshot(self.out, values, tensors, self.what.texts(), tag)

    def _log(self) -> Callable[[Mapping[str, Any]], None]:
        """Cut the log back to the checkpoint; returns what adds a line.

        Raises:
            InvalidArtifact: It could not be written; so does what is returned.
        """
        if not self.accelerator.is_main_process:
            return lambda line: None
        path = self.out / LOG
        lines = path.read_text("utf-8", "replace").splitlines() if path.is_file() else []
        with _writing(path):
            files.write_text(path, "".join(f"{line}\n" for line in lines[: self.step]))

        def log(line: Mapping[str, Any]) -> None:
            with _writing(path), path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

        return log


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidArtifact(
            f"Cannot write {path}: {error.strerror}. The last checkpoint remains."
        ) from None


def _in_half(settings: TrainSettings, device: torch.device) -> bool:
    """Whether to compute in bfloat16."""
    if settings.precision == "auto":
        return device.type == "cuda" and torch.cuda.is_bf16_supported()
    return settings.precision == "bfloat16"


def _check_text(tokens: NDArray[np.int64], settings: TrainSettings, config: ModelConfig) -> None:
    most, vocabulary = config.context, config.vocabulary
    if settings.context > most:
        raise invalid("context", "train", f"at most the model's {most}", settings.context)
    if len(tokens) <= settings.context:
        raise InvalidValue(
            f"The text to train on must hold more tokens than the context of {settings.context}. "
            f"Got {len(tokens)}."
        )
    listed = tokens.ndim == 1 and tokens.dtype.kind in "iu"
    if not listed or not 0 <= tokens.min() <= tokens.max() < vocabulary:
        got = f"{tokens.dtype} of shape {tokens.shape}, {tokens.min()} to {tokens.max()}"
        raise invalid("tokens", "train", f"a list of ints from 0 to {vocabulary - 1}", got)


def _accelerator(device: str | None) -> Accelerator:
    try:
        # No precision of accelerate's: a process has one for good, runs may have several.
        made = Accelerator(mixed_precision="no", cpu=device == "cpu")
    except ValueError:
        raise invalid(
            "device", "train", "what this process has trained on before", device
        ) from None
    # Accumulation is counted here: what a launcher's configuration says would divide losses twice.
    made.gradient_accumulation_steps = 1
    return made


@contextmanager
def _only_run(out: Path, accelerator: Accelerator) -> Iterator[None]:
    with ExitStack() as held:
        if accelerator.is_main_process:
            try:
                held.enter_context(files.locked(out, wait=False))
                clear_temporary(out)
            except BlockingIOError:
                raise InvalidValue(
                    f"Another process trains into {out}; wait for it, or give another folder."
                ) from None
        yield
        accelerator.wait_for_everyone()


def _groups(model: Model, settings: TrainSettings) -> list[dict[str, Any]]:
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() <= 1]
    return [
        {"params": matrices, "weight_decay": settings.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]


def _divergence(logits: Tensor, teacher: Tensor) -> Tensor:
    """Kullback-Leibler divergence from the teacher's distribution, the mean over tokens."""
    ours = F.log_softmax(logits.float(), -1).flatten(0, 1)  # (b T, V)
    theirs = F.log_softmax(teacher, -1).flatten(0, 1)  # (b T, V)
    return F.kl_div(ours, theirs, reduction="batchmean", log_target=True)


def _differences(
    old: tuple[Mapping[str, Any], Mapping[str, Any]],
    new: tuple[Mapping[str, Any], Mapping[str, Any]],
) -> dict[str, tuple[Any, Any]]:
    """What differs between two runs: fields of their cards, their settings and their data."""

    def flat(card: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, Any]:
        return {**card, **run["settings"], **run["data"]}

    before, after = flat(*old), flat(*new)
    names = [n for n in (*before, *after) if before.get(n) != after.get(n)]
    return {n: (before.get(n), after.get(n)) for n in names}
