"""A secret never reaches a log, an error or a record, wherever it came from and however it was encoded."""

from __future__ import annotations

import io
import json
import logging
import string
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.errors import ConfigError
from lakesweep.logs import JsonFormatter, TextFormatter
from lakesweep.secrets import SecretMask, is_secret_name
from lakesweep.settings.load import load_settings

# They begin with what no ordinary text has, so that finding one means finding the secret; odd characters included.
BEGIN = "zQ9-"
ODD = string.ascii_letters + string.digits + "/+=%\"'\\ äé\n\t{}&?;:@"
SECRETS = st.text(ODD, max_size=40).map(lambda text: BEGIN + text + "-")
PLAIN = string.ascii_letters + string.digits
PLAIN_SECRETS = st.text(PLAIN + "/+=", max_size=40).map(lambda text: BEGIN + text)

ENVIRONMENTS = st.sampled_from(
    [
        "LAKESWEEP_SECRET_ACCESS_KEY",
        "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_CLIENT_SECRET",
    ]
)
PROPERTIES = st.sampled_from(
    [
        "spark.hadoop.lakefs.api.secret_key",
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.s3a.session.token",
        "spark.hadoop.fs.azure.account.key.acct.dfs.core.windows.net",
        "spark.hadoop.fs.azure.sas.lake.acct.blob.core.windows.net",
        "spark.some.password",
    ]
)


def log_lines(mask: SecretMask, message: str, error: Exception) -> str:
    """One record with an exception, as both formats write it."""
    out = io.StringIO()
    try:
        raise error
    except Exception as raised:  # noqa: BLE001 (any will do)
        info = (type(raised), raised, raised.__traceback__)
        for formatter in (TextFormatter(mask), JsonFormatter(mask)):
            record = logging.LogRecord("x", logging.INFO, "f", 1, "%s", (message,), info)
            out.write(formatter.format(record) + "\n")
    return out.getvalue()


@given(secret=SECRETS, around=st.text(max_size=20))
def test_a_known_secret_is_masked_in_every_spelling(secret: str, around: str) -> None:
    """Raw, in a URL, in JSON, in a repr, in a traceback."""
    mask = SecretMask([secret])
    texts = [secret, quote(secret, safe=""), json.dumps(secret)[1:-1], repr(secret)[1:-1]]
    written = log_lines(mask, around.join(texts), ValueError(f"refused {secret!r} {secret}"))
    written += json.dumps(mask.mask_json({"reason": [secret, {secret: f"x{secret}"}]}))
    for text in texts:
        assert text not in written


@given(secret=PLAIN_SECRETS, variable=ENVIRONMENTS)
def test_secrets_of_the_environment_stay_hidden(secret: str, variable: str) -> None:
    """Neither the settings' repr nor `config show` nor a log line has it."""
    mask = SecretMask()
    settings = load_settings({}, env={variable: secret}, home=Path("/nonexistent"), mask=mask)
    shown = repr(settings) + json.dumps([[line.value, line.source] for line in settings.values])
    assert secret not in shown
    assert secret not in log_lines(mask, f"key {secret}", RuntimeError(secret))


@given(secret=PLAIN_SECRETS, name=PROPERTIES, by_flag=st.booleans())
def test_secrets_of_spark_properties_stay_hidden(secret: str, name: str, by_flag: bool) -> None:
    """As a `--conf` flag or from the session."""
    mask = SecretMask()
    flags = {"conf": [f"{name}={secret}"]} if by_flag else {}
    properties = {} if by_flag else {name: secret}
    settings = load_settings(
        flags, env={}, spark_properties=properties, home=Path("/nonexistent"), mask=mask
    )
    shown = repr(settings) + json.dumps([[line.value, line.source] for line in settings.values])
    assert secret not in shown
    assert secret not in log_lines(mask, f"key {secret}", RuntimeError(secret))


@given(secret=PLAIN_SECRETS)
def test_an_error_about_settings_does_not_repeat_their_secrets(secret: str) -> None:
    """The load fails over another value, or over the secret's own place, and stays silent about it."""
    wrong_loads: list[tuple[dict[str, object], dict[str, str]]] = [
        ({"storage_option": [f"s3_secret_acess_key={secret}"]}, {}),
        (
            {"storage_option": [f"s3_path_style={secret}", f"azure_account_key={secret}"]},
            {},
        ),
        ({"backup_to": f"ftp://{secret}"}, {"AWS_SECRET_ACCESS_KEY": secret}),
    ]
    for flags, env in wrong_loads:
        with pytest.raises(ConfigError) as error:
            load_settings(flags, env=env, home=Path("/nonexistent"), mask=SecretMask())
        assert secret not in error.value.message


@given(password=st.text(PLAIN, max_size=20).map(lambda text: BEGIN + text))
def test_a_password_in_a_url_is_a_secret(password: str) -> None:
    """Endpoints and Connect URLs may carry one."""
    mask = SecretMask()
    flags: dict[str, object] = {
        "endpoint_url": f"http://user:{password}@lakefs",
        "remote": f"sc://spark:15002/;token={password}",
    }
    settings = load_settings(flags, env={}, home=Path("/nonexistent"), mask=mask)
    assert password not in json.dumps([line.value for line in settings.values], default=str)
    assert password not in log_lines(mask, f"asking {flags}", RuntimeError(str(flags)))


@pytest.mark.parametrize(
    "text",
    [
        "GET https://b.s3.amazonaws.com/k?X-Amz-Credential=CRED&X-Amz-Signature=SIGNATURE&x=1",
        "https://acct.blob.core.windows.net/c/k?sv=1&sig=SIGNATURE",
        "{'Authorization': 'Basic SIGNATURE'}",
        "authorization: AWS4-HMAC-SHA256 Credential=SIGNATURE",
        '"Authorization": "Bearer SIGNATURE"',
    ],
)
def test_signatures_are_masked_by_their_shape(text: str) -> None:
    """Nobody needs to have told the mask of them."""
    masked = SecretMask().mask(text)
    assert "SIGNATURE" not in masked
    assert "CRED" not in masked.replace("Credential", "")


@pytest.mark.parametrize("name", ["fs.s3a.secret.key", "password", "x.token", "fs.s3a.access.key"])
def test_names_of_secrets_are_told_apart(name: str) -> None:
    """By what they are called."""
    assert is_secret_name(name)
    assert not is_secret_name("spark.executor.memory")
