"""A hook of MkDocs for `make docs`: files of the repository outside `docs` that pages link to become part of the site.

README.md is the start page. Markdown files become pages; folders become their README, or a list of their files; other
files are copied. Notebooks become pages with their outputs. Links are rewritten to where their targets are on the site,
so pages need no repository on the network. Links to what is not there stay as they are, and end the build, which is
strict. So does a page that loads something from another host.
"""

from __future__ import annotations

import functools
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from nbconvert import MarkdownExporter

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(\]\()([^)\s#:]+)(#[^)\s]*)?\)")
STARTS = ["README.md", "CHANGELOG.md"]
ELSEWHERE = re.compile(
    r"""<(?:script|link|img|iframe|source|object|embed)\b[^>]*?(?:src|href|srcset|data)=["']?(?:https?:)?//[^>]*"""
    r"""|(?:url\(|@import)\s*["']?(?:https?:)?//[^)]*"""
)
CODE = re.compile(r"(^\s*```.*?^\s*```|`[^`]*`)", re.MULTILINE | re.DOTALL)


def site_path(path: str) -> str:
    """Where a file of the repository is on the site."""
    path = re.sub(r"\.ipynb$", ".md", path)
    return "index.md" if path == "README.md" else path.removeprefix("docs/")


def repository_path(path: str) -> str:
    """The file of the repository for one of the site."""
    notebook = re.sub(r"\.md$", ".ipynb", path)
    inside = [f"docs/{name}" for name in (path, notebook) if (ROOT / "docs" / name).exists()]
    return "README.md" if path == "index.md" else next(iter(inside), path)


def target(link: str, path: str) -> str | None:
    """The file of the repository that a link of another one leads to."""
    found = posixpath.normpath(posixpath.join(posixpath.dirname(path), link))
    if (ROOT / found).is_dir():
        return posixpath.join(found, "README.md")
    return found if (ROOT / found).is_file() else None


@functools.cache
def notebook(path: str) -> tuple[str, dict[str, bytes]]:
    """The Markdown of a notebook, and its drawings by name."""
    name = Path(path).stem
    resources = {"unique_key": name, "output_files_dir": f"{name}_files"}
    text, found = MarkdownExporter().from_filename(str(ROOT / path), resources=resources)
    return text, found["outputs"]


def text_of(path: str) -> str:
    """The text of a Markdown file or a notebook, or a list of the files in a folder without README."""
    file = ROOT / path
    if path.endswith(".ipynb"):
        return notebook(path)[0]
    if file.exists():
        return file.read_text(encoding="utf-8")
    names = "".join(f"- `{child.name}`\n" for child in sorted(file.parent.iterdir()) if not child.name.startswith("."))
    return f"# {posixpath.dirname(path)}\n\n{names}"


def rewritten(text: str, path: str) -> tuple[str, set[str]]:
    """The text of a file with links of the site, and the files that it links to."""
    linked: set[str] = set()

    def link(match: re.Match[str]) -> str:
        found = target(match[2], path)
        if found is None:
            return match[0]
        linked.add(found)
        return f"{match[1]}{posixpath.relpath(site_path(found), posixpath.dirname(site_path(path)))}{match[3] or ''})"

    parts = CODE.split(text)
    return "".join(part if index % 2 else LINK.sub(link, part) for index, part in enumerate(parts)), linked


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds notebooks, the pages outside `docs`, and what pages link to."""
    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        files.remove(file)
        text, drawings = notebook(f"docs/{file.src_uri}")
        files.append(File.generated(config, site_path(file.src_uri), content=text))
        for name, drawing in drawings.items():
            place = posixpath.join(posixpath.dirname(file.src_uri), name)
            files.append(File.generated(config, place, content=drawing))
    waiting = [*STARTS, *(repository_path(file.src_uri) for file in files.documentation_pages())]
    known = set(waiting)
    while waiting:
        path = waiting.pop()
        if not path.startswith("docs/"):
            content = text_of(path) if path.endswith(".md") else (ROOT / path).read_bytes()
            files.append(File.generated(config, site_path(path), content=content))
        if path.endswith((".md", ".ipynb")):
            linked = rewritten(text_of(path), path)[1]
            waiting += sorted(found for found in linked - known if not found.startswith("docs/"))
            known |= linked
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Rewrites the links of a page."""
    return rewritten(markdown, repository_path(page.file.src_uri))[0]


def on_post_build(*, config: MkDocsConfig) -> None:
    """Ends the build if a page or a style loads something from another host."""
    for path in sorted(Path(config.site_dir).rglob("*")):
        if path.suffix in (".html", ".css") and (found := ELSEWHERE.search(path.read_text(encoding="utf-8"))):
            raise PluginError(f"{path}: found {found[0]}, needed nothing from other hosts")
