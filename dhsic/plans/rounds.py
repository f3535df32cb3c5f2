"""The work of a run that has not begun, from its sizes: which rounds, and which passes in each.

Which expansion settles a round, the data decide; what is supposed here was seen on genotypes and
on normal data: a first product for every feature, more for those it leaves undecided. Whether a
factor of so many landmarks is good enough, the certificate of a round decides. What comes in where
it is not, K of all samples (or more landmarks), is written down as open.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dhsic.algorithms.state import begin
from dhsic.engines.final import DIRECT_COST, has_series
from dhsic.engines.refine import FEW_FEATURES
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.table import resolve_kernel
from dhsic.linalg.quadratic import PANEL
from dhsic.memory import Promise, human
from dhsic.passes import landmarks
from dhsic.passes.forward import LANDMARKS
from dhsic.passes.landmarks import check_number, first_number, most_number
from dhsic.passes.lowrank import CHEAP, SAMPLE_FEWEST, flops_of_round, sample_size
from dhsic.passes.sums import EPOCH, FEW, FEW_CHOSEN
from dhsic.plans.work import Move, Tally, Work
from dhsic.selectors.bahsic import AbstractElimination
from dhsic.selectors.fohsic import FOHSIC
from dhsic.selectors.onepass import OnePass
from dhsic.selectors.rounds import KernelSelector
from dhsic.selectors.run import SelectionRun
from dhsic.selectors.svmrfe import SVMRFE

VARY = "all features vary; those that do not leave before the first round"
SERIES = "a round takes 1.4 products a feature in float32 and 0.2 in float64, as seen on genotypes"
JOINED = "a candidate takes 4 products in float32; fewer on genotypes, more on outliers"
OPEN = (
    "low rank meets its tolerance (the lower figure), or needs K of all samples, or more "
    "landmarks, from the first round (the upper one)"
)
PACKED = "values of one byte take at most four consecutive integers, so survivors pack in two bits"
MACHINES = "the support vector machines of the rounds, which run in this process, are not counted"
UNTIMED = "what this kernel or criterion computes is not foreseen, so there are no flops or times"


def work_of(run: SelectionRun, promised: Promise, budget: int | None) -> Work | None:
    """All passes of a run; None where the data decide how many steps it takes.

    Parameters
    ----------
    promised, budget
        Memory of this run and bytes of it for survivors, as of `Selector.fitted`.
    """
    tally, asked = Tally.of(run, budget), run.selector
    if isinstance(asked, AbstractElimination):
        return _eliminated(run, asked, tally)
    if isinstance(asked, FOHSIC):
        return _joined(run, asked, tally, is_thin=promised.landmarks > 0)
    return _at_once(run, asked, tally) if isinstance(asked, OnePass) else None


def _eliminated(run: SelectionRun, asked: AbstractElimination, tally: Tally) -> Work:
    kernel, plan = resolve_kernel(asked.kernel), asked.engines(run, asked.approx)
    exact = ExactRounds(
        tally,
        kernel,
        in_double=str(asked.dtype) == "float64",
        by_definition=asked.approx == "direct" or run.groups is not None,
    )
    thin = LowRankRounds(tally, kernel, plan.may_square) if plan.begins_thin else None
    is_thin = thin is not None
    (thin or exact).measure()
    sizes, before = _sizes(run, asked, tally), tally.n_features
    for number, n in enumerate(sizes, 1):
        tally.number, tally.n = number, n
        gone, before = before - tally.n_features, tally.n_features
        if is_thin and plan.may_square and _prefers_exact(tally, eager=plan.eager):
            is_thin = False
            exact.begin()
            gone = 0
        if is_thin and thin is not None:
            thin.round(gone)
        else:
            exact.round(gone)
    assumed = [OPEN] if plan.begins_thin else []
    if not kernel.is_additive and kernel.exact_order is None and run.groups is None:
        assumed.append(SERIES)
    if isinstance(asked, SVMRFE):
        assumed.append(MACHINES)
    return _work(run, tally, sizes, assumed, is_timed=has_series(kernel))


def _prefers_exact(tally: Tally, *, eager: bool) -> bool:
    """As `dhsic.passes.lowrank.LowRankScorer` decides."""
    n = tally.n_features
    return n <= FEW_FEATURES or (eager and flops_of_round(tally.m, n) <= CHEAP)


def _joined(run: SelectionRun, asked: FOHSIC, tally: Tally, *, is_thin: bool) -> Work:
    kernel = resolve_kernel(asked.kernel)
    joining = ForwardRounds(tally, kernel, is_thin=is_thin)
    joining.measure()
    sizes = _sizes(run, asked, tally)
    for number, n in enumerate(sizes, 1):
        gone = tally.n_features
        tally.number, tally.n = number, n
        joining.round(gone - tally.n_features)
    timed = has_series(kernel) and run.groups is None and asked.strategy == "forward"
    return _work(run, tally, sizes, [] if kernel.is_additive else [JOINED], is_timed=timed)


def _at_once(run: SelectionRun, asked: OnePass, tally: Tally) -> Work:
    tally.over("score")
    criterion = asked.resolved()
    sizes = [run.source.n_features]
    return _work(run, tally, sizes, [], is_timed=not criterion.has_bandwidth)


def _sizes(run: SelectionRun, asked: KernelSelector[Any], tally: Tally) -> list[int]:
    return asked.ahead(run, begin(np.arange(tally.n, dtype=np.int64)))


def _work(
    run: SelectionRun, tally: Tally, sizes: list[int], assumed: list[str], *, is_timed: bool
) -> Work:
    known = [VARY, *assumed]
    if not is_timed:
        known.append(UNTIMED)
    if np.dtype(run.source.dtype).itemsize == 1 and isinstance(run.selector, KernelSelector):
        known.append(PACKED)
    kept = _kept(tally.keeper.moves, run)
    return Work(tuple(tally.passes), tuple(sizes), kept, tuple(known), is_timed)


def _kept(moves: list[Move], run: SelectionRun) -> str:
    """Where features are kept on the way, in words."""
    if not moves:
        return "stay in memory" if run.source.in_memory else "are read where they are stored"
    largest: dict[str, Move] = {}
    for move in moves:
        largest.setdefault(move.place.value, move)
    return ", then ".join(
        f"in {place}: {move.n_features:,} in {human(move.n_bytes)}"
        for place, move in largest.items()
    )


#: Passes of a round by a series: part of the features, products of each, in float64.
STEPS = ((1.0, 1.0, False), (0.2, 2.0, False), (0.05, 4.0, True))
#: Part of the features that an exact expansion in float32 leaves to one in float64.
LEFT = 0.05
#: Products of a feature where it is settled at once.
AT_ONCE = 3.0
#: Time of a round in this process, in functions of the entries of an (m, m) matrix: K, W o K, their
#: sums and norms, copies.
DRIVING = 8.0


def form_flops(m: int) -> float:
    """Flops of a quadratic form x' A x, with one triangle of A."""
    return float(m * (m + PANEL))


def state_bytes(m: int, n_bases: int, itemsize: int) -> int:
    """Bytes of ``A = W o base`` for every base, one triangle each, as workers get them."""
    return int(n_bases * itemsize * (m * (m + PANEL) // 2 + m))


@dataclass
class ExactRounds:
    """Rounds of Algorithm 1 by the exact engine.

    Attributes
    ----------
    tally : Tally
        Where passes are written down.
    kernel : AbstractKernel
        On the data.
    in_double : bool
        All products in float64.
    by_definition : bool
        Scored by the direct engine alone.
    """

    tally: Tally
    kernel: AbstractKernel
    in_double: bool = False
    by_definition: bool = False
    base: int = 0

    def measure(self) -> None:
        """The first pass: scaling, and the statistic unless the kernel is linear."""
        tally = self.tally
        self.base = tally.n_features
        squares = 0.0 if self.kernel.is_additive else float(tally.m) ** 2
        tally.measure(float64=squares * tally.n_features, each=round(8 * squares))

    def begin(self) -> None:
        """An epoch: survivors are kept apart, their statistic is summed anew."""
        tally = self.tally
        self.base = tally.n_features
        tally.compact()
        self._sum(1.0, tally.n_features)

    def round(self, n_gone: int) -> None:
        """One round, before which `n_gone` features left."""
        tally = self.tally
        if self.kernel.is_additive:
            if tally.number == 1:
                self._score(1.0, 1.0, in_double=True)
            return
        if n_gone and tally.n_features * EPOCH <= self.base:
            self.begin()
        elif n_gone:
            self._take_away(n_gone)
        tally.prepare(DRIVING * tally.m**2)
        for share, products, in_double in self._steps():
            self._score(share, products, in_double=in_double)

    def _take_away(self, n_gone: int) -> None:
        """What left is read once more, from where it is kept."""
        tally, flops = self.tally, float(self.tally.m) ** 2 * n_gone
        share = n_gone / tally.n_features
        if n_gone > FEW:
            self._sum(share, n_gone)
            return
        tally.over("statistic", share, result_bytes=8 * tally.m * n_gone)  # the features themselves
        tally.prepare(float64=flops)

    def _sum(self, share: float, n: int) -> None:
        """The statistic of n features."""
        tally, square = self.tally, self.tally.m**2
        tally.over("statistic", share, sums=True, float64=float(square) * n, each=8 * square)

    def _steps(self) -> tuple[tuple[float, float, bool], ...]:
        """Passes: part of the features, products of each, whether in float64."""
        exact = self.kernel.exact_order
        if self.by_definition or not has_series(self.kernel):
            return ((1.0, DIRECT_COST, False),)
        if self.tally.n_features <= FEW_FEATURES or self.in_double:
            return ((1.0, float(exact or AT_ONCE), True),)
        if exact is not None:
            return ((1.0, float(exact), False), (LEFT, float(exact), True))
        return STEPS

    def _score(self, share: float, products: float, *, in_double: bool) -> None:
        tally = self.tally
        n = max(1, round(share * tally.n_features))
        flops = form_flops(tally.m) * products * n
        if self.by_definition:  # of groups, each of which is a candidate
            flops *= tally.n / tally.n_features
        n_bases = 1 if self.kernel.exact_order is None else self.kernel.exact_order
        size = state_bytes(tally.m, n_bases, np.dtype("f8" if in_double else "f4").itemsize)
        if in_double:
            tally.over("score", share, float64=flops, state_bytes=size)
        else:
            tally.over("score", share, float32=flops, state_bytes=size)


#: Directions of a factor and of what is broadcast, as they turn out: with the landmarks that a run
#: begins with, and with as many as it may have; and at most, for their size.
RANK, HIGHER_RANK, MOST_DIRECTIONS = 12, 32, 128
#: Entries of (b, m) matrices that a round takes in this process to factor and certify, over b m.
DRIVING_THIN = 30.0
#: Time of scoring a value in low rank, and that for each direction, and of measuring one, over that
#: of standardising it; and entries of matrices for each value of the sample.
SCORING, DIRECTION, MEASURING, CERTIFYING = 2.0, 0.17, 9.0, 5.0
#: Part of the features next to the cut, which are scored exactly where K is known.
BAND = 0.1


@dataclass
class LowRankRounds:
    """Rounds of Algorithm 1 in low rank."""

    tally: Tally
    kernel: AbstractKernel
    may_square: bool
    base: int = 0
    sampled: float = 0.0

    @property
    def n_rows(self) -> int:
        """Landmarks and check rows; all samples where those are most."""
        m = self.tally.m
        rows = first_number(m) + check_number(m)
        return m if 2 * rows > m else rows

    @property
    def knows_all(self) -> bool:
        """Every sample is a landmark from the start."""
        return self.n_rows == self.tally.m

    @property
    def most_rows(self) -> int:
        """The same of a run that has doubled its landmarks as often as it may."""
        m, more = self.tally.m, first_number(self.tally.m)
        if self.may_square or self.knows_all:
            return self.n_rows
        while 2 * more <= most_number(m) and 2 * (2 * more + check_number(m)) <= m:
            more *= 2
        return more + check_number(m)

    def _sums_bytes(self, n_rows: int) -> int:
        """Bytes of inner products of landmarks and samples, and of the norms of these."""
        return 8 * self.tally.m * (n_rows + 1)

    def _sum(self, share: float, n_rows: int, *, is_open: bool = False) -> None:
        """The statistic of a part of the features against so many rows."""
        tally = self.tally
        flops = 2.0 * n_rows * tally.m * tally.n_features * share
        each = self._sums_bytes(n_rows)
        tally.over("statistic", share, sums=True, float32=flops, each=each, is_open=is_open)

    def measure(self) -> None:
        """The first pass: scaling, and the statistic against landmarks."""
        tally = self.tally
        self.base = tally.n_features
        flops = 2.0 * self.n_rows * tally.m * tally.n_features
        values = MEASURING * tally.m * tally.n_features
        each = 0 if self.knows_all else self._sums_bytes(self.n_rows)
        tally.measure(float32=flops, values=values, each=each)
        if self.knows_all and not self.kernel.is_additive:
            self._sum_all(1.0, is_open=False)

    def round(self, n_gone: int) -> None:
        """One round, before which `n_gone` features left."""
        tally = self.tally
        if self.kernel.is_additive:
            if tally.number == 1:
                self._score()
            return
        self._move(n_gone)
        tally.prepare(DRIVING_THIN * tally.m * self.n_rows)
        if self.most_rows > self.n_rows:
            tally.prepare(DRIVING_THIN * tally.m * (self.most_rows - self.n_rows), is_open=True)
        self._sample()
        self._score()
        self._to_the_tolerance()

    def _move(self, n_gone: int) -> None:
        """The statistic moves on to the features that are left."""
        tally = self.tally
        if not n_gone:
            return
        if tally.n_features * landmarks.EPOCH <= self.base:
            tally.compact(thinned=True)
            self.base = tally.n_features
            self._sum(1.0, self.n_rows)
            self._sum_more(1.0)
            return
        share = n_gone / tally.n_features
        self._sum(share, self.n_rows)
        self._sum_more(share)
        if self.may_square and not self.knows_all:
            self._sum_all(share, is_open=True)
        tally.compact(thinned=True)

    def _sum_more(self, share: float) -> None:
        """What comes on top where there are as many landmarks as there may be."""
        more = self.most_rows - self.n_rows
        if more:
            self._sum(share, more, is_open=True)

    def _sum_all(self, share: float, *, is_open: bool) -> None:
        """K of all samples, for a part of the features."""
        tally = self.tally
        flops = float(tally.m) ** 2 * tally.n_features * share
        triangle = 4 * tally.m * (tally.m + 1)
        tally.over("statistic", share, sums=True, float32=flops, each=triangle, is_open=is_open)

    def _sample(self) -> None:
        """The sample of the certificate, drawn anew whenever half of the features are left."""
        tally = self.tally
        size = min(tally.n_features, max(SAMPLE_FEWEST, sample_size(tally.m)))
        share = size / tally.n_features
        flops = 2.0 * check_number(tally.m) * tally.m * size
        if tally.n_features <= self.sampled / 2 or not self.sampled:
            self.sampled = tally.n_features
            tally.over("sample", share, float32=flops, result_bytes=4 * tally.m * size)
        tally.prepare(CERTIFYING * tally.m * size)

    def _score(self) -> None:
        tally, m = self.tally, self.tally.m
        values = float(m) * tally.n_features
        tally.over(
            "score",
            float32=2.0 * RANK * values,
            values=(SCORING + DIRECTION * RANK) * values,
            state_bytes=4 * MOST_DIRECTIONS * m,
            sent_bytes=4 * RANK * m,
        )
        if self.most_rows > self.n_rows:
            more = HIGHER_RANK - RANK
            tally.over(
                "score", float32=2.0 * more * values, values=DIRECTION * more * values, is_open=True
            )

    def _to_the_tolerance(self) -> None:
        """What the certificate may ask for."""
        tally, m = self.tally, self.tally.m
        is_open = not self.knows_all
        if self.may_square:
            if tally.number == 1 and is_open:
                self._sum_all(1.0, is_open=True)
            n = BAND * tally.n_features
            tally.over("score", BAND, float32=form_flops(m) * n, is_open=is_open)
            tally.prepare(DRIVING * m**2, is_open=is_open)
        elif tally.number == 1:
            more = 2 * first_number(m)
            while more + check_number(m) <= self.most_rows:
                self._sum(1.0, more + check_number(m), is_open=True)
                more *= 2


#: Products of a candidate; with few features chosen sigma is large and the series long.
PRODUCTS = 4.0


@dataclass
class ForwardRounds:
    """Rounds of Algorithm 2."""

    tally: Tally
    kernel: AbstractKernel
    is_thin: bool

    def measure(self) -> None:
        """The first pass: scaling alone, for no feature is chosen."""
        self.tally.measure()

    def round(self, n_joined: int) -> None:
        """One round, before which `n_joined` features were chosen."""
        tally, m = self.tally, self.tally.m
        rows = LANDMARKS if self.is_thin else m
        if n_joined:
            flops = (2.0 if self.is_thin else 1.0) * rows * m * n_joined
            share = n_joined / tally.n_features
            tally.over("statistic", share, sums=n_joined > FEW_CHOSEN, float64=flops)
        if self.kernel.is_additive and tally.number > 1:
            return
        if self.is_thin:
            tally.prepare(DRIVING_THIN * rows * m)
            flops = PRODUCTS * 2.0 * RANK * m * tally.n_features
            tally.over("score", float32=flops, state_bytes=4 * MOST_DIRECTIONS * m)
            return
        tally.prepare(DRIVING * m**2)
        products = 1.0 if self.kernel.is_additive else PRODUCTS
        flops = form_flops(m) * products * tally.n_features
        tally.over("score", float32=flops, state_bytes=state_bytes(m, 1, 4))
