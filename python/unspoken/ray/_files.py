"""Answers to files of encrypted questions, with Ray Data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from unspoken._batch_answers import Answered, FileAnswerer, Place, check_kind, load
from unspoken.batches import Report
from unspoken.errors import ConfigurationError
from unspoken.ray._connected import check_connected
from unspoken.ray._offer import Offer


class _Worker:
    """One replica: answers one file after the other."""

    def __init__(self, offer: Offer, place: Place) -> None:
        # The threads of the Rust core are started by its first work.
        os.environ["RAYON_NUM_THREADS"] = str(offer.cpus)
        self._answerer = FileAnswerer(load(offer.kind, offer.path, offer.options), place, offer.key_cache)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        return self._answerer.answer(row["name"])._asdict()


def answer_files(
    offer: Offer,
    questions: str | PathLike[str],
    answers: str | PathLike[str],
    *,
    keys: str | PathLike[str],
    storage_options: Mapping[str, Any] | None = None,
) -> Report:
    """Answer the files of `unspoken.batches.encrypt` on the Ray cluster of this process.

    Each file is answered by one replica, and appears when it is complete. Files whose replica or node dies are given to
    another one. An interrupted call is resumed by the next one: files that have been answered are left out.

    Parameters
    ----------
    offer : Offer
        The application, of kind ``classify``, ``embed``, ``digits`` or ``matrix``, with the options that the service of
        the clients has. ``replicas`` and ``cpus`` say how many files are answered at once, and with which cores; the
        name is not used.
    questions, answers, keys, storage_options
        As for `unspoken.batches.answer`. All nodes must reach them.

    Raises
    ------
    ConfigurationError
        If there is no cluster, if there are no files of questions, or if the kind has a state of its own.

    Examples
    --------
    >>> offer = unspoken.ray.Offer("classify", "/models/spam", replicas=(1, 8), cpus=4)  # doctest: +SKIP
    >>> report = unspoken.ray.answer_files(  # doctest: +SKIP
    ...     offer, "s3://bucket/questions", "s3://bucket/answers", keys="s3://bucket/keys"
    ... )
    >>> report.queries, report.refused, report.problems  # doctest: +SKIP
    """
    check_connected()
    check_kind(offer.kind)
    place = Place.of(questions, answers, keys, storage_options)
    names, before = place.missing()
    report = Report(before=before)
    if names:
        for row in _answered(replace(offer, path=Path(offer.path).absolute()), place, names).iter_rows():
            report.add(Answered(**row))
    place.clean()
    return report


def _answered(offer: Offer, place: Place, names: list[str]) -> Any:
    """Return the data set of the files' results, which is computed when it is read."""
    try:
        import ray.data
    except ImportError as error:
        raise ConfigurationError('answer files: found no Ray Data; pip install "unspoken[ray]"') from error
    least, most = offer.bounds
    resources: dict[str, Any] = {"num_cpus": offer.cpus}
    if offer.memory is not None:
        resources["memory"] = offer.memory
    # A block for each file: a file is given to one replica, and given again if that dies.
    files = ray.data.from_items([{"name": name} for name in names], override_num_blocks=len(names))
    worker: Any = _Worker
    return files.map(
        worker,
        fn_constructor_args=(offer, place),
        compute=ray.data.ActorPoolStrategy(min_size=least, max_size=min(most, max(least, len(names)))),
        **resources,
    )
