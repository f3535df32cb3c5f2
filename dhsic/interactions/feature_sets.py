"""Sets of features to test in pairs: names, a file of names, positions or a mask."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np

from dhsic._typing import Index
from dhsic.errors import InputError
from dhsic.independence import positions_of
from dhsic.joins.id_lists import features_listed
from dhsic.joins.labels import Labelled
from dhsic.sources.views import described, stored_positions, whole_of
from dhsic.validation import as_array


def feature_sets(first: Any, second: Any, given: Labelled) -> tuple[Index | None, Index | None]:
    """Positions of two sets of features to test in pairs; both are None for all pairs.

    Raises
    ------
    InputError
        A set has no feature that the filters keep, or `second` is passed with an environment.
    """
    if second is not None and given.environment is not None:
        raise InputError(
            "environment= tests each feature with columns that are not features, so there is no "
            "second set of features. Leave out second=, or environment=."
        )
    among, partners = _features("first", first, given), _features("second", second, given)
    if given.environment is None and (among is None) != (partners is None):
        everyone = np.arange(given.source.n_features)
        among = everyone if among is None else among
        partners = everyone if partners is None else partners
    return among, partners


def _features(name: str, features: Any, given: Labelled) -> Index | None:
    """Positions in the source of a set of features, ascending; None if it is not passed."""
    if features is None:
        return None
    whole, stored = whole_of(given.source), stored_positions(given.source)
    if isinstance(features, str | PathLike) or as_array(features, name).dtype.kind in "OSUT":
        chosen = np.flatnonzero(features_listed(features, name, described(whole)))
    else:
        chosen = positions_of(as_array(features, name), whole.n_features, name)
    here: Index = np.flatnonzero(np.isin(stored, chosen))
    if not here.size:
        n = chosen.size
        which = f"all {n:,} features" if n > 1 else "the only feature"
        raise InputError(
            f"The filters exclude {which} of {name}=, so there are no pairs. "
            f"Pass other features as {name}=, or fewer filters."
        )
    return here
