"""The kinds of errors that the code raises, read from its source, and the page that lists them with cause and cure."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "lakesweep"
TABLE = ROOT / "docs" / "reference" / "errors.toml"

GROUPS = {
    "settings": "Settings and names",
    "catalog": "The catalog and its database",
    "storage": "The object store",
    "unsafe": "Doubt: nothing was deleted",
    "damaged": "Damaged files: nothing was deleted",
    "other": "Other ends of a run",
    "lake": "The embedded lake",
}
_MAY_NAME_KINDS = re.compile(
    r"\bkind=|\bdefault_kind\b|class \w+Error\b|-> \w+Error:|^[A-Z_]+ = \"[a-z-]+\"$", re.M
)
# Statuses of HTTP make kinds of their own.
HTTP = "http-…"


def errors_page() -> str:
    """The page, from the table and the code."""
    raised = raised_kinds()
    parts = [
        "# Kinds of errors\n",
        "Made from `errors.toml` and the code by `make docs`. A kind is a stable name for what went wrong. It stands in the "
        "field `kind` of a failed run's record (`--output json`, `runs show`), in the last line on stderr, and in the "
        "metric `lakesweep_last_run_error`. A sweep that had deleted something when it failed ends with status 5 and keeps "
        "the kind of what stopped it.\n",
    ]
    for group, title in GROUPS.items():
        parts.append(f"## {title}\n")
        parts.append("| kind | status | cause | what to do |\n| --- | --- | --- | --- |")
        for kind, (cause, cure) in sorted(table()[group].items()):
            statuses = ", ".join(str(status) for status in sorted(raised.get(kind, ())))
            parts.append(f"| `{kind}` | {statuses} | {_cell(cause)} | {_cell(cure)} |")
        parts.append("")
    return "\n".join(parts)


def table() -> dict[str, dict[str, list[str]]]:
    """Cause and cure of every kind, by group."""
    return tomllib.loads(TABLE.read_text("utf-8"))


@cache
def raised_kinds(source: Path = SOURCE) -> dict[str, set[int]]:
    """Every kind in the source, with the exit statuses of the classes that it is raised with."""
    texts = [path.read_text("utf-8") for path in sorted(source.rglob("*.py"))]
    trees = [ast.parse(text) for text in texts if _MAY_NAME_KINDS.search(text)]
    classes = _Classes(trees)
    constants = {name: value for tree in trees for name, value in _constants(tree)}
    found: dict[str, set[int]] = {}
    for name, kind in classes.default_kinds():
        found.setdefault(kind, set()).add(classes.status(name))
    for tree in trees:
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            name = classes.made_by(call.func)
            for keyword in call.keywords if name else ():
                if keyword.arg == "kind":
                    for kind in _kinds(keyword.value, constants):
                        found.setdefault(kind, set()).add(classes.status(name))
    return found


class _Classes:
    """Classes of errors: their bases, kinds and statuses."""

    def __init__(self, trees: list[ast.Module]) -> None:
        nodes = [node for tree in trees for node in ast.walk(tree)]
        self._classes = {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}
        # Functions that make an error for their caller to raise.
        self._makers = {
            node.name: node.returns.id
            for node in nodes
            if isinstance(node, ast.FunctionDef) and isinstance(node.returns, ast.Name)
        }

    def made_by(self, function: ast.expr) -> str:
        """The class of the error that a call makes; empty for other calls."""
        name = function.id if isinstance(function, ast.Name) else ""
        name = name if name in self._classes else self._makers.get(name, "")
        return name if name.endswith("Error") and name in self._classes else ""

    def default_kinds(self) -> Iterator[tuple[str, str]]:
        """Each class with a kind of its own."""
        for name in self._classes:
            kind = self._attribute(name, "default_kind")
            if isinstance(kind, str):
                yield name, kind

    def status(self, name: str) -> int:
        """The exit status of a class, its own or that of its nearest base."""
        status = self._attribute(name, "exit_status")
        if isinstance(status, int):
            return status
        bases = [base.id for base in self._classes[name].bases if isinstance(base, ast.Name)]
        return next(self.status(base) for base in bases if base in self._classes)

    def _attribute(self, name: str, attribute: str) -> object:
        assigned = [node for node in self._classes[name].body if isinstance(node, ast.Assign)]
        for node in assigned:
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            if attribute in names and isinstance(node.value, ast.Constant):
                return node.value.value
        return None


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            for target in node.targets:
                if isinstance(target, ast.Name) and isinstance(node.value.value, str):
                    yield target.id, node.value.value


def _kinds(value: ast.expr, constants: dict[str, str]) -> Iterator[str]:
    """The kinds that an expression may be; a kind that is handed on is raised elsewhere."""
    match value:
        case ast.Constant(value=str(kind)):
            yield HTTP if kind.startswith("http-") else kind
        case ast.Name(id=name) if name in constants:
            yield constants[name]
        case ast.IfExp(body=one, orelse=other):
            yield from _kinds(one, constants)
            yield from _kinds(other, constants)
        case ast.JoinedStr():
            yield HTTP


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
