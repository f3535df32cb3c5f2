"""Variables of samples in GEO files, which are in the lines above the table.

A series matrix (GSE) has one line per variable. Each field of ``!Sample_characteristics_ch1``
contains the name of a variable and its value (``tissue: liver``). A data set (GDS) has groups of
samples instead (``^SUBSET``).
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from dhsic._typing import Array
from dhsic.sources.ids import abbreviate, is_value

#: Beginning of lines about samples, and of lines about groups of samples.
SAMPLE, SUBSET = "!sample_", "!subset_"
#: Name of the line with sample names, and beginning of lines with fields ``variable: value``.
ACCESSION, CHARACTERISTICS = "geo_accession", "characteristics_ch"


def geo_samples(lines: Iterable[str], columns: Sequence[str] = ()) -> dict[str, Array]:
    r"""Return a table of samples from the lines above a GEO table: texts (m,) by variable.

    The variable geo_accession has the names of the samples. Without a line !Sample_geo_accession,
    the samples are `columns`, the names of the columns of the table. A sample without a value has
    "". The result is {} if there are no samples.

    >>> names = "!Sample_geo_accession\tGSM1\tGSM2"
    >>> lines = [names, "!Sample_characteristics_ch1\tage: 7\t"]
    >>> {name: texts.tolist() for name, texts in geo_samples(lines).items()}
    {'geo_accession': ['GSM1', 'GSM2'], 'age': ['7', '']}
    """
    about = [line.rstrip() for line in lines if line.lower().startswith((SAMPLE, SUBSET))]
    rows = [next(csv.reader([line], delimiter="\t")) for line in about]
    of_variable: dict[str, dict[str, str]] = {ACCESSION: {}}
    for variable, sample, text in (*_of_samples(rows, columns), *_of_subsets(about)):
        of_variable[ACCESSION].setdefault(sample, sample)
        of_variable.setdefault(variable, {}).setdefault(sample, text.strip())
    samples = [*of_variable[ACCESSION]]
    return {
        variable: np.array([texts.get(sample, "") for sample in samples], dtype=object)
        for variable, texts in of_variable.items()
        if samples
    }


def variables_of(samples: Array, lines: Iterable[str]) -> dict[str, Array]:
    """Return the variables of `samples` (m,) in the lines above a GEO table: texts (m,) by name.

    Variables that are only other names of the samples, such as titles and files, are left out.
    """
    about = geo_samples(lines, [*samples])
    place = {name: i for i, name in enumerate(about.pop(ACCESSION, ()))}
    at = [place.get(name, -1) for name in samples]
    return {name: np.append(about[name], "")[at] for name in about if not _are_names(about[name])}


def _are_names(texts: Array) -> bool:
    """Whether texts (m,) are other names of the samples: none is a number, and all differ."""
    return len({*texts}) == len(texts) and not any(map(is_value, texts))


def advice_on_samples(samples: Array, lines: Iterable[str]) -> str:
    """Return sentences on the variables in the lines above a GEO table; "" if there are none.

    Each sentence begins with a blank. Titles that all differ are not a variable, but a part of each
    title may name a group.
    """
    about = geo_samples(lines, [*samples])
    about.pop(ACCESSION, None)
    names = {name: texts for name, texts in about.items() if _are_names(texts)}
    variables = [repr(name) for name in about if name not in names]
    if not about:
        return ""
    lines_of = "!Sample_title, !Sample_characteristics_ch1, ..."
    advice = f" Lines above the table ({lines_of}) describe the samples."
    if variables:
        advice += f" Their variables are {abbreviate(variables, 20)}; pass one of these names."
    if names:
        name, texts = next(iter(names.items()))
        advice += (
            f" In the line !Sample_{name}, every sample has a different text ({texts[0]!r}, ...). "
            "If a part of it is a group, write a table with the columns geo_accession and group, "
            "and pass group of this table as the labels."
        )
    return advice


def _of_samples(
    rows: Sequence[Sequence[str]], columns: Sequence[str]
) -> Iterator[tuple[str, str, str]]:
    """Yield the variable, sample and text of each field of lines about samples.

    Lines with the same text for all samples are left out, except characteristics. `columns` are the
    sample names if no line contains them.
    """
    named = [(row[0][len(SAMPLE) :], row[1:]) for row in rows if row[0].lower().startswith(SAMPLE)]
    samples = next((fields for name, fields in named if name == ACCESSION), columns)
    for name, fields in named:
        of_sample = [pair for pair in zip(samples, fields, strict=False) if pair[1].strip()]
        if name.startswith(CHARACTERISTICS):
            for sample, field in of_sample:
                variable, colon, text = field.partition(":")
                yield (_called(variable, name), sample, text) if colon else (name, sample, field)
        elif len(set(fields)) > 1:
            yield from ((name, sample, text) for sample, text in of_sample)


def _called(variable: str, line: str) -> str:
    """Return the name of a characteristic; ch2 is appended if it is from the second channel."""
    channel = line.removeprefix(CHARACTERISTICS)
    return variable.strip() if channel == "1" else f"{variable.strip()} ch{channel}"


def _of_subsets(lines: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Yield variable, sample and group for each sample in the groups (^SUBSET) of a data set."""
    group: dict[str, str] = {}
    for line in lines:
        name, _, text = line.partition(" = ")
        group[name.lower()] = text
        if name.lower() == f"{SUBSET}type":
            for sample in group.get(f"{SUBSET}sample_id", "").split(","):
                yield text, sample.strip(), group.get(f"{SUBSET}description", "")
