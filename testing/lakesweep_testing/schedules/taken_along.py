"""Steps that are no place to change actors, because nobody else's steps depend on them.

A read of what no other actor ever writes gives the same whenever it happens, so it is taken along with the step before
it. Who writes what is learned while schedules run: when an actor is seen to write what another's read was taken along
for, that read is a step of its own from then on, and the search begins anew.
"""

from __future__ import annotations

from lakesweep_testing.schedules.steps import Access, are_dependent, is_private


class TakenAlong:
    """What actors were seen to write, and which reads went along with other steps because of that."""

    def __init__(self) -> None:
        self.is_outdated = False
        self._writes: dict[str, set[Access]] = {}
        self._reads: dict[tuple[str, Access], bool] = {}

    def note(self, actor: str, access: Access) -> None:
        """An actor is about to take a step."""
        writes = self._writes.setdefault(actor, set())
        if not access.is_write or access in writes:
            return
        writes.add(access)
        for (reader, read), was_taken in list(self._reads.items()):
            if was_taken and reader != actor and are_dependent(read, access):
                self.is_outdated = True
                self._reads[reader, read] = False

    def may_take(self, actor: str, access: Access) -> bool:
        """Whether a step goes along with the one before it. Writes do not: a crash or a check may fall between."""
        if is_private(access):
            return True
        if access.is_write:
            return False
        known = self._reads.get((actor, access))
        if known is None:
            others = (writes for name, writes in self._writes.items() if name != actor)
            known = not any(are_dependent(access, write) for seen in others for write in seen)
            self._reads[actor, access] = known
        return known
