"""Whether this process has a cluster."""

import ray

from unspoken.errors import ConfigurationError


def check_connected() -> None:
    """Refuse to go on without a Ray cluster."""
    if not ray.is_initialized():
        raise ConfigurationError('found no Ray cluster; connect to one first: ray.init(address="auto"), or ray.init()')
