"""What a series of kills came to."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

__all__ = ["Kills"]


@dataclass
class Kills:
    """One run, killed again and again: after how many writes, and what was wrong afterwards."""

    who: str  # is killed
    run: str
    share: float = 1.0
    seed: int = 1
    kills: int = 0
    writes: int = 0
    wrong: list[str] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)

    def moments(self, writes: int) -> Sequence[int]:
        """The numbers of the writes to be killed after: all of them, or a share by the seed."""
        self.writes = writes
        count = max(1, round(writes * self.share))
        chosen = random.Random(f"{self.seed} {self.who} {self.run}").sample(
            range(1, writes + 1), count
        )
        return sorted(chosen)

    @contextmanager
    def after(self, number: int) -> Iterator[None]:
        """Kill inside, and check: whatever is raised is what was wrong."""
        self.kills += 1
        try:
            yield
        except Exception as error:  # noqa: BLE001 - one bad end does not keep the others from being tried
            self.wrong.append(f"killed after write {number}: {type(error).__name__}: {error}")

    def as_json(self) -> dict[str, object]:
        return {
            "who": self.who,
            "run": self.run,
            "writes": self.writes,
            "kills": self.kills,
            "survived": self.kills - len(self.wrong),
            "wrong": self.wrong,
            "seconds": round(time.monotonic() - self._began, 1),
        }
