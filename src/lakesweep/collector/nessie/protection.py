"""What is said of a file because of the folder it lies in: the innermost folder that anything is said of decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.collector.nessie.listing import is_metadata_file
from lakesweep.domain.file_names import fold
from lakesweep.errors import FormatError

# Said of a listed name that may mean another place: nobody's to delete.
NOT_UNDERSTOOD = "name not understood"
# Said of files of a table that was dropped on every reference.
DROPPED_TABLE = "of a dropped table"
# Said of a folder in which files may go that are old enough, and of the others there.
OLD_ONLY = "old files only"
TOO_NEW = "written within the grace of dropped tables"
# Said of a folder in which only metadata files may go, and of the others there.
VIEW_ONLY = "beside the metadata of a view, which has no other files"


@dataclass(frozen=True, slots=True)
class FolderIndex:
    """Labels of folders: why files below one are protected, or which table owns them. The innermost labelled folder decides.

    Folders are known by their folded names. Small and picklable.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    # Hold for all below, whatever is said of folders inside.
    overruling: Mapping[str, str] = field(default_factory=dict)
    elsewhere: str = ""  # the label for files in no folder of the index
    old_until: datetime | None = None  # inclusive; where OLD_ONLY is said, later files are TOO_NEW

    @classmethod
    def of(
        cls,
        labels: Iterable[tuple[str, str]],
        *,
        overruling: Iterable[tuple[str, str]] = (),
        elsewhere: str = "",
        old_until: datetime | None = None,
    ) -> FolderIndex:
        """An index of (URI, label) pairs; where a folder comes twice, its first label stays."""
        return cls(_folded(labels), _folded(overruling), elsewhere, old_until)

    def label_of(self, uri: str) -> str:
        """The label of a file or folder: that of an overruling folder around it, else that of the innermost labelled one."""
        nearest: str | None = None
        try:
            folded = fold(uri)
        except FormatError:
            return NOT_UNDERSTOOD
        while folded:
            if folded in self.overruling:
                return self.overruling[folded]
            if nearest is None:
                nearest = self.labels.get(folded)
            folded = folded.rpartition("/")[0]
        return self.elsewhere if nearest is None else nearest

    def labels_of(self, uris: pa.Array, modified: pa.Array) -> pa.Array:
        """The labels of many files by their folders, and where OLD_ONLY or VIEW_ONLY is said by their times or names; empty
        where a file may go."""
        label_of = lru_cache(maxsize=None)(self.label_of)
        folders = pc.replace_substring_regex(uris, r"/[^/]*$", "")
        encoded = folders.dictionary_encode()
        labels = pa.array(
            [label_of(folder) for folder in encoded.dictionary.to_pylist()], pa.string()
        )
        labels = labels.take(encoded.indices)
        is_views = pc.and_(pc.equal(labels, VIEW_ONLY), is_metadata_file(uris))
        return self._by_age(pc.if_else(is_views, "", labels), modified)

    def _by_age(self, labels: pa.Array, modified: pa.Array) -> pa.Array:
        by_age = pc.equal(labels, OLD_ONLY)
        if self.old_until is None or not pc.any(by_age).as_py():
            return labels
        is_old = pc.less_equal(modified, pa.scalar(self.old_until)).fill_null(False)
        return pc.if_else(by_age, pc.if_else(is_old, "", TOO_NEW), labels)


def _folded(labels: Iterable[tuple[str, str]]) -> dict[str, str]:
    folded: dict[str, str] = {}
    for uri, label in labels:
        folded.setdefault(fold(uri), label)
    return folded
