"""`Supernet`: a pretrained GPT-2 of which every architecture of a space is a slice."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from hwbench import architectures as archs
from hwbench.architectures import Architecture, SearchSpace
from hwbench.errors import InvalidArchitecture, InvalidArtifact, InvalidValue, invalid, unknown
from hwbench.model import Model, ModelConfig
from hwbench.records.files import sha256
from hwbench.supernet import checkpoint
from hwbench.supernet.slicing import (
    LAYERS,
    WIDTHS,
    layers_of,
    sliced_weights,
    sort_by_importance,
)
from hwbench.supernet.snapshot import CARD, Snapshot, write_snapshot
from hwbench.supernet.tokens import Data, Tokeniser, calibration_batches

_KIND = "supernet"
_GPT2_SPACES = ("s", "m", "l", "xl")


class Supernet(nn.Module):
    """A dense gpt2 model, the parent, whose slices are the architectures of a space.

    A slice is no copy and no state: `logits` takes the architecture with the tokens, and runs the
    dense model's own code on views of the parent's weights.

    Attributes:
        model: The parent.
        space: The architectures.
        widths: Which channels, heads and neurons a slice keeps, one of `slicing.WIDTHS`.
        layers: Which layers, one of `slicing.LAYERS`.
        origin: Where the parent comes from: `name`, and `files` with their hashes.
        history: What it was trained with since, one mapping a run.
        tokeniser: The checkpoint's tokeniser, where it has one.

    Example:
        >>> supernet = Supernet.from_pretrained("gpt2")          # doctest: +SKIP
        >>> arch = supernet.space.sample(1, seed=0)[0]           # doctest: +SKIP
        >>> supernet.logits(arch, tokens).shape                  # doctest: +SKIP
        torch.Size([2, 1024, 50257])
    """

    def __init__(
        self,
        model: Model,
        space: SearchSpace,
        *,
        widths: str = "prefix",
        layers: str = "prefix",
        origin: Mapping[str, Any] | None = None,
        history: Sequence[Mapping[str, Any]] = (),
        tokeniser: Tokeniser | None = None,
    ) -> None:
        """Take a parent; use `from_pretrained`, `load` or `open` to read one.

        Raises:
            InvalidValue: The space does not fit inside the parent.
            UnknownName: No such strategy.
        """
        super().__init__()
        for kind, name, known in (("width", widths, WIDTHS), ("layer", layers, LAYERS)):
            if name not in known:
                raise unknown(f"{kind} strategy", name, known)
        _check_fits(space, model.config)
        self.model, self.space = model, space
        self.widths, self.layers = widths, layers
        self.origin: Mapping[str, Any] = origin or {"name": None, "files": {}}
        self.history = tuple(history)
        self.tokeniser = tokeniser

    @classmethod
    def from_pretrained(
        cls,
        path_or_name: str | Path,
        space: str | Path | SearchSpace | None = None,
        *,
        widths: str = "prefix",
        layers: str = "prefix",
        calibration: Iterable[Tensor] | str | Path | None = None,
        tokeniser: Tokeniser | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> Supernet:
        """Inherit a Hugging Face checkpoint of GPT-2.

        Args:
            path_or_name: Its folder, or its name on the hub where there is a network.
            space: The architectures, any space that fits inside the checkpoint; s, m, l or xl by
                the checkpoint's size unless given.
            widths: "prefix" or "importance".
            layers: "prefix" or "strided".
            calibration: What "importance" sorts by, and needs: token indices, each (B, T), or a
                data file of which 64 sequences are drawn, the same every time.
            tokeniser: For text; the checkpoint's own unless given.
            dtype: What the weights are held in.

        Raises:
            InvalidValue: There is no checkpoint, the space does not fit inside it or cannot be
                inferred, or calibration is missing or shorter than the context.
            InvalidArtifact: The checkpoint is damaged, or of another model.
            UnknownName: No such space or strategy.
        """
        folder = checkpoint.locate(path_or_name)
        config = checkpoint.read_config(folder)
        owner = inferred_space(config, folder) if space is None else archs.space(space)
        _check_fits(owner, config)
        if widths == "importance" and calibration is None:
            raise InvalidValue("The width strategy 'importance' needs calibration text. Got none.")
        files = [checkpoint.CONFIG, *checkpoint.weight_files(folder)]
        supernet = cls(
            checkpoint.read_gpt2(folder, dtype),
            owner,
            widths=widths,
            layers=layers,
            origin={
                "name": folder.resolve().name if Path(path_or_name).is_dir() else str(path_or_name),
                "files": {name: sha256(folder / name) for name in files},
            },
            tokeniser=tokeniser or Tokeniser.of_checkpoint(folder),
        )
        if widths == "importance" and calibration is not None:
            if isinstance(calibration, str | Path):
                data = Data.open(calibration, supernet.tokeniser, config.vocabulary)
                calibration = calibration_batches(data.tokens(), config.context)
            sort_by_importance(supernet.model, calibration)
        return supernet

    @classmethod
    def load(cls, folder: str | Path) -> Supernet:
        """Read what `save` wrote.

        Raises:
            InvalidArtifact: A file is missing or damaged, or the folder holds no supernet.
        """
        return cls.of_snapshot(Snapshot.read(Path(folder)))

    @classmethod
    def of_snapshot(cls, snapshot: Snapshot) -> Supernet:
        """The supernet of a snapshot that was read; see `load`."""
        values = snapshot.values
        if values.get("kind") != _KIND:
            raise InvalidArtifact(f"{snapshot.folder} must hold a supernet. It does not.")
        text = snapshot.text("tokenizer")
        weights = snapshot.tensors("weights")
        try:
            with torch.device("meta"):
                model = Model(ModelConfig.from_dict(values["model"]))
            model.load_state_dict(weights, assign=True)
            return cls(
                model.requires_grad_(),
                SearchSpace.from_dict(values["space"]),
                widths=values["widths"],
                layers=values["layers"],
                origin=values["origin"],
                history=values["history"],
                tokeniser=None if text is None else Tokeniser.from_text(text),
            )
        except (KeyError, TypeError, ValueError, RuntimeError, LookupError) as error:
            reason = " ".join(str(error).split())
            raise InvalidArtifact(f"Cannot load {snapshot.folder}: {reason}") from None

    @classmethod
    def open(
        cls,
        path_or_name: str | Path,
        space: str | Path | SearchSpace | None = None,
        *,
        widths: str | None = None,
        layers: str | None = None,
        calibration: Iterable[Tensor] | str | Path | None = None,
        tokeniser: Tokeniser | None = None,
    ) -> Supernet:
        """Read a supernet, or inherit a checkpoint of GPT-2, by what the folder holds.

        Args:
            path_or_name: A folder of either kind, or a name on the hub.
            space: The architectures; a supernet has its own, and nothing else may be given.
            widths: Likewise; of a checkpoint "prefix" unless given.
            layers: Likewise.
            calibration: As of `from_pretrained`; a supernet is sorted already.
            tokeniser: For text; the folder's own unless given.

        Raises:
            InvalidValue: The supernet has another space or strategy, and see `from_pretrained`.
            InvalidArtifact: A file is missing or damaged.
        """
        if not (Path(path_or_name) / CARD).is_file():
            return cls.from_pretrained(
                path_or_name,
                space,
                widths=widths or "prefix",
                layers=layers or "prefix",
                calibration=calibration,
                tokeniser=tokeniser,
            )
        supernet = cls.load(path_or_name)
        if space is not None and archs.space(space) != supernet.space:
            raise invalid("space", "Supernet.open", f"{supernet.space.name!r}, its own", str(space))
        for name, given in (("widths", widths), ("layers", layers)):
            own = getattr(supernet, name)
            if given not in (None, own):
                raise invalid(name, "Supernet.open", f"{own!r}, the supernet's own", given)
        supernet.tokeniser = tokeniser or supernet.tokeniser
        return supernet

    def card(self) -> dict[str, Any]:
        """All but the weights, ready for JSON."""
        return {
            "kind": _KIND,
            "origin": dict(self.origin),
            "space": self.space.to_dict(),
            "model": self.model.config.to_dict(),
            "widths": self.widths,
            "layers": self.layers,
            "history": [dict(h) for h in self.history],
        }

    def texts(self) -> dict[str, str]:
        """The texts that are kept beside the weights, by part."""
        return {} if self.tokeniser is None else {"tokenizer": self.tokeniser.to_text()}

    def save(self, folder: str | Path) -> Snapshot:
        """Write the supernet into a folder, in place of the one it holds.

        Raises:
            InvalidArtifact: It could not be written; what the folder held is untouched.
        """
        steps = sum(int(run["steps"]) for run in self.history)
        tensors = {"weights": self.model.state_dict()}
        return write_snapshot(Path(folder), self.card(), tensors, self.texts(), f"{steps:07d}")

    def forward(self, arch: Architecture, tokens: Tensor) -> Tensor:
        """`logits` without a look at the tokens."""
        self.check(arch)
        skeleton = _skeleton(self.config_of(arch))
        logits: Tensor = functional_call(skeleton, self.weights(arch), (tokens,), strict=True)
        return logits

    def logits(self, arch: Architecture, tokens: Tensor) -> Tensor:
        """The logits of a subnetwork, of the token after each of the given ones.

        Args:
            arch: An architecture of the supernet's space.
            tokens: Indices, (B, T).

        Returns:
            Logits, (B, T, vocabulary). Gradients flow to the parent's weights.

        Raises:
            InvalidArchitecture: The architecture is none of the space.
            InvalidValue: The tokens are no table of ints, one is outside the vocabulary, or there
                are more than the context.
        """
        if tokens.dim() != 2 or tokens.dtype not in (torch.int64, torch.int32):
            found = f"{tokens.dtype} of shape {tuple(tokens.shape)}"
            raise invalid("tokens", "Supernet.logits", "int64 or int32 of shape (B, T)", found)
        vocabulary = self.model.config.vocabulary
        if tokens.numel() and not 0 <= int(tokens.min()) <= int(tokens.max()) < vocabulary:
            got = [int(tokens.min()), int(tokens.max())]
            allowed = f"indices from 0 to {vocabulary - 1}"
            raise invalid("tokens", "Supernet.logits", allowed, got)
        logits: Tensor = self(arch, tokens)
        return logits

    def check(self, arch: Architecture) -> None:
        """See that an architecture is one of the supernet's space.

        Raises:
            InvalidArchitecture: It is not; nothing is rounded to the nearest that is.
        """
        if not self.space.contains(arch):
            raise InvalidArchitecture(
                f"An architecture of the supernet must be one of its space {self.space.name}. "
                f"Got {str(arch)!r} instead."
            )

    def digest(self) -> str:
        """SHA-256 of the weights: names and bytes, in order."""
        found = hashlib.sha256()
        for name, w in self.model.state_dict().items():
            found.update(name.encode())
            found.update(w.detach().cpu().contiguous().view(torch.uint8).numpy().data)
        return found.hexdigest()

    def config_of(self, arch: Architecture) -> ModelConfig:
        """The sizes of a subnetwork."""
        own = self.model.config
        return ModelConfig.of(arch, "gpt2", vocabulary=own.vocabulary, context=own.context)

    def weights(self, arch: Architecture) -> dict[str, Tensor]:
        """The weights of a subnetwork by the names of the dense model, views of the parent's."""
        layers = layers_of(self.layers, arch.n_layer, len(self.model.config.n_head))
        return sliced_weights(self.model, layers, self.config_of(arch))

    def extract(self, arch: Architecture) -> Model:
        """A dense model of its own with a subnetwork's weights.

        Args:
            arch: An architecture of the supernet's space.

        Returns:
            The model, which gives the logits that `logits` gives, and shares no memory with it.

        Raises:
            InvalidArchitecture: The architecture is none of the space.
        """
        self.check(arch)
        with torch.device("meta"):
            model = Model(self.config_of(arch))
        own = {
            name: w.detach().clone(memory_format=torch.contiguous_format)
            for name, w in self.weights(arch).items()
        }
        model.load_state_dict(own, assign=True)
        return model.requires_grad_()


@lru_cache(maxsize=16)
def _skeleton(config: ModelConfig) -> Model:
    """The dense model's code for some sizes, without weights."""
    with torch.device("meta"):
        return Model(config)


def inferred_space(config: ModelConfig, folder: Path) -> SearchSpace:
    """The space of GPT-2's family that a checkpoint is the largest architecture of.

    Args:
        config: The checkpoint's sizes; its vocabulary does not matter.
        folder: Its folder, for the message.

    Raises:
        InvalidValue: It is of none of them.
    """
    for name in _GPT2_SPACES:
        owner = archs.space(name)
        if ModelConfig.of(owner.largest, "gpt2", context=config.context) == _standard(config):
            return owner
    raise InvalidValue(
        f"The space of {folder} must be given: with embed_dim {config.embed_dim} and "
        f"{len(config.n_head)} layers it is none of {', '.join(_GPT2_SPACES)}."
    )


def _standard(config: ModelConfig) -> ModelConfig:
    """The sizes with GPT-2's own vocabulary, on which no space depends."""
    return ModelConfig.from_dict({**config.to_dict(), "vocabulary": 50257})


def _check_fits(space: SearchSpace, config: ModelConfig) -> None:
    if config.block != "gpt2":
        raise InvalidValue(f"A supernet's parent must be of block 'gpt2'. Got {config.block!r}.")
    if any(space.bias) and not config.bias:
        raise InvalidValue(f"The space {space.name} has biases, which the parent has not.")
    inner = min(config.mlp_ratio) * config.embed_dim
    limits = (
        ("embed_dim", max(space.embed_dim), config.embed_dim),
        ("n_layer", max(space.n_layer), len(config.n_head)),
        ("n_head", max(space.n_head), min(config.n_head)),
        ("mlp_ratio x embed_dim", max(space.mlp_ratio) * max(space.embed_dim), inner),
    )
    for name, wanted, there in limits:
        if wanted > there:
            raise InvalidValue(
                f"The space {space.name} must fit inside the parent, whose {name} is {there}. "
                f"Got {wanted} instead."
            )
    if space.head_size != config.head_size:
        raise InvalidValue(
            f"The space {space.name} must have the parent's head_size {config.head_size}. "
            f"Got {space.head_size} instead."
        )
