"""Clients and models for services that compute on encrypted data and never read it.

Train a text classifier; give its client half to clients and serve the other half:

>>> import unspoken
>>> texts = ["win a free prize", "see you at home"] * 20
>>> labels = ["spam", "ham"] * 20
>>> model = unspoken.FastText(dim=8, columns=16).fit(texts, labels)
>>> model.predict(["claim your free prize"])
array(['spam'], dtype='<U4')

Classify texts on a service (``unspoken serve``) that has the server half:

>>> with unspoken.ClassifyClient("http://127.0.0.1:8080", model="model") as client:  # doctest: +SKIP
...     labels, scores = client.classify(["claim your free prize"])

`unspoken.aio` has the same clients for asyncio.

Compress an embedding table (`compress`), serve it (``unspoken serve --embed``), and look up
tokens without revealing them:

>>> with unspoken.EmbeddingClient("http://127.0.0.1:8080", table="glove") as client:  # doctest: +SKIP
...     embeddings = client.embed(["a", "good", "film"])

Train a linear head over the mean embedding of a text (`LinearHead`), serve it with the table
(``--head``), and classify texts without revealing them:

>>> with unspoken.ClassifyClient("http://127.0.0.1:8080", model="glove") as client:  # doctest: +SKIP
...     labels, scores = client.classify(["a film nobody should miss"])

Train a network on images of digits (`DigitsNetwork`), serve it (``unspoken serve --digits``), and
recognise images without revealing them:

>>> with unspoken.DigitsClient("http://127.0.0.1:8080") as client:  # doctest: +SKIP
...     digits, scores = client.recognise(images)

Build a database of records (`Database`), serve it (``unspoken serve --pir``), and fetch records
without revealing which:

>>> db = unspoken.Database.build("codes", {"A00.1": "Cholera", "A01.0": "Typhoid fever"})  # doctest: +SKIP

>>> with unspoken.PirClient("http://127.0.0.1:8080") as client:  # doctest: +SKIP
...     record = client.get("A00.1")

Build a collection of documents (`SearchIndex`), serve it (``unspoken serve --search``), and find the documents nearest
to a query without revealing the query or the documents:

>>> index = unspoken.SearchIndex.build("notes", texts, embed=model.encode)  # doctest: +SKIP

>>> with unspoken.SearchClient("http://127.0.0.1:8080", embed=model.encode) as client:  # doctest: +SKIP
...     found = client.search("How long does bread bake?", k=3)

Continue a text with a language model (``unspoken llama prepare``, ``unspoken serve --chat``) without
revealing its private part or the continuation:

>>> with unspoken.ChatClient("http://127.0.0.1:8080", model="prepared/client") as client:  # doctest: +SKIP
...     text = client.generate(" Anna has a fever.", public="Note to the doctor:").text

Add up what many clients send encrypted (`SumsCollection`, ``unspoken serve --offer sums=FILE``), and
compute exactly with encrypted integers (`unspoken.exact`):

>>> with unspoken.SumsClient("http://127.0.0.1:8080") as client:  # doctest: +SKIP
...     client.send({"visits": 3, "falls": 0})

Make a private service of your own model (`compile`), of scikit-learn, torch or ONNX, serve it (``unspoken serve
--model``), and predict rows that the service does not see:

>>> model = unspoken.compile(pipeline, X)  # doctest: +SKIP

>>> with unspoken.ModelClient("http://127.0.0.1:8080") as client:  # doctest: +SKIP
...     labels = client.predict(X)

Compute with encrypted matrices as with arrays (`matrix`, `MatrixSecret`):

>>> import numpy as np
>>> a, b = unspoken.matrix("a", (3, 3)), unspoken.matrix("b", (3, 3))
>>> program = (a + b - np.eye(3)).plan()
"""

from __future__ import annotations

from typing import Any

# The modules of numpy's functions register them, and the operators of `Matrix`, when they are imported.
from unspoken import _boundary, _matrix_functions, _matrix_tiling, _old_names, exact  # noqa: F401
from unspoken._chat_client import ChatClient, Generation, GenerationStream
from unspoken._classify_client import ClassifyClient
from unspoken._client_base import ConnectionOptions, Cost, ServiceOptions, Usage
from unspoken._compile import CompiledModel, compile  # noqa: A004 - the name of the command
from unspoken._database import Database, DatabaseInfo
from unspoken._database_edit import DatabaseEdit
from unspoken._digits import DigitsNetwork
from unspoken._digits_client import DigitsClient
from unspoken._embedding_client import EmbeddingClient
from unspoken._fasttext import FastText
from unspoken._head import LinearHead
from unspoken._matrix import Matrix, matrix
from unspoken._matrix_client import MatrixClient
from unspoken._matrix_messages import EncryptedMatrix, MatrixInputs, MatrixKeys, MatrixSignature
from unspoken._matrix_program import MatrixProgram
from unspoken._matrix_secret import MatrixSecret
from unspoken._model_client import ModelClient
from unspoken._model_values import ClipWarning, ModelInput, ModelOutput
from unspoken._pir_client import PirClient
from unspoken._presets import Preset, SecuredObject, presets
from unspoken._records import Records, read_records
from unspoken._sampling import SamplingOptions
from unspoken._search_client import SearchClient
from unspoken._search_edit import SearchEdit
from unspoken._search_index import SearchIndex, SearchInfo
from unspoken._search_queries import Found
from unspoken._sums import Sums, SumsClient, SumsCollection
from unspoken._table import CompressedTable, compress
from unspoken._texts import TextWarning, load_texts
from unspoken._unspoken import Progress, __version__
from unspoken.errors import (
    ArgumentError,
    ConfigurationError,
    ConnectionFailedError,
    DatabaseError,
    DatabaseLockedError,
    ExactError,
    KeysExpiredError,
    MatrixError,
    MatrixIndexError,
    MismatchError,
    MissingKeysError,
    ModelError,
    NoSuchIndexError,
    NoSuchKeyError,
    NotFittedError,
    RefusedError,
    StateError,
    SumsError,
    TimedOutError,
    TrainingError,
    UnansweredError,
    UncertainError,
    UnknownTokenError,
    UnreadableAnswerError,
    UnspokenError,
)

__all__ = [
    "ArgumentError",
    "ChatClient",
    "ClassifyClient",
    "ClipWarning",
    "CompiledModel",
    "CompressedTable",
    "ConfigurationError",
    "ConnectionFailedError",
    "ConnectionOptions",
    "Cost",
    "Database",
    "DatabaseEdit",
    "DatabaseError",
    "DatabaseInfo",
    "DatabaseLockedError",
    "DigitsClient",
    "DigitsNetwork",
    "EmbeddingClient",
    "EncryptedMatrix",
    "ExactError",
    "FastText",
    "Found",
    "Generation",
    "GenerationStream",
    "KeysExpiredError",
    "LinearHead",
    "Matrix",
    "MatrixClient",
    "MatrixError",
    "MatrixIndexError",
    "MatrixInputs",
    "MatrixKeys",
    "MatrixProgram",
    "MatrixSecret",
    "MatrixSignature",
    "MismatchError",
    "MissingKeysError",
    "ModelClient",
    "ModelError",
    "ModelInput",
    "ModelOutput",
    "NoSuchIndexError",
    "NoSuchKeyError",
    "NotFittedError",
    "PirClient",
    "Preset",
    "Progress",
    "Records",
    "RefusedError",
    "SamplingOptions",
    "SearchClient",
    "SearchEdit",
    "SearchIndex",
    "SearchInfo",
    "SecuredObject",
    "ServiceOptions",
    "StateError",
    "Sums",
    "SumsClient",
    "SumsCollection",
    "SumsError",
    "TextWarning",
    "TimedOutError",
    "TrainingError",
    "UnansweredError",
    "UncertainError",
    "UnknownTokenError",
    "UnreadableAnswerError",
    "UnspokenError",
    "Usage",
    "__version__",
    "compile",
    "compress",
    "exact",
    "load_texts",
    "matrix",
    "presets",
    "read_records",
]

_boundary.guard()


def __getattr__(name: str) -> Any:
    """Return what a name of the last release was."""
    return _old_names.find(name)
