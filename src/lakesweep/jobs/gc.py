"""spark-submit -c spark.hadoop.lakefs.api.url=… gc.py REPO [REGION]: mark, plan, sweep.

The options of `lakesweep gc` work here too. do_mark, do_sweep and mark_id come as properties, as in lakeFS's own job.
"""

from __future__ import annotations

import sys

from lakesweep.jobs.submitted import run_gc_job

if __name__ == "__main__":
    sys.exit(run_gc_job(sys.argv[1:]))
