"""Inventories as listings: lists that an object store makes of its own objects, once a day or once a week."""
