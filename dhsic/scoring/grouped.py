"""Groups of features as candidates: a gene is removed, or added, with all of its variants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dhsic._typing import Float, Index
from dhsic.engines.base import Question
from dhsic.engines.direct import Direct
from dhsic.engines.thin_adding import ThinQuestion
from dhsic.runtime.base import Job, Task
from dhsic.scoring.dependence import Reporter, SourceDependence
from dhsic.scoring.forward import SourceForward
from dhsic.scoring.group_tasks import joining_groups, score_groups
from dhsic.scoring.membership import Membership
from dhsic.scoring.reader import Reader
from dhsic.selection.state import SelectionState
from dhsic.sources.scaling import Scaling


class Grouped:
    """What makes candidates of groups, over the class that scores features.

    Parameters
    ----------
    *given, **named
        Of that class.
    membership : Membership
        The groups, and which features they have.
    """

    def __init__(self, *given: Any, membership: Membership, **named: Any) -> None:
        super().__init__(*given, **named)
        self.membership = membership

    def measure(self) -> Scaling:
        """Pass over all features; groups without one that varies are out from here on."""
        scaling: Scaling = super().measure()  # type: ignore[misc]  # of the class that it is over
        self.membership.drop_constant(scaling)
        return scaling

    @property
    def candidates(self) -> Index:
        """Groups of features that vary."""
        return self.membership.groups


class GroupedDependence(Grouped, SourceDependence):
    """`dhsic.selection.bahsic.Dependence` of which the features are groups."""

    def replay(self, state: SelectionState, survivors: Sequence[Index]) -> None:
        """Repeat what was done for groups."""
        super().replay(state, [self.membership.features(groups) for groups in survivors])

    def bandwidth(self, S: Index) -> float:
        """Line 3: sigma for the features of the groups S."""
        return super().bandwidth(self.membership.features(S))

    def _gains(self, question: Question, S: Index, n: int) -> tuple[Float, dict[str, Any]]:
        if not self.choices.kernel.is_additive:
            running, scaling = self._known()
            return self._scorer(running.reader, scaling).gains(score_groups, question, S)
        features = self.membership.features(S)
        of_features, record = super()._gains(question, features, n)
        places = np.searchsorted(S, self.membership.codes[features])
        gains = np.zeros(S.size)
        np.add.at(gains, places, of_features)
        return gains, record

    def _scorer(self, reader: Reader, scaling: Scaling) -> GroupScorer:
        return GroupScorer(self.membership, reader, scaling, self.reporter)

    def _advise(self, question: Question, S: Index, gains: Float, gone: Index, n: int) -> str:
        """There is one engine."""
        del question, S, gains, gone, n
        return ""


class GroupedForward(Grouped, SourceForward):
    """`dhsic.selection.fohsic.ForwardDependence` of which the features are groups."""

    @property
    def _width_of_one(self) -> float:
        """Features of a group, on average: sigma is the same for all candidates of a round."""
        groups = self.membership.groups
        return self.membership.features(groups).size / groups.size

    def _features(self, candidates: Index) -> Index:
        return self.membership.features(candidates)

    def _gains(
        self, question: Question | ThinQuestion, S: Index, n: int
    ) -> tuple[Float, dict[str, Any]]:
        assert isinstance(question, Question), "groups are scored from m x m matrices"
        del n
        scorer = GroupScorer(self.membership, self._reader, self._scaling, self.reporter)
        return scorer.gains(joining_groups, question, S)

    def _advise(self, question: Question | ThinQuestion, left: Index, gains: Float, n: int) -> str:
        """There is one engine."""
        del question, left, gains, n
        return ""


@dataclass(frozen=True)
class GroupScorer:
    """Scores groups by definition, through a reader."""

    membership: Membership
    reader: Reader
    scaling: Scaling
    reporter: Reporter | None

    def gains(self, task: Task, question: Question, S: Index) -> tuple[Float, dict[str, Any]]:
        """Gains of the groups S, (s,), and a record of what it took."""
        jobs = self.membership.jobs(self.reader, self.scaling, S)
        state = Direct().prepare(question)
        gains = np.empty(S.size)
        for groups, found in self.reader.map(task, jobs, engine_state=state, dtype=np.float64):
            gains[np.searchsorted(S, groups)] = found
            if self.reporter is not None:
                self.reporter.scored(len(groups))
        n_bytes = self.reader.bytes_of([Job(job.blocks) for job in jobs])
        return gains, {"engine": f"groups: {S.size}", "bytes": n_bytes}
