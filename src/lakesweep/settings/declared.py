"""Every setting there is: its name, what it means, and where besides the command line it may come from.

Command-line options, environment variables, keys of the config file, `lakesweep config show` and the reference
documentation are all made from this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lakesweep.settings.kinds import (
    COUNT,
    DURATION,
    ID,
    MARK,
    PAIRS,
    PERCENT,
    SECONDS,
    SWITCH,
    TEXT,
    TIME,
    WORDS,
    Kind,
    choice,
)

__all__ = ["DEFAULT_MAX_DELETE_SHARE", "SETTINGS", "Group", "Setting", "setting"]

Group = Literal["server", "collect", "sweep", "spark", "storage", "output"]

DEFAULT_MAX_DELETE_SHARE = 50.0
DEFAULT_KEEP_RUNS = 30


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting; its flag is `--name` and its variable `LAKESWEEP_NAME`."""

    name: str
    group: Group
    kind: Kind
    help: str
    default: object = None
    default_text: str = ""  # what help says where the default is not a value
    metavar: str = ""
    has_flag: bool = True
    is_secret: bool = False
    command_line_only: bool = False
    spark_property: str = ""  # without `spark.hadoop.`
    spark_only: bool = False

    @property
    def default_value(self) -> object:
        """The default as it is shown; None where there is none."""
        if self.default is None:
            return None
        return self.kind.format(self.kind.parse(self.default))

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        return "LAKESWEEP_" + self.name.upper()

    @property
    def file_key(self) -> str:
        return self.name.replace("_", "-")


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "endpoint_url",
        "server",
        TEXT,
        "The lakeFS server, for example https://lakefs.example.com.",
        metavar="URL",
        spark_property="lakefs.api.url",
    ),
    Setting(
        "access_key_id",
        "server",
        TEXT,
        "Access key id of the lakeFS user.",
        spark_property="lakefs.api.access_key",
    ),
    Setting(
        "secret_access_key",
        "server",
        TEXT,
        "Secret access key of the lakeFS user. No flag: a command line can be read by other users.",
        has_flag=False,
        is_secret=True,
        spark_property="lakefs.api.secret_key",
    ),
    Setting(
        "connect_timeout",
        "server",
        SECONDS,
        "How long to wait for the server to accept a connection.",
        default="10s",
        has_flag=False,
        spark_property="lakefs.api.connection.timeout_seconds",
    ),
    Setting(
        "read_timeout",
        "server",
        SECONDS,
        "How long to wait for an ordinary answer of the server.",
        default="10s",
        has_flag=False,
        spark_property="lakefs.api.read.timeout_seconds",
    ),
    Setting(
        "prepare_timeout",
        "server",
        SECONDS,
        "How long the server may take to prepare commits or a page of uncommitted objects, or to dump its refs.",
        default="20m",
        has_flag=False,
        spark_property="lakefs.gc.prepare_commits.timeout_seconds",
    ),
    Setting(
        "namespace_root",
        "storage",
        TEXT,
        "The folder in which a server keeps local:// namespaces.",
        metavar="DIR",
    ),
    Setting(
        "keep_runs",
        "storage",
        COUNT,
        "How many earlier runs keep their files; runs of more than 90 days ago go as well. What a later run, a resumed "
        "sweep or a restore needs always stays.",
        default=DEFAULT_KEEP_RUNS,
    ),
    Setting(
        "no_lease",
        "storage",
        TEXT,
        "Run without a lease, for this repository, where the store can't hold one: you vouch that no other collector "
        "runs. Works on the command line only.",
        metavar="REPO",
        command_line_only=True,
    ),
    Setting(
        "storage_option",
        "storage",
        PAIRS,
        "An option of the object store, such as s3_region=us-east-1; may be repeated.",
    ),
    Setting(
        "what",
        "collect",
        choice("all", "committed", "uncommitted"),
        "What is collected: expired committed objects, unreferenced uncommitted ones, or both.",
        default="all",
    ),
    Setting(
        "run",
        "collect",
        choice("auto", "clean", "optimized"),
        "How the unreferenced are found: all slices (clean), those since the last usable run (optimized), or auto.",
        default="auto",
    ),
    Setting(
        "mark_id",
        "collect",
        MARK,
        "Name of the mark: letters, digits, '-' and '_'. Where an earlier mark is meant, the path of an older client's "
        "mark works too.",
        default_text="the run id",
        spark_property="lakefs.gc.mark_id",
    ),
    Setting(
        "min_age",
        "collect",
        DURATION,
        "Younger objects are never touched.",
        default_text="what the server answers, at least 24h, plus 10m",
        spark_property="lakefs.debug.gc.uncommitted_min_age_seconds",
    ),
    Setting(
        "unsafe_min_age",
        "collect",
        TEXT,
        "Allow a --min-age below the safe one, for this repository; a sweep of such a mark asks for it again. "
        "Works on the command line only.",
        metavar="REPO",
        command_line_only=True,
    ),
    Setting(
        "keep_ref",
        "collect",
        WORDS,
        "A further root (branch, tag or commit): everything it reaches is live; may be repeated.",
        metavar="REF",
    ),
    Setting(
        "keep_tags",
        "collect",
        SWITCH,
        "All tags are roots too.",
        default=False,
    ),
    Setting(
        "now",
        "collect",
        TIME,
        "Reference time for retention, never in the future.",
        default_text="now",
    ),
    Setting(
        "range_partitions",
        "collect",
        COUNT,
        "Tasks that read ranges.",
        default=50,
        has_flag=False,
        spark_property="lakefs.gc.range.num_partitions",
    ),
    Setting(
        "address_partitions",
        "collect",
        COUNT,
        "Tasks of the anti-join.",
        default=200,
        has_flag=False,
        spark_property="lakefs.gc.address.num_partitions",
    ),
    Setting(
        "range_read_parallelism",
        "collect",
        COUNT,
        "Tasks that list slices and read ranges, where it is set; wins over range_partitions.",
        has_flag=False,
        spark_property="lakefs.job.range_read_parallelism",
    ),
    Setting(
        "max_delete_share",
        "sweep",
        PERCENT,
        "Stop when a plan of more than 1,000 objects or 10 GiB deletes more than this share of what is live or garbage, in objects or bytes. "
        "Above the default it works on the command line only.",
        default=DEFAULT_MAX_DELETE_SHARE,
    ),
    Setting(
        "confirm",
        "sweep",
        ID,
        "Go on with exactly that plan, whatever its share. Works on the command line only.",
        metavar="PLAN_ID",
        command_line_only=True,
    ),
    Setting(
        "backup_to",
        "sweep",
        TEXT,
        "Copy what goes to this location first; delete only what was copied and verified.",
        metavar="URI",
    ),
    Setting(
        "dry_run",
        "sweep",
        SWITCH,
        "Everything but the last step: same road, same numbers, nothing deleted.",
        default=False,
    ),
    Setting(
        "do_mark",
        "sweep",
        SWITCH,
        "Mark (Spark property of the gc job; on the command line use `mark` or `sweep`).",
        default=True,
        has_flag=False,
        spark_property="lakefs.gc.do_mark",
        spark_only=True,
    ),
    Setting(
        "do_sweep",
        "sweep",
        SWITCH,
        "Sweep (Spark property of the gc job; on the command line use `mark` or `sweep`).",
        default=True,
        has_flag=False,
        spark_property="lakefs.gc.do_sweep",
        spark_only=True,
    ),
    Setting(
        "master",
        "spark",
        TEXT,
        "The Spark master.",
        default_text="local[*]",
        metavar="URL",
        spark_property="spark.master",
    ),
    Setting(
        "remote",
        "spark",
        TEXT,
        "A Spark Connect server.",
        metavar="URL",
    ),
    Setting(
        "conf",
        "spark",
        PAIRS,
        "A Spark property, also those of lakeFS's own client (spark.hadoop.lakefs.…); may be repeated.",
    ),
    Setting(
        "output",
        "output",
        choice("text", "json"),
        "How the result is printed on stdout.",
        default="text",
    ),
    Setting(
        "log_level",
        "output",
        choice("debug", "info", "warning", "error"),
        "What is logged to stderr.",
        default="info",
    ),
    Setting(
        "log_format",
        "output",
        choice("text", "json"),
        "How it is logged.",
        default="text",
    ),
    Setting(
        "no_progress",
        "output",
        SWITCH,
        "No progress bars.",
        default=False,
    ),
    Setting(
        "quiet",
        "output",
        SWITCH,
        "Say nothing on stderr but warnings and errors.",
        default=False,
    ),
)

_BY_NAME = {setting.name: setting for setting in SETTINGS}


def setting(name: str) -> Setting:
    """The setting of that name."""
    return _BY_NAME[name]
