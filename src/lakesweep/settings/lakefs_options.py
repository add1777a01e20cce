"""Every setting of the lakeFS commands: its name, what it means, and where besides the command line it may come from.

Command-line options, environment variables, keys of the config file, `lakesweep config show` and the reference
documentation are all made from this table.
"""

from __future__ import annotations

from functools import partial

from lakesweep.settings.kinds import (
    COUNT,
    DURATION,
    MARK,
    SECONDS,
    SWITCH,
    TEXT,
    TIME,
    WORDS,
    choice,
)
from lakesweep.settings.option import Option
from lakesweep.settings.shared_options import GUARDS, OUTPUT, PAGES, SPARK, STORAGE_OPTION

__all__ = ["SETTING", "SETTINGS"]

_server, _storage, _collect, _sweep = (
    partial(Option, group=group) for group in ("server", "storage", "collect", "sweep")
)
_server_no_flag = partial(_server, has_flag=False)
_collect_no_flag = partial(_collect, has_flag=False)
_sweep_no_flag = partial(_sweep, has_flag=False)

SETTINGS: tuple[Option, ...] = (
    _server(
        "endpoint_url",
        TEXT,
        "The lakeFS server, for example https://lakefs.example.com.",
        metavar="URL",
        spark_property="lakefs.api.url",
    ),
    _server(
        "access_key_id",
        TEXT,
        "Access key id of the lakeFS user.",
        spark_property="lakefs.api.access_key",
    ),
    _server_no_flag(
        "secret_access_key",
        TEXT,
        "Secret access key of the lakeFS user. No flag: a command line can be read by other users.",
        is_secret=True,
        spark_property="lakefs.api.secret_key",
    ),
    _server_no_flag(
        "connect_timeout",
        SECONDS,
        "How long to wait for the server to accept a connection.",
        default="10s",
        spark_property="lakefs.api.connection.timeout_seconds",
    ),
    _server_no_flag(
        "read_timeout",
        SECONDS,
        "How long to wait for an ordinary answer of the server.",
        default="10s",
        spark_property="lakefs.api.read.timeout_seconds",
    ),
    _server_no_flag(
        "prepare_timeout",
        SECONDS,
        "How long the server may take to prepare commits or a page of uncommitted objects, or to dump its refs.",
        default="20m",
        spark_property="lakefs.gc.prepare_commits.timeout_seconds",
    ),
    _storage(
        "namespace_root",
        TEXT,
        "The folder in which a server keeps local:// namespaces.",
        metavar="DIR",
    ),
    _storage(
        "keep_runs",
        COUNT,
        "How many earlier runs keep their files, for at most 90 days. Files that a later run, a resumed sweep or a restore "
        "needs always stay.",
        default="30",
    ),
    _storage(
        "no_lease",
        TEXT,
        "Run without a lease, for this repository, where the store can't hold one: you make sure that no other "
        "collector runs. Works on the command line only.",
        metavar="REPO",
        guard="any value",
    ),
    STORAGE_OPTION,
    _collect(
        "what",
        choice("all", "committed", "uncommitted"),
        "What is collected: `committed` data past its retention, `uncommitted` data that nothing refers to, or `all` of it.",
        default="all",
    ),
    _collect(
        "run",
        choice("auto", "clean", "optimized"),
        "How objects that are in no commit are looked for: `clean` lists everything, `optimized` only what may have changed "
        "since the last run that was swept to its end, `auto` chooses.",
        default="auto",
    ),
    _collect(
        "mark_id",
        MARK,
        "Name of the mark: letters, digits, '-' and '_'. Commands that use an earlier mark also take the path of a mark "
        "that an older client made.",
        default_text="the run id",
        spark_property="lakefs.gc.mark_id",
    ),
    _collect(
        "min_age",
        DURATION,
        "Objects younger than this are never touched.",
        default_text="what the server answers, at least 24h, plus 10m",
        spark_property="lakefs.debug.gc.uncommitted_min_age_seconds",
    ),
    _collect(
        "unsafe_min_age",
        TEXT,
        "Allow a --min-age below the safe one, for this repository; a sweep of such a mark asks for it again. "
        "Works on the command line only.",
        metavar="REPO",
        guard="any value",
    ),
    _collect(
        "keep_ref",
        WORDS,
        "Another branch, tag or commit to keep: everything that it reaches is live; may be repeated.",
        metavar="REF",
    ),
    _collect("keep_tags", SWITCH, "Keep everything that a tag reaches, too."),
    _collect(
        "now",
        TIME,
        "The time from which days of retention count back, never in the future.",
        default_text="now",
    ),
    _collect(
        "inventory",
        TEXT,
        "Read this inventory instead of listing the store: the manifest of an S3 Inventory, an Azure Blob inventory or a "
        "Google Storage Insights report, its folder, or Parquet files with key, size and time. What it names as garbage is "
        "looked up in the store, and only what is there unchanged may go.",
        metavar="URI",
    ),
    _collect(
        "max_inventory_age",
        DURATION,
        "An inventory older than this is refused.",
        default="14d",
    ),
    _collect_no_flag(
        "range_partitions",
        COUNT,
        "How many tasks read ranges, lakeFS's lists of the objects of commits.",
        default="50",
        spark_property="lakefs.gc.range.num_partitions",
    ),
    _collect_no_flag(
        "address_partitions",
        COUNT,
        "How many tasks compare what exists with what is live.",
        default="200",
        spark_property="lakefs.gc.address.num_partitions",
    ),
    _collect_no_flag(
        "range_read_parallelism",
        COUNT,
        "How many tasks list folders and read ranges; goes before range_partitions where it is set.",
        spark_property="lakefs.job.range_read_parallelism",
    ),
    *GUARDS,
    _sweep(
        "backup_to",
        TEXT,
        "Copy everything to this location before it is deleted; what was not copied and verified is not deleted.",
        metavar="URI",
    ),
    _sweep("dry_run", SWITCH, "Do everything but the deletes, and show the same numbers."),
    _sweep_no_flag(
        "do_mark",
        SWITCH,
        "Mark (Spark property of the gc job; on the command line use `mark` or `sweep`).",
        default="true",
        spark_property="lakefs.gc.do_mark",
        spark_only=True,
    ),
    _sweep_no_flag(
        "do_sweep",
        SWITCH,
        "Sweep (Spark property of the gc job; on the command line use `mark` or `sweep`).",
        default="true",
        spark_property="lakefs.gc.do_sweep",
        spark_only=True,
    ),
    *SPARK,
    *PAGES,
    *OUTPUT,
)

SETTING = {setting.name: setting for setting in SETTINGS}
