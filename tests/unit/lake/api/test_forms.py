"""The content part of a form, however the network cuts it up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.exceptions import HTTPException

from lakesweep.lake.api.rest.forms import form_boundary, open_form_content

BOUNDARY = b"b0undary"


def part(name: str, data: bytes, content_type: str = "") -> bytes:
    header = f'Content-Disposition: form-data; name="{name}"; filename="f"\r\n'
    if content_type:
        header += f"Content-Type: {content_type}\r\n"
    return b"--" + BOUNDARY + b"\r\n" + header.encode() + b"\r\n" + data + b"\r\n"


def form(*parts: bytes) -> bytes:
    return b"".join(parts) + b"--" + BOUNDARY + b"--\r\n"


async def _pieces(body: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(body), size):
        yield body[start : start + size]


def read(body: bytes, size: int = 7) -> tuple[str, bytes]:
    async def run() -> tuple[str, bytes]:
        content = await open_form_content(_pieces(body, size), BOUNDARY)
        return content.content_type, b"".join([chunk async for chunk in content.chunks])

    return asyncio.run(run())


@given(data=st.binary(max_size=300), size=st.integers(1, 400))
def test_content_comes_out_as_it_went_in(data: bytes, size: int) -> None:
    """Whatever the bytes, and wherever the pieces are cut."""
    body = form(part("before", b"x" * 20), part("content", data, "text/csv"), part("after", b"y"))
    assert read(body, size) == ("text/csv", data)


def test_bytes_like_a_boundary_stay_content() -> None:
    """Only a boundary on a line of its own ends the part."""
    data = b"a\r\n--b0unda\r\n--\r\nb0undary"
    assert read(form(part("content", data)), 3) == ("", data)


def test_first_content_part_counts() -> None:
    """A second part of the same name is not appended."""
    assert read(form(part("content", b"1"), part("content", b"2")))[1] == b"1"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no form at all",
        form(part("other", b"x")),
        part("content", b"cut short"),
        b"--" + BOUNDARY + b"\r\nContent-Disposition: form-data; " + b"x" * 20_000,
    ],
    ids=["empty", "not a form", "no content part", "cut short", "endless header"],
)
def test_broken_form_is_refused(body: bytes) -> None:
    """A form without a complete content part stores nothing."""
    with pytest.raises(HTTPException) as caught:
        read(body, 64)
    assert caught.value.status_code == 400


def test_only_forms_have_a_boundary() -> None:
    """Any other content type means that the body is the object."""
    assert form_boundary('multipart/form-data; boundary="b0undary"') == BOUNDARY
    assert form_boundary("text/plain; boundary=x") is None
    assert form_boundary("") is None
    with pytest.raises(HTTPException):
        form_boundary("multipart/form-data")
