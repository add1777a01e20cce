"""What both command lines share is declared once."""

from __future__ import annotations

from dataclasses import replace

from lakesweep.settings.lakefs_options import SETTING, SETTINGS
from lakesweep.settings.nessie_options import NESSIE_OPTIONS
from lakesweep.settings.shared_options import GUARDS


def test_an_option_of_both_tables_means_one_thing() -> None:
    """Only its variable has another prefix."""
    names = {s.name for s in SETTINGS}
    of_both = [option for option in NESSIE_OPTIONS if option.name in names]
    assert {option.name for option in of_both} == {guard.name for guard in GUARDS}
    for option in of_both:
        assert replace(option, prefix="LAKESWEEP_") == SETTING[option.name]


def test_a_guard_beyond_the_default_has_one() -> None:
    """And the default itself lowers nothing."""
    for option in (*SETTINGS, *NESSIE_OPTIONS):
        if option.guard in ("above", "below"):
            assert not option.lowers_guard(option.default_value)
