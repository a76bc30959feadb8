"""Five minutes on a GPU: measure products, compare with the model, leave records in a folder.

python scripts/check_gemm_gpu.py FOLDER
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DEVICE = "cuda:0"
SWIGLU = (10880, 10922, 10928, 10944, 11008)

MODELS = {
    "gpt3-2.7b-heads-32": ["--hidden", "2560", "--heads", "32"],
    "gpt3-2.7b-heads-40": ["--hidden", "2560", "--heads", "40"],
    "gpt3-2.7b-heads-20": ["--hidden", "2560", "--heads", "20"],
    "gpt2-xl": ["--hidden", "1600", "--heads", "25"],
}


def main(folder: Path) -> None:
    """Measure each model's step and one SwiGLU at several widths."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, sizes in MODELS.items():
        rest = ["--layers", "1", "--vocab", "50257", "--seq", "2048", "--microbatch", "4"]
        gemm([*sizes, *rest], folder / f"{name}.json")
    sizes = folder / "swiglu.txt"
    sizes.write_text("".join(f"8192 {w} 4096\n8192 4096 {w}\n" for w in SWIGLU), "utf-8")
    gemm(["--shapes", str(sizes)], folder / "swiglu.json")


def gemm(args: list[str], record: Path) -> None:
    """Measure what the record does not hold yet, and print the comparison."""
    print(f"\n{record.stem}", flush=True)
    command = [sys.executable, "-m", "hwbench.cli", "gemm", "--device", DEVICE, *args]
    subprocess.run([*command, "--out", str(record)], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
