"""Avro object container files, read column by column: Iceberg's manifest lists and manifests are such files.

A file carries the schema it was written with. That schema is compiled once into a short program that passes over the
bytes of an object and picks out the wanted columns; compiled code runs it, so no object is ever built in Python.
"""
