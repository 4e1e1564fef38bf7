"""The applications of an offer, in a process of its own."""

from __future__ import annotations

import os

from unspoken._unspoken import LocalApplication
from unspoken.ray._offer import Offer


def loaded(offer: Offer) -> list[LocalApplication]:
    """Load the applications of an offer, with one thread for each of its cores. Before all other work of the core."""
    # The threads of the Rust core are started by its first work.
    os.environ["RAYON_NUM_THREADS"] = str(offer.cpus)
    options = {str(name): str(value) for name, value in offer.options.items()}
    return LocalApplication.load(offer.kind, str(offer.path), offer.name, options, offer.device)
