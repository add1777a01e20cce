"""Requests that nobody foresaw, drawn from the server's own description of its routes and the gateway's operations."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from hypothesis import strategies as st

REPOSITORY = "fuzzed"

_NASTY = (
    "",
    " ",
    "~",
    "main~",
    "main^2",
    "main~99999999999999999999",
    "main" + "~" * 3000,
    "main@",
    "main$",
    "@",
    "\0",
    "a\r\nb: c",
    "\ud800",
    "ünï/τ",
    "../../etc/passwd",
    "a" * 5000,
    "%2e%2e/%00",
    "\\",
    "{}",
    "-1",
    "NaN",
    "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59-23:59",
)
WORST_TEXTS = ("\ud800", "a\r\nτ", "main" + "~" * 3000, "main~99999", "9" * 5000)
_ADDRESSES = (
    "mem://elsewhere/x",
    "mem://" + "a/" * 3000,
    "s3://bucket/key",
    "s3://a/../b",
    "http://user:word@169.254.169.254/latest/meta-data/x",
    "http://[::1]:80/a/b",
    "local://x",
    "local:///etc/passwd",
    "file:relative",
    "s3://\ud800/x",
    "://",
)
# What a parameter of this name may well be, so that requests get past the first check.
_LIKELY: Mapping[str, tuple[str, ...]] = {
    "repository": (REPOSITORY,),
    "branch": ("main", "dev"),
    "ref": ("main", "dev", "main~1", "v1"),
    "left_ref": ("main", "dev"),
    "right_ref": ("main", "dev"),
    "source_ref": ("dev", "main"),
    "destination_branch": ("main", "dev"),
    "source": ("main",),
    "tag": ("v1",),
    "path": ("p", "folder/q"),
    "dest_path": ("new",),
    "src_path": ("p",),
    "name": ("fresh", REPOSITORY),
    "id": ("v2", "main"),
    "type": ("two_dot", "three_dot", "reset", "object", "common_prefix", "range", "meta_range"),
    "storage_namespace": ("mem://fresh/ns",),
    "physical_address": ("mem://elsewhere/x",),
    "delimiter": ("/", ""),
    "prefix": ("", "folder/"),
    "message": ("m",),
    "checksum": ("c",),
}
_NASTY_INTEGERS = st.sampled_from([10**30, 2**63, 2**63 - 1, -(2**63) - 1, 2**31, -1, 1000])


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one route, with what its description says about the parameters and the body."""

    method: str
    path: str
    parameters: tuple[Mapping[str, Any], ...]
    body: Mapping[str, Any] | None
    components: Mapping[str, Any] = field(repr=False)

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True, slots=True)
class DrawnRequest:
    """A request ready to be sent."""

    method: str
    path: str
    content: bytes
    headers: Mapping[str, str]


def read_operations(description: Mapping[str, Any]) -> list[Operation]:
    """Every operation of an OpenAPI description."""
    components = description.get("components", {}).get("schemas", {})
    found = []
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            content = operation.get("requestBody", {}).get("content", {})
            schema = content.get("application/json", {}).get("schema")
            parameters = tuple(operation.get("parameters", ()))
            found.append(Operation(method.upper(), path, parameters, schema, components))
    return found


def requests_of(operation: Operation) -> st.SearchStrategy[DrawnRequest]:
    """Requests to one operation: likely ones with one part spoiled, which get furthest, and shapeless ones."""
    names = [parameter["name"] for parameter in operation.parameters]
    names += _names_in(operation.body or {}, operation.components)

    @st.composite
    def draw_request(draw: st.DrawFn) -> DrawnRequest:
        path, query = operation.path, []
        spoiled = draw(st.sampled_from([*names, "path", ""]))
        for parameter in operation.parameters:
            name = parameter["name"]
            if parameter["in"] == "path":
                path = path.replace("{" + name + "}", _quoted(draw(_texts(name, spoiled))))
            elif parameter["in"] == "query" and (
                parameter.get("required", False) or draw(st.booleans())
            ):
                query.append(f"{name}={_quoted(draw(_query_values(name, parameter, spoiled)))}")
        if operation.method == "POST" and path.endswith("/objects"):
            query.append(f"path={_quoted(draw(_texts('path', spoiled)))}")
        content, headers = b"", draw(_headers())
        if operation.body is not None or draw(st.booleans()):
            content = draw(_bodies(operation, spoiled))
            headers = {"content-type": "application/json"} | headers
        url = path + ("?" + "&".join(query) if query else "")
        return DrawnRequest(operation.method, url, content, headers)

    return draw_request()


def worst_requests(operation: Operation) -> Iterator[DrawnRequest]:
    """Likely requests with all that may be given, each part of each spoiled once with each of the worst values."""
    names = {p["name"]: _LIKELY.get(p["name"], ("1",))[0] for p in operation.parameters}
    if operation.method == "POST" and operation.path.endswith("/objects"):
        names["path"] = "p"
    whole = _likely("body", operation.body or {}, operation.components)
    yield _plain_request(operation, names, whole)
    for name in names:
        for worst in WORST_TEXTS:
            yield _plain_request(operation, names | {name: worst}, whole)
    for place in _places_in(whole):
        for value in (*WORST_TEXTS, 10**30, -1):
            yield _plain_request(operation, names, _replaced(whole, place, value))


def _plain_request(operation: Operation, names: Mapping[str, str], body: Any) -> DrawnRequest:
    path, query = operation.path, []
    for name, value in names.items():
        if "{" + name + "}" in path:
            path = path.replace("{" + name + "}", _quoted(value))
        else:
            query.append(f"{name}={_quoted(value)}")
    content = json.dumps(body).encode() if operation.body is not None else b""
    url = path + ("?" + "&".join(query) if query else "")
    return DrawnRequest(operation.method, url, content, {"content-type": "application/json"})


def _likely(name: str, schema: Mapping[str, Any], components: Mapping[str, Any]) -> Any:
    if "$ref" in schema:
        return _likely(name, components[schema["$ref"].rpartition("/")[2]], components)
    if "anyOf" in schema:
        return _likely(name, schema["anyOf"][0], components)
    if "enum" in schema:
        return schema["enum"][0]
    parts = schema.get("properties", {})
    match schema.get("type"):
        case "object":
            return {key: _likely(key, part, components) for key, part in parts.items()} or {
                "k": "v"
            }
        case "array":
            return [_likely(name, schema["items"], components)]
        case "integer":
            return 1
        case "boolean":
            return False
        case _:
            return _LIKELY.get(name, ("",))[0]


def _places_in(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        inner = enumerate(value)
    for key, part in inner:
        yield (*place, key)
        yield from _places_in(part, (*place, key))


def _replaced(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    if not place:
        return new
    changed = value.copy()
    changed[place[0]] = _replaced(value[place[0]], place[1:], new)
    return changed


_QUERY_NAMES = (
    *("uploads", "uploadId", "partNumber", "delete", "location", "versioning", "tagging", "acl"),
    *(
        "list-type",
        "prefix",
        "delimiter",
        "max-keys",
        "continuation-token",
        "start-after",
        "marker",
    ),
    *("encoding-type", "max-uploads", "upload-id-marker", "max-parts", "part-number-marker"),
    *("response-content-type", "response-cache-control", "versionId"),
)
_DOCUMENTS = (
    b"",
    b"<Delete><Object><Key>main/p</Key></Object></Delete>",
    b"<Delete>" + b"<Object><Key>~~~~/p</Key></Object>" * 1000 + b"</Delete>",
    b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>x</ETag></Part></CompleteMultipartUpload>",
    b'<!DOCTYPE a [<!ENTITY b "c">]><Delete>&b;</Delete>',
    '<!DOCTYPE a [<!ENTITY b "c">]><Delete>&b;</Delete>'.encode("utf-16"),
    b"<a>" * 3000,
    b"\xff\xfe\x00",
)


@st.composite
def gateway_requests(draw: st.DrawFn) -> DrawnRequest:
    """Requests to the gateway: any method on any level with any of its sub-resources."""
    method = draw(st.sampled_from(["GET", "HEAD", "PUT", "POST", "DELETE"]))
    path = "/" + _quoted(draw(_texts("repository")))
    if draw(st.booleans()):
        path += "/" + _quoted(draw(_texts("ref"))) + "/" + _quoted(draw(_texts("path")))
    names = draw(st.lists(st.sampled_from(_QUERY_NAMES), max_size=3, unique=True))
    query = [f"{name}={_quoted(draw(_texts('value')))}" for name in names]
    headers = {}
    if draw(st.integers(0, 3)) == 0:
        source = f"/{_quoted(draw(_texts('repository')))}/{_quoted(draw(_texts('ref')))}/p"
        headers["x-amz-copy-source"] = source
    if draw(st.booleans()):
        headers[draw(st.sampled_from(["range", "content-type", "x-amz-meta-a", "if-match"]))] = (
            draw(
                st.sampled_from(
                    ["bytes=0-", "bytes=5-1", "text/x", "=?utf-8?q?=ZZ?=", "*", "a" * 3000]
                )
            )
        )
    url = path + ("?" + "&".join(query) if query else "")
    return DrawnRequest(method, url, draw(st.sampled_from(_DOCUMENTS)), headers)


def _quoted(text: str) -> str:
    return quote(text.encode("utf-8", "surrogatepass"), safe="")


def _texts(name: str, spoiled: str = "any") -> st.SearchStrategy[str]:
    if name == spoiled:
        return st.one_of(st.sampled_from(_NASTY + _ADDRESSES), st.text(max_size=20))
    likely = st.sampled_from(_LIKELY.get(name, ("a",)))
    return st.one_of(likely, likely, _texts("any")) if spoiled == "any" else likely


def _query_values(name: str, parameter: Mapping[str, Any], spoiled: str) -> st.SearchStrategy[str]:
    kinds = _kinds(parameter.get("schema", {}))
    if name == spoiled:
        return st.one_of(_NASTY_INTEGERS.map(str), _texts(name, spoiled))
    if "integer" in kinds:
        return st.sampled_from(["0", "1", "2"])
    if "boolean" in kinds:
        return st.sampled_from(["true", "false"])
    return _texts(name, spoiled)


def _names_in(schema: Mapping[str, Any], components: Mapping[str, Any]) -> list[str]:
    """The names of all that a body may hold."""
    if "$ref" in schema:
        return _names_in(components[schema["$ref"].rpartition("/")[2]], components)
    inner = [*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else ())]
    names = [name for part in inner for name in _names_in(part, components)]
    for name, part in schema.get("properties", {}).items():
        names += [name, *_names_in(part, components)]
    return names


def _kinds(schema: Mapping[str, Any]) -> set[str]:
    kinds: Iterable[Mapping[str, Any]] = schema.get("anyOf", [schema])
    return {str(kind.get("type")) for kind in kinds}


def _headers() -> st.SearchStrategy[dict[str, str]]:
    values = st.sampled_from(
        ["", "*", "bytes=0-", "bytes=-0", "bytes=9-1", '"x"', "a" * 3000, "a/b"]
    )
    names = st.sampled_from(
        ["range", "if-none-match", "if-match", "content-type", "x-lakefs-meta-a"]
    )
    return st.one_of(st.just({}), st.dictionaries(names, values, max_size=2))


def _bodies(operation: Operation, spoiled: str) -> st.SearchStrategy[bytes]:
    shapeless = st.one_of(
        st.binary(max_size=50),
        st.sampled_from([b"", b"null", b"[]", b"[" * 5000, b"1" * 5000, b'{"a": 1e999}']),
    )
    if operation.body is None:
        return shapeless
    shaped = _values("body", operation.body, operation.components, spoiled)
    encoded = shaped.map(json.dumps).map(str.encode)
    return encoded if spoiled else st.one_of(encoded, shapeless)


def _values(
    name: str, schema: Mapping[str, Any], components: Mapping[str, Any], spoiled: str
) -> st.SearchStrategy[Any]:
    if "$ref" in schema:
        return _values(name, components[schema["$ref"].rpartition("/")[2]], components, spoiled)
    if "anyOf" in schema:
        return st.one_of([_values(name, part, components, spoiled) for part in schema["anyOf"]])
    if "enum" in schema and name != spoiled:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "object" if "properties" in schema:
            return _objects(schema, components, spoiled)
        case "object":
            texts = _texts(name, spoiled)
            return st.dictionaries(texts, texts, min_size=int(name == spoiled), max_size=2)
        case "array":
            item = _values(name, schema["items"], components, spoiled)
            return st.lists(item, min_size=1, max_size=3)
        case "integer":
            return _NASTY_INTEGERS if name == spoiled else st.sampled_from([1, 0])
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case _:
            return _texts(name, spoiled)


def _objects(
    schema: Mapping[str, Any], components: Mapping[str, Any], spoiled: str
) -> st.SearchStrategy[dict[str, Any]]:
    required = {*schema.get("required", ()), spoiled}
    values = {
        name: _values(name, part, components, spoiled)
        for name, part in schema["properties"].items()
    }
    return st.fixed_dictionaries(
        {name: value for name, value in values.items() if name in required},
        optional={name: value for name, value in values.items() if name not in required},
    )
