"""https with a certificate, and the audit log of a server."""

from __future__ import annotations

import json
import socket
import ssl
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme

from lakesweep.errors import ConfigError
from lakesweep.lake.api.observing import AuditLog, Visit
from lakesweep.lake.connections import ImpatientLoop
from lakesweep.lake.server import LakeServer, Serving


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def certificate(folder: Path, authority: trustme.CA, name: str = "one") -> Serving:
    issued = authority.issue_cert("127.0.0.1")
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    issued.private_key_pem.write_to_path(key)
    for blob in issued.cert_chain_pems:
        blob.write_to_path(cert, append=True)
    return Serving(tls_cert=cert, tls_key=key)


def test_https_is_spoken_and_http_is_not(tmp_path: Path, authority: trustme.CA) -> None:
    """A client that trusts the authority gets in; one that speaks plainly gets nothing."""
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    serving = certificate(tmp_path, authority)
    with LakeServer(tmp_path / "lake", serving=serving) as server:
        assert server.url.startswith("https://")
        auth = (server.access_key_id, server.secret_access_key)
        reply = httpx.get(f"{server.endpoint}/user", auth=auth, verify=trusting)
        assert reply.json()["user"]["id"] == "admin"
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"http{server.endpoint.removeprefix('https')}/user", auth=auth)
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{server.endpoint}/user", auth=auth)


def test_stalled_handshake_is_ended(
    tmp_path: Path, authority: trustme.CA, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who connects and says nothing is let go of; no protocol of ours has heard of them yet."""
    monkeypatch.setattr(ImpatientLoop, "handshake_seconds", 0.1)
    with LakeServer(tmp_path / "lake", serving=certificate(tmp_path, authority)) as server:
        address = ("127.0.0.1", int(server.url.rpartition(":")[2]))
        with socket.create_connection(address, timeout=30) as stalled:
            assert stalled.recv(1) == b""


def test_audit_log_that_can_not_be_opened_anew_goes_on(tmp_path: Path) -> None:
    """Lines go to the earlier file: none is lost while somebody mends the folder."""
    log, old = tmp_path / "logs" / "audit.log", tmp_path / "old.log"
    log.parent.mkdir()
    with closing(AuditLog(log)) as audit_log:
        log.rename(old)
        log.parent.rmdir()
        audit_log.reopen()
        audit_log.answered(Visit("GET", "/a", "", 0.0))
        log.parent.mkdir()
        audit_log.reopen()
        audit_log.answered(Visit("GET", "/b", "", 0.0))
    assert [json.loads(path.read_text())["path"] for path in (old, log)] == ["/a", "/b"]


def test_wrong_files_are_told_before_anything_starts(tmp_path: Path, authority: trustme.CA) -> None:
    """A certificate without its key, with another's key, or that is not there."""
    one, two = certificate(tmp_path, authority), certificate(tmp_path, authority, "two")
    for wrong in (
        Serving(tls_cert=one.tls_cert),
        Serving(tls_key=one.tls_key),
        Serving(tls_cert=one.tls_cert, tls_key=two.tls_key),
        Serving(tls_cert=tmp_path / "missing", tls_key=one.tls_key),
    ):
        with pytest.raises(ConfigError, match="not started"):
            LakeServer(tmp_path / "lake", serving=wrong)
    assert not (tmp_path / "lake").exists()


def test_audit_log_says_who_did_what_with_which_result(tmp_path: Path) -> None:
    """One line for each request, the refused ones too; no secret, no token, no query."""
    log = tmp_path / "audit.log"
    with LakeServer(tmp_path / "lake", serving=Serving(audit_log=log)) as server:
        ana = server.lake.credentials.add("ana", is_read_only=True)
        auth = (server.access_key_id, server.secret_access_key)
        keys = {"access_key_id": auth[0], "secret_access_key": auth[1]}
        token = httpx.post(f"{server.endpoint}/auth/login", json=keys).json()["token"]
        body = {"name": "sales", "storage_namespace": "local://sales"}
        httpx.post(f"{server.endpoint}/repositories", json=body, auth=auth).raise_for_status()
        upload = f"{server.endpoint}/repositories/sales/branches/main/objects?path=a/b"
        bearer = {"Authorization": f"Bearer {token}"}
        assert httpx.post(upload, content=b"x", headers=bearer).status_code == 201
        ana_auth = (ana.access_key_id, ana.secret_access_key)
        assert httpx.post(upload, content=b"x", auth=ana_auth).status_code == 403
        assert httpx.get(f"{server.endpoint}/nowhere", auth=ana_auth).status_code == 404
        assert httpx.get(f"{server.endpoint}/user", auth=("x", "y")).status_code == 401
        signed = httpx.get(
            f"{server.url}/sales/main/a",
            headers={
                "Authorization": "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/s3/aws4_request"
            },
        )
        assert signed.status_code >= 400
    text = log.read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    told = [(line["user"], line["operation"], line["object"], line["status"]) for line in lines]
    assert told[:6] == [
        (None, "login", None, 200),
        ("admin", "create_repository", None, 201),
        ("admin", "upload_object", "a/b", 201),
        ("ana", "upload_object", "a/b", 403),
        ("ana", None, None, 404),
        (None, None, None, 401),
    ]
    assert lines[2]["repository"] == "sales"
    assert (lines[6]["user"], lines[6]["path"]) == (None, "/sales/main/a")
    for secret in (auth[1], ana.secret_access_key, token, "?"):
        assert secret not in text
    assert log.stat().st_mode & 0o077 == 0


def test_s3_requests_are_audited_by_their_operation(tmp_path: Path, s3_client: Any) -> None:
    """Also those that the key may not make; a presigned URL leaves no signature behind."""
    log = tmp_path / "audit.log"
    with LakeServer(tmp_path / "lake", serving=Serving(audit_log=log)) as server:
        server.lake.repositories.create("sales", "local://sales")
        s3 = s3_client(server)
        s3.put_object(Bucket="sales", Key="main/a", Body=b"x")
        url = s3.generate_presigned_url("get_object", Params={"Bucket": "sales", "Key": "main/a"})
        assert httpx.get(url).content == b"x"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [
        (line["user"], line["operation"], line["object"], line["status"]) for line in lines
    ] == [
        ("admin", "s3:put_object", "main/a", 200),
        ("admin", "s3:get_object", "main/a", 200),
    ]
    assert "Signature" not in log.read_text()


def test_audit_log_that_can_not_be_written_stops_the_start(tmp_path: Path) -> None:
    """Rather than to serve unseen."""
    serving = Serving(audit_log=tmp_path / "no" / "folder" / "audit.log")
    with pytest.raises(ConfigError, match="audit log"):
        LakeServer(tmp_path / "lake", serving=serving)
