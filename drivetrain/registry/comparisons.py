"""A group as a comparison meets it: it may be new, or its name mistyped; and a tag of it counts the tests that were
made on a test set, alike in every registry."""

from __future__ import annotations

import base64
import hashlib
import re

from drivetrain.base.errors import InputError
from drivetrain.registry.registry import COMPARISONS, AbsentError, NotAllowedError, Registry

_SHORT = 12  # digits of a hash
_COUNT = re.compile(r"(?<!\S)([0-9a-f]{1,12})=([0-9]{1,9})(?!\S)")
_MADE = re.compile(r"@((?:[A-Za-z0-9+/]{4})+)(?!\S)")
_MOST_TEST_SETS, _MOST_TESTS, _MOST_OF_A_TAG = 10, 21, 256


def count_comparison(registry: Registry, group: str, test_set: str, test: str) -> int:
    """Note in the registry that a test was made on a test set: of a candidate, against a champion, by a metric, a rule
    and budgets.

    It stands in one tag of the group: how often each of the last test sets was used, the newest first, and the last
    tests, so that one that is made again is not counted again.

    Args:
        test_set: the hash of its content.
        test: a hash of all that makes it another test.

    Returns:
        How many tests were made on this test set, this one included.

    Raises:
        InputError: there is no such group.
        RegistryError: the registry cannot be asked, or does not allow it.
    """
    on = test_set[:_SHORT]
    this = base64.b64encode(hashlib.sha256(f"{test_set} {test}".encode()).digest()[:3]).decode()
    number = 0

    def counted(text: str) -> str:
        nonlocal number
        counts = {name: int(digits) for name, digits in _COUNT.findall(text)}  # other texts are ignored
        made = _MADE.match(text)
        tests = re.findall("....", made[1]) if made else []
        number = counts.pop(on, 0)
        if not number or this not in tests:
            number += 1
        tests = [this, *(each for each in tests if each != this)][:_MOST_TESTS]
        newest = {on: number, **counts}
        kept = [f"@{''.join(tests)}", *(f"{each}={newest[each]}" for each in list(newest)[:_MOST_TEST_SETS])]
        while len(" ".join(kept)) > _MOST_OF_A_TAG:
            kept.pop()
        return " ".join(kept)

    registry.change_tag(group, COMPARISONS, counted)
    return number


def check_first(registry: Registry, group: str, *, first: bool, chosen: bool) -> None:
    """That a group is there, or is meant to be new.

    A registry that nobody chose (`auto`) and that has no groups at all cannot be the wrong one, and no name in it is
    mistyped: there a first night needs no word.

    Args:
        first: the group may be new.
        chosen: the registry was named, so it may be mistyped.

    Raises:
        InputError: there is no such group, and nobody says that it is new.
    """
    if first:
        return
    try:
        registry.version(group)
    except NotAllowedError as error:
        raise InputError(
            f"there is no version of {group!r}, and you may not list the names of the other groups: {error} For "
            "the first model of a new group give first=true."
        ) from None
    except AbsentError as error:
        if not chosen and not error.there:
            return
        raise InputError(
            f"{error} For the first model of a new group give first=true: else a mistyped group or registry would "
            "count as one without a champion. The training is kept: the next run takes it from the cache."
        ) from None
