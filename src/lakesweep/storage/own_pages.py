"""Pages of Azure's and Google's listings, asked for and read by ourselves: keys exact, odd ones too.

obstore gives up a listing when it comes upon a key that it can't carry. Anybody can write such a key beside the data.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from urllib.parse import quote, unquote, urlencode
from xml.etree import ElementTree

from lakesweep.domain.storage_options import StorageOptions
from lakesweep.errors import StorageError
from lakesweep.storage.retry import Patience
from lakesweep.storage.s3.pages import Page, checked_successor, read_page_as_xml, relative_key
from lakesweep.storage.s3.xml import local_name, parsed_xml
from lakesweep.storage.translate import connection_errors_translated, error_from_reply
from lakesweep.storage.values import listing_batch

# The address and the headers of a request, from its query.
Authorise = Callable[[Mapping[str, str]], tuple[str, Mapping[str, str]]]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def google_pages(
    authorise: Authorise, base: str, prefix: str, delimiter: str, options: StorageOptions
) -> Iterator[Page]:
    """All pages below `prefix`, keys relative to `base`, from Google's XML API, which is that of S3."""
    query = {"list-type": "2", "encoding-type": "url", "prefix": base + prefix}
    is_emulator = bool(options.gcs_endpoint)

    def read(content: bytes) -> Page:
        return read_page_as_xml(content, base, of_emulator=is_emulator)

    return _all_pages(authorise, query, delimiter, "continuation-token", read, options)


def azure_pages(
    authorise: Authorise, base: str, prefix: str, delimiter: str, options: StorageOptions
) -> Iterator[Page]:
    """All pages below `prefix`, keys relative to `base`, from Azure's `List Blobs`."""
    query = {"restype": "container", "comp": "list", "prefix": base + prefix}
    read = partial(read_azure_page, base=base)
    return _all_pages(authorise, query, delimiter, "marker", read, options)


def _all_pages(
    authorise: Authorise,
    query: dict[str, str],
    delimiter: str,
    token_name: str,
    read: Callable[[bytes], Page],
    options: StorageOptions,
) -> Iterator[Page]:
    if delimiter:
        query["delimiter"] = delimiter
    token: str | None = ""
    while token is not None:
        asked = query | ({token_name: token} if token else {})
        page = read(_asked(authorise, asked, options))
        yield checked_successor(page, token)
        token = page.next_token


def read_azure_page(content: bytes, base: str) -> Page:
    """The page in `content`, keys relative to `base`; directories of a hierarchical namespace are no objects.

    Raises:
        StorageError: it is not a whole listing page.
    """
    root = parsed_xml(content, "listing")
    parts = {local_name(child): child for child in root}
    if local_name(root) != "EnumerationResults" or not {"Blobs", "NextMarker"} <= parts.keys():
        raise StorageError(
            f"a listing page is a {local_name(root)!r} and not whole; nothing was taken from it."
        )
    keys, sizes, times, etags, folders = [], [], [], [], []
    try:
        for entry in parts["Blobs"]:
            fields = {local_name(child): child for child in entry}
            key = relative_key(_name(fields["Name"]), base)
            if local_name(entry) == "BlobPrefix":
                folders.append(key)
                continue
            values = {local_name(child): child.text or "" for child in fields["Properties"]}
            if values.get("ResourceType") == "directory":
                continue
            keys.append(key)
            sizes.append(int(values["Content-Length"]))
            times.append(_microseconds(values.get("Last-Modified", "")))
            etags.append(values.get("Etag"))
    except (KeyError, ValueError) as error:
        raise StorageError(
            f"a listing page has a bad entry ({error}); nothing was taken from it."
        ) from error
    batch = listing_batch(keys, sizes, times, etags)
    return Page(batch, tuple(folders), parts["NextMarker"].text or None)


def _name(element: ElementTree.Element) -> str:
    # What XML can't carry comes percent-encoded, and says so.
    text = element.text or ""
    return unquote(text, errors="strict") if element.get("Encoded") == "true" else text


def _microseconds(text: str) -> int | None:
    if not text:
        return None
    return (parsedate_to_datetime(text) - _EPOCH) // timedelta(microseconds=1)


def _asked(authorise: Authorise, query: Mapping[str, str], options: StorageOptions) -> bytes:
    what = f"listing {query['prefix']!r} without obstore"
    patience = Patience(options)
    while True:
        try:
            # Signed anew for each try: a signature ages.
            return _answer(*authorise(query), what, options)
        except StorageError as error:
            if not patience.try_again(error):
                raise


def _answer(url: str, headers: Mapping[str, str], what: str, options: StorageOptions) -> bytes:
    request = urllib.request.Request(url, headers=dict(headers))
    with connection_errors_translated(what):
        try:
            with urllib.request.urlopen(request, timeout=options.request_timeout_seconds) as reply:
                content: bytes = reply.read()
                return content
        except urllib.error.HTTPError as error:
            body = error.read()
            code, message = _code_and_message(body)
            raise error_from_reply(error.code, code, message, what) from error


def _code_and_message(body: bytes) -> tuple[str, str]:
    try:
        fields = {local_name(e): e.text or "" for e in parsed_xml(body, "error").iter()}
    except StorageError:
        return "", ""
    return fields.get("Code", ""), fields.get("Message", "")


def with_query(url: str, query: Mapping[str, str]) -> str:
    """The address with its query; a space is written as %20, as all stores read it."""
    return f"{url}?{urlencode(query, quote_via=quote)}"
