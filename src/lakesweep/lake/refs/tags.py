"""Tag records."""

from __future__ import annotations

from collections.abc import Iterator

from lakesweep.domain.commits import CommitId, Tag, TagId
from lakesweep.lake.context import LakeContext, partition_of
from lakesweep.lake.errors import ConflictError, MissingError
from lakesweep.lake.hard_delete.fence import FenceMovedError
from lakesweep.lake.kv.interface import Held
from lakesweep.lake.names import check_tag_id
from lakesweep.lake.records import cut_page, decode_record, encode_record, fields_of, page_size
from lakesweep.lake.values import Page, Repository

_PREFIX = b"tags/"


class Tags:
    """The tags of all repositories. A tag never moves."""

    def __init__(self, context: LakeContext) -> None:
        self._context = context

    def find(self, repository: Repository, tag_id: str) -> Tag | None:
        """The tag, or None."""
        raw = self._context.kv.get(partition_of(repository), _key(tag_id))
        return None if raw is None else _decode(raw)

    def get(self, repository: Repository, tag_id: str) -> Tag:
        """The tag; `MissingError` (`tag-not-found`)."""
        found = self.find(repository, tag_id)
        if found is None:
            raise _missing(repository, tag_id)
        return found

    def create(
        self, repository: Repository, tag_id: str, commit_id: CommitId, held: Held | None = None
    ) -> Tag:
        """Name a commit; `ConflictError` (`tag-exists`), `FenceMovedError` when what is `held` has another value."""
        check_tag_id(tag_id)
        tag = Tag(TagId(tag_id), commit_id)
        record = encode_record(fields_of(tag))
        if not self._context.kv.set_if(partition_of(repository), _key(tag_id), record, None, held):
            if self.find(repository, tag_id) is None:
                raise FenceMovedError
            raise ConflictError(
                f"repository {repository.id} has a tag {tag_id!r} already", kind="tag-exists"
            )
        return tag

    def delete(self, repository: Repository, tag_id: str) -> None:
        """Remove a tag; `MissingError` without it."""
        raw = self._context.kv.get(partition_of(repository), _key(tag_id))
        if raw is None or not self._context.kv.delete_if(
            partition_of(repository), _key(tag_id), raw
        ):
            raise _missing(repository, tag_id)

    def all(self, repository: Repository) -> Iterator[Tag]:
        """Every tag in id order."""
        rows = self._context.rows(repository, _PREFIX)
        return (_decode(raw) for _, raw in rows)

    def page(
        self, repository: Repository, *, prefix: str = "", after: str = "", amount: int = 100
    ) -> Page[Tag]:
        """Tags in id order."""
        last = _key(after) if after else None
        rows = self._context.rows(repository, _key(prefix), after=last)
        tags = (_decode(raw) for _, raw in rows)
        return cut_page(((tag.id, tag) for tag in tags), page_size(amount))


def _key(tag_id: str) -> bytes:
    return _PREFIX + tag_id.encode(errors="surrogatepass")


def _decode(raw: bytes) -> Tag:
    fields = decode_record(raw)
    return Tag(TagId(fields["id"]), CommitId(fields["commit_id"]))


def _missing(repository: Repository, tag_id: str) -> MissingError:
    return MissingError(f"repository {repository.id} has no tag {tag_id!r}", kind="tag-not-found")
