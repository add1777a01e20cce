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
        "How many earlier runs keep their files; runs of more than 90 days ago go as well. What a later run, a resumed "
        "sweep or a restore needs always stays.",
        default="30",
    ),
    _storage(
        "no_lease",
        TEXT,
        "Run without a lease, for this repository, where the store can't hold one: you vouch that no other collector "
        "runs. Works on the command line only.",
        metavar="REPO",
        guard="any value",
    ),
    STORAGE_OPTION,
    _collect(
        "what",
        choice("all", "committed", "uncommitted"),
        "What is collected: expired committed objects, unreferenced uncommitted ones, or both.",
        default="all",
    ),
    _collect(
        "run",
        choice("auto", "clean", "optimized"),
        "How the unreferenced are found: all slices (clean), those since the last usable run (optimized), or auto.",
        default="auto",
    ),
    _collect(
        "mark_id",
        MARK,
        "Name of the mark: letters, digits, '-' and '_'. Where an earlier mark is meant, the path of an older client's "
        "mark works too.",
        default_text="the run id",
        spark_property="lakefs.gc.mark_id",
    ),
    _collect(
        "min_age",
        DURATION,
        "Younger objects are never touched.",
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
        "A further root (branch, tag or commit): everything it reaches is live; may be repeated.",
        metavar="REF",
    ),
    _collect("keep_tags", SWITCH, "All tags are roots too."),
    _collect("now", TIME, "Reference time for retention, never in the future.", default_text="now"),
    _collect_no_flag(
        "range_partitions",
        COUNT,
        "Tasks that read ranges.",
        default="50",
        spark_property="lakefs.gc.range.num_partitions",
    ),
    _collect_no_flag(
        "address_partitions",
        COUNT,
        "Tasks of the anti-join.",
        default="200",
        spark_property="lakefs.gc.address.num_partitions",
    ),
    _collect_no_flag(
        "range_read_parallelism",
        COUNT,
        "Tasks that list slices and read ranges, where it is set; wins over range_partitions.",
        spark_property="lakefs.job.range_read_parallelism",
    ),
    *GUARDS,
    _sweep(
        "backup_to",
        TEXT,
        "Copy what goes to this location first; delete only what was copied and verified.",
        metavar="URI",
    ),
    _sweep(
        "dry_run", SWITCH, "Everything but the last step: same road, same numbers, nothing deleted."
    ),
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
