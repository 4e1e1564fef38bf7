from collections.abc import Sequence
from os import PathLike
from typing import Any, Callable, TypeAlias, TypedDict, final

import numpy as np
import numpy.typing as npt

__version__: str

_Path: TypeAlias = str | PathLike[str]
_Progress: TypeAlias = bool | Callable[[Progress], object] | None

class _Object(TypedDict):
    what: str
    n: int
    log2_q: float
    secret: str
    sigma: float
    security_bits: float

class _Preset(TypedDict):
    name: str
    purpose: str
    slots: int
    levels: int
    scale_bits: float
    objects: list[_Object]

class _Usage(TypedDict):
    messages: int
    key_bytes: int
    query_bytes: int
    answer_bytes: int
    key_seconds: float
    client_seconds: float
    server_seconds: float

def presets() -> list[_Preset]: ...

@final
class Progress:
    @property
    def stage(self) -> str: ...
    @property
    def done(self) -> int: ...
    @property
    def total(self) -> int: ...
    @property
    def note(self) -> str: ...

@final
class Model:
    @staticmethod
    def fit(texts: Sequence[str], labels: Sequence[str], options: dict[str, Any], progress: _Progress) -> Model: ...
    @staticmethod
    def load(directory: _Path) -> Model: ...
    def save(self, directory: _Path) -> None: ...
    def scores(self, texts: Sequence[str]) -> npt.NDArray[np.float64]: ...
    def words(self) -> Words: ...
    @property
    def labels(self) -> list[str]: ...
    @property
    def id(self) -> str: ...
    @property
    def training(self) -> dict[str, Any]: ...
    @property
    def validation_accuracy(self) -> float | None: ...
    @property
    def vocabulary_size(self) -> int: ...

@final
class Words:
    @staticmethod
    def load(directory: _Path) -> Words: ...
    @property
    def labels(self) -> list[str]: ...
    @property
    def id(self) -> str: ...

@final
class Table:
    @staticmethod
    def compress(
        rows: npt.NDArray[np.float32], tokens: Sequence[str], options: dict[str, int], progress: _Progress
    ) -> tuple[Table, float]: ...
    @staticmethod
    def load(directory: _Path) -> Table: ...
    def save(self, directory: _Path) -> None: ...
    def reconstruct(self, tokens: Sequence[str]) -> npt.NDArray[np.float64]: ...
    def error(self, rows: npt.NDArray[np.float32]) -> float: ...
    def codes(self) -> Codes: ...
    @property
    def id(self) -> str: ...

@final
class Codes:
    @staticmethod
    def load(directory: _Path) -> Codes: ...
    def ids(self, tokens: Sequence[str]) -> list[int]: ...
    @property
    def tokens(self) -> list[str]: ...
    @property
    def width(self) -> int: ...
    @property
    def columns(self) -> int: ...
    @property
    def subtables(self) -> int: ...

@final
class Digits:
    @staticmethod
    def fit(
        images: npt.NDArray[np.uint8], labels: Sequence[int], options: dict[str, Any], progress: _Progress
    ) -> Digits: ...
    @staticmethod
    def load(directory: _Path) -> Digits: ...
    def save(self, directory: _Path) -> None: ...
    def scores(self, images: npt.NDArray[np.uint8]) -> npt.NDArray[np.float64]: ...
    @property
    def training(self) -> dict[str, Any]: ...
    @property
    def validation_accuracy(self) -> float | None: ...
    @property
    def id(self) -> str: ...

@final
class Service:
    def __new__(
        cls, url: str, token: str | None, authorities_pem: bytes | None, patience_seconds: float
    ) -> Service: ...
    def applications(self) -> list[str]: ...

@final
class Connection:
    @staticmethod
    def open(
        service: Service,
        application: str | None,
        words: Words,
        state_dir: _Path,
        progress: _Progress,
    ) -> Connection: ...
    def classify(self, messages: Sequence[str], progress: _Progress) -> tuple[list[str], npt.NDArray[np.float64]]: ...
    @property
    def application(self) -> str: ...
    @property
    def preset(self) -> str: ...
    @property
    def batch(self) -> int: ...
    @property
    def usage(self) -> _Usage: ...

@final
class EmbeddingConnection:
    @staticmethod
    def open(
        service: Service,
        application: str | None,
        codes: Codes,
        state_dir: _Path,
        progress: _Progress,
    ) -> EmbeddingConnection: ...
    def embed(self, ids: Sequence[int], progress: _Progress) -> npt.NDArray[np.float64]: ...
    @property
    def application(self) -> str: ...
    @property
    def usage(self) -> _Usage: ...

@final
class DigitsConnection:
    @staticmethod
    def open(
        service: Service,
        application: str | None,
        state_dir: _Path,
        progress: _Progress,
    ) -> DigitsConnection: ...
    def recognise(self, images: npt.NDArray[np.uint8], progress: _Progress) -> npt.NDArray[np.float64]: ...
    @property
    def application(self) -> str: ...
    @property
    def usage(self) -> _Usage: ...
