"""Read every source in its order and make the one value that the rest of lakesweep is handed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar, cast

from lakesweep.cachefolder import home_folder
from lakesweep.domain.location import Location
from lakesweep.domain.storage_options import StorageOptions
from lakesweep.errors import ConfigError
from lakesweep.secrets import MASK, SecretMask, is_secret_name, known_secrets, secrets_in_url
from lakesweep.settings.guards import (
    OURS,
    check_combinations,
    keep_pair_together,
    raise_min_age_only,
)
from lakesweep.settings.lakefs_options import SETTING, SETTINGS
from lakesweep.settings.resolve import parse, remember_secrets, resolve
from lakesweep.settings.sources import (
    Found,
    Rank,
    from_ecosystem,
    from_file,
    from_flags,
    from_variables,
    unknown_variables,
)
from lakesweep.settings.spark_properties import (
    KnownProperties,
    names_without_effect,
    read_properties,
)
from lakesweep.settings.stores import Layer, merge_storage_options
from lakesweep.settings.values import (
    CollectSettings,
    OutputSettings,
    ServerSettings,
    Settings,
    SettingValue,
    SparkSettings,
)

__all__ = ["load_settings"]

_T = TypeVar("_T")


def load_settings(
    flags: Mapping[str, object] | None = None,
    *,
    env: Mapping[str, str] = os.environ,
    spark_properties: Mapping[str, str] | None = None,
    home: Path | None = None,
    current_time: datetime | None = None,
    region: str | None = None,
    mask: SecretMask = known_secrets,
) -> Settings:
    """Flag, then `LAKESWEEP_<FLAG>`, then the config file, then Spark properties, then the ecosystem, then the default.

    Args:
        flags: by setting name; None stands for "not given". `config` names the config file.
        spark_properties: of spark-submit or of a session that is there already; `--conf` goes over them.
        home: where `.lakectl.yaml` lies.
        current_time: what `--now` may not lie beyond.
        region: the store's region, the seeds' second positional argument.
        mask: is told of every secret that is read, before anything can fail over it.

    Raises:
        ConfigError: a value, a combination or a source is wrong; nothing was touched.
    """
    with _errors_masked(mask):
        home = home or home_folder(env)
        sources, warnings = _read_sources(flags or {}, env, home, mask)
        properties = dict(spark_properties or {})
        for found in reversed(sources["conf"]):
            given = parse(SETTING["conf"], found)
            warnings += [f"{found.where}: {warning}" for warning in names_without_effect(given)]
            properties |= given
        for name, text in properties.items():
            mask.remember([text] if is_secret_name(name) else secrets_in_url(text))
        known = read_properties(properties)
        warnings += known.warnings
        for name, (where, text) in known.settings.items():
            sources[name].append(Found(text, where, Rank.SPARK))
        raise_min_age_only(sources, warnings)
        keep_pair_together(sources)

        best = {
            name: min(found, key=lambda f: f.rank, default=None) for name, found in sources.items()
        }
        plain = {s.name: resolve(s, best[s.name]) for s in SETTINGS}
        values = {n: (plain[n], found.where if found else "default") for n, found in best.items()}
        check_combinations(plain, values, current_time or datetime.now(UTC))

        layers = _storage_layers(sources, known, region)
        storage, storage_values = merge_storage_options(layers, env)
        names_azure_key = any(
            rank in OURS and layer.keys() & {"azure_account_key", "azure_sas_token"}
            for rank, layer in layers
        )
        derived = _derived(plain)
        settings = Settings(
            server=_filled(ServerSettings, derived),
            collect=_filled(CollectSettings, derived),
            spark=SparkSettings(plain["master"], plain["remote"], known.for_spark),
            output=_filled(OutputSettings, derived),
            storage=replace(storage, places=() if names_azure_key else known.azure_accounts),
            namespace_root=plain["namespace_root"],
            values=(*_shown(values, known), *storage_values),
            warnings=tuple(mask.mask(warning) for warning in warnings),
        )
        mask.remember(settings.secrets())
        # A secret may also stand where nobody looks for one, such as in an endpoint's URL.
        shown = tuple(replace(line, value=mask.mask_json(line.value)) for line in settings.values)
        return replace(settings, values=shown)


@contextmanager
def _errors_masked(mask: SecretMask) -> Iterator[None]:
    """Wrong settings in this block are errors without the secrets that were read by then."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(mask.mask(error.message), kind=error.kind) from None


def _read_sources(
    flags: Mapping[str, object], env: Mapping[str, str], home: Path, mask: SecretMask
) -> tuple[dict[str, list[Found]], list[str]]:
    """All that was found for each setting, highest first; Spark properties come later, from `conf`."""
    mask.remember(StorageOptions.from_environment(env).secrets())
    path = flags.get("config") or env.get("LAKESWEEP_CONFIG")
    from_config = from_file(_home_named(str(path))) if path else {}
    from_tools, warnings = from_ecosystem(env, home)
    sources: dict[str, list[Found]] = {s.name: [] for s in SETTINGS}
    variables = from_variables(env, SETTINGS)
    for source in (from_flags(flags, SETTINGS), variables, from_config, from_tools):
        for name, found in source.items():
            sources[name].append(found)
            remember_secrets(SETTING[name], found, mask)
    return sources, unknown_variables(env) + warnings


def _home_named(path: str) -> Path:
    # `Path.expanduser` raises where nobody has that name, or no home.
    return Path(os.path.expanduser(path))


def _storage_layers(
    sources: Mapping[str, list[Found]], known: KnownProperties, region: str | None
) -> list[Layer]:
    layers: list[Layer] = [
        (
            found.rank,
            {
                name: (f"{found.where} {name}", text)
                for name, text in parse(SETTING["storage_option"], found).items()
            },
        )
        for found in sources["storage_option"]
    ]
    layers.append((Rank.SPARK, known.storage))
    if region is not None:
        flagged = next((layer for rank, layer in layers if rank is Rank.FLAG), {})
        layers = [(rank, layer) for rank, layer in layers if rank is not Rank.FLAG]
        layers.append((Rank.FLAG, {"s3_region": ("argument REGION", region), **flagged}))
    return layers


def _derived(plain: Mapping[str, Any]) -> dict[str, Any]:
    """The values by the names that `values` has for them."""
    backup_to, root = plain["backup_to"], plain["namespace_root"]
    return {
        **plain,
        "keep_refs": plain["keep_ref"],
        "range_partitions": plain["range_read_parallelism"] or plain["range_partitions"],
        "backup_to": Location.parse(backup_to, namespace_root=root) if backup_to else None,
        "metrics_file": _home_named(plain["metrics_file"]) if plain["metrics_file"] else None,
        "show_progress": not (plain["no_progress"] or plain["quiet"]),
    }


def _filled(group: type[_T], values: Mapping[str, Any]) -> _T:
    return group(**{f.name: values[f.name] for f in fields(cast(Any, group))})


def _shown(values: Mapping[str, tuple[Any, str]], known: KnownProperties) -> list[SettingValue]:
    lines: list[SettingValue] = []
    for declared in SETTINGS:
        value, where = values[declared.name]
        if declared.name in ("conf", "storage_option"):
            continue  # shown one by one, below and by the stores
        if value is not None:
            value = MASK if declared.is_secret else declared.kind.format(value)
        lines.append(SettingValue(declared.name, value, where))
    for name, text in sorted(known.for_spark.items()):
        lines.append(SettingValue(name, MASK if is_secret_name(name) else text, "Spark property"))
    for place in sorted(known.azure_accounts, key=lambda place: place.name):
        for option, _ in place.values:
            name = f"azure.{place.name}.{option.removeprefix('azure_')}"
            lines.append(SettingValue(name, MASK, "Spark property"))
    return lines
