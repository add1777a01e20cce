"""What is said of a file because of the folder it lies in: the innermost folder that anything is said of decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.domain.file_names import fold
from lakesweep.errors import FormatError

# Said of a listed name that may mean another place: nobody's to delete.
NOT_UNDERSTOOD = "name not understood"


@dataclass(frozen=True, slots=True)
class FolderIndex:
    """Folders by folded name, each with a word about it. Picklable; looked up by walking up from a file."""

    words: Mapping[str, str] = field(default_factory=dict)
    overruling: Mapping[str, str] = field(
        default_factory=dict
    )  # hold for all below, whatever is said of folders inside
    elsewhere: str = ""  # the word for files in no folder of the index

    @classmethod
    def of(
        cls,
        words: Iterable[tuple[str, str]],
        *,
        overruling: Iterable[tuple[str, str]] = (),
        elsewhere: str = "",
    ) -> FolderIndex:
        """From (URI, word); the first word for a folder stays."""
        return cls(_folded(words), _folded(overruling), elsewhere)

    def word_for(self, uri: str) -> str:
        """What is said of a place: by an overruling folder around it, else by the innermost one."""
        nearest: str | None = None
        try:
            folded = fold(uri)
        except FormatError:
            return NOT_UNDERSTOOD
        while folded:
            if folded in self.overruling:
                return self.overruling[folded]
            if nearest is None:
                nearest = self.words.get(folded)
            folded = folded.rpartition("/")[0]
        return self.elsewhere if nearest is None else nearest

    def words_for(self, uris: pa.Array) -> pa.Array:
        """`word_for` of many files at once: files of one folder share the answer."""
        word = lru_cache(maxsize=None)(self.word_for)
        folders = pc.replace_substring_regex(uris, r"/[^/]*$", "")
        encoded = folders.dictionary_encode()
        words = pa.array([word(folder) for folder in encoded.dictionary.to_pylist()], pa.string())
        return words.take(encoded.indices)


def _folded(words: Iterable[tuple[str, str]]) -> dict[str, str]:
    folded: dict[str, str] = {}
    for uri, word in words:
        folded.setdefault(fold(uri), word)
    return folded
