"""Installs what `make wheel` and `make dist` built, as a stranger would, and uses it: `test_install.py [DIST]`.

The wheel goes into a clean virtual environment, the archive into an empty directory. Neither Rust nor this repository
is on the paths of the programs that run. A model is trained by the package, served by the command, and asked by the
package; the answers must be those in the clear.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Where no Rust is. Programs that the system has, such as a linker, do not help without it.
PATH = "/usr/bin:/bin"

TRAIN = """
import unspoken
texts = ["win a free prize", "claim your cash now", "see you at home", "lunch at noon"] * 10
labels = ["spam", "spam", "ham", "ham"] * 10
unspoken.FastText(seed=1, dim=8, columns=16, progress=False).fit(texts, labels).save("model")
"""
ASK = """
import sys, unspoken
texts = ["claim your free prize now", "see you at lunch"]
with unspoken.ClassifyClient(sys.argv[1], model="model") as client:
    labels, scores = client.classify(texts)
assert list(labels) == ["spam", "ham"], labels
assert "site-packages" in unspoken.__file__, unspoken.__file__
print("asked       ", *labels)
"""


def one(folder: Path, pattern: str) -> Path:
    """The only file of a pattern."""
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        sys.exit(f"found {len(found)} files {pattern} in {folder}, needed 1: run `make wheel dist` on a clean dist")
    return found[0]


def main() -> None:
    """Installs and uses both."""
    dist = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "dist").resolve()
    wheel, archive = one(dist, "unspoken-*-cp39-abi3-manylinux_*.whl"), one(dist, "unspoken-*-musl.tar.gz")
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=dist, check=True)
    for name in ("cargo", "rustc"):
        if shutil.which(name, path=PATH):
            sys.exit(f"{name} is in {PATH}: this machine cannot show that it is not needed")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        environment = {"PATH": PATH, "HOME": folder, "LANG": "C.UTF-8"}
        proxies = {key: value for key, value in os.environ.items() if key.upper().startswith(("PIP_", "HTTP", "SSL_"))}

        def run(*words: str | Path, **more: str) -> str:
            """The output of a program that succeeds."""
            command = [str(word) for word in words]
            result = subprocess.run(
                command, cwd=home, env={**environment, **more}, stdout=subprocess.PIPE, text=True, check=True
            )
            return result.stdout

        subprocess.run([sys.executable, "-m", "venv", home / "venv"], check=True)
        python = home / "venv" / "bin" / "python"
        run(python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", wheel, **proxies)
        with tarfile.open(archive) as files:
            files.extractall(home)  # what `make dist` wrote itself
        unpacked = home / archive.name[: -len(".tar.gz")]
        binary = unpacked / "unspoken"
        print("command     ", run(binary, "--version").strip())
        assert (unpacked / "THIRD-PARTY.txt").stat().st_size > 10_000
        run(python, "-c", TRAIN)
        offer = ["--classify", "classify/spam=model,preset=n14_depth8_scale30", "--data-dir", "data"]
        report = json.loads(run(binary, "doctor", "--json", "--listen", "127.0.0.1:0", *offer))
        print("examined    ", report["problems"], "problems", report["warnings"], "warnings")
        process = subprocess.Popen(
            [str(binary), "serve", "--listen", "127.0.0.1:0", *offer],
            cwd=home,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=(home / "log").open("w"),
            text=True,
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                sys.exit((home / "log").read_text())
            url = json.loads(line)["listening"]
            print("health      ", run(binary, "health", "--url", url).strip())
            print(run(python, "-c", ASK, url).strip())
        finally:
            process.terminate()
            code = process.wait(timeout=60)
        assert code == 0, (code, (home / "log").read_text())
    sizes = {path.name: path.stat().st_size for path in (wheel, archive)}
    for name, size in sizes.items():
        print(f"{size / 1e6:8.1f} MB  {name}")


if __name__ == "__main__":
    main()
