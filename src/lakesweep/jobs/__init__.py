"""Job files for spark-submit, with the arguments of lakeFS's own; `lakesweep job NAME` prints where they are."""
