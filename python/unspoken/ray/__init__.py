"""Serve the applications of Unspoken on a Ray cluster.

One gateway speaks the protocol of ``unspoken serve``: the same address, tokens, limits, metrics and log. Answers are
computed by replicas that Ray places, restarts and scales; clients cannot tell. Needs ``pip install "unspoken[ray]"``.

Examples
--------
>>> import unspoken.ray
>>> offers = [unspoken.ray.Offer("classify", "spam", replicas=(1, 8))]  # doctest: +SKIP
>>> with unspoken.ray.serve(offers, listen="0.0.0.0:8080", tokens="tokens.txt") as service:  # doctest: +SKIP
...     print(service.url)
"""

try:
    import ray as _ray
    from ray import serve as _serve
except ImportError as error:
    raise ImportError('unspoken.ray needs Ray Serve: pip install "unspoken[ray]"') from error

from unspoken.ray._files import answer_files
from unspoken.ray._offer import CollectionShards, Offer, Shards
from unspoken.ray._service import Service, serve

del _ray, _serve

__all__ = ["CollectionShards", "Offer", "Service", "Shards", "answer_files", "serve"]
