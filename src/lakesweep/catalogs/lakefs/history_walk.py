"""Compiled walks over the lines of main parents. Rows are numbers of commits; a parent of -1 is none.

Whoever calls has checked that every parent is a row, and that all columns have a value for each row.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lakesweep.formats.jit import jitted

__all__ = ["NOBODY", "Bools", "Ints", "Rows", "order_children_first", "pass_down", "retain_parents"]

Rows = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

NOBODY = (1 << 63) - 1


@jitted
def order_children_first(main_parents: Rows, children_left: Rows, order: Rows) -> int:
    """Fill `order` so that each row comes after all rows whose main parent it is; returns how many could be ordered.

    `children_left` comes as zeros. Rows on a cycle are left out.
    """
    for row in range(main_parents.size):
        parent = main_parents[row]
        if parent >= 0:
            children_left[parent] += 1
    end = 0
    for row in range(main_parents.size):
        if children_left[row] == 0:
            order[end] = row
            end += 1
    at = 0
    while at < end:
        parent = main_parents[order[at]]
        at += 1
        if parent >= 0:
            children_left[parent] -= 1
            if children_left[parent] == 0:
                order[end] = parent
                end += 1
    return end


@jitted
def retain_parents(
    order: Rows, main_parents: Rows, dates: Ints, thresholds: Ints, is_retained: Bools
) -> None:
    """Retain each main parent of a commit that is younger than the earliest threshold of the paths through that commit.

    `thresholds` comes with those of paths that start at a row, and leaves with the earliest of all paths through it.
    """
    for at in range(order.size):
        row = order[at]
        parent = main_parents[row]
        if parent >= 0:
            if thresholds[row] < thresholds[parent]:
                thresholds[parent] = thresholds[row]
            if dates[row] > thresholds[row]:
                is_retained[parent] = True


@jitted
def pass_down(order: Rows, main_parents: Rows, dates: Ints, owners: Ints, until: Ints) -> None:
    """Give each main parent the least owner of its children, and the latest time at which a child superseded it.

    Rows that are owned by `NOBODY` pass nothing on.
    """
    for at in range(order.size):
        row = order[at]
        parent = main_parents[row]
        if parent >= 0 and owners[row] != NOBODY:
            if owners[row] < owners[parent]:
                owners[parent] = owners[row]
            if dates[row] > until[parent]:
                until[parent] = dates[row]
