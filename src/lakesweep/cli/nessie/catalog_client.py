"""The client of Nessie, as the options describe it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakesweep.domain.live_sets import LiveSetId
from lakesweep.errors import ConfigError
from lakesweep.metrics.watched import current_run
from lakesweep.settings.nessie_values import OptionValues

if TYPE_CHECKING:
    from lakesweep.catalogs.nessie.client import NessieClient
    from lakesweep.catalogs.nessie.live_sets.store import LiveSetStore

__all__ = ["check_reverifying", "nessie_client", "reverifying_client"]

_CLIENTS = ("JavaHttp", "URLConnection", "ApacheHttp", "HTTP")
_HTTP_BUILDERS = "org.projectnessie.client.http."


@contextmanager
def nessie_client(options: OptionValues) -> Iterator[NessieClient]:
    """A client of the catalog, closed with the block."""
    from lakesweep.catalogs.nessie.client import NessieClient

    _check_client_names(options)
    with NessieClient(options["uri"], options["nessie_option"]) as client:
        current_run().repository = client.uri
        yield client


@contextmanager
def reverifying_client(
    options: OptionValues,
    live_sets: LiveSetStore,
    live_set_id: LiveSetId,
    *,
    is_to_delete: bool = True,
) -> Iterator[NessieClient | None]:
    """A client of the catalog that the set was marked from; None where nothing is deleted, or with `--no-reverify`."""
    from lakesweep.catalogs.nessie.client import NessieClient

    is_named = options.is_given("uri")
    if options["no_reverify"] or not (is_named or is_to_delete):
        yield None
        return
    uri = options["uri"] if is_named else _marked_address(live_sets, live_set_id)
    with NessieClient(uri, options["nessie_option"]) as client:
        current_run().repository = client.uri
        yield client


def check_reverifying(options: OptionValues) -> None:
    """What is wrong with the options of the second look shows before a database is opened."""
    from lakesweep.catalogs.nessie.transport import catalog_url

    _check_client_names(options)
    if options.is_given("uri"):
        catalog_url(options["uri"])
    if options["no_reverify"] and options.is_on_command_line("uri"):
        raise ConfigError(
            "--uri says where to ask again, --no-reverify not to. Nothing was touched. Leave one of them out.",
            kind="ambiguous-reverify",
        )


def _marked_address(live_sets: LiveSetStore, live_set_id: LiveSetId) -> str:
    """Where the mark found the catalog."""
    facts = live_sets.facts(live_set_id)
    if facts is None:
        raise ConfigError(
            f"Live set {live_set_id} was marked by nessie-gc, which does not store where its Nessie is, so what became live "
            "since the mark is not known. Nothing was deleted. Give --uri, or --no-reverify to go without asking.",
            kind="no-catalog-address",
        )
    return facts.catalog_uri


def _check_client_names(options: OptionValues) -> None:
    """Java's clients are named in scripts; ours takes the place of those that speak HTTP."""
    name, builder = options["nessie_client"], options["nessie_api"]
    if name is not None and name not in _CLIENTS:
        raise _no_such_client(options.where("nessie_client"), name, _CLIENTS)
    if builder is not None and not builder.startswith(_HTTP_BUILDERS):
        raise _no_such_client(options.where("nessie_api"), builder, [f"{_HTTP_BUILDERS}…"])


def _no_such_client(where: str, name: str, known: Sequence[str]) -> ConfigError:
    return ConfigError(
        f"{where} {name}: Java classes can't be loaded here. Nothing was touched. Leave it out; {', '.join(known)} "
        "are accepted and mean lakesweep's own client.",
        kind="no-such-client",
    )
