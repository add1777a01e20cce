"""`lakesweep nessie`: the commands of nessie-gc, one file each."""
