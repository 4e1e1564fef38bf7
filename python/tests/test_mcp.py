"""`unspoken mcp`, called by the official client of the protocol."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Service

if sys.version_info < (3, 10):
    pytest.skip("the official client of the protocol needs Python 3.10", allow_module_level=True)

import mcp
from mcp.client.stdio import stdio_client

WORDS = {"ship": "1 0.1 0.2", "wave": "1 0 0", "tree": "0.1 1 0", "meadow": "0 1 0.2"}
PLACES = {"sea": "ship wave", "land": "meadow tree"}


def run(*arguments: object) -> None:
    subprocess.run([str(argument) for argument in arguments], check=True, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def service(binary: Path, tmp_path_factory: pytest.TempPathFactory):
    """A collection, and a database that is read by key."""
    home = tmp_path_factory.mktemp("mcp")
    (home / "words.txt").write_text("".join(f"{word} {row}\n" for word, row in WORDS.items()))
    (home / "places.csv").write_text("name,text\n" + "".join(f"{name},{text}\n" for name, text in PLACES.items()))
    columns = ("--from", home / "places.csv", "--key", "name", "--value", "text")
    run(binary, "search", "build", *columns, "--words", home / "words.txt", home / "places")
    run(binary, "pir", "build", *columns, home / "names")
    offers = (f"search:search/places={home / 'places'}", f"pir:pir/names={home / 'names'}")
    running = Service(binary, home / "data", *offers).start()
    yield running, home
    running.stop()


async def answers(binary: Path, arguments: list[str], calls: list[tuple[str, dict[str, Any]]]) -> Any:
    """Start the server, and return its tools and the results of some calls."""
    server = mcp.StdioServerParameters(command=str(binary), args=["mcp", *arguments])
    async with stdio_client(server) as (read, write), mcp.ClientSession(read, write) as session:
        await session.initialize()
        tools = (await session.list_tools()).tools
        return tools, [await session.call_tool(name, given) for name, given in calls]


def test_an_assistant_searches_and_looks_up(binary, service, tmp_path):
    running, home = service
    arguments = ["--url", running.url, "--state-dir", str(tmp_path), "--words", str(home / "words.txt")]
    calls = [
        ("search_places", {"query": "a tree", "count": 1}),
        ("search_places", {"query": "wave"}),
        ("get_names", {"key": "land"}),
        ("get_names", {"key": "nowhere"}),
        ("search_places", {"query": "unheard"}),
        ("search_places", {"query": "wave", "count": 0}),
        ("get_names", {}),
    ]
    tools, results = asyncio.run(answers(binary, arguments, calls))
    assert sorted(tool.name for tool in tools) == ["get_names", "search_places"]
    assert all("does not learn what is looked up" in tool.description for tool in tools)
    texts = [result.content[0].text for result in results]
    (found,) = json.loads(texts[0])
    assert (found["id"], found["document"]) == ("land", "meadow tree")
    assert found["similarity"] > 0.9
    assert [found["id"] for found in json.loads(texts[1])] == ["sea", "land"]
    assert texts[2:4] == ["meadow tree", "There is no record with this key."]
    failed = [(getattr(result, "isError", None) or getattr(result, "is_error", False)) for result in results]
    assert [bool(each) for each in failed] == [False] * 4 + [True] * 3
    assert "none of its words is in the table" in texts[4]
    assert "needed a number from 1 to 50" in texts[5]
    assert "needed one" in texts[6]


def test_without_words_there_are_no_searches(binary, service, tmp_path):
    running, _ = service
    arguments = ["--url", running.url, "--state-dir", str(tmp_path)]
    tools, _ = asyncio.run(answers(binary, arguments, []))
    assert [tool.name for tool in tools] == ["get_names"]
