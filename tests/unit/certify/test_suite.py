"""A good server, one that can't be tried, and what is left behind."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx
import pytest

from lakesweep.catalogs.lakefs.transport import Timeouts
from lakesweep.certify import addresses, clocks, hard_deletes, suite
from lakesweep.certify.promise import PromiseVerdict
from lakesweep.certify.report import certificate_markdown
from lakesweep.certify.suite import Fitness, certify_server
from lakesweep.certify.throwaway import Server
from lakesweep.cli.main import run
from lakesweep.errors import CatalogError
from lakesweep.lake.server import LakeServer
from lakesweep.storage.memory import memory_container
from lakesweep_testing.trouble import MeddlingTransport, route_of

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "explanation" / "certified" / "embedded-lake.md"


def server_at(lake: LakeServer, namespace: str, **more) -> Server:
    keys = (lake.access_key_id, lake.secret_access_key)
    patient = Timeouts(read=100.0)  # the first commit may compile what it needs
    return Server(lake.endpoint, *keys, namespace, timeouts=patient, **more)


def masked(page: str) -> str:
    return re.sub(r"lakesweep-[0-9]\S*|in (local|mem)|[0-9]+ rounds|seed [0-9]+", "…", page)


def test_the_embedded_lake_keeps_every_promise(lake: LakeServer) -> None:
    """Its page in the documentation is what comes out, and nothing of the trial is left."""
    found = certify_server(server_at(lake, "mem://certify-all"), rounds=1, seed=1)
    assert [
        f"{f.name}: {f.seen}" for f in found.findings if f.verdict is not PromiseVerdict.KEPT
    ] == []
    assert found.fitness is Fitness.FIT
    assert found.left_behind == ()
    assert dict(memory_container("certify-all").objects) == {}
    with httpx.Client(auth=(lake.access_key_id, lake.secret_access_key)) as api:
        left = api.get(f"{lake.endpoint}/repositories").json()["results"]
    assert [r for r in left if "certify-all" in r["storage_namespace"]] == []
    made = "lakesweep certify --report docs/explanation/certified/embedded-lake.md writes it anew"
    assert masked(certificate_markdown(found)) == masked(PAGE.read_text("utf-8")), made


def test_what_can_not_be_deleted_is_named(lake: LakeServer) -> None:
    """A server that keeps its repositories."""

    def refuse(request, send):
        is_delete = route_of(request) == "DELETE repository"
        return httpx.Response(403) if is_delete else send(request)

    server = server_at(lake, "mem://certify-kept", http_transport=lambda: MeddlingTransport(refuse))
    (left,) = certify_server(server, rounds=1, seed=1, promises=()).left_behind
    assert re.fullmatch(
        r"repository lakesweep-certify-\w+ with mem://certify-kept/\S+ \(403\)", left
    )


def test_keep_leaves_the_repository(lake: LakeServer) -> None:
    """With what was in it."""
    server = server_at(lake, "mem://certify-keep")
    (left,) = certify_server(server, rounds=1, seed=1, keep=True, promises=()).left_behind
    assert "as --keep asks" in left
    assert memory_container("certify-keep").objects


def test_a_store_that_is_not_reached_leaves_promises_undecided(
    lake: LakeServer, tmp_path: Path
) -> None:
    """What could not be tried is neither kept nor broken."""
    server = server_at(lake, "local://certify-elsewhere", namespace_root=str(tmp_path))
    promises = (addresses.uploaded_form, hard_deletes.rest_410)
    found = certify_server(server, rounds=1, seed=1, promises=promises)
    assert [f.verdict for f in found.findings] == [PromiseVerdict.NOT_DECIDED] * 2
    assert found.fitness is Fitness.NOT_KNOWN


def test_no_repository_no_trial(lake: LakeServer) -> None:
    """The server's refusal is told."""
    with pytest.raises(CatalogError) as caught:
        certify_server(server_at(lake, "s3://not-allowed/here"), rounds=1, seed=1)
    assert caught.value.kind == "no-throw-away-repository"


def test_a_server_that_is_not_there() -> None:
    """Nothing is concluded from it."""
    server = Server("http://127.0.0.1:1", "key", "secret", "mem://certify-nowhere")
    with pytest.raises(CatalogError) as caught:
        certify_server(server, rounds=1, seed=1)
    assert caught.value.kind == "catalog-unreachable"


@pytest.mark.parametrize(
    ("meddle", "status", "kind"),
    [
        (None, 0, ""),
        ({"date": "Wed, 21 Oct 1998 07:28:00 GMT"}, 4, "promise-broken"),
        ("elsewhere", 3, "promise-not-tried"),
    ],
)
def test_the_command_ends_as_the_certificate_says(
    lake: LakeServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    meddle,
    status: int,
    kind: str,
) -> None:
    """0 when all that is needed is kept, 4 when something is not, 3 when it could not be tried."""

    def redate(request, send):
        response = send(request)
        response.headers.update(meddle)
        return response

    def certify(server, **how):
        if isinstance(meddle, dict):
            object.__setattr__(server, "http_transport", lambda: MeddlingTransport(redate))
        promises = (clocks.answers_have_a_date, addresses.uploaded_form)
        return certify_server(server, promises=promises, **how)

    monkeypatch.setattr(suite, "certify_server", certify)
    monkeypatch.setenv("LAKESWEEP_SECRET_ACCESS_KEY", lake.secret_access_key)
    page = tmp_path / "page.md"
    root = tmp_path if meddle == "elsewhere" else lake.lake.settings.data_dir
    words = [
        *("certify", "--endpoint", lake.endpoint, "--access-key-id", lake.access_key_id),
        *("--storage-namespace", "local://by-command", "--namespace-root", str(root)),
        *("--report", str(page), "--output", "json"),
    ]
    assert run(words) == status
    out, err = capsys.readouterr()
    assert f"kind of error: {kind}" in err or not kind
    found = json.loads(out)
    assert found["schema"] == "lakesweep.certificate/1"
    assert [promise["name"] for promise in found["promises"]] == [
        "answers have a date",
        "form of an uploaded object",
    ]
    assert page.read_text("utf-8").startswith("# Certificate of the embedded lake, ")
    assert run([*words[:-4], "--report", str(tmp_path / "no" / "folder.md")]) == 2
