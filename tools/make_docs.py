"""Write docs/reference from the program itself: commands from their help, settings from their table.

`make docs` writes; a test compares, so the reference can't fall behind.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

sys.path.insert(0, str(Path(__file__).resolve().parent))
from error_kinds import errors_page
from lakesweep.cli.main import app
from lakesweep.settings.lakefs_options import SETTINGS
from lakesweep.settings.nessie_options import NESSIE_OPTIONS
from lakesweep.settings.option import Option

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "reference"
WIDTH = 100

GROUPS: dict[str, str] = {
    "server": "The lakeFS server",
    "storage": "The object store",
    "collect": "What is collected",
    "sweep": "What is deleted",
    "spark": "Spark",
    "output": "Output",
    "metrics": "Metrics",
}


def main() -> int:
    for path, text in pages().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        print(f"docs: {path.relative_to(REFERENCE.parent.parent)}", file=sys.stderr)
    return 0


def pages() -> dict[Path, str]:
    """Every generated page, by its path."""
    return {
        REFERENCE / "commands.md": commands_page(),
        REFERENCE / "settings.md": settings_page(),
        REFERENCE / "errors.md": errors_page(),
    }


def commands_page() -> str:
    parts = ["# Commands\n\nMade from the program's own help by `make docs`.\n"]
    for name, help_text in commands(typer.main.get_command(app), "lakesweep"):
        parts.append(f"## `{name}`\n\n```text\n{help_text}\n```\n")
    return "\n".join(parts)


def commands(command: Any, name: str, parent: Any = None) -> Iterator[tuple[str, str]]:
    """Each visible command with its help, groups before their commands."""
    context = command.make_context(
        name.rpartition(" ")[2], [], parent=parent, resilient_parsing=True, terminal_width=WIDTH
    )
    lines = (line.rstrip() for line in command.get_help(context).splitlines())
    yield name, "\n".join(lines).strip()
    for child_name, child in sorted(getattr(command, "commands", {}).items()):
        if not child.hidden:
            yield from commands(child, f"{name} {child_name}", context)


def settings_page() -> str:
    parts = [
        "# Settings\n",
        "Made from the table of settings by `make docs`. "
        "A value is looked for in this order, and `lakesweep config show` says where it was found:\n",
        "1. the flag, where there is one: `--min-age 3d`;\n"
        "2. the environment: `LAKESWEEP_MIN_AGE=3d` (lists are split as a shell would);\n"
        '3. the TOML file of `--config` or `LAKESWEEP_CONFIG`: `min-age = "3d"` '
        "(`conf` and `storage-option` are tables);\n"
        "4. the Spark property, from `--conf`, `spark-submit -c` or the session, "
        "with `spark.hadoop.` in front;\n"
        "5. what the ecosystem's own tools use: `LAKECTL_…` variables and `~/.lakectl.yaml`; "
        "the AWS, Azure and Google default variables and files;\n"
        "6. the default.\n",
    ]
    for group, title in GROUPS.items():
        parts.append(f"## {title}\n")
        parts.extend(setting_entry(s) for s in SETTINGS if s.group == group)
    parts.append(nessie_table())
    return "\n".join(parts)


def nessie_table() -> str:
    head = (
        "## Options of `lakesweep nessie`\n\n"
        "A value is looked for on the command line, then in the environment; [Commands](commands.md) says what each means. "
        "The settings of Spark, of output and `storage_option` above hold for these commands as well.\n\n"
        "| option | environment | default |\n| --- | --- | --- |\n"
    )
    rows = []
    for option in NESSIE_OPTIONS:
        variable = f"`{option.variable}`" if option.variable else "on the command line only"
        rows.append(f"| `{option.flag}` | {variable} | {shown_default(option)} |\n")
    return head + "".join(rows)


def setting_entry(setting: Option) -> str:
    lines = [f"### `{setting.name}`\n", f"{setting.help}\n"]
    metavar = setting.shown_metavar
    if setting.has_flag:
        lines.append(f"- flag: `{setting.flag}{f' {metavar}' if metavar else ''}`")
    if setting.command_line_only:
        lines.append("- on the command line only")
    elif not setting.spark_only:
        lines.append(f"- environment: `{setting.variable}`; file: `{setting.file_key}`")
    if setting.spark_property:
        lines.append(f"- Spark property: `{full_property(setting)}`")
    if default := shown_default(setting):
        lines.append(f"- default: {default}")
    return "\n".join(lines) + "\n"


def shown_default(option: Option) -> str:
    return option.shown_default or ("false" if option.kind.is_switch else "")


def full_property(setting: Option) -> str:
    is_hadoops = not setting.spark_property.startswith("spark.")
    return ("spark.hadoop." if is_hadoops else "") + setting.spark_property


if __name__ == "__main__":
    sys.exit(main())
