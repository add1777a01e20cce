"""Storage options from all their sources, each with the place it came from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from lakesweep.domain.storage_options import TOGETHER, StorageOptions
from lakesweep.settings.sources import Rank
from lakesweep.settings.values import SettingValue

__all__ = ["Layer", "merge_storage_options"]

Layer = tuple[Rank, Mapping[str, tuple[str, str]]]  # option → (where, text)

_FAMILIES = {"s3": "AWS", "azure": "Azure", "gcs": "Google"}


def merge_storage_options(
    layers: list[Layer], env: Mapping[str, str]
) -> tuple[StorageOptions, list[SettingValue]]:
    """The layers, highest first, over the AWS, Azure and Google variables."""
    options = StorageOptions.from_environment(env)
    sources = {name: _variables(name) for name in _set_names(options)}
    for _, layer in sorted(layers, key=lambda pair: pair[0], reverse=True):
        for group in TOGETHER:
            if any(name in layer for name in group):
                for name in group:
                    sources.pop(name, None)
        options = options.over({name: text for name, (_, text) in layer.items()})
        sources |= {name: where for name, (where, _) in layer.items()}
    shown = options.masked()
    return options, [
        SettingValue(f"storage.{name}", shown[name], sources[name])
        for name in sorted(sources)
        if name in shown
    ]


def _set_names(options: StorageOptions) -> list[str]:
    defaults = StorageOptions()
    fields = [field.name for field in dataclasses.fields(options)]
    return [name for name in fields if getattr(options, name) != getattr(defaults, name)]


def _variables(option: str) -> str:
    return f"{_FAMILIES.get(option.partition('_')[0], 'environment')} variables"
