"""Every option of `lakesweep nessie`: nessie-gc's own with their names, letters and defaults, and ours beside them.

Command-line options, `NESSIE_GC_…` variables and the reference documentation are all made from this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["OPTIONS", "Option", "OptionGroup", "OptionKind", "option"]

OptionGroup = Literal[
    "storage",
    "jdbc",
    "zone",
    "nessie",
    "cutoffs",
    "mark",
    "dropped",
    "dropped_grace",
    "id",
    "sweep",
    "files",
    "keep",
    "guard",
    "grace",
    "reverify",
    "work",
    "show",
]
OptionKind = Literal["text", "pairs", "list", "switch", "negatable"]

TOOL = "NESSIE_GC_"
OURS = "LAKESWEEP_NESSIE_"
COMMAND_LINE_ONLY = ""


@dataclass(frozen=True, slots=True)
class Option:
    """One option. Its flag is `--name` and its variable `NESSIE_GC_NAME`, or `LAKESWEEP_NESSIE_NAME` for ours."""

    name: str
    group: OptionGroup
    help: str
    kind: OptionKind = "text"
    short: str = ""
    metavar: str = "TEXT"
    default: str | None = None
    prefix: str = TOOL
    takes_nothing_too: bool = False  # may be given without a value, as in picocli's arity 0..1

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """Empty where only the command line counts."""
        return self.prefix + self.name.upper() if self.prefix else ""


_POLICY = (
    "NONE (all is live), a number of commits, a duration (P10D, PT10H), or a time with its offset"
)

OPTIONS: tuple[Option, ...] = (
    Option(
        "inmemory",
        "storage",
        "Keep the live set in memory, for `gc` without --defer-deletes; nothing of it stays.",
        kind="switch",
    ),
    Option(
        "jdbc",
        "jdbc",
        "Live sets are in a database; needed where all that is known of it comes from the environment.",
        kind="switch",
    ),
    Option(
        "jdbc_url",
        "jdbc",
        "The database of the live sets: jdbc:postgresql:, jdbc:mariadb:, jdbc:mysql:, or a SQLAlchemy URL such as "
        "sqlite:///live-sets.db.",
        metavar="URL",
    ),
    Option("jdbc_user", "jdbc", "User of the database.", metavar="NAME"),
    Option("jdbc_password", "jdbc", "Password of that user.", metavar="PASSWORD"),
    Option(
        "jdbc_properties",
        "jdbc",
        "Properties for the database driver; may be repeated.",
        kind="pairs",
        metavar="NAME=VALUE[,…]",
    ),
    Option(
        "jdbc_fetch_size",
        "jdbc",
        "Rows fetched at a time; fewer than 10,000 count as 10,000.",
        metavar="N",
        default="100",
        takes_nothing_too=True,
    ),
    Option(
        "jdbc_pool_max_size",
        "jdbc",
        "Most connections at the same time, at least 2.",
        metavar="N",
        default="5",
    ),
    Option(
        "jdbc_schema",
        "jdbc",
        "Make the tables first: CREATE, DROP_AND_CREATE or CREATE_IF_NOT_EXISTS.",
        metavar="HOW",
    ),
    Option(
        "time_zone",
        "zone",
        "Zone in which times are shown; nothing else depends on it. [default: the machine's]",
        metavar="ZONE",
    ),
    Option(
        "uri",
        "nessie",
        "Nessie's REST API, version 2.",
        short="-u",
        metavar="URL",
        default="http://localhost:19120/api/v2",
    ),
    Option(
        "nessie_option",
        "nessie",
        "Properties of the Nessie client, such as nessie.authentication.type=BEARER; may be repeated.",
        kind="pairs",
        short="-o",
        metavar="NAME=VALUE[,…]",
    ),
    Option(
        "nessie_client",
        "nessie",
        "Accepted for scripts: JavaHttp, URLConnection or ApacheHttp. There is one client here.",
        metavar="NAME",
    ),
    Option(
        "nessie_api",
        "nessie",
        "Accepted for scripts: the class of nessie-gc's own HTTP client. No other can be loaded.",
        metavar="CLASS",
    ),
    Option(
        "default_cutoff",
        "cutoffs",
        f"Cut-off policy of references that no --cutoff matches: {_POLICY}.",
        short="-c",
        metavar="POLICY",
        default="NONE",
    ),
    Option(
        "cutoff",
        "cutoffs",
        "Cut-off policy of the references whose whole name matches a regular expression; the first match counts; may "
        "be repeated.",
        kind="pairs",
        short="-C",
        metavar="REGEX=POLICY[,…]",
    ),
    Option(
        "cutoff_ref_time",
        "cutoffs",
        "Time from which durations count back. [default: now]",
        short="-R",
        metavar="TIME",
    ),
    Option(
        "write_live_set_id_to",
        "mark",
        "Write the id of the new live set into this file.",
        metavar="FILE",
    ),
    Option(
        "identify_parallelism",
        "cutoffs",
        "References that are walked at the same time.",
        metavar="N",
        default="4",
    ),
    Option(
        "keep_state_at_cutoff",
        "cutoffs",
        "With a cut-off in time, what was current at that moment is live too.",
        kind="switch",
        prefix=OURS,
    ),
    Option(
        "collect_dropped",
        "dropped",
        "The sweep of this set also collects tables that no reference has had for --dropped-grace, locations that tables "
        "have left, and places that write.data.path and its kin name. Works on the command line only.",
        kind="switch",
        prefix=COMMAND_LINE_ONLY,
    ),
    Option(
        "dropped_grace",
        "dropped_grace",
        "How long a dropped table stays, counted from when it left the last cut-off; files written there within that time "
        "stay, too. Below the default it works on the command line only.",
        metavar="DURATION",
        default="30d",
        prefix=OURS,
    ),
    Option(
        "live_set_id",
        "id",
        "The live set.",
        short="-l",
        metavar="UUID",
        prefix=COMMAND_LINE_ONLY,
    ),
    Option(
        "read_live_set_id_from",
        "id",
        "The live set whose id is this file's first line.",
        short="-L",
        metavar="FILE",
        prefix=COMMAND_LINE_ONLY,
    ),
    Option(
        "max_file_modification",
        "sweep",
        "Files modified after this time are kept. On the command line it takes the place of a --grace that is not given; "
        "as a variable it never shortens the grace. [default: the mark's start less --grace]",
        metavar="TIME",
    ),
    Option(
        "expiry_parallelism",
        "sweep",
        "How much each task keeps in flight: eight files for each. Spark says how many tasks run; --master says where.",
        metavar="N",
        default="4",
    ),
    Option(
        "expected_file_count",
        "sweep",
        "Accepted for scripts. Live files are compared by exact hash, so there is no filter that could overflow.",
        metavar="N",
        default="1000000",
    ),
    Option(
        "fpp",
        "sweep",
        "Accepted for scripts; see --expected-file-count.",
        metavar="P",
        default="0.00001",
    ),
    Option(
        "allowed_fpp",
        "sweep",
        "Accepted for scripts; no content is ever skipped.",
        metavar="P",
        default="0.0001",
    ),
    Option(
        "defer_deletes",
        "sweep",
        "Record the files instead of deleting them; `deferred-deletes` deletes them later. Not with --inmemory.",
        kind="negatable",
        default="false",
    ),
    Option(
        "iceberg",
        "files",
        "Iceberg FileIO properties, such as s3.access-key-id; may be repeated. An unknown one is an error.",
        kind="pairs",
        short="-I",
        metavar="NAME=VALUE[,…]",
    ),
    Option(
        "hadoop",
        "files",
        "Hadoop properties, such as fs.s3a.access.key; may be repeated. An unknown one is an error.",
        kind="pairs",
        short="-H",
        metavar="NAME=VALUE[,…]",
    ),
    Option(
        "keep_all_snapshots",
        "keep",
        "Every snapshot that live metadata lists is live, and not just the one that Nessie names.",
        kind="switch",
        prefix=OURS,
    ),
    Option(
        "no_reverify",
        "reverify",
        "Do not ask Nessie again before files are deleted: what became live since the mark is then lost, and the record "
        "says so. Works on the command line only.",
        kind="switch",
        prefix=COMMAND_LINE_ONLY,
    ),
    Option(
        "catalog_moved",
        "reverify",
        "The catalog that was marked is at --uri now. Its commits must be there; a copy of it will not do. Works on the "
        "command line only.",
        kind="switch",
        prefix=COMMAND_LINE_ONLY,
    ),
    Option(
        "grace",
        "grace",
        "Files modified later than this before the mark's start are kept, whoever made the mark. Below the default it "
        "works on the command line only.",
        metavar="DURATION",
        default="24h",
        prefix=OURS,
    ),
    Option(
        "give_up",
        "keep",
        "Go on without this content, whose metadata can't be read; nothing that it can own is deleted. "
        "May be repeated; works on the command line only.",
        kind="list",
        metavar="CONTENT_ID",
        prefix=COMMAND_LINE_ONLY,
    ),
    Option(
        "max_delete_share",
        "guard",
        "Stop when a plan of more than 1,000 files or 10 GiB deletes more than this share of what is live or garbage, by "
        "files or by bytes. Above the default it works on the command line only.",
        metavar="PCT",
        default="50",
        prefix=OURS,
    ),
    Option(
        "confirm",
        "guard",
        "Go on with exactly that plan, whatever its share. Works on the command line only.",
        metavar="PLAN_ID",
        prefix=COMMAND_LINE_ONLY,
    ),
    Option(
        "work_location",
        "work",
        "Where lakesweep keeps its own files (listings, plans, what was deleted): never below a table, and on a "
        "cluster where all executors reach it. [default: lakesweep/nessie in the user's state folder]",
        metavar="URI",
        prefix=OURS,
    ),
    Option(
        "with_deferred_deletes",
        "show",
        "Also the files recorded for deletion.",
        kind="switch",
        short="-D",
    ),
    Option(
        "with_content_references",
        "show",
        "Also the live contents, commit by commit.",
        kind="switch",
        short="-C",
    ),
    Option(
        "with_base_locations",
        "show",
        "Also the places that were listed.",
        kind="switch",
        short="-B",
    ),
)

_BY_NAME = {declared.name: declared for declared in OPTIONS}


def option(name: str) -> Option:
    """The option of that name."""
    return _BY_NAME[name]
