"""Names of the last release. This release still has them, with a warning; the next release does not."""

from __future__ import annotations

import warnings
from os import PathLike
from typing import TYPE_CHECKING, Any

from unspoken._chat_client import ChatClient
from unspoken._classify_client import ClassifyClient
from unspoken._client_base import ServiceOptions
from unspoken._pir_client import PirClient
from unspoken._table import CompressedTable

if TYPE_CHECKING:
    from typing_extensions import Unpack


class LayerClient(ClassifyClient):
    """`ClassifyClient` of a linear head, with its argument and property of the last release."""

    def __init__(
        self,
        url: str,
        *,
        table: str | PathLike[str] | CompressedTable,
        cut: bool = False,
        **options: Unpack[ServiceOptions],
    ) -> None:
        super().__init__(url, model=table, cut=cut, **options)

    def classify(self, texts: Any = None, **options: Any) -> Any:  # type: ignore[override]
        """As `ClassifyClient.classify`, with the argument `texts`."""
        return super().classify(**_messages(texts), **options)

    def classify_to_share(self, texts: Any = None, *arguments: Any, **options: Any) -> Any:  # type: ignore[override]
        """As `ClassifyClient.classify_to_share`, with the argument `texts`."""
        return super().classify_to_share(**_messages(texts), **dict(zip(("bits",), arguments)), **options)

    @property
    def tokens(self) -> list[str]:
        """The tokens of the table, in the order of its rows."""
        tokens: list[str] = self._part()[0].tokens  # type: ignore[index]
        return tokens


class RetrievalClient(PirClient):
    """`PirClient`, with its argument of the last release."""

    def __init__(self, url: str, application: str | None = None, *, unseal: str | None = None, **options: Any) -> None:
        super().__init__(url, application, **{"oprf": unseal, **options})


def _messages(texts: Any) -> dict[str, Any]:
    """Return the argument of `ClassifyClient`, if it was given under its name of the last release."""
    return {} if texts is None else {"messages": texts}


#: Old names, new names and what they are.
_NAMES: dict[str, tuple[str, Any]] = {
    "Client": ("ClassifyClient(...)", ClassifyClient),
    "LayerClient": ("ClassifyClient(..., model=table)", LayerClient),
    "LlamaClient": ("ChatClient(...)", ChatClient),
    "RetrievalClient": ("PirClient(..., oprf=)", RetrievalClient),
}


def find(name: str) -> Any:
    """Return what `name` was in the last release."""
    if name not in _NAMES:
        raise AttributeError(f"module 'unspoken' has no attribute {name!r}")
    new, meant = _NAMES[name]
    warnings.warn(f"unspoken.{name} is unspoken.{new} now; the next release has no {name}", FutureWarning, stacklevel=3)
    return meant
