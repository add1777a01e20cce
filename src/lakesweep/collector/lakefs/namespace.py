"""Which full addresses lie in a repository's storage namespace."""

from __future__ import annotations

from lakesweep.catalogs.lakefs.namespace import AddressNormaliser
from lakesweep.collector.target import Target


def normaliser_of(target: Target) -> AddressNormaliser:
    """Tells which full addresses lie in the namespace."""
    return AddressNormaliser(target.namespace, target.namespace_root)
