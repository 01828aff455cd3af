"""How the answers of plugins are combined, tier by tier.

A *voice* is what one plugin says on one point; who has nothing to say on it (or is switched off) has none.
Source: Volcano's session, except for profile ``design``, where an empty choice of victims is final: it
means that everybody is protected, and no later tier may overrule that.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Literal, TypeVar

V = TypeVar("V")
T = TypeVar("T")

Tiers = Sequence[Sequence[V]]  # of voices, in the order they are asked


class Vote(Enum):
    PERMIT = "permit"
    ABSTAIN = "abstain"
    REJECT = "reject"


def objection(tiers: Tiers[Callable[[], Vote | T]]) -> T | Literal[Vote.REJECT] | None:
    """What loses the vote: the first rejection, or objection with a reason, of the first tier that decides.

    ``None``: the vote is won.  A permit without an objection in its tier ends it, and so does the silence
    of all tiers.
    """
    for tier in tiers:
        votes = [voice() for voice in tier]
        for vote in votes:
            if vote is Vote.REJECT or not isinstance(vote, Vote):
                return vote
        if Vote.PERMIT in votes:
            return None
    return None


def chosen(tiers: Tiers[Callable[[], Sequence[T] | None]], *, empty_is_final: bool) -> Sequence[T]:
    """Who all of the first tier that makes a choice agree on, in the order of its first voice.

    ``None`` is an abstention.  An empty choice, or agreement on nobody, ends its tier: with
    ``empty_is_final`` the answer is nobody, else the next tier decides.
    """
    for tier in tiers:
        agreed: Sequence[T] | None = None
        for voice in tier:
            choice = voice()
            if choice is None:
                continue
            agreed = choice if agreed is None else [one for one in agreed if one in choice]
            if not agreed:
                break
        if agreed:
            return agreed
        if agreed is not None and empty_is_final:
            return ()
    return ()


def first_tier_agrees(tiers: Tiers[Callable[[], bool]]) -> bool:
    """Whether all voices of the first tier that has any say yes; with no voice at all, no."""
    for tier in tiers:
        if tier:
            return all(voice() for voice in tier)
    return False


def everyone(tiers: Tiers[V]) -> Iterable[V]:
    """All voices in order, for points on which they add up, or on which one is enough."""
    return (voice for tier in tiers for voice in tier)
