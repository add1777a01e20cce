"""Answers are read the same however their bytes are cut, and only whole ones are read at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.storage.http_answer import Answer, AnswerReader, BrokenAnswerError

WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nETag: x\r\n\r\na\r\n\r\nbc"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=1\r\na\r\n\r\nA\r\n0123456789\r\n0\r\n\r\n"
EMPTY = b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"
CONTENTS = {WHOLE: b"a\r\n\r\nbc", CHUNKED: b"a\r\n0123456789", EMPTY: b""}


def read(pieces: list[bytes], *, is_head: bool = False) -> Answer | None:
    """The answer in these pieces; None where it is not whole at their end."""
    reader = AnswerReader(is_head=is_head)
    answers = [answer for piece in pieces if (answer := reader.take(piece)) is not None]
    assert len(answers) <= 1
    return answers[0] if answers else None


@given(st.sampled_from(list(CONTENTS)), st.lists(st.integers(1, 90), max_size=8))
def test_an_answer_is_the_same_in_any_pieces(data: bytes, cuts: list[int]) -> None:
    """Wherever a network cuts it."""
    places = sorted({cut for cut in cuts if cut < len(data)})
    pieces = [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]
    answer = read(pieces)
    assert answer is not None
    assert answer.content == CONTENTS[data]
    assert answer.status == int(data[9:12])
    assert data.startswith(answer.head)


@given(st.sampled_from(list(CONTENTS)), st.integers(1, 90))
def test_a_cut_answer_is_none(data: bytes, missing: int) -> None:
    """No part of an answer passes for the whole."""
    assert read([data[: max(0, len(data) - missing)]]) is None


def test_the_answer_to_head_has_no_body() -> None:
    """Its headers tell the length of the object, and no byte of it follows."""
    answer = read([b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"], is_head=True)
    assert answer is not None
    assert answer.content == b""


@pytest.mark.parametrize(
    "data",
    [
        WHOLE + b"x",
        CHUNKED + b"x",
        WHOLE.replace(b"Content-Length: 7", b"X: 7"),
        WHOLE.replace(b"Content-Length: 7", b"Content-Length: -7"),
        WHOLE.replace(b"Content-Length: 7", b"Content-Length: 7\r\nContent-Length: 5"),
        WHOLE.replace(b"Content-Length", b"Transfer-Encoding: chunked\r\nContent-Length"),
        WHOLE.replace(b"HTTP/1.1", b"HTTP/1.0"),
        WHOLE.replace(b"200", b"100"),
        b"<html>" * 20 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        CHUNKED.replace(b"3;x=1", b"2;x=1"),
        CHUNKED.replace(b"0\r\n\r\n", b"0\r\nTrailer: x\r\n\r\n"),
        b"HTTP/1.1 200 OK\r\n" + b"x" * 70_000,
    ],
)
def test_an_answer_whose_end_is_in_doubt_is_refused(data: bytes) -> None:
    """Nothing is made of it."""
    with pytest.raises(BrokenAnswerError):
        read([data])


@pytest.mark.parametrize(("word", "is_last"), [("close", True), ("keep-alive", False)])
def test_the_last_answer_of_a_connection_is_known(word: str, is_last: bool) -> None:
    """Nothing is asked on a connection that the server is about to end."""
    reader = AnswerReader(is_head=False)
    reader.take(WHOLE.replace(b"ETag: x", f"Connection: {word}".encode()))
    assert reader.is_last is is_last
