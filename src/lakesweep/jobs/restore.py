"""spark-submit restore.py OBJECTS-LIST-LOCATION BACKUP-LOCATION STORAGE-NAMESPACE s3|azure|gs|local. No server is asked."""

from __future__ import annotations

import sys

from lakesweep.jobs.submitted import run_restore_job

if __name__ == "__main__":
    sys.exit(run_restore_job(sys.argv[1:]))
