"""Labels of scores with noise: labels that the noise may have decided are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from unspoken.errors import UncertainError

MIN_CERTAINTY = 0.95


def refuse_uncertain(
    labels: npt.NDArray[Any],
    scores: npt.NDArray[np.float64],
    certainties: list[float],
    bits: int,
    *,
    uncertain: bool,
) -> None:
    """Raise `UncertainError` if noise may have decided a label and the caller did not allow it.

    Examples
    --------
    >>> refuse_uncertain(np.array(["a"]), np.zeros((1, 2)), [0.5], 20, uncertain=True)
    >>> refuse_uncertain(np.array(["a"]), np.zeros((1, 2)), [0.5], 20, uncertain=False)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    unspoken.errors.UncertainError: share labels: found labels that noise of 20 bits ...
    """
    found = np.asarray(certainties, dtype=np.float64)
    decided = int(np.count_nonzero(found < MIN_CERTAINTY))
    if decided and not uncertain:
        message = (
            f"share labels: found labels that noise of {bits} bits may have decided, {decided} of {len(found)}; needed "
            f"a probability of at least {MIN_CERTAINTY} that each is right. This error has the labels. Do not "
            "ask a service again because of it; later share with fewer bits, or allow such labels with "
            "uncertain=True"
        )
        raise UncertainError(message, labels, scores, found)
