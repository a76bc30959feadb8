"""Score a profile on its test architectures: the numbers of docs/profile.md.

python scripts/score_profile.py STORE ARTIFACTS --device my-cpu --space s
"""

from __future__ import annotations

import argparse
from pathlib import Path

from hwbench.campaign.score import score_profile
from hwbench.cli.output import table
from hwbench.records import Store

SHOWN = (
    ("passes", "test architectures, measured twice"),
    ("noise", "mean of |x1 / x2 - 1|, %"),
    ("mape", "error of the median, %"),
    ("mape_drift_adjusted", "the same, drift-adjusted, %"),
    ("error_over_noise", "drift-adjusted error over noise"),
    ("tau", "Kendall's tau"),
    ("coverage_50", "in 50% intervals, %"),
    ("coverage_80", "in 80% intervals, %"),
    ("coverage_90", "in 90% intervals, %"),
    ("width_90", "median width of 90% intervals, %"),
)

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("store", type=Path)
    parser.add_argument("artifacts", type=Path)
    parser.add_argument("--device", required=True)
    parser.add_argument("--space", required=True)
    given = parser.parse_args()
    found = score_profile(Store.open(given.store), given.artifacts, given.device, given.space)
    sessions = Store.open(given.store).campaign(given.device, given.space)
    rows = [{"score": said, "value": found[key]} for key, said in SHOWN]
    for session in (sessions or {}).get("sessions", []):
        share = 100 * session.get("overhead", float("nan"))
        rows.append({"score": f"overhead of session {session['session']}, %", "value": share})
    print(table(rows))
