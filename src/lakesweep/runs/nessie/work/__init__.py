"""Work functions of Nessie runs: read metadata and manifests, list base locations, judge files, delete them."""
