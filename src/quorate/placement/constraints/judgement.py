"""How nodes stand with one shape at one time."""

from collections.abc import Hashable, Sequence
from functools import cached_property

from quorate.placement.constraints.demands import Demands
from quorate.placement.constraints.ground import Ground
from quorate.placement.constraints.objections import Mask, Objection, Verdicts
from quorate.placement.stance import Moment, Preferences, Reach


class Judgement:
    """Answers are worked out when they are first asked for, of the ground as it is then."""

    def __init__(
        self, ground: Ground, demands: Demands, state: Hashable, by_node_facts: Verdicts, version: int
    ) -> None:
        self.version = version
        self.state = state
        self.by_node_facts = by_node_facts
        self._ground, self._demands = ground, demands
        self._verdicts: dict[Moment, Verdicts] = {}

    @cached_property
    def reach(self) -> Reach:
        return self._ground.reach(self._demands)

    @property
    def unresolvable(self) -> Mask:
        return self.verdicts(Moment.NOW).unresolvable

    @property
    def lasting(self) -> Mask:
        return self.verdicts(Moment.NOW).lasting

    @cached_property
    def preferences(self) -> Preferences:
        return self._ground.preferences(self._demands)

    def passing(self, moment: Moment) -> Mask:
        return self.verdicts(moment).passing

    def objections(self, moment: Moment, nodes: Mask) -> Sequence[tuple[Objection, int]]:
        return self.verdicts(moment).counts(nodes)

    def verdicts(self, moment: Moment) -> Verdicts:
        verdicts = self._verdicts.get(moment)
        if verdicts is None:
            verdicts = self._verdicts[moment] = self.by_node_facts.copy()
            self._ground.judge(self._demands, moment, verdicts)
        return verdicts
