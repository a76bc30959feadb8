"""Roles in a profiling campaign: what each architecture was measured for, as labels for a fit.

Designed architectures train; so does the anchor, which shows how the machine drifts. Those that
were drawn uniformly train and calibrate: they alone are exchangeable with queries. Test
architectures are seen by no fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwbench.architectures import ArchitectureTable
from hwbench.errors import InvalidStore
from hwbench.records.split import texts

LABEL_OF_ROLE: Mapping[str, str] = {"designed": "train", "random": "both", "test": "test"}
"""The label of each role of a plan's items."""


def labels_of_roles(campaign: Mapping[str, Any], table: ArchitectureTable) -> NDArray[np.str_]:
    """Label every architecture by its role.

    Args:
        campaign: What a store says of a campaign, from `Store.campaign`.
        table: The architectures, n of them.

    Returns:
        "train", "both" or "test", shape (n,); what is not in the plan trains, as the anchor does.

    Raises:
        InvalidStore: The campaign has no plan.
    """
    try:
        items = campaign["plan"]["items"]
        label = {i["architecture"]: LABEL_OF_ROLE[i["role"]] for i in items}
    except (KeyError, TypeError) as error:
        raise InvalidStore(f"A campaign's plan is incomplete: {error}.") from None
    return np.array([label.get(name, "train") for name in texts(table)], dtype="<U9")
