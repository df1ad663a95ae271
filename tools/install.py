"""Install packages by uv, which pip brings, from where pip is configured to look; by pip where uv cannot be had or fails.

.venv/bin/python tools/install.py -c constraints.txt -e ".[dev]"
"""

import ast
import os
import subprocess
import sys

PIP = [sys.executable, "-m", "pip"]
HANDED_OVER = {  # pip's option -> uv's variable, and what stands between several values
    "find-links": ("UV_FIND_LINKS", ","),
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "cert": ("SSL_CERT_FILE", " "),
}


def as_uv_reads(listed: str) -> dict[str, str]:
    "Variables for uv, from what `pip config list` prints; an environment variable of pip goes before its files."
    found = {}
    for line in sorted(listed.splitlines(), key=lambda line: line.startswith(":env:")):
        key, _, value = line.partition("=")
        name, between = HANDED_OVER.get(key.rpartition(".")[2], ("", ""))
        if name:
            found[name] = between.join(str(ast.literal_eval(value)).split())
    return found


def by_uv(arguments: list[str]) -> bool:
    "Whether uv installed it."
    if subprocess.run([*PIP, "install", "-q", "uv"]).returncode:
        return False
    listed = subprocess.run(
        [*PIP, "config", "list"], capture_output=True, text=True
    ).stdout
    # pip takes the best version of all indexes, uv by itself that of the first index which has any; nltk, which LlamaIndex
    # cuts sentences with, refuses files that are hard links into uv's cache.
    own = {"UV_INDEX_STRATEGY": "unsafe-best-match", "UV_LINK_MODE": "copy"}
    env = {**own, **as_uv_reads(listed), **os.environ}
    command = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "install",
        "-q",
        "--python",
        sys.executable,
    ]
    return not subprocess.run([*command, *arguments], env=env).returncode


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if not by_uv(arguments):
        print("      by pip, since uv did not: this takes some minutes", flush=True)
        sys.exit(subprocess.run([*PIP, "install", "-q", *arguments]).returncode)
