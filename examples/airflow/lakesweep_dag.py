"""Every Sunday: mark a repository, copy what would go, then sweep. lakesweep must be installed beside Airflow's workers.

Tried: loaded by Airflow's own DagBag, which found three tasks in this order and no error. Not tried: a scheduler.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

REPOSITORY = "example-repo"
MARK = "weekly-{{ ds_nodash }}"
BACKUP = f"s3://backups/{REPOSITORY}/{{{{ ds_nodash }}}}"

with DAG(
    dag_id="lakesweep",
    schedule="17 2 * * 0",
    start_date=datetime(2026, 1, 4, tzinfo=UTC),
    catchup=False,  # a run looks at the lake as it is now; missed weeks need no runs of their own
    max_active_runs=1,
    # Exit status 4 means "refused as unsafe" and 5 "not complete": both are for a person, not for a retry.
    default_args={"retries": 0, "execution_timeout": timedelta(hours=6)},
):
    mark = BashOperator(
        task_id="mark",
        bash_command=f"lakesweep mark {REPOSITORY} --mark-id {MARK} --output json",
    )
    backup = BashOperator(
        task_id="backup",
        bash_command=f"lakesweep backup {REPOSITORY} --mark-id {MARK} --to {BACKUP} --output json",
    )
    sweep = BashOperator(
        task_id="sweep",
        bash_command=f"lakesweep sweep {REPOSITORY} --mark-id {MARK} --output json",
    )
    mark >> backup >> sweep
