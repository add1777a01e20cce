"""`lakesweep explain`: why objects are kept or go, and the day on which they go."""

from __future__ import annotations

from typing import Annotated

import typer

from lakesweep.cli.options import Repo, with_settings
from lakesweep.cli.render import print_result
from lakesweep.cli.running import start_engine
from lakesweep.settings.values import Settings

__all__ = ["explain"]

_Objects = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="OBJECT",
        help="An address (data/…), a path of the default branch, PATH@REF, or lakefs://repo/ref/path.",
    ),
]
_Mark = Annotated[
    str | None,
    typer.Option("--mark", metavar="ID", help="Explain objects that this mark names."),
]
_Prefix = Annotated[
    str,
    typer.Option(
        metavar="TEXT", help="Only objects of the mark whose address or path begins with this."
    ),
]
_Limit = Annotated[int, typer.Option(min=1, help="At most this many objects of the mark.")]


@with_settings(
    "server",
    "namespace_root",
    "storage_option",
    "min_age",
    "keep_ref",
    "keep_tags",
    "spark",
    "output",
)
def explain(
    repo: Repo,
    objects: _Objects = None,
    mark: _Mark = None,
    prefix: _Prefix = "",
    limit: _Limit = 20,
    *,
    settings: Settings,
) -> None:
    """Say why objects are kept or deleted, and on which day.

    An object is live, young, protected, garbage or deleted.

    Nothing is written and nothing is deleted. Give the same --min-age, --keep-ref and
    --keep-tags as to your marks: the day depends on them.
    """
    from lakesweep.collector.lakefs.explain.explain import ExplainRequest, open_source
    from lakesweep.collector.lakefs.explain.explain import explain as explain_objects
    from lakesweep.engine.late import LateEngine
    from lakesweep.report.explanations import explanations_text

    collect = settings.collect
    request = ExplainRequest(
        collect.keep_refs, collect.keep_tags, collect.min_age, mark, prefix, limit
    )
    with open_source(settings, repo, LateEngine(lambda: start_engine(settings))) as source:
        found = explain_objects(source, objects or (), request)
    print_result(settings.output, found.to_json(), explanations_text(found).splitlines())
