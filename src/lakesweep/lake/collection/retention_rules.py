"""Retention rules, in the object store as lakeFS keeps them."""

from __future__ import annotations

from lakesweep.domain.rules import RetentionRules
from lakesweep.errors import ObjectNotFoundError
from lakesweep.formats.rules import RULES_KEY, decode_rules, encode_rules
from lakesweep.lake.context import LakeContext
from lakesweep.lake.errors import CondemnedError, InvalidRequestError, MissingError
from lakesweep.lake.hard_delete.fence import Fence
from lakesweep.lake.names import check_branch_id
from lakesweep.lake.values import Repository

_MOST_DAYS = 2**31 - 1


class RetentionRulesStore:
    """Reads and writes each repository's rules."""

    def __init__(self, context: LakeContext, fence: Fence) -> None:
        self._context = context
        self._fence = fence

    def find(self, repository: Repository) -> RetentionRules | None:
        """The rules, or None when there are none."""
        try:
            data = self._context.store(repository).read(RULES_KEY)
        except ObjectNotFoundError:
            return None
        return decode_rules(data)

    def get(self, repository: Repository) -> RetentionRules:
        """The rules; `MissingError` (`rules-not-found`)."""
        rules = self.find(repository)
        if rules is None:
            raise MissingError(
                f"get gc rules: not found: repository {repository.id} has no retention rules",
                kind="rules-not-found",
            )
        return rules

    def set(self, repository: Repository, rules: RetentionRules) -> None:
        """Write the rules."""
        for branch_id in rules.branch_retention_days:
            check_branch_id(branch_id)
        for days in (rules.default_retention_days, *rules.branch_retention_days.values()):
            if not 0 <= days <= _MOST_DAYS:
                raise InvalidRequestError(
                    f"{days} is not a number of days to keep things; the rules were not changed",
                    kind="invalid-rules",
                )
        self._write(repository, rules)

    def delete(self, repository: Repository) -> None:
        """Write the empty file that stands for "no rules"."""
        self._write(repository, None)

    def _write(self, repository: Repository, rules: RetentionRules | None) -> None:
        """Write the rules, unless a sweep is deleting by others: longer ones would keep what is going.

        The rules lie in the object store, out of reach of the fence's transaction. So the fence is read again after
        the write: if a sweep began in between, it may have read either, and the old rules are put back.
        """
        fence = self._fence.read(repository)
        self._fence.refuse_during_sweep(repository, fence, "the rules were not changed")
        store = self._context.store(repository)
        before = self.find(repository)
        store.write(RULES_KEY, encode_rules(rules))
        try:
            fence = self._fence.read(repository)
            self._fence.refuse_during_sweep(repository, fence, "the rules were not changed")
        except CondemnedError:
            store.write(RULES_KEY, encode_rules(before))
            raise
