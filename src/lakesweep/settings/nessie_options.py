"""Every option of `lakesweep nessie`: nessie-gc's own with their names, letters and defaults, and ours beside them.

Command-line options, `NESSIE_GC_…` variables and the reference documentation are all made from this table.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from lakesweep.settings.kinds import COUNT, DURATION, MONEY, TEXT, choice
from lakesweep.settings.nessie_kinds import (
    INSTANT,
    LIVE_SET,
    LOCATION,
    NEGATABLE,
    PAIRS,
    PROBABILITY,
    STRING,
    STRINGS,
    TRUE_FALSE,
    ZONE,
    ZONED_TIME,
    pairs,
)
from lakesweep.settings.option import Option
from lakesweep.settings.shared_options import GUARDS

__all__ = ["NESSIE_OPTION", "NESSIE_OPTIONS", "OUR_PREFIX", "TOOL_PREFIX"]

TOOL_PREFIX = "NESSIE_GC_"
OUR_PREFIX = "LAKESWEEP_NESSIE_"

_nessie_gc = partial(Option, prefix=TOOL_PREFIX)
_ours = partial(Option, prefix=OUR_PREFIX)
_typed = partial(Option, prefix="")  # on the command line only
_lowers_guard = partial(_typed, guard="any value")
_id = partial(_typed, group="id")
_jdbc, _nessie, _cutoffs, _sweep, _files, _show = (
    partial(_nessie_gc, group=group)
    for group in ("jdbc", "nessie", "cutoffs", "sweep", "files", "show")
)

_POLICY = (
    "NONE (all is live), a number of commits, a duration (P10D, PT10H), or a time with its offset"
)

NESSIE_OPTIONS: tuple[Option, ...] = (
    _typed(
        "inmemory",
        TRUE_FALSE,
        "Keep the live set in memory, for `gc` without --defer-deletes; nothing of it stays.",
    ),
    _typed(
        "jdbc",
        TRUE_FALSE,
        "Use the database that the NESSIE_GC_JDBC_… variables name.",
        group="jdbc",
    ),
    _jdbc(
        "jdbc_url",
        STRING,
        "The database of the live sets: jdbc:postgresql:, jdbc:mariadb:, jdbc:mysql:, or a SQLAlchemy URL such as "
        "sqlite:///live-sets.db.",
        metavar="URL",
    ),
    _jdbc("jdbc_user", STRING, "User of the database.", metavar="NAME"),
    _jdbc("jdbc_password", STRING, "Password of that user.", metavar="PASSWORD", is_secret=True),
    _jdbc("jdbc_properties", PAIRS, "Properties for the database driver; may be repeated."),
    _jdbc(
        "jdbc_fetch_size",
        COUNT,
        "Rows fetched at a time; fewer than 10,000 count as 10,000.",
        default="100",
        may_be_bare=True,
    ),
    _jdbc(
        "jdbc_pool_max_size", COUNT, "Most connections at the same time, at least 2.", default="5"
    ),
    _jdbc(
        "jdbc_schema",
        choice("CREATE", "DROP_AND_CREATE", "CREATE_IF_NOT_EXISTS"),
        "Make the tables first: CREATE, DROP_AND_CREATE or CREATE_IF_NOT_EXISTS.",
        metavar="HOW",
    ),
    _nessie_gc(
        "time_zone",
        ZONE,
        "Zone in which times are shown; nothing else depends on it.",
        default_text="the machine's",
    ),
    _nessie(
        "uri",
        TEXT,
        "Nessie's REST API, version 2.",
        short="-u",
        metavar="URL",
        default="http://localhost:19120/api/v2",
    ),
    _nessie(
        "nessie_option",
        PAIRS,
        "Properties of the Nessie client, such as nessie.authentication.type=BEARER; may be repeated.",
        short="-o",
    ),
    _nessie(
        "nessie_client",
        STRING,
        "Accepted for scripts: JavaHttp, URLConnection or ApacheHttp. There is one client here.",
        metavar="NAME",
    ),
    _nessie(
        "nessie_api",
        STRING,
        "Accepted for scripts: the class of nessie-gc's own HTTP client. No other can be loaded.",
        metavar="CLASS",
    ),
    _cutoffs(
        "default_cutoff",
        TEXT,
        f"Cut-off policy of references that no --cutoff matches: {_POLICY}.",
        short="-c",
        metavar="POLICY",
        default="NONE",
    ),
    _cutoffs(
        "cutoff",
        pairs("REGEX=POLICY"),
        "Cut-off policy of the references whose whole name matches a regular expression; the first match counts; may "
        "be repeated.",
        short="-C",
    ),
    _cutoffs(
        "cutoff_ref_time",
        ZONED_TIME,
        "Time from which durations count back.",
        default_text="now",
        short="-R",
    ),
    _nessie_gc(
        "write_live_set_id_to",
        STRING,
        "Write the id of the new live set into this file.",
        metavar="FILE",
    ),
    _cutoffs(
        "identify_parallelism", COUNT, "References that are walked at the same time.", default="4"
    ),
    _ours(
        "keep_state_at_cutoff",
        TRUE_FALSE,
        "With a cut-off in time, what was current at that moment is live too.",
        group="cutoffs",
    ),
    _lowers_guard(
        "collect_dropped",
        TRUE_FALSE,
        "The sweep of this set also collects tables that no reference has had for --dropped-grace, locations that tables "
        "have left, and places that write.data.path and similar properties name. Works on the command line only.",
    ),
    _ours(
        "dropped_grace",
        DURATION,
        "How long a dropped table stays, counted from when it left the last cut-off; files written there within that time "
        "stay, too. Below the default it works on the command line only.",
        default="30d",
        guard="below",
    ),
    _id("live_set_id", LIVE_SET, "The live set.", short="-l"),
    _id(
        "read_live_set_id_from",
        STRING,
        "The live set whose id is this file's first line.",
        short="-L",
        metavar="FILE",
    ),
    _sweep(
        "max_file_modification",
        INSTANT,
        "Files modified after this time are kept. On the command line it takes the place of a --grace that is not given; "
        "as a variable it never shortens the grace.",
        default_text="the mark's start less --grace",
    ),
    _sweep(
        "expiry_parallelism",
        COUNT,
        "Files that each task works on at the same time: eight times this number. Spark decides how many tasks run.",
        default="4",
    ),
    _sweep(
        "expected_file_count",
        COUNT,
        "Accepted for scripts. Live files are compared by exact hash, so there is no filter that could overflow.",
        default="1000000",
    ),
    _sweep(
        "fpp", PROBABILITY, "Accepted for scripts; see --expected-file-count.", default="0.00001"
    ),
    _sweep(
        "allowed_fpp",
        PROBABILITY,
        "Accepted for scripts; no content is ever skipped.",
        default="0.0001",
    ),
    _sweep(
        "defer_deletes",
        NEGATABLE,
        "Record the files instead of deleting them; `deferred-deletes` deletes them later. Not with --inmemory.",
        default="false",
    ),
    _files(
        "iceberg",
        PAIRS,
        "Iceberg FileIO properties, such as s3.access-key-id; may be repeated. An unknown one is an error.",
        short="-I",
    ),
    _files(
        "hadoop",
        PAIRS,
        "Hadoop properties, such as fs.s3a.access.key; may be repeated. An unknown one is an error.",
        short="-H",
    ),
    _ours(
        "keep_all_snapshots",
        TRUE_FALSE,
        "Every snapshot that live metadata lists is live, and not just the one that Nessie names.",
    ),
    _lowers_guard(
        "no_reverify",
        TRUE_FALSE,
        "Do not ask Nessie again before files are deleted: files that became live since the mark are then lost, and the "
        "record says so. Works on the command line only.",
    ),
    _lowers_guard(
        "catalog_moved",
        TRUE_FALSE,
        "The catalog that was marked is at --uri now. Its commits must be there; a copy of it will not do. Works on the "
        "command line only.",
    ),
    _ours(
        "grace",
        DURATION,
        "Files modified later than this before the mark's start are kept, whoever made the mark. Below the default it "
        "works on the command line only.",
        default="24h",
        guard="below",
    ),
    _lowers_guard(
        "give_up",
        STRINGS,
        "Continue without the table or view of this id, whose metadata can't be read; nothing that it can own is deleted. "
        "May be repeated; works on the command line only.",
        metavar="CONTENT_ID",
    ),
    _ours("price", MONEY, "Price of one GB (2^30 bytes) for one month, for example 0.023."),
    _ours("no_save", TRUE_FALSE, "Do not keep the answer for pages of runs."),
    *(replace(o, prefix="" if o.command_line_only else OUR_PREFIX) for o in GUARDS),
    _ours(
        "work_location",
        LOCATION,
        "Where lakesweep keeps its own files (listings, plans, what was deleted): never below a table, and on a "
        "cluster where all executors reach it.",
        default_text="lakesweep/nessie in the user's state folder",
    ),
    _show("with_deferred_deletes", TRUE_FALSE, "Also the files recorded for deletion.", short="-D"),
    _show(
        "with_content_references",
        TRUE_FALSE,
        "Also the live contents, commit by commit.",
        short="-C",
    ),
    _show("with_base_locations", TRUE_FALSE, "Also the places that were listed.", short="-B"),
)

NESSIE_OPTION = {option.name: option for option in NESSIE_OPTIONS}
