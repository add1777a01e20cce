"""The arrows between folders point one way, and heavy libraries stay where they belong."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import lakesweep
import lakesweep_testing

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(lakesweep.__file__).parent
TESTING = Path(lakesweep_testing.__file__).parent

MOST_LINES = 450

# Small modules beside the folders, which every layer may use.
COMMON = {"cachefolder", "errors", "java", "json_text", "logs", "progress", "secrets"}

# Who may import whom. A folder may always import itself and COMMON.
ALLOWED: dict[str, set[str]] = {
    "domain": set(),
    "formats": {"domain"},
    "storage": {"domain"},
    "catalogs": {"storage", "formats", "domain"},
    "engine": {"storage", "formats", "domain"},
    "settings": {"domain"},
    "collector": {"engine", "catalogs", "storage", "formats", "domain", "settings"},
    "report": {"domain", "collector"},  # run records only, as a test below says
    "api": {"collector", "engine", "metrics", "report", "settings"},
    "lake": {"storage", "formats", "domain"},
    "certify": {"catalogs", "storage", "formats", "domain"},
    "metrics": {"domain", "collector"},
    "web": {"collector", "engine", "report", "catalogs", "storage", "domain", "settings"},
    "jobs": {
        *("cli", "collector", "engine", "catalogs", "storage", "formats", "domain"),
        *("metrics", "settings"),
    },
    "cli": {
        *("collector", "engine", "catalogs", "storage", "formats", "domain"),
        *("certify", "settings", "lake", "metrics", "report", "jobs", "web"),
    },
    "__main__": {"cli"},
    "lakesweep_testing": {
        *("collector", "engine", "catalogs", "storage", "formats", "domain"),
        *("settings", "lake", "report", "cli", "web"),
    },
}
# Libraries and the folders that alone may name them.
HOMES = {
    "pyspark": {"engine"},
    "py4j": set(),  # what pyspark talks to its JVM with
    "obstore": {"storage"},
    "botocore": {"catalogs", "storage", "lakesweep_testing"},
    "boto3": {"lakesweep_testing"},
    "numba": {"formats", "storage"},  # bytes of files, and pages of S3 listings
    "llvmlite": {"formats"},
    "cramjam": {"formats"},
    "httpx": {"catalogs", "lakesweep_testing"},
    "cryptography": {"lake"},
    "opentelemetry": {"metrics"},
    "jinja2": {"report", "web"},
    "markupsafe": {"report", "web"},
    "resvg_py": {"report"},
    "fastapi": {"lake", "web"},
    "starlette": {"lake", "web", "lakesweep_testing"},
    "uvicorn": {"lake", "web"},
    "sqlalchemy": {"lake", "catalogs", "lakesweep_testing"},
    "typer": {"cli"},
    "yaml": {"settings"},
    "pytest": {"lakesweep_testing"},
    "greenlet": {"lakesweep_testing"},
    "hypothesis": {"lakesweep_testing"},
}

# Of Spark and pyspark. What is missing here is documented.
_UNPROMISED = re.compile(
    r"_jvm|_jsc|_jspark\w*|_jsparkSession|_jdf|_gateway|_active_spark_context|pythonExec"
    r"|pyspark\.(?!sql(\.functions|\.types)?$|errors$)\w.*|pyspark(\.\w+)*\._\w+"
    r"|_?PYSPARK_(?!PYTHON|DRIVER_PYTHON|SUBMIT_ARGS)\w+|spark\.python\.daemon\.\w+"
)


def modules() -> list[Path]:
    """All of the product, and what its tests stand on."""
    return sorted([*SOURCE.rglob("*.py"), *TESTING.rglob("*.py")])


def name_of(module: Path) -> str:
    """`lakesweep.domain.commits` for domain/commits.py."""
    top = SOURCE if module.is_relative_to(SOURCE) else TESTING
    return ".".join(module.relative_to(top.parent).with_suffix("").parts)


def folder_of(module: Path) -> str:
    """`domain` for domain/commits.py, `errors` for errors.py, the empty text for the package itself."""
    if module.is_relative_to(TESTING):
        return TESTING.name
    first = module.relative_to(SOURCE).parts[0]
    return "" if first == "__init__.py" else first.removesuffix(".py")


@cache
def _parsed(module: Path) -> ast.Module:
    return ast.parse(module.read_text("utf-8"))


@cache
def _imports(module: Path) -> list[tuple[ast.Import | ast.ImportFrom, bool]]:
    """All import statements, and whether each is for type checkers only."""
    found: list[tuple[ast.Import | ast.ImportFrom, bool]] = []
    todo: list[tuple[ast.AST, bool]] = [(_parsed(module), False)]
    while todo:
        node, is_for_types = todo.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.append((node, is_for_types))
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            is_for_types = True
        # Expressions hold no statements, and are most of a tree.
        for parts in (getattr(node, name, ()) for name in _PARTS_WITH_STATEMENTS):
            todo += [(part, is_for_types) for part in parts]
    return found


_PARTS_WITH_STATEMENTS = ("body", "orelse", "finalbody", "handlers", "cases")


def imported_names(module: Path) -> Iterator[tuple[str, bool]]:
    """Every imported module's full name, and whether it is for type checkers only."""
    for node, is_for_types in _imports(module):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, is_for_types
        else:
            assert node.level == 0, f"{module} imports relatively; write the full name"
            yield node.module or "", is_for_types
            if node.module == "lakesweep":
                for alias in node.names:
                    yield f"lakesweep.{alias.name}", is_for_types


def test_no_module_needs_itself_on_the_way() -> None:
    """Imports make no circle, not even those inside functions or for type checkers."""
    names = {name_of(module).removesuffix(".__init__"): module for module in modules()}
    graph = {name: _needed_modules(module, set(names)) - {name} for name, module in names.items()}
    TopologicalSorter(graph).prepare()  # raises where there is a circle, and names it


def _needed_modules(module: Path, names: set[str]) -> set[str]:
    needed = set()
    for node, _ in _imports(module):
        if isinstance(node, ast.Import):
            needed |= {alias.name for alias in node.names}
        else:
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            needed |= inside & names if inside <= names else {str(node.module)}
    return needed & names


def test_imports_follow_the_arrows() -> None:
    """cli → collector → engine, catalogs → storage, formats → domain; lake → storage, formats, domain."""
    against = []
    for module in modules():
        folder = folder_of(module)
        if folder == "":
            continue  # the front door re-exports
        allowed = ALLOWED.get(folder, COMMON)
        for name, _ in imported_names(module):
            package, _, rest = name.partition(".")
            target = rest.partition(".")[0]
            is_inside = package == "lakesweep" and target in {"", folder, *COMMON, *allowed}
            if package in (SOURCE.name, TESTING.name) and not (is_inside or package == folder):
                against.append(f"{name_of(module)} imports {name}")
    assert against == []


def test_what_catalogs_share_knows_none_of_them() -> None:
    """A catalog is an adapter: the shared collector names no catalog, and no catalog names another."""
    rooms = {"lakefs", "nessie"}
    against = []
    for module in sorted((SOURCE / "collector").rglob("*.py")):
        room = module.relative_to(SOURCE / "collector").parts[0]
        for name, _ in imported_names(module):
            if name.startswith("lakesweep.collector.") or name.startswith("lakesweep.catalogs."):
                target = name.split(".")[2]
            else:
                continue
            if target in rooms and target != room:
                against.append(f"{module.relative_to(SOURCE)} imports {name}")
    assert against == []


def test_executors_load_no_client_of_a_catalog() -> None:
    """Every task would load it again: half a second of each worker."""
    work = [
        *(f"lakefs.{m}" for m in ("rows", "listing", "dating", "deletion")),
        *("lakefs.checks.reupload_lookups", "lakefs.what_if.listed_sizes", "lakefs.what_if.fates"),
        *(f"nessie.{m}" for m in ("rows", "listing", "metadata", "deletion", "folder_sums")),
        *("listing", "judge.columns", "ledger.deleting", "copies.copier", "copies.order"),
        "garbage_sums",
    ]
    imports = ", ".join(f"lakesweep.collector.{module}" for module in work)
    program = (
        f"import sys, {imports}; print(*{{'httpx', 'pydantic', 'sqlalchemy'}} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.split() == []


def test_only_the_top_of_a_run_holds_all_of_it() -> None:
    """A function below it takes the store, the clock or the client that it needs, and so says what it depends on."""
    tops = {
        "lakefs/RunContext": "backup_restore collect context mark opening sweep what_if/what_if",
        "nessie/NessieContext": (
            "context deferred dropped expire explain/explain opening what_if/what_if"
        ),
    }
    for room, _, context in (name.partition("/") for name in tops):
        holders = {
            m.relative_to(SOURCE / "collector").as_posix()
            for m in (SOURCE / "collector").rglob("*.py")
            if re.search(rf"\b{context}\b", m.read_text("utf-8"))
        }
        assert holders <= {f"{room}/{top}.py" for top in tops[f"{room}/{context}"].split()}


def test_every_file_of_the_collector_is_on_the_map() -> None:
    """ARCHITECTURE.md has a word on each, in the table of the room that it stands in."""
    said = (SOURCE.parents[1] / "ARCHITECTURE.md").read_text("utf-8")
    tables = re.findall(
        r"^\| (shared|`lakefs/`|`nessie/`) \|(.*?)\n\n", said, re.MULTILINE | re.DOTALL
    )
    named = {room.strip("`/"): _files_in(table) for room, table in tables}
    there: dict[str, set[str]] = {room: set() for room in named}
    for module in (SOURCE / "collector").rglob("*.py"):
        if module.name != "__init__.py":
            first, *rest = module.relative_to(SOURCE / "collector").parts
            is_shared = first not in named
            room = "shared" if is_shared else first
            there[room].add("/".join([first, *rest] if is_shared else rest))
    for room, files in there.items():
        # Of `copies/` the table has the folder, and beside it the names of its files.
        assert {file for file in files if file not in named[room]} == set(), room


def _files_in(table: str) -> set[str]:
    """`judge/meeting.py` and `explain/explain.py` for `judge/meeting.py` and `explain/`: `explain.py`."""
    found: set[str] = set()
    for row in table.splitlines():
        folder = ""
        for name in re.findall(r"`([\w/.]+)`", row):
            if name.endswith("/"):
                folder = name
            elif name.endswith(".py"):
                found.add(name if "/" in name else folder + name)
    return found


def test_the_way_of_one_object_names_files_that_exist() -> None:
    """ARCHITECTURE.md tells which files to read, in which order."""
    said = (SOURCE.parents[1] / "ARCHITECTURE.md").read_text("utf-8")
    way = said.partition("The way of one object")[2].partition("\n\n")[0]
    files = re.findall(r"`([\w/]+\.py)`", way)
    assert len(files) == 12
    assert [file for file in files if not (SOURCE / "collector" / file).is_file()] == []


def test_reports_see_run_records_only() -> None:
    """Text, JSON and pages all come from the same record."""
    seen = {
        name
        for module in (SOURCE / "report").rglob("*.py")
        for name, _ in imported_names(module)
        if name.startswith("lakesweep.collector")
    }
    assert seen <= {"lakesweep.collector.record", "lakesweep.collector.run_files"}


def test_libraries_are_named_only_in_their_homes() -> None:
    """pyspark under engine/ alone; the same for every library that could leak."""
    astray = []
    for module in modules():
        for name, is_for_types in imported_names(module):
            library = name.partition(".")[0]
            # A type in a signature loads nothing.
            is_at_home = folder_of(module) in HOMES.get(library, {folder_of(module)})
            if not is_at_home and not is_for_types:
                astray.append(f"{name_of(module)} imports {name}")
    assert astray == []


def test_the_wheel_holds_the_product_alone() -> None:
    """What tests stand on would bring pytest along, and be an API that nobody meant to give."""
    found = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    assert found["packages"]["find"] == {"where": ["src"]}
    packages = {module.parent.relative_to(ROOT / "src") for module in (ROOT / "src").rglob("*.py")}
    assert {package.parts[0] for package in packages} == {"lakesweep"}
    assert [package for package in packages if "testing" in package.parts] == []


def test_names_that_pyspark_does_not_promise_have_one_home() -> None:
    """Private attributes, modules without a page of documentation, and variables that only Spark's own scripts set."""
    home = SOURCE / "engine" / "pyspark_internals.py"
    astray = []
    for module in (SOURCE / "engine").glob("*.py"):
        names = [name for name, _ in imported_names(module)]
        for node in ast.walk(_parsed(module)):
            if isinstance(node, ast.Attribute):
                names.append(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                names.append(node.value)
        found = [name for name in names if _UNPROMISED.fullmatch(name)]
        if module != home:
            astray += [f"{name_of(module)} names {name}" for name in found]
    assert astray == []


def test_domain_names_the_standard_library_only() -> None:
    """Rules can be read and tested without anything installed."""
    foreign = [
        f"{module.name} imports {name}"
        for module in (SOURCE / "domain").glob("*.py")
        for name, _ in imported_names(module)
        if name.partition(".")[0] not in {*sys.stdlib_module_names, "lakesweep"}
    ]
    assert foreign == []


def test_loading_the_domain_loads_no_third_party_module() -> None:
    """Not even by a detour through another folder."""
    names = [f"lakesweep.domain.{path.stem}" for path in (SOURCE / "domain").glob("[a-z]*.py")]
    program = (
        f"import sys, importlib\nbefore = set(sys.modules)\n"
        f"for name in {names!r}: importlib.import_module(name)\n"
        "tops = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(*sorted(tops - sys.stdlib_module_names - {'lakesweep'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == []


def test_every_folder_has_its_arrows() -> None:
    """A new folder gets its line here before it gets its second module."""
    folders = {folder_of(module) for module in modules()} - {""} - COMMON
    assert folders <= set(ALLOWED), f"no arrows for {folders - set(ALLOWED)}"


def test_a_docstring_makes_sense_alone() -> None:
    """Who reads "The same for a view" in an editor's pop-up has not read the function above."""
    leaning = [
        f"{name_of(module)}: {words}"
        for module in modules()
        for words in re.findall(
            r'"""((?:The same|The other|So many)\b.*)', module.read_text("utf-8")
        )
    ]
    assert leaning == []


def test_no_two_classes_of_the_collector_share_a_name() -> None:
    """One name, one thing. What a user asks of a mark is the same question to each catalog."""
    homes: dict[str, list[str]] = {}
    for module in sorted((SOURCE / "collector").rglob("*.py")):
        for node in ast.walk(_parsed(module)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(name_of(module))
    del homes["MarkRequest"]
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


def test_unit_tests_stand_where_their_source_does() -> None:
    """Every folder of tests/unit/ has its kin: in the product, in what tests stand on, in the scripts, or in the benchmarks."""
    unit = ROOT / "tests" / "unit"
    kin = {name: ROOT / name for name in ("benchmarks", "tools")} | {"testing": TESTING}
    astray = []
    for folder in {test.parent.relative_to(unit) for test in unit.rglob("test_*.py")} - {Path()}:
        first, *rest = folder.parts
        if not kin.get(first, SOURCE / first).joinpath(*rest).is_dir():
            astray.append(folder.as_posix())
    assert sorted(astray) == []


def test_no_module_outgrows_a_sitting() -> None:
    """Split by noun before that."""
    lines = {name_of(path): path.read_text("utf-8").count("\n") for path in modules()}
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}
