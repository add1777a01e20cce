"""Settings: flag, then environment, then config file, then Spark properties, then what the ecosystem's tools use.

`load.load_settings` reads them all into one frozen value, `values.Settings`.
"""
