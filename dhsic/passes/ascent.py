"""One round's way to the best additions: all candidates first, then those still undecided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dhsic._typing import Float, Index, Mask
from dhsic.engines.adding import NOTHING, Adding, ways
from dhsic.engines.base import FeatureStats, Question
from dhsic.engines.certificate import certify, nearest_to_cut
from dhsic.engines.compact import ThinQuestion
from dhsic.engines.direct import Direct
from dhsic.engines.final import DOUBLE_COST
from dhsic.engines.refine import FEW_FEATURES, PASS_COST, largest, tie_width, undecided
from dhsic.engines.ridge import Inverse
from dhsic.passes.dependence import Reporter, dtype_of, facts_of
from dhsic.passes.reader import Reader
from dhsic.passes.task import Score, Values
from dhsic.sources.scaling import Scaling

#: What a first pass in float32 may leave out of R, on average over a feature's range, times m.
SHARES = (1.0, 0.1, 0.01)
#: Share of the first pass of a run, when nothing is known of the gains.
FIRST_SHARE = 0.1
#: Name of such an engine, before the share.
SHARE = "float32, leaving "
#: Features that the certificate of low rank looks at: next to the cut, and others.
NEAREST, OTHERS = 32, 32


@dataclass
class Ascent:
    """Gains of the candidates S, good enough to place the n largest."""

    question: Question | ThinQuestion
    S: Index
    n: int
    reader: Reader
    scaling: Scaling
    reporter: Reporter | None
    single: bool
    by_definition: bool

    def run(self, advice: str) -> tuple[Float, dict[str, Any]]:
        """Gains of S, those of the n largest to the last digit, and a record of what it took.

        Parameters
        ----------
        advice : str
            Engine for the first pass, see `advice`; empty where there is none.
        """
        d = self.S.size
        facts = facts_of(self.scaling, self.S)
        gains, errors = np.zeros(d), np.zeros(d)
        settled = np.zeros(d, dtype=bool)
        open_, engine = np.arange(d), self._first(facts, advice)
        passes: list[str] = []
        products = {"float32": 0, "float64": 0}
        n_bytes = 0
        while open_.size:
            some = facts.take(open_)
            new, error, read = self._score(engine, open_, first=not passes)
            n_bytes += read
            gains[open_], errors[open_] = new, error
            final = _is_final(engine)
            settled[open_] = final
            errors[settled] = tie_width(gains) / 2
            passes.append(f"{_name(engine, self.question.n_samples)}: {open_.size}")
            products[dtype_of(engine)] += self._products(engine, some)
            open_ = np.flatnonzero(self._open(gains, errors) & ~settled)
            engine = self._last(facts.take(open_))
        record = {
            "engine": ", ".join(passes),
            "products_float32": products["float32"],
            "products_float64": products["float64"],
            "bytes": n_bytes,
        }
        if isinstance(self.question, ThinQuestion):
            record |= self._certificate(self.question, gains)
        return gains, record

    def _certificate(self, question: ThinQuestion, gains: Float) -> dict[str, Any]:
        """How far low rank is from the definition, on features next to the cut and others."""
        nearest = nearest_to_cut(gains, self.n, NEAREST)
        every = np.linspace(0, gains.size - 1, min(OTHERS, gains.size)).astype(np.int64)
        some = np.union1d(np.flatnonzero(nearest), every)
        jobs = self.reader.jobs(self.S[some], self.scaling)
        X = np.concatenate(list(self.reader.joined(Values(), jobs)))
        n = self.n * some.size / gains.size if self.n == gains.size else self.n
        errors = question.row_errors(X)
        found = certify(errors, gains[some], n, question.n_samples, np.ones(some.size))
        assert question.check.rows is not None, "rows to check on are samples"
        return {
            "engine": f"low rank {question.factor.rank}: {self.S.size}",
            "landmarks": question.landmarks.n_landmarks + question.check.rows.size,
            "rank": question.factor.rank,
            "relative_error": found.relative_error,
            "cut_error": min(found.cut_error, 1.0),
        }

    def _open(self, gains: Float, errors: Float) -> Mask:
        """Those whose place is undecided, and those that are taken: their scores are kept."""
        out = undecided(gains, errors, self.n)
        out[largest(gains, self.n, tie_width(gains))] = True
        return out

    def advice(self, gains: Float) -> str:
        """Engine for a first pass over S whose gains will be much like these: the cheapest."""
        facts = facts_of(self.scaling, self.S)
        last = self._last(facts)
        m = self.question.n_samples
        if not isinstance(last, Adding) or not self.single or self.S.size <= FEW_FEATURES:
            return _name(last, m)
        last_cost = DOUBLE_COST * self._products(last, facts)
        best, least = last, last_cost + PASS_COST
        for share in SHARES:
            engine = Adding(share / m, "float32")
            cost = engine.products(self.question, facts) + PASS_COST
            if cost >= least:
                continue
            errors = engine.error(self.question, facts, gains)
            n_left = int(undecided(gains, errors, self.n).sum())
            cost += last_cost * n_left / self.S.size + (PASS_COST if n_left else 0.0)
            if cost < least:
                best, least = engine, cost
        return _name(best, m)

    def _first(self, facts: FeatureStats, advice: str) -> Adding | Direct | Inverse:
        last = self._last(facts)
        if not isinstance(last, Adding) or self.n == self.S.size or not self.single:
            return last
        if not advice:
            return self._rough(FIRST_SHARE, facts)
        return last if advice == "exact" else self._rough(float(advice.removeprefix(SHARE)), facts)

    def _rough(self, share: float, facts: FeatureStats) -> Adding | Direct | Inverse:
        """Engine in float32; the last one where some features have no other."""
        engine = Adding(share / self.question.n_samples, "float32")
        return self._last(facts) if self._needs_direct(engine, facts) else engine

    def _last(self, facts: FeatureStats) -> Adding | Direct | Inverse:
        """Engine that has the last word."""
        kernel = self.question.kernel
        if kernel.scored_by == "matrix":
            return Inverse(joining=self._mean_square())
        if self.by_definition:
            return Direct(adding=True)
        return Adding(with_direct=self._needs_direct(Adding(), facts))

    def _mean_square(self) -> float:
        """Mean over features of their mean squares, as scaled."""
        known = self.scaling.take(~self.scaling.constant)
        return float(np.mean((known.std * known.scale) ** 2))

    def _needs_direct(self, engine: Adding, facts: FeatureStats) -> bool:
        kernel = self.question.kernel
        if kernel.addition() is not None:
            return False
        found = ways(kernel, self.question.sigma, facts, engine.tolerance)
        return any(way == "direct" for way, _ in found)

    def _products(self, engine: Adding | Direct | Inverse, facts: FeatureStats) -> int:
        if isinstance(engine, Adding):
            return engine.products(self.question, facts)
        return 2 * len(facts.max_abs) if isinstance(engine, Inverse) else 0

    def _state(self, engine: Adding | Direct | Inverse) -> Any:
        if isinstance(engine, Adding):
            return engine.prepare(self.question)
        assert isinstance(self.question, Question), "the definition is never asked in low rank"
        return engine.prepare(self.question)

    def _score(
        self, engine: Adding | Direct | Inverse, open_: Index, *, first: bool
    ) -> tuple[Float, Float, int]:
        """Gains, bounds on their errors, and bytes read."""
        jobs = self.reader.jobs(self.S[open_], self.scaling)
        score = Score(engine, self._state(engine), dtype_of(engine))
        parts = []
        for part in self.reader.joined(score, jobs):
            parts.append(part)
            if first and self.reporter is not None:
                self.reporter.scored(len(part))
        found = np.concatenate(parts)
        n_bytes = self.reader.bytes_of(jobs)
        if isinstance(engine, Adding):  # measures what it leaves out
            return found[:, 0], found[:, 1], n_bytes
        return found, np.zeros_like(found), n_bytes


def _is_final(engine: Adding | Direct | Inverse) -> bool:
    if not isinstance(engine, Adding):
        return True
    return engine.tolerance == NOTHING and dtype_of(engine) == "float64"


def _name(engine: Adding | Direct | Inverse, m: int) -> str:
    """Name of an engine, for the history of rounds: ``"share 0.1"``, ``"exact"``."""
    if isinstance(engine, Adding) and not _is_final(engine):
        return f"{SHARE}{engine.tolerance * m:.3g}"
    return "exact"
