"""`Workload`: what was run and how it was read. A number without its workload is not an answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from hwbench.errors import invalid

Block = Literal["gpt2", "hwgpt"]
Phase = Literal["forward", "decode", "train"]

BLOCKS: tuple[str, ...] = get_args(Block)
PHASES: tuple[str, ...] = get_args(Phase)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What was run on a device, and how the number was read off it.

    Attributes:
        block: "gpt2" (learned positions, sequential residual, two-matrix GELU MLP, tied
            embeddings) or "hwgpt" (the block that HW-GPT-Bench recorded: rotary positions,
            parallel residual, gated MLP, untied embeddings).
        phase: "forward" (one pass over a prompt), "decode" or "train".
        batch_size: Sequences a pass.
        seq_len: Tokens a sequence.
        new_tokens: Tokens generated, in the decode phase; 0 elsewhere.
        weights_dtype: Type the weights are held in.
        compute_dtype: Type the matrix products are computed in.
        autocast: Whether the compute type comes from autocasting wider weights.
        method: How the number was read, in words.
        warmup_repeats: How many leading repeats every fit, score and check leaves out.

    Raises:
        InvalidValue: A field has a value that is not allowed.
    """

    block: Block = "hwgpt"
    phase: Phase = "forward"
    batch_size: int
    seq_len: int
    new_tokens: int = 0
    weights_dtype: str = "float32"
    compute_dtype: str = "float32"
    autocast: bool = False
    method: str
    warmup_repeats: int = 0

    def __post_init__(self) -> None:
        """Check every field; a workload that cannot have been run does not exist."""
        for name, known in (("block", BLOCKS), ("phase", PHASES)):
            value = getattr(self, name)
            if not isinstance(value, str) or value not in known:
                raise invalid(name, "Workload", f"one of {', '.join(known)}", value)
        for name, least in (
            ("batch_size", 1),
            ("seq_len", 1),
            ("new_tokens", 0),
            ("warmup_repeats", 0),
        ):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise invalid(name, "Workload", f"an int >= {least}", value)
        if (self.new_tokens > 0) != (self.phase == "decode"):
            allowed = "an int >= 1" if self.phase == "decode" else "0"
            raise invalid(
                "new_tokens", "Workload", f"{allowed} in phase {self.phase}", self.new_tokens
            )
        if type(self.autocast) is not bool:
            raise invalid("autocast", "Workload", "True or False", self.autocast)
        for name in ("weights_dtype", "compute_dtype", "method"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value:
                raise invalid(name, "Workload", "a non-empty str", value)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Workload:
        """Make a workload from a mapping, as a store or an artefact's card holds it.

        Args:
            values: Field names to values; fields with a default may be left out.

        Returns:
            The workload.

        Raises:
            InvalidValue: A field is missing, unknown or has a value that is not allowed.
        """
        mapping: object = values
        if not isinstance(mapping, Mapping):
            raise invalid("workload", "Workload", "a mapping", values)
        known = [f.name for f in fields(cls)]
        strange = [k for k in values if k not in known]
        if strange:
            raise invalid("workload", "Workload", f"made of {', '.join(known)}", strange[0])
        try:
            return cls(**values)
        except TypeError:
            raise invalid(
                "workload", "Workload", "given with batch_size, seq_len and method", dict(values)
            ) from None

    def to_dict(self) -> dict[str, Any]:
        """All fields by name, ready for TOML or JSON."""
        return asdict(self)

    def __str__(self) -> str:
        """One line for a reader.

        >>> print(Workload(batch_size=8, seq_len=1024, compute_dtype="bfloat16", method="NVML"))
        hwgpt forward, batch 8 x 1024 tokens, float32 weights, bfloat16 products: NVML
        """
        types = f"{self.weights_dtype} weights"
        if self.autocast:
            types += f" under {self.compute_dtype} autocast"
        elif self.compute_dtype != self.weights_dtype:
            types += f", {self.compute_dtype} products"
        decode = f", {self.new_tokens} new tokens" if self.new_tokens else ""
        size = f"batch {self.batch_size} x {self.seq_len} tokens{decode}"
        return f"{self.block} {self.phase}, {size}, {types}: {self.method}"
