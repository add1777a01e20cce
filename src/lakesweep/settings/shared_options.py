"""Options that the lakeFS commands and the Nessie commands share. Each is declared once, here."""

from __future__ import annotations

from lakesweep.settings.kinds import ID, PAIRS, PERCENT, SWITCH, TEXT, choice
from lakesweep.settings.option import Option, in_group

__all__ = ["GUARDS", "OUTPUT", "SPARK", "STORAGE_OPTION"]

GUARDS = in_group(
    "sweep",
    Option(
        "max_delete_share",
        PERCENT,
        "Stop when a plan of more than 1,000 objects or 10 GiB deletes more than this share of what is live or garbage, in objects or bytes. "
        "Above the default it works on the command line only.",
        default="50",
        guard="above",
    ),
    Option(
        "confirm",
        ID,
        "Go on with exactly that plan, whatever its share. Works on the command line only.",
        metavar="PLAN_ID",
        guard="any value",
    ),
)
STORAGE_OPTION = Option(
    "storage_option",
    PAIRS,
    "An option of the object store, such as s3_region=us-east-1; may be repeated.",
    group="storage",
)
SPARK = in_group(
    "spark",
    Option(
        "master",
        TEXT,
        "The Spark master.",
        default_text="local[*]",
        metavar="URL",
        spark_property="spark.master",
    ),
    Option("remote", TEXT, "A Spark Connect server.", metavar="URL"),
    Option(
        "conf",
        PAIRS,
        "A Spark property, also those of lakeFS's own client (spark.hadoop.lakefs.…); may be repeated.",
    ),
)
OUTPUT = in_group(
    "output",
    Option(
        "output", choice("text", "json"), "How the result is printed on stdout.", default="text"
    ),
    Option(
        "log_level",
        choice("debug", "info", "warning", "error"),
        "What is logged to stderr.",
        default="info",
    ),
    Option("log_format", choice("text", "json"), "How it is logged.", default="text"),
    Option("no_progress", SWITCH, "No progress bars."),
    Option("quiet", SWITCH, "Say nothing on stderr but warnings and errors."),
)
