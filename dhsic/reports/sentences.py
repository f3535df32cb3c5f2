"""Sentences about a run: how its features were ranked, and the cost of approximation."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from dhsic.algorithms.ridge import compared
from dhsic.engines.refine import in_low_rank, is_lazy
from dhsic.results.views import LEVEL, inflation_sentence
from dhsic.selection.loci import LOCUS, loci_table
from dhsic.selection.shapes import STRICT
from dhsic.selection.stages import STAGES
from dhsic.sources.variants import chromosome_names

#: Genomic inflation (lambda) above which p-values are doubtful (a polygenic trait with long-range
#: linkage has smaller values); standard deviation of lambda times the root of the number of
#: features; minimum number of features for which lambda is reported.
INFLATED, DEVIATION, ENOUGH = 1.5, 2.34, 100
#: Minimum number of small q-values for a sentence on their chromosomes.
MANY_HITS = 3
#: Expected losses below this are reported as "less than".
LEAST_TOLD = 0.01
#: Maximum number of constant features that are named.
MOST_NAMED = 3
#: Maximum number of lead variants of loci that are listed.
MOST_LEADS = 5


def _real(result: xr.Dataset) -> Iterator[str]:
    """If features were tested, report the number of small q-values and genomic inflation."""
    if "q" in result:
        n, n_held_out = int((result["q"] <= LEVEL).sum()), result.attrs.get("n_held_out")
        has, of = "has" if n == 1 else "have", f"{result.sizes['features']:,} features"
        if n_held_out is not None:
            n_tested = int(result.attrs["n_selected"])
            of = f"the {n_tested:,} selected features"
            has = f"{has}, on the {n_held_out:,} held-out samples,"
        is_sure = n * LEVEL >= 1 and not _is_inflated(result)
        false = f": about one in {1 / LEVEL:.0f} of these is false" if is_sure else ""
        yield f"{n:,} of {of} {has} q <= {LEVEL:g}{false}."
    yield from _inflation(result)


def _constant(result: xr.Dataset) -> Iterator[str]:
    """Report the number of constant features, with the names of the first ones."""
    n = int(result.attrs.get("n_constant", 0))
    if not n:
        return
    names = result["feature" if "feature" in result.coords else "features"].to_numpy()
    first = names[result["constant"].to_numpy()][:MOST_NAMED] if "constant" in result else ()
    more = ", ..." if n > len(first) else ""
    listed = f" ({', '.join(map(str, first))}{more})" if len(first) else ""
    n_empty = int(result.attrs.get("n_wholly_missing", 0))
    n_alike = n - n_empty
    alike = (
        f"{'is' if n_alike == 1 else 'are'} constant in these samples, apart from missing values"
    )
    empty = f"{'has' if n_empty == 1 else 'have'} no value in any sample"
    what = alike if n_alike else empty
    if n_alike and n_empty:
        what = f"do not vary ({n_alike:,} {alike}; {n_empty:,} {empty})"
    yield (
        f"{n:,} of {int(result.attrs['n_features']):,} features{listed} {what}, and cannot be "
        "ranked."
    )


def _varying(result: xr.Dataset) -> int:
    return int(result.attrs["n_features"]) - int(result.attrs.get("n_constant", 0))


def _is_inflated(result: xr.Dataset) -> bool:
    """Whether genomic inflation (lambda) exceeds `INFLATED` by over two standard deviations."""
    chance = 2 * DEVIATION / max(1, _varying(result)) ** 0.5
    return bool(result.attrs.get("inflation", 1.0) > INFLATED + chance)


def took_loco(result: xr.Dataset) -> bool:
    """Whether tests used residuals of a prediction by all other chromosomes (``--loco``)."""
    return bool(json.loads(result.attrs.get("parameters", "{}")).get("loco", False))


def _inflation(result: xr.Dataset) -> Iterator[str]:
    """Report genomic inflation (lambda) of the tests, with advice if it is too large."""
    if "inflation" not in result.attrs or _varying(result) < ENOUGH:
        return
    sentence = (
        f"Genomic inflation (lambda of the median p-value) is {result.attrs['inflation']:.2f}"
    )
    on_x = _hits_on_x(result)
    if not _is_inflated(result):
        yield f"{sentence}. 1 means no inflation; many small effects alone can cause up to 1.2."
        if on_x:
            yield f"{on_x}: if the labels depend on sex, pass it as a covariate (--covariates)."
        return
    what = "--covariates (donors, batches)"
    if "variant_contig" in result.coords:
        what = f"{'' if took_loco(result) else '--loco, or '}--covariates (dhsic pca)"
    if on_x:
        what = f"sex as one of --covariates ({on_x}), then {what}"
    half = float(np.nanmedian(result["p"]))
    yield (
        f"{sentence}; 1 means no inflation. Half of the features have p <= {half:.2g}. Either the "
        "labels depend on that many features (for example, clusters computed from the same "
        "features), or samples are similar for other reasons (relatives, populations, batches), "
        f"and p and q are too small. To correct for that, use {what}, and check that lambda "
        "decreases."
    )


def _hits_on_x(result: xr.Dataset) -> str:
    """Return a clause on small q-values on X and Y, if most of them are there; else "".

    They must also be at least twice as frequent on X and Y as on other chromosomes.
    """
    if "q" not in result or "variant_contig" not in result.coords:
        return ""
    is_hit = result["q"].to_numpy() <= LEVEL
    if is_hit.sum() < MANY_HITS:
        return ""
    codes, names = pd.factorize(result["variant_contig"].to_numpy())
    bare = chromosome_names(map(str, names))
    is_sexed = np.array([bare[str(name)] in ("X", "Y") for name in names])[codes]
    n, n_hits = int((is_hit & is_sexed).sum()), int(is_hit.sum())
    is_often = n * (~is_sexed).sum() >= 2 * (n_hits - n) * is_sexed.sum()
    if n < MANY_HITS or 2 * n <= n_hits or not is_often:
        return ""
    return f"{n:,} of the {n_hits:,} features with q <= {LEVEL:g} lie on X or Y"


def loci_sentences(result: xr.Dataset) -> Iterator[str]:
    """Report the number of loci and the first lead variants, if loci were requested."""
    if LOCUS not in result:
        return
    table = loci_table(result)
    about = [result.attrs.get(name) for name in ("loci_p", "loci_r2", "loci_kb")]
    with_p = clumped = ""
    if None not in about:  # text tables lack them
        p, r2, kb = about
        with_p, clumped = f" with p <= {p:g}", f", clumped at r2 > {r2:g} within {kb:g} kb"
    if not len(table):
        yield f"No variant{with_p}, and therefore no locus, was found."
        return
    n, more = len(table), ", ..." * (len(table) > MOST_LEADS)
    leads = [f"{row.lead} ({row.p:.2g})" for row in table[:MOST_LEADS].itertuples()]
    yield (
        f"{n:,} {'locus' if n == 1 else 'loci'} with {table['n_variants'].sum():,} variants"
        f"{with_p}{clumped}: {', '.join(leads)}{more}."
    )


def told_of_pairs(found: xr.Dataset | None) -> Iterator[str]:
    """Report the inflation of pairs from `dhsic.find_pairs`, or nothing if `found` is None."""
    if found is not None and "inflation" in found.attrs:
        yield inflation_sentence(found.attrs)


def order_of(result: xr.Dataset) -> Iterator[str]:
    """Yield sentences on how the best features were ranked."""
    yield from _number(result)
    yield from _constant(result)
    yield from _real(result)
    for stage in STAGES.values():
        yield from stage.sentences(result)
    yield from _final_ranking(result)
    yield from _in_front(result)
    yield from _marginal(result)
    yield from _blocks(result)
    yield from _matrices(result)


def _final_ranking(result: xr.Dataset) -> Iterator[str]:
    """Report whether HSIC or ridge regression gave the final ranking, and what each explains."""
    about = result.attrs
    n = about.get("given_others")
    if n is None:
        return
    alone, reranked = (_explained(about, name) for name in ("alone", "given_others"))
    if {"control", "n_held_out"} & {*about}:  # these show better which features are real
        if n:
            among = " (including permuted copies)" if "control" in about else ""
            yield (
                f"Final ranking: the best {n:,} features{among} were re-ranked jointly by ridge "
                "regression. (--no-rerank keeps the HSIC ranking.)"
            )
        return
    if n:
        *some, last = map(str, compared(n))
        numbers = f"{', '.join(some)} and {last}" if some else last
        is_less = float(about["explained_given_others"]) < float(about["explained_alone"])
        doubt = ", which is not clearly more" if is_less else ""
        yield (
            f"Final ranking: the best {n:,} features were re-ranked jointly by ridge regression. "
            f"The first features (mean over the first {numbers}) explain {reranked} of the labels' "
            f"variance in cross-validation; ranked by HSIC alone, they explain {alone}{doubt}. "
            "(--no-rerank keeps the ranking by HSIC.)"
        )
    else:
        yield (
            f"Final ranking: by HSIC. The first features explain {alone} of the labels' variance "
            f"in cross-validation; ranked by joint ridge regression, they explain {reranked}. "
            "(--rerank uses that ranking.)"
        )
    if not {"q", "stability_threshold", "control"} & {*result, *about}:
        yield (
            "On new samples these percentages would be lower, because the features were chosen "
            "with all samples. To see which features are real, use dhsic test, --holdout or "
            "--stability."
        )


def _in_front(result: xr.Dataset) -> Iterator[str]:
    """Report features that the marginal test moved to the front of the ranking."""
    about = result.attrs
    n = about.get("n_in_front", 0)
    if not n:
        return
    features = f"{n:,} {'feature' if n == 1 else 'features'}"
    if about["in_front_by"] == "significance alone":
        yield (
            f"{features} that the ranking had missed moved ahead of all features that are not "
            "significant when tested alone. Tested alone, the family-wise p-value of the moved "
            f"{'feature' if n == 1 else 'features'} is at most {STRICT:g}. (--no-rerank skips "
            "this step.)"
        )
        return
    ways = {
        "missed features": (
            f"{features} that the ranking had missed moved to the front: linear effects of the top "
            f"features do not explain how the labels depend on {'it' if n == 1 else 'them'}"
        ),
        "forward steps": (
            f"The first {features} were chosen one after the other, each for what it adds "
            "(linearly or not) to the features before it"
        ),
    }
    is_less = about["explained_with_front"] < about["explained_without_front"]
    doubt = ", which is not clearly more" if is_less else ""
    yield (
        f"{ways[about['in_front_by']]}. With nonlinear effects, the first features explain "
        f"{_explained(about, 'with_front')} of the labels' variance in cross-validation, and "
        f"{_explained(about, 'without_front')} without this step{doubt}. (--no-rerank skips it.)"
    )


def _marginal(result: xr.Dataset) -> Iterator[str]:
    """Report the number of features that depend on the labels in the marginal tests."""
    if "q_marginal" in result and "q" not in result:
        q = result["q_marginal"].to_numpy()
        n, n_tested = int((q <= LEVEL).sum()), int(np.isfinite(q).sum())
        if n == 0:
            yield (
                f"None of {n_tested:,} features has q_marginal <= {LEVEL:g}: tested alone, none "
                "depends on the labels beyond chance."
            )
            return
        has, them = ("has", "it") if n == 1 else ("have", "each of them")
        yield (
            f"{n:,} of {n_tested:,} features {has} q_marginal <= {LEVEL:g}: the labels depend on "
            f"{them}, tested alone."
        )
    elif "marginal_test_skipped" in result.attrs:
        reason = str(result.attrs["marginal_test_skipped"]).rstrip(".")
        yield f"Features were not tested alone: {reason}."


def _blocks(result: xr.Dataset) -> Iterator[str]:
    """Report which parts of a result account for blocks of samples, and which do not."""
    if "blocks" in result.attrs and "p_marginal" in result:
        yield (
            "p_marginal and q_marginal account for the blocks of samples. The ranking treats "
            "samples as independent, and there was no search for pairs or for features that the "
            "ranking missed."
        )


def _matrices(result: xr.Dataset) -> Iterator[str]:
    """Report the best feature of each of several matrices, and their weights in the kernel."""
    if "rank_in_block" not in result or result["rank"].ndim > 1:
        return
    names = result["feature" if "feature" in result.coords else "features"].to_numpy()
    blocks, ranks = result["block"].to_numpy(), result["rank"].to_numpy()
    first = np.flatnonzero(result["rank_in_block"].to_numpy() == 1)
    first = first[np.argsort(ranks[first])]
    best = ", ".join(f"{blocks[j]}: {names[j]} (rank {ranks[j]:,})" for j in first)
    yield f"Best feature of each matrix: {best}."
    shares = result.attrs.get("block_share", "{}")
    shares = json.loads(shares) if isinstance(shares, str) else shares
    if not shares:
        return
    if json.loads(result.attrs["parameters"]).get("balance"):
        yield (
            f"Balance: each of the {len(shares)} matrices has the same share of the kernel. This "
            "affects which features are re-ranked. The re-ranking itself compares all of these "
            "features on one scale."
        )
        return
    name = max(shares, key=shares.__getitem__)
    others = [f"{other} {share:.1%}" for other, share in shares.items() if other != name]
    n = int((blocks == name).sum())
    yield (
        f"{name} dominates the kernel: its {n:,} features have {shares[name]:.1%} of the mean "
        f"squared distance of samples ({', '.join(others)}). (--balance gives every matrix the "
        "same share.)"
    )


def _explained(about: Mapping[str, Any], name: str) -> str:
    """Format the attribute ``explained_{name}``, a share of the labels' variance, in percent."""
    return f"{max(0.0, float(about[f'explained_{name}'])):.0%}"


def _number(result: xr.Dataset) -> Iterator[str]:
    """Report the number of features that cross-validation chose, if it was used."""
    if "cv_results" not in result.attrs:
        return
    cv_results, n = json.loads(result.attrs["cv_results"]), int(result.attrs["cv_chosen"])
    scores = dict(zip(cv_results["n_features"], cv_results["mean_test_score"], strict=True))
    best = max(scores, key=scores.__getitem__)
    yield (
        f"Cross-validation chose {n:,} features: their mean score on held-out samples is "
        f"{scores[n]:.3g}. The best score is {scores[best]:.3g}, with {best:,} features (all "
        "scores are in cv_results)."
    )


def doubts_of(result: xr.Dataset, costs: Mapping[str, Any]) -> Iterator[str]:
    """Yield sentences on features lost by approximate rounds, and on unstable rankings."""
    n_selected = int(result.attrs["n_selected"])
    if not n_selected:
        return
    rounds_by_way = (
        ("kernels were approximated in low rank", costs["rounds_in_low_rank"]),
        ("scores were reused", costs["rounds_kept"]),
    )
    if ways := " and ".join(
        f"{way} in {n:,} {'round' if n == 1 else 'rounds'}" for way, n in rounds_by_way if n
    ):
        start = f"Approximation: {ways}."
        if costs["expected_lost"] is None:  # the method adds features
            most = f"{costs['largest_cut_error']:.2%}"
            yield (
                f"{start} In each round, the estimated fraction of wrong features among those "
                f"added is at most {most}."
            )
        else:
            known_lost, most_lost = costs["expected_lost"], costs["most_lost"]
            few = f"{known_lost:.2g}" if known_lost >= LEAST_TOLD else f"less than {LEAST_TOLD}"
            lost = f"{few} of the {n_selected:,} features"
            is_exact = known_lost < LEAST_TOLD and not most_lost
            yield f"{start} " + (
                f"An exact run would be expected to select the same {n_selected:,} features."
                if is_exact
                else f"It is expected to have lost {lost} that an exact run would select; with a "
                f"probability of 90%, at most {most_lost:,}."
            )
    n = costs["turn_rank"]
    if n and n > result.attrs.get("given_others", 0):  # beyond the re-ranked features
        yield (
            f"The selection may depend on a few samples: when {n:,} features were left, the "
            f"scoring of features changed strongly. To check the {n_selected:,} selected features, "
            "use --stability 20."
        )


def costs_of(result: xr.Dataset, took: Mapping[str, Any]) -> dict[str, Any]:
    """Return costs and errors of the rounds of a result: seconds, bytes and lost features.

    Values measured by this process, `took`, replace the values of the result.
    """

    def of(name: str) -> Any:
        return result[f"round_{name}"].to_numpy() if f"round_{name}" in result else np.zeros(0)

    return {
        "rounds": int(result.sizes.get("rounds", 0)),
        "seconds": float(of("seconds").sum()),
        "bytes_read": int(of("bytes_read").sum()),
        **took,
        "promised_bytes": int(result.attrs["promised_bytes"]),
        "rounds_in_low_rank": sum(in_low_rank({"engine": e}) for e in of("engine")),
        "rounds_kept": sum(is_lazy({"engine": e}) for e in of("engine")),
        "largest_cut_error": float(max(of("cut_error"), default=0.0)),
        "expected_lost": result.attrs.get("expected_lost"),
        "most_lost": result.attrs.get("most_lost"),
        "turn_rank": result.attrs.get("turn_rank"),
    }
