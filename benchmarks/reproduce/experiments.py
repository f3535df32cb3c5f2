"""The experiments: which sets, methods, folds, judges, and numbers of features."""

import warnings
from dataclasses import dataclass, replace

from . import judges, protocols
from .judges import Judge
from .methods import DEFAULT
from .sets import (
    CCM,
    CLASSES,
    DATAMICROARRAY,
    GENOTYPES,
    MADE,
    MICROARRAY,
    SCIKIT_FEATURE,
    TABLE_1,
)

#: Features that a method is asked for, at most.
MOST = 100


@dataclass(frozen=True)
class Folds:
    """Stratified folds, drawn so many times."""

    number: int
    repeats: int = 1

    def of(self, data):
        """(training samples, test samples) of every fold."""
        from sklearn.model_selection import KFold, StratifiedKFold

        kind = KFold if data.is_real else StratifiedKFold
        for seed in range(self.repeats):
            folds = kind(self.number, shuffle=True, random_state=seed)
            with warnings.catch_warnings():
                # Of classes with fewer samples than folds.
                warnings.filterwarnings("ignore", "The least populated class", UserWarning)
                yield from folds.split(data.X, data.y)

    @property
    def total(self):
        return self.number * self.repeats


@dataclass(frozen=True)
class Experiment:
    """What is compared on what.

    Attributes
    ----------
    title : str
        For people.
    sets, methods : tuple of str
        Names in `SETS` and `METHODS`.
    folds : Folds
        Of every set.
    judges : tuple of Judge
        Whose scores are told.
    counts : tuple of int
        Numbers of features; of a set with fewer, those below its own, and all its features if
        there are none.
    wanted : int
        Features that a method is asked for; of a set with fewer, all.
    most_samples : int or None
        Of a larger set so many at random.
    before : bool
        Features are ranked on all samples, before the folds: optimistic, as CCM 6.2 did.
    on_all : tuple of (str, Judge)
        Methods that predict from all features, with what judges them.
    """

    title: str
    sets: tuple[str, ...]
    methods: tuple[str, ...]
    folds: Folds
    judges: tuple[Judge, ...]
    counts: tuple[int, ...]
    wanted: int = MOST
    most_samples: int | None = None
    before: bool = False
    on_all: tuple[tuple[str, Judge], ...] = ()

    def counts_of(self, d):
        return [k for k in self.counts if k < d] or [d]

    def tasks_of(self, method, d):
        """Features asked for, and the judges with their counts."""
        by_itself = dict(self.on_all).get(method)
        if by_itself:
            return d, [(by_itself, [d])]
        counts = self.counts_of(d)
        asked = [(judge, counts) for judge in self.judges if judge is not judges.REDUNDANCY]
        redundant = [k for k in counts if k == 50]
        if judges.REDUNDANCY in self.judges and redundant:
            asked.append((judges.REDUNDANCY, redundant))
        return min(self.wanted, d), asked

    @property
    def all_methods(self):
        return (*self.methods, *(name for name, _ in self.on_all))


RIDGES = ("ridge 1", "ridge 3", "ridge 10", "ridge 30", "ridge 100")
OURS = (
    *(DEFAULT, "BAHSIC", *RIDGES, "BAHSIC to 200, then ridge 10", "BAHSIC to 500, then ridge 10"),
    *("ranks of BAHSIC and ridge 10", "HSIC less redundancy", "HSIC of one feature"),
    *("BAHSIC, median width", "BAHSIC, step 0.5", "BAHSIC, polynomial", "BAHSIC, Laplace L1"),
    "Laplace L1, then ridge",
    *("linear HSIC", "FOHSIC", "CCM"),
)
RIVALS = (
    *("F test", "mutual information", "mRMR", "RFE", "L1", "trees", "Boruta", "ReliefF"),
    *("MultiSURF", "HSIC Lasso", "fastcan"),
)
OF_TABLE_1 = ("BAHSIC", "FOHSIC", "Pearson", "mutual information", "RFE", "ReliefF")
OF_TABLE_3 = (
    *("Pearson", "signal to noise", "shrunken centroid", "t", "moderated t", "B", "linear HSIC"),
    *("BAHSIC", "BAHSIC, inverse distance", "SVM-RFE (dhsic)", "ridge 3"),
)
_BY_GENOTYPES = (
    *("F test", "F test, clumped", "L1", "mRMR", "HSIC Lasso", "fastcan", DEFAULT),
    *("BAHSIC", "BAHSIC, as dosages", "linear HSIC", *RIDGES[2:]),
    *("ridge 1, standardised", "ridge 100, standardised"),
)
#: Numbers of features of JMLR Figure 3 and CCM Figure 2.
FIGURE_3 = (*range(1, 9), 10, 12, 15, 20, 25, 30, 40, 50)
FIGURE_2 = (*range(1, 5), *range(5, 101, 5))

EXPERIMENTS = {
    "classes": Experiment(
        "Classes: dhsic and what a user would pick instead",
        CLASSES,
        OURS + RIVALS,
        Folds(5),
        (judges.LINEAR, judges.GAUSSIAN, judges.REDUNDANCY),
        (5, 10, 50, 100),
        most_samples=1000,
    ),
    "genotypes": Experiment(
        "Genotypes with real traits",
        tuple(GENOTYPES),
        _BY_GENOTYPES,
        Folds(5, 2),
        (judges.RIDGE,),
        (10, 50, 200),
        wanted=200,
        on_all=(("ridge on all", judges.RIDGE), ("lasso on all", judges.LASSO)),
    ),
    "table1": Experiment(
        "JMLR Table 1",
        TABLE_1,
        OF_TABLE_1,
        Folds(10),
        (judges.JMLR,),
        (5,),
    ),
    "figure3": Experiment(
        "JMLR Figure 3",
        (
            *("covertype", "ionosphere", "sonar", "satimage", "segment", "vehicle"),
            *("housing", "bodyfat", "abalone"),
        ),
        OF_TABLE_1,
        Folds(10),
        (judges.JMLR,),
        FIGURE_3,
    ),
    "tables3and4": Experiment(
        "JMLR Tables 3 and 4",
        tuple(MICROARRAY),
        OF_TABLE_3,
        Folds(10),
        (judges.TUNED,),
        (10,),
    ),
    "ccm": Experiment(
        "CCM Figure 2, features ranked before the folds as there",
        (*CCM, "TOX-171"),
        ("CCM", "BAHSIC", "mutual information", "mRMR, three levels"),
        Folds(5),
        (judges.GAUSSIAN,),
        FIGURE_2,
        before=True,
    ),
}

#: On sets that took no part when dhsic was built. Of three, which are texts, it was seen how
#: features that are mostly one value are to be scaled, of all that a penalty may follow from noise.
EXPERIMENTS["unseen"] = replace(
    EXPERIMENTS["classes"],
    title="Classes of ten sets more",
    sets=tuple(SCIKIT_FEATURE),
    methods=(
        *(DEFAULT, "BAHSIC", "L1", "HSIC Lasso", "RFE", "F test", "ReliefF"),
        *("mutual information", "mRMR", "trees"),
    ),
)
EXPERIMENTS["all-classes"] = replace(
    EXPERIMENTS["unseen"],
    title="Classes of all sets",
    sets=(*CLASSES, *SCIKIT_FEATURE),
    methods=EXPERIMENTS["unseen"].methods[:-1],
)
#: On sets that were read when all was decided.
EXPERIMENTS["after"] = replace(
    EXPERIMENTS["unseen"],
    title="Classes of twelve microarrays that were looked at last",
    sets=tuple(DATAMICROARRAY),
)
EXPERIMENTS["ccm-inside"] = replace(
    EXPERIMENTS["ccm"],
    title="CCM Figure 2, features ranked inside the folds",
    before=False,
)

#: Data are drawn anew for every number of samples and run.
DRAWN = {
    "figure2": replace(protocols.JMLR, runs=100),
    "figure1": replace(protocols.CCM, runs=100),
}

#: What a quick run takes of them: small sets, and not every variant.
QUICK_SETS = {
    "classes": ("wine", "sonar", "ionosphere", "heart", "breast", "colon", "lymphoma"),
    "genotypes": ("wheat 1",),
    "table1": ("ionosphere", "sonar", "heart", "wine", "hepatitis", "spectf", "housing"),
    "figure3": ("ionosphere", "sonar"),
    "tables3and4": ("colon", "lymphoma"),
    "ccm": ("glass", "wine"),
    "ccm-inside": ("glass", "wine"),
    "unseen": ("lung_small",),
    "after": ("sorlie",),
    "all-classes": ("wine", "lung_small"),
}
LEFT_OUT = (
    *("Boruta", "MultiSURF", "BAHSIC, Laplace L1", "BAHSIC, step 0.5", "ridge 30"),
    *("BAHSIC to 500, then ridge 10", "ridge 1, standardised", "ridge 100, standardised"),
)


def planned(*, quick, has_data):
    """The experiments of a run by name; without real data those on sets that are made here."""
    chosen = EXPERIMENTS
    if not has_data:
        chosen = {"classes": replace(chosen["classes"], sets=tuple(MADE))}
    if not quick:
        return {**DRAWN, **chosen}
    drawn = {name: one.quick() for name, one in DRAWN.items()}
    return drawn | {
        name: replace(
            one,
            sets=QUICK_SETS[name] if has_data else one.sets,
            methods=tuple(method for method in one.methods if method not in LEFT_OUT),
            folds=replace(one.folds, repeats=1),
        )
        for name, one in chosen.items()
    }
