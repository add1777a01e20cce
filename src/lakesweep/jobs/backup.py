"""spark-submit backup.py EXPIRED-LIST-LOCATION STORAGE-NAMESPACE BACKUP-LOCATION s3|azure|gs|local. No server is asked."""

from __future__ import annotations

import sys

from lakesweep.jobs.submitted import run_backup_job

if __name__ == "__main__":
    sys.exit(run_backup_job(sys.argv[1:]))
