"""Hugging Face's GPT-2 checkpoints: reading one into a dense model, and writing one.

A checkpoint is a folder with a `config.json` and weights in safetensors or .bin files, whole or in
shards. Weights are read one at a time and their file closed after each, so that a load needs little
more memory than the model.
"""

from __future__ import annotations

import json
import pickle
import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from hwbench.errors import InvalidArtifact, InvalidValue, MissingDependency, brief
from hwbench.model import Model, ModelConfig, gpt2_name, is_transposed, write_files

CONFIG = "config.json"

_WHOLE = ("model.safetensors", "pytorch_model.bin")
_FETCHED = ("*.json", "merges.txt", "model*.safetensors")
_DAMAGE = (OSError, RuntimeError, ValueError, EOFError, AttributeError)
_EPSILON = 1e-5  # of torch's layer norm, which the model has
_FIXED: Mapping[str, tuple[Any, ...]] = {
    "model_type": ("gpt2",),
    "activation_function": ("gelu_new", "gelu_pytorch_tanh"),
    "layer_norm_epsilon": (_EPSILON,),
    "scale_attn_weights": (True,),
    "scale_attn_by_inverse_layer_idx": (False,),
    "tie_word_embeddings": (True,),
    "add_cross_attention": (False,),
}
"""What a GPT-2 config must say where it says it, for the model's forward to be the checkpoint's."""


def locate(path_or_name: str | Path) -> Path:
    """The folder of a checkpoint, fetched from the hub where the name is no folder here.

    Args:
        path_or_name: A folder, or a name on the Hugging Face hub such as "gpt2-xl".

    Raises:
        InvalidValue: There is no such folder, and nothing could be fetched under that name.
        MissingDependency: huggingface_hub is needed and not installed.
    """
    folder = Path(path_or_name)
    if folder.is_dir():
        return folder
    name = str(path_or_name)
    if folder.exists() or not re.fullmatch(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?", name):
        raise InvalidValue(f"A checkpoint must be a folder. {brief(name)} is none.")
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError
    except ImportError:
        raise MissingDependency(
            f"There is no folder {name!r} here, and fetching it from the hub needs "
            "huggingface_hub: pip install 'hwbench[supernet]', or give the path of a folder."
        ) from None
    try:
        fetched = Path(snapshot_download(name, allow_patterns=list(_FETCHED)))
        if not any(fetched.glob("model*.safetensors")):  # an older one, which has .bin files only
            fetched = Path(snapshot_download(name, allow_patterns=["pytorch_model*.bin"]))
        return fetched
    except (OSError, RuntimeError, HfHubHTTPError, HFValidationError) as error:
        raise InvalidValue(
            f"There is no folder {name!r} here, and it could not be fetched from the hub "
            f"({type(error).__name__}). Where there is no network, fetch the checkpoint elsewhere "
            "and give the path of its folder."
        ) from None


def read_config(folder: Path) -> ModelConfig:
    """The sizes of a checkpoint of GPT-2.

    Raises:
        InvalidArtifact: There is no readable `config.json`, it is of another model, or of a GPT-2
            that computes something else than the model does.
    """
    path = folder / CONFIG
    try:
        values = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise InvalidArtifact(f"Cannot read {path}: {reason}.") from None
    if not isinstance(values, dict):
        raise InvalidArtifact(f"{path} must hold a mapping. Got {brief(values)} instead.")
    if "model_type" not in values:
        raise InvalidArtifact(f"{path} must be of a GPT-2 checkpoint. It has no 'model_type'.")
    for key, allowed in _FIXED.items():
        if values.get(key, allowed[0]) not in allowed:
            wanted = " or ".join(repr(a) for a in allowed)
            raise InvalidArtifact(
                f"{key!r} in {path} must be {wanted}. Got {brief(values[key])} instead."
            )
    sizes: dict[str, int] = {}
    for key in ("n_embd", "n_layer", "n_head", "vocab_size", "n_positions"):
        size = values.get(key)
        if type(size) is not int or size < 1:
            raise InvalidArtifact(
                f"{key!r} in {path} must be an int >= 1. Got {brief(size)} instead."
            )
        sizes[key] = size
    width, heads, layers = sizes["n_embd"], sizes["n_head"], sizes["n_layer"]
    inner = values.get("n_inner") or 4 * width
    for key, whole in (("n_head", width), ("n_embd", inner)):
        if type(whole) is not int or whole % sizes[key]:
            raise InvalidArtifact(
                f"{key!r} in {path} must divide {brief(whole)}. Got {sizes[key]} instead."
            )
    return ModelConfig(
        block="gpt2",
        embed_dim=width,
        n_head=(heads,) * layers,
        mlp_ratio=(inner // width,) * layers,
        bias=True,
        head_size=width // heads,
        vocabulary=sizes["vocab_size"],
        context=sizes["n_positions"],
    )


def weight_files(folder: Path) -> dict[str, list[str]]:
    """The files that hold a checkpoint's weights, and the names of the weights in each.

    Safetensors are preferred where there are both.

    Raises:
        InvalidArtifact: There are none, one is missing, damaged, or lacks what the index promises.
    """
    for whole in _WHOLE:
        index = folder / f"{whole}.index.json"
        if (folder / whole).is_file():
            return {whole: _names(folder / whole)}
        if index.is_file():
            return _shards(folder, index)
    raise InvalidArtifact(f"{folder} must hold {' or '.join(_WHOLE)}. It holds neither.")


def _shards(folder: Path, index: Path) -> dict[str, list[str]]:
    try:
        promised: dict[str, str] = dict(json.loads(index.read_text("utf-8"))["weight_map"])
    except (OSError, ValueError, KeyError, TypeError):
        raise InvalidArtifact(f"{index} must hold a 'weight_map'. It cannot be read.") from None
    found: dict[str, list[str]] = {}
    for file in sorted(set(promised.values())):
        if Path(file).name != file or not (folder / file).is_file():
            raise InvalidArtifact(f"{folder} lacks the shard {file!r} that {index.name} names.")
        found[file] = _names(folder / file)
        lacking = {k for k, v in promised.items() if v == file} - set(found[file])
        if lacking:
            raise InvalidArtifact(f"{folder / file} lacks {min(lacking)!r}, which the index names.")
    return found


def _names(path: Path) -> list[str]:
    with _opened(path) as weights:
        return list(weights)


class Weights(Mapping[str, Tensor]):
    """The weights of a checkpoint by name, each read when it is asked for and not kept.

    Only a .bin file of torch's format before 1.6 is kept, since it can be read only as a whole.
    """

    def __init__(self, folder: Path) -> None:
        """Find out which file holds which weight; see `weight_files` for what is raised."""
        self.folder = folder
        self._file = {n: file for file, names in weight_files(folder).items() for n in names}
        self._kept: dict[str, Mapping[str, Tensor]] = {}

    def __getitem__(self, name: str) -> Tensor:
        """Read one weight."""
        file = self._file[name]
        if file in self._kept:
            return self._kept[file][name]
        with _opened(self.folder / file) as weights:
            if not _is_mappable(self.folder / file):
                self._kept[file] = weights
            return weights[name]

    def __iter__(self) -> Iterator[str]:
        """All names."""
        return iter(self._file)

    def __len__(self) -> int:
        """How many weights there are."""
        return len(self._file)


class _Safetensors(Mapping[str, Tensor]):
    """The tensors of an open safetensors file."""

    def __init__(self, path: Path) -> None:
        self._file: Any = safe_open(path, framework="pt")

    def __getitem__(self, name: str) -> Tensor:
        tensor: Tensor = self._file.get_tensor(name)
        return tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._file.keys())

    def __len__(self) -> int:
        return len(self._file.keys())


@contextmanager
def _opened(path: Path) -> Iterator[Mapping[str, Tensor]]:
    """The tensors of a weight file, mapped into memory until the last that was read is gone.

    Raises:
        InvalidArtifact: The file is damaged.
    """
    try:
        if path.suffix == ".safetensors":
            yield _Safetensors(path)
        else:
            mapped = _is_mappable(path)
            loaded = torch.load(path, map_location="cpu", mmap=mapped, weights_only=True)
            yield {str(k): v for k, v in loaded.items() if isinstance(v, Tensor)}
    except (*_DAMAGE, SafetensorError, pickle.UnpicklingError) as error:
        reason = " ".join(str(error).split()).split(". ")[0]
        raise InvalidArtifact(f"Cannot read {path}: {reason[:200]}.") from None


def _is_mappable(path: Path) -> bool:
    return path.suffix == ".safetensors" or zipfile.is_zipfile(path)


def read_gpt2(folder: Path, dtype: torch.dtype = torch.float32) -> Model:
    """The dense model of a checkpoint.

    Args:
        folder: The checkpoint's folder.
        dtype: What the weights are held in.

    Raises:
        InvalidArtifact: A file is missing, damaged or of another model, a weight is missing,
            unknown, of another shape or not finite, or there is not enough memory.
    """
    config, weights = read_config(folder), Weights(folder)
    with torch.device("meta"):
        model = Model(config)
    try:
        model = model.to(dtype).to_empty(device="cpu")
    except RuntimeError:  # torch's allocator
        weigh = sum(p.numel() for p in model.parameters())
        raise InvalidArtifact(
            f"There is not enough memory for the {weigh:,} weights that {folder / CONFIG} tells of."
        ) from None
    try:
        model.load_gpt2(weights)
    except InvalidValue as error:
        raise InvalidArtifact(f"In the checkpoint {folder}: {error}") from None
    return model


def write_gpt2(model: Model, folder: str | Path) -> None:
    """Write a dense gpt2 model as a checkpoint that Hugging Face's `GPT2LMHeadModel` reads.

    Args:
        model: The model; all its layers have the same heads and MLP ratio, as GPT-2's do, heads x
            head_size is embed_dim, and it has biases.
        folder: Where to; made if it is not there.

    Raises:
        InvalidValue: GPT-2 has no such shape.
        InvalidArtifact: A file could not be written; what the folder held is untouched.
    """
    config = model.config
    uniform = len(set(config.n_head)) == len(set(config.mlp_ratio)) == 1
    square = config.n_head[0] * config.head_size == config.embed_dim
    if config.block != "gpt2" or not (uniform and square and config.bias):
        raise InvalidValue(
            "A model of write_gpt2 must be of block 'gpt2' with biases, the same heads and ratio "
            "in every layer, and heads x head_size = embed_dim. It is not."
        )
    weights = {}
    for name, p in model.named_parameters():
        theirs = gpt2_name(name)
        weights[f"transformer.{theirs}"] = p.detach().t() if is_transposed(theirs) else p.detach()
    values = {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "activation_function": "gelu_new",
        "layer_norm_epsilon": _EPSILON,
        "n_embd": config.embed_dim,
        "n_layer": len(config.n_head),
        "n_head": config.n_head[0],
        "n_inner": config.mlp_ratio[0] * config.embed_dim,
        "n_positions": config.context,
        "vocab_size": config.vocabulary,
        "tie_word_embeddings": True,
    }
    write_files(Path(folder), weights, values)
