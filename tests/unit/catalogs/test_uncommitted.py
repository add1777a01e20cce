"""All pages of the uncommitted list, or an error: a page lost is staged data lost."""

from __future__ import annotations

import httpx
import pyarrow as pa
import pytest

from lakesweep.catalogs.lakefs.uncommitted import prepare_all_pages
from lakesweep.domain.commits import BranchHead, BranchId, CommitId
from lakesweep.errors import UnsafeToSweepError
from lakesweep.formats.tables import UNCOMMITTED_SCHEMA, write_uncommitted
from lakesweep_testing.fake_lakefs import RUN_ID
from lakesweep_testing.one_by_one import read_uncommitted_list

LOCATION = f"_lakefs/retention/gc/uncommitted/{RUN_ID}/uncommitted/"
PREPARE = ("POST", "gc/prepare_uncommited")


def rows(*addresses: str) -> bytes:
    table = pa.table([list(addresses), [1] * len(addresses)], schema=UNCOMMITTED_SCHEMA)
    return write_uncommitted(table)


def addresses(store, found) -> list[str]:
    tables = list(read_uncommitted_list(store, found))
    return [address for table in tables for address in table["physical_address"].to_pylist()]


def page(request, fake, **changes):
    """The fake's usual page, with some fields changed (None takes a field out)."""
    document = {**fake.answer(request).json(), **changes}
    return httpx.Response(201, json={k: v for k, v in document.items() if v is not None})


def test_every_non_empty_page_counts_when_the_last_is_empty(fake, store, normaliser):
    """The original reads the last page's location only and deletes what earlier pages listed (6.5-2)."""
    fake.uncommitted_pages = [[rows("data/s/a")], [], [rows("data/s/b", "data/s/c")], []]
    found = prepare_all_pages(fake.client(), store, "repo", normaliser)
    assert found.run_id == RUN_ID
    assert found.location == LOCATION
    assert (found.pages, len(found.files), found.rows_promised) == (4, 2, None)
    assert addresses(store, found) == ["data/s/a", "data/s/b", "data/s/c"]


def test_nothing_staged_is_an_empty_list(fake, store, normaliser):
    """One page without a location and without a file: looked, and found nothing."""
    found = prepare_all_pages(fake.client(), store, "repo", normaliser)
    assert (found.pages, found.files) == (1, ())
    assert addresses(store, found) == []


def test_a_location_that_does_not_exist_is_an_error(fake, store, normaliser):
    """The original takes it for "no uncommitted data" (6.5-3)."""
    location = f"{fake.namespace}/{LOCATION}"
    fake.overrides[PREPARE] = lambda r: page(r, fake, gc_uncommitted_location=location)
    with pytest.raises(UnsafeToSweepError, match="only 0 files") as caught:
        prepare_all_pages(fake.client(), store, "repo", normaliser)
    assert caught.value.kind == "location-missing"


def test_fewer_files_than_pages_with_rows_is_an_error(fake, store, normaliser):
    """Each page with rows adds one file."""
    fake.uncommitted_pages = [[rows("data/s/a")], []]
    location = f"{fake.namespace}/{LOCATION}"
    fake.overrides[PREPARE] = lambda r: page(r, fake, gc_uncommitted_location=location)
    with pytest.raises(UnsafeToSweepError, match=r"2 pages .* only 1 files"):
        prepare_all_pages(fake.client(), store, "repo", normaliser)


def test_a_file_that_no_page_names_is_read_all_the_same(fake, store, normaliser):
    """Whatever lies in the run's folder is live; a page that says it wrote nothing may be wrong."""
    fake.uncommitted_pages = [[rows("data/s/a")]]
    fake.overrides[PREPARE] = lambda r: page(r, fake, gc_uncommitted_location="")
    found = prepare_all_pages(fake.client(), store, "repo", normaliser)
    assert addresses(store, found) == ["data/s/a"]


def test_a_token_that_comes_back_is_an_error_and_no_loop(fake, store, normaliser):
    """Seen on a real server with a short prepare interval."""
    fake.overrides[PREPARE] = lambda r: httpx.Response(
        201,
        json={"run_id": RUN_ID, "gc_uncommitted_location": "", "continuation_token": "same"},
    )
    with pytest.raises(UnsafeToSweepError) as caught:
        prepare_all_pages(fake.client(), store, "repo", normaliser)
    assert caught.value.kind == "token-repeats"


def test_tokens_that_go_in_a_circle_are_an_error(fake, store, normaliser):
    """Not only the last token counts."""
    fake.uncommitted_pages = [[], [], []]

    def circle(request):
        answer = fake.answer(request).json()
        answer.setdefault("continuation_token", "1")
        return httpx.Response(201, json=answer)

    fake.overrides[PREPARE] = circle
    with pytest.raises(UnsafeToSweepError) as caught:
        prepare_all_pages(fake.client(), store, "repo", normaliser)
    assert caught.value.kind == "token-repeats"


def test_a_run_id_that_changes_is_an_error(fake, store, normaliser):
    """Pages of two runs lie in two folders."""
    fake.uncommitted_pages = [[], []]
    runs = iter(["one", "two"])
    fake.overrides[PREPARE] = lambda r: page(r, fake, run_id=next(runs))
    with pytest.raises(UnsafeToSweepError, match="run two"):
        prepare_all_pages(fake.client(), store, "repo", normaliser)


@pytest.mark.parametrize("location", ["mem://elsewhere/ns/_lakefs/x/", "{namespace}/data/x/"])
def test_a_location_outside_the_namespace_is_refused(fake, store, normaliser, location):
    """Somebody else's files, or a place where no list belongs."""
    location = location.format(namespace=fake.namespace)
    fake.overrides[PREPARE] = lambda r: page(r, fake, gc_uncommitted_location=location)
    with pytest.raises(UnsafeToSweepError) as caught:
        prepare_all_pages(fake.client(), store, "repo", normaliser)
    assert caught.value.kind == "location-outside"


def heads(*names: str) -> list[BranchHead]:
    return [BranchHead(BranchId(name), CommitId("c")) for name in names]


def test_a_branch_deleted_mid_scan_makes_the_list_be_taken_again(fake, store, normaliser):
    """A server that meets one may drop the rows of its page (6.6-3)."""
    fake.branches = heads("main", "short-lived")
    runs = []

    def delete_branch_once(request):
        runs.append(1)
        if len(runs) == 1:
            fake.branches = heads("main")
            return page(request, fake, gc_uncommitted_location="")
        fake.uncommitted_pages = [[rows("data/s/a")]]
        return fake.answer(request)

    fake.overrides[PREPARE] = delete_branch_once
    found = prepare_all_pages(fake.client(), store, "repo", normaliser)
    assert len(runs) == 2
    assert addresses(store, found) == ["data/s/a"]


def test_a_branch_that_lives_between_two_pages_is_noticed(fake, store, normaliser):
    """Made after the first page, gone before the last."""
    fake.branches = heads("main")
    fake.uncommitted_pages = [[], [], []]
    answered = []

    def come_and_go(request):
        answered.append(1)
        fake.branches = heads("main", "x") if len(answered) == 1 else heads("main")
        return fake.answer(request)

    fake.overrides[PREPARE] = come_and_go
    prepare_all_pages(fake.client(), store, "repo", normaliser)
    assert len(answered) == 3 + 1, "the page during which it went is taken again"


def test_branches_that_keep_going_away_are_refused(fake, store, normaliser):
    """After some tries there is no list to rely on."""
    fake.branches = heads(*(f"b{n}" for n in range(10)))

    def delete_one(request):
        fake.branches.pop()
        return fake.answer(request)

    fake.overrides[PREPARE] = delete_one
    with pytest.raises(UnsafeToSweepError) as caught:
        prepare_all_pages(fake.client(), store, "repo", normaliser)
    assert caught.value.kind == "branches-vanish"
    assert len(fake.branches) == 10 - 5


def test_page_with_rows_is_whole_though_branches_go_away(fake, store, normaliser):
    """A server that loses rows calls the page empty; CI that deletes a branch during every page stops nobody."""
    fake.branches = heads("main", *(f"ci-{n}" for n in range(10)))
    fake.uncommitted_pages = [[rows("data/s/a")], [rows("data/s/b")], [rows("data/s/c")]]

    def delete_one(request):
        fake.branches.pop()
        return fake.answer(request)

    fake.overrides[PREPARE] = delete_one
    found = prepare_all_pages(fake.client(), store, "repo", normaliser)
    assert addresses(store, found) == ["data/s/a", "data/s/b", "data/s/c"]
    assert len(fake.branches) == 11 - 3


def test_empty_page_in_the_middle_is_taken_again_at_its_token(fake, store, normaliser):
    """Only that page: the run goes on, and what came before it counts."""
    fake.branches = heads("main", "ci")
    fake.uncommitted_pages = [[rows("data/s/a")], [rows("data/s/b")], [rows("data/s/c")]]
    answered = []

    def lose_the_second(request):
        answered.append(request.content)
        if len(answered) == 2:
            fake.branches = heads("main")
            return httpx.Response(201, json={"run_id": RUN_ID, "gc_uncommitted_location": ""})
        return fake.answer(request)

    fake.overrides[PREPARE] = lose_the_second
    found = prepare_all_pages(fake.client(), store, "repo", normaliser)
    assert addresses(store, found) == ["data/s/a", "data/s/b", "data/s/c"]
    assert answered[1] == answered[2]
    assert len(answered) == 4


def test_counts_prove_an_empty_page_whole_though_branches_go_away(fake, store, normaliser):
    """The embedded lake says that it wrote nothing."""
    fake.branches = heads("main", "ci-0", "ci-1")

    def delete_one(request):
        fake.branches.pop()
        return page(request, fake, rows_written=0, total_rows=0)

    fake.overrides[PREPARE] = delete_one
    found = prepare_all_pages(fake.client(), store, "repo", normaliser)
    assert (found.pages, found.rows_promised) == (1, 0)
    assert len(fake.branches) == 3 - 1, "the page was taken once"


def test_rows_promised_must_be_rows_read(fake, store, normaliser):
    """The embedded lake says how many rows it wrote; a file cut short does not pass."""
    fake.uncommitted_pages = [[rows("data/s/a", "data/s/b")]]
    fake.overrides[PREPARE] = lambda r: page(r, fake, rows_written=2, total_rows=2)
    found = prepare_all_pages(fake.client(), store, "repo", normaliser)
    assert found.rows_promised == 2
    assert addresses(store, found) == ["data/s/a", "data/s/b"]
    store.write(found.files[0], rows("data/s/a"))
    with pytest.raises(UnsafeToSweepError, match="1 rows, but the server wrote 2"):
        addresses(store, found)


@pytest.mark.parametrize(
    "counts",
    [
        {"rows_written": 2, "total_rows": 3},
        {"rows_written": 2},
        {"total_rows": 2},
        {"rows_written": 2, "total_rows": 2, "gc_uncommitted_location": ""},
    ],
    ids=["another total", "no total", "no count", "rows, but no file"],
)
def test_counts_that_do_not_add_up_are_refused(fake, store, normaliser, counts):
    """Half an account is no account."""
    fake.overrides[PREPARE] = lambda r: page(r, fake, **counts)
    with pytest.raises(UnsafeToSweepError):
        prepare_all_pages(fake.client(), store, "repo", normaliser)


def test_a_damaged_file_is_an_error(fake, store, normaliser):
    """Bytes that are no Parquet are not an empty list."""
    fake.uncommitted_pages = [[b"PAR1 nonsense PAR1"]]
    found = prepare_all_pages(fake.client(), store, "repo", normaliser)
    with pytest.raises(UnsafeToSweepError):
        addresses(store, found)
