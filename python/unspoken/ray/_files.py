"""Answers to files of encrypted questions, with Ray Data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from ray.exceptions import RayError

from unspoken._batch_answers import Answered, FileAnswerer, Place, check_kind
from unspoken.batches import Report
from unspoken.errors import ConfigurationError, UnspokenError
from unspoken.ray._connected import check_connected
from unspoken.ray._loaded import loaded
from unspoken.ray._offer import Offer

#: Attempts to answer a file after a replica died with it. More than a few dead nodes are a file that kills replicas.
_RETRIES = 8


class _Worker:
    """One replica: answers one file after the other. If it cannot load its model, that is a problem of each file."""

    def __init__(self, offer: Offer, place: Place) -> None:
        self._problem: str | None = None
        try:
            [application] = loaded(offer)
            self._answerer = FileAnswerer(application, place, offer.key_cache)
        except Exception as error:
            self._problem = f"{offer.kind} {offer.path}: no replica could load it: {error}"

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        name = row["name"]
        answered = Answered(name, 0, 0, 0.0, self._problem) if self._problem else self._answerer.answer(name)
        return answered._asdict()


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
    UnspokenError
        If replicas died with the same file again and again, or files are left and none of them can be answered. Files
        that were answered stay.

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
        answered = _answered(replace(offer, path=Path(offer.path).absolute()), place, names)
        try:
            for row in answered.iter_rows():
                report.add(Answered(**row))
        except RayError as error:
            raise UnspokenError(
                f"answer files: replicas died with a file {_RETRIES + 1} times ({type(error).__name__}); give them "
                "more memory, or look for the file without an answer"
            ) from error
    place.clean()
    report.tell()
    return report


def _answered(offer: Offer, place: Place, names: list[str]) -> Any:
    """Return the data set of the files' results, which is computed when it is read."""
    try:
        import ray.data
    except ImportError as error:
        raise ConfigurationError('answer files: found no Ray Data; pip install "unspoken[ray]"') from error
    least, most = offer.bounds
    # A block for each file: a file is given to one replica, and given again if that dies.
    files = ray.data.from_items([{"name": name} for name in names], override_num_blocks=len(names))
    worker: Any = _Worker
    return files.map(
        worker,
        fn_constructor_args=(offer, place),
        compute=ray.data.ActorPoolStrategy(min_size=least, max_size=min(most, max(least, len(names)))),
        max_task_retries=_RETRIES,
        **offer.resources,
    )
