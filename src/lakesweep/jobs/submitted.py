"""What the job files do: take the session that spark-submit prepared, read its properties, run, print the record."""

from __future__ import annotations

from collections.abc import Sequence

from lakesweep.cli.main import guarded, run
from lakesweep.cli.options import session_properties, set_up_logging
from lakesweep.cli.running import show_record
from lakesweep.cli.streams import prepare_streams
from lakesweep.errors import ConfigError
from lakesweep.logs import configure_logging

__all__ = ["run_backup_job", "run_gc_job", "run_restore_job"]

_KINDS = ("s3", "azure", "gs", "local")
_NAMESPACE, _BACKUP = "STORAGE-NAMESPACE", "BACKUP-LOCATION"


def run_gc_job(arguments: Sequence[str]) -> int:
    """REPO [REGION], and any option of `lakesweep gc`; answers the exit status."""
    prepare_streams()
    configure_logging()

    def job() -> int:
        from lakesweep.engine.session import session_properties as properties_of
        from lakesweep.engine.session import submitted_session

        session_properties.set(properties_of(submitted_session()))
        return run(["gc", *arguments])

    return guarded(job)


def run_backup_job(arguments: Sequence[str]) -> int:
    """EXPIRED-LIST-LOCATION STORAGE-NAMESPACE BACKUP-LOCATION TYPE; answers the exit status."""
    return _run_copy_job("backup", arguments, ("EXPIRED-LIST-LOCATION", _NAMESPACE, _BACKUP))


def run_restore_job(arguments: Sequence[str]) -> int:
    """OBJECTS-LIST-LOCATION BACKUP-LOCATION STORAGE-NAMESPACE TYPE; answers the exit status."""
    return _run_copy_job("restore", arguments, ("OBJECTS-LIST-LOCATION", _BACKUP, _NAMESPACE))


def _run_copy_job(flow: str, arguments: Sequence[str], names: Sequence[str]) -> int:
    def job() -> None:
        if len(arguments) != 4 or arguments[3] not in _KINDS:
            raise ConfigError(
                f"The job takes four arguments: {' '.join(names)} {'|'.join(_KINDS)}. Nothing was copied.",
                kind="wrong-use",
            )
        named = dict(zip(names, arguments, strict=False))
        _copy(flow, arguments[0], named[_NAMESPACE], named[_BACKUP], arguments[3])

    prepare_streams()
    configure_logging()
    return guarded(job)


def _copy(flow: str, lists: str, namespace: str, outside: str, kind: str) -> None:
    from lakesweep.collector.lakefs.backup_restore import run_listed
    from lakesweep.collector.lakefs.opening import outside_target
    from lakesweep.collector.phases import Phases
    from lakesweep.engine.session import session_properties as properties_of
    from lakesweep.engine.session import submitted_session
    from lakesweep.engine.spark import SparkEngine
    from lakesweep.metrics.watched import watched_run
    from lakesweep.settings.load import load_settings

    session = submitted_session()
    settings = load_settings({}, spark_properties=properties_of(session))
    set_up_logging(settings.output)
    inside = outside_target(settings, namespace)
    if inside.namespace.kind != kind:
        raise ConfigError(
            f"The storage namespace {inside.namespace.uri} is of type {inside.namespace.kind}, and {kind} was given. "
            "Nothing was copied.",
            kind="other-store",
        )
    name = inside.namespace.uri
    with watched_run(flow, settings.output.metrics_file, repository=name) as run:
        run.phases = Phases(name)
        record = run_listed(
            flow,
            SparkEngine(session),
            run.phases,
            outside_target(settings, lists),
            inside,
            outside_target(settings, outside),
        )
        show_record(settings.output, record)
