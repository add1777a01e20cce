"""Every Sunday: mark a repository, then sweep the mark. lakesweep must be installed beside Dagster's code location.

Tried: loaded by Dagster, and the job run to its end on an embedded lake. Not tried: a daemon with the schedule.
"""

import json
import subprocess

from dagster import Config, Definitions, Failure, OpExecutionContext, ScheduleDefinition, job, op


class Collection(Config):
    """Which repository is collected."""

    repository: str = "example-repo"


def lakesweep(*words: str) -> dict[str, object]:
    """Run a command; its record, or a failure with the reason that it gives."""
    done = subprocess.run(
        ["lakesweep", *words, "--output", "json"], stdout=subprocess.PIPE, text=True, check=False
    )
    record: dict[str, object] = json.loads(done.stdout) if done.stdout else {}
    if done.returncode:
        reason = str(record.get("reason", "see the log"))
        raise Failure(f"lakesweep {words[0]} ended with status {done.returncode}: {reason}")
    return record


@op
def mark(context: OpExecutionContext, config: Collection) -> dict[str, str]:
    """Find the garbage; nothing is deleted."""
    record = lakesweep("mark", config.repository)
    context.log.info("found %s", record["objects"])
    return {"repository": config.repository, "mark_id": str(record["mark_id"])}


@op
def sweep(context: OpExecutionContext, marked: dict[str, str]) -> None:
    """Read what is live again, and delete what is still garbage."""
    record = lakesweep("sweep", marked["repository"], "--mark-id", marked["mark_id"])
    context.log.info("did %s", record["objects"])


@job
def collect() -> None:
    sweep(mark())


definitions = Definitions(
    jobs=[collect], schedules=[ScheduleDefinition(job=collect, cron_schedule="17 2 * * 0")]
)
