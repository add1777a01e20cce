"""Make the documentation into a site: `make site` writes it to build/site, to be served by any web server.

Pages link to each other as files of the repository, so the site is made from a copy with the same folders. Its menu is
what docs/index.md lists.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
SOURCE = BUILD / "site-source"
PAGES = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE")


def main() -> int:
    shutil.rmtree(SOURCE, ignore_errors=True)
    for folder in ("docs", "examples"):
        shutil.copytree(ROOT / folder, SOURCE / folder)
    (SOURCE / "benchmarks").mkdir()
    for name in (*PAGES, "benchmarks/RESULTS.md"):
        shutil.copyfile(ROOT / name, SOURCE / name)
    settings = yaml.safe_load((ROOT / "tools" / "mkdocs.yml").read_text("utf-8"))
    settings |= {"docs_dir": str(SOURCE), "site_dir": str(BUILD / "site"), "nav": menu()}
    config = BUILD / "mkdocs.yml"
    config.write_text(yaml.safe_dump(settings, allow_unicode=True), "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", config],
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,  # with --quiet, it would count no warning
        text=True,
        check=False,
    )
    if done.returncode:
        print(done.stdout, done.stderr, file=sys.stderr)
    else:
        print(f"site: {BUILD / 'site' / 'index.html'}")
    return done.returncode


def menu() -> list[dict[str, Any]]:
    """The headings of docs/index.md, each with the pages that are linked below it."""
    index = (ROOT / "docs" / "index.md").read_text("utf-8")
    found: list[dict[str, Any]] = []
    for section in re.split(r"^## ", index, flags=re.M)[1:]:
        links = re.findall(r"^- \[(.+?)\]\(([^)#]+)\)", section, flags=re.M)
        pages = [
            {title: os.path.normpath(f"docs/{target}")}
            for title, target in links
            if target.endswith(".md")
        ]
        found.append({section.splitlines()[0]: pages})
    return found


if __name__ == "__main__":
    sys.exit(main())
