"""Options that the lakeFS commands and the Nessie commands share. Each is declared once, here."""

from __future__ import annotations

from functools import partial

from lakesweep.settings.kinds import ID, PAIRS, PERCENT, SWITCH, TEXT, choice
from lakesweep.settings.option import Option

__all__ = ["GUARDS", "OUTPUT", "PAGES", "SPARK", "STORAGE_OPTION"]

_sweep, _spark, _output = (partial(Option, group=group) for group in ("sweep", "spark", "output"))

GUARDS = (
    _sweep(
        "max_delete_share",
        PERCENT,
        "Stop when a plan of more than 1,000 objects or 10 GiB deletes more than this share of what is live or garbage, in objects or bytes. "
        "Above the default it works on the command line only.",
        default="50",
        guard="above",
    ),
    _sweep(
        "confirm",
        ID,
        "Delete exactly the plan with this id, whatever its share. Works on the command line only.",
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
SPARK = (
    _spark(
        "master",
        TEXT,
        "The Spark master.",
        default_text="local[*]",
        metavar="URL",
        spark_property="spark.master",
    ),
    _spark("remote", TEXT, "A Spark Connect server.", metavar="URL"),
    _spark(
        "conf",
        PAIRS,
        "A Spark property, or one of lakeFS's own client (spark.hadoop.lakefs.…); may be repeated.",
    ),
)
PAGES = (
    Option(
        "report",
        TEXT,
        "Write the run's page to this file, too: one HTML file that needs nothing else.",
        metavar="FILE",
        group="pages",
    ),
    Option(
        "plot",
        TEXT,
        "Draw what was found to this file, as FILE.svg or FILE.png (needs lakesweep[png]).",
        metavar="FILE",
        group="pages",
    ),
)
OUTPUT = (
    _output(
        "output", choice("text", "json"), "How the result is printed on stdout.", default="text"
    ),
    _output(
        "log_level",
        choice("debug", "info", "warning", "error"),
        "The least level of what is logged on stderr.",
        default="info",
    ),
    _output("log_format", choice("text", "json"), "The format of the log.", default="text"),
    _output("no_progress", SWITCH, "Show no progress while a run works: no bars, no lines."),
    _output(
        "progress_file",
        TEXT,
        "Write the progress of the run to this file as JSON, about once a second.",
        metavar="FILE",
    ),
    Option(
        "metrics_file",
        TEXT,
        "Write metrics of the run to this file at its end, in the text format of Prometheus.",
        metavar="FILE",
        group="metrics",
    ),
    _output("quiet", SWITCH, "Print only warnings and errors on stderr."),
)
