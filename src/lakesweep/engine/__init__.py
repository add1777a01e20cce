"""The engine: work spread over a cluster. The only home of pyspark, and only in the modules that need it."""
