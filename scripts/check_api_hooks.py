"""Hooks of schemathesis for `check_api.py`: valid random texts become those that the service knows, half of the time.

Otherwise nearly every request would be for an application that does not exist.
"""

from __future__ import annotations

import os
import re
from typing import Any

import schemathesis

NAME, KEY_FORMAT, LENGTH = (os.environ[f"CHECK_API_{part}"] for part in ("NAME", "KEY_FORMAT", "LENGTH"))
VALID_NAME = re.compile(r"(?=.{1,120}\Z)[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)*")


def is_replaced(text: object) -> bool:
    """Whether a text is one that the description allows, and is replaced. Invalid ones stay as they are."""
    return isinstance(text, str) and VALID_NAME.fullmatch(text) is not None and sum(text.encode()) % 2 == 0


@schemathesis.hook
def map_path_parameters(_: Any, path_parameters: dict[str, Any] | None) -> dict[str, Any] | None:
    """A name of an application in a path."""
    if path_parameters and is_replaced(path_parameters.get("name")):
        return {**path_parameters, "name": NAME}
    return path_parameters


@schemathesis.hook
def map_body(_: Any, body: Any) -> Any:
    """A declaration: of an application that exists, with the format and a length that it takes."""
    if not isinstance(body, dict) or not is_replaced(body.get("application")):
        return body
    body = {**body, "application": NAME}
    valid = {"key_format": (int(KEY_FORMAT), range(2**32)), "length": (int(LENGTH), range(1, 2**64))}
    for field, (value, allowed) in valid.items():
        if type(body.get(field)) is int and body[field] in allowed:
            body[field] = value
    return body
