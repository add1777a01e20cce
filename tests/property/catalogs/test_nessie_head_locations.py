"""Which contents are at heads is told by the commits as the server itself tells it."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from lakesweep.catalogs.nessie.identify import identify
from lakesweep.domain.cutoff_policies import parse_policies
from lakesweep.domain.head_contents import HeadContents
from lakesweep_testing.fake_nessie import FakeNessie
from lakesweep_testing.nessie_histories import write_random_history


@given(seed=st.integers(0, 10**9), policy=st.sampled_from(["NONE", "1", "3"]))
def test_head_locations_are_what_the_server_has_at_every_reference(seed: int, policy: str) -> None:
    """Branches, tags, renames, drops, merges and moved references, whatever the policy."""
    with FakeNessie() as nessie:
        write_random_history(nessie, seed, 40, drops_in_merges=True)
        with nessie.client() as client:
            found = identify(client, parse_policies(policy, (), datetime.now(UTC)))
            contents = [
                content
                for reference in client.references()
                for content in client.entries(reference.hash)
            ]
        expected = {c.metadata_location for c in contents if hasattr(c, "metadata_location")}
        assert set(found.head_locations) == expected
        heads = HeadContents.of(found.head_locations)
        assert HeadContents.from_text(heads.to_text()) == heads
        assert all(location in heads for location in expected)
        assert "s3://lake/elsewhere" not in heads
