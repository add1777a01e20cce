"""Health, setup, login, configuration: what a client asks before all else."""

from __future__ import annotations

import httpx
import pytest

from lakesweep.lake.server import LakeServer


def test_health_needs_no_credentials(server: LakeServer) -> None:
    """A probe has no key."""
    assert httpx.get(f"{server.endpoint}/healthcheck").status_code == 204
    assert httpx.get(f"{server.url}/_health").status_code == 200


@pytest.mark.parametrize(
    "path",
    ["/repositories", "/config", "/user", "/repositories/x/refs/main/objects?path=y", "/nope"],
)
def test_everything_else_does(server: LakeServer, path: str) -> None:
    """Without credentials, with an unknown key, with a wrong secret: 401 and no word more."""
    for auth in (None, ("nobody", "x"), (server.access_key_id, "wrong")):
        reply = httpx.get(server.endpoint + path, auth=auth)
        assert reply.status_code == 401
        assert set(reply.json()) == {"message"}


def test_setup_is_done_once(server: LakeServer) -> None:
    """A lake that has its user makes no second one for a stranger."""
    assert httpx.get(f"{server.endpoint}/setup_lakefs").json()["state"] == "initialized"
    reply = httpx.post(f"{server.endpoint}/setup_lakefs", json={"username": "mallory"})
    assert reply.status_code == 409
    assert httpx.post(f"{server.endpoint}/setup_lakefs", json={}).status_code == 400


def test_login_gives_a_token_that_works(server: LakeServer) -> None:
    """The token stands for the key; a changed one stands for nothing."""
    keys = {
        "access_key_id": server.access_key_id,
        "secret_access_key": server.secret_access_key,
    }
    reply = httpx.post(f"{server.endpoint}/auth/login", json=keys)
    token = reply.json()["token"]
    assert isinstance(reply.json()["token_expiration"], int)
    user = httpx.get(f"{server.endpoint}/user", headers={"Authorization": f"Bearer {token}"})
    assert user.json()["user"]["id"] == "admin"
    forged = {"Authorization": f"Bearer {token[:-4]}AAAA"}
    assert httpx.get(f"{server.endpoint}/user", headers=forged).status_code == 401
    wrong = httpx.post(f"{server.endpoint}/auth/login", json=keys | {"secret_access_key": "x"})
    assert wrong.status_code == 401


def test_config_tells_clients_what_to_do(api) -> None:
    """No presigned URLs, imports, a list that is not null, and the word that tells our collector who we are."""
    config = api.send("GET", "/config").json()
    assert config["storage_config"]["pre_sign_support"] is False
    assert config["storage_config_list"] == []
    assert config["version_config"]["version_context"] == "lakeFS"
    assert "uncommitted-row-counts" in config["lakesweep"]["features"]
    assert api.send("GET", "/config/storage").json() == config["storage_config"]
    assert api.send("GET", "/config/version").json() == config["version_config"]
    assert api.send("GET", "/config/garbage-collection").json() == {"grace_period": 86400}


def test_statistics_are_taken_and_forgotten(api) -> None:
    """lakectl reports each command."""
    events = {"events": [{"class": "a", "name": "b", "count": 1}]}
    assert api.send("POST", "/statistics", json=events).status_code == 204


def test_unknown_endpoint_is_json_404(api) -> None:
    """A client that asks for what nobody has gets an error it can read."""
    reply = api.send("GET", "/no/such/thing")
    assert (reply.status_code, reply.headers["content-type"]) == (404, "application/json")


def test_unsupported_operation_says_its_name(api) -> None:
    """501, never a wrong 200."""
    reply = api.send("GET", "/repositories/x/pulls")
    assert reply.status_code == 501
    assert "listPullRequests" in reply.json()["message"]
