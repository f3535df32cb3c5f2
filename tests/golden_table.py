"""The golden runs: a name for each, and how it is done by public doors alone."""

import json
from dataclasses import fields, is_dataclass

import dask.array as da
import golden_data as data
import numpy as np
import pandas as pd
import xarray as xr
from commands import run

import dhsic
from dhsic import kernels
from dhsic.results.views import rounds_of_engines

#: What a result holds that is not the same in every run, and words on how it was found.
OWN = ("seconds", "bytes", "memory", "engine", "advice")


def results(folder):
    """Pairs of a name and arrays by their names, one for each run."""
    for name, (source, options) in SELECTIONS.items():
        yield name, arrays_of(selected(source, options, folder))
    for name, call in CALLS.items():
        yield name, arrays_of(call())
    for name, call in COMMANDS.items():
        yield name, arrays_of(call(folder))
    yield from on_a_cluster(folder)


def selected(source, options, folder):
    """Result of `dhsic.select`; functions that stand for arrays make them of the data."""
    X, y = SOURCES[source](folder)
    arrays = ("target", "feature_groups", "covariates")
    made = {k: v(X) if k in arrays and callable(v) else v for k, v in options.items()}
    asked = {"n_features_to_select": 8, "progress": False} | made
    return dhsic.select(X, asked.pop("target", y), **asked)


def arrays_of(found):
    """All numbers and texts that a result holds, as arrays by name."""
    if isinstance(found, xr.Dataset):
        counts = {k: np.array(v) for k, v in found.attrs.items() if k.startswith("n_")}
        mine = [str(k) for k in found.variables if not any(word in str(k) for word in OWN)]
        inner = {f"round_{k}": v for k, v in rounds_of_engines(found).items()}
        return {k: found[k].to_numpy() for k in mine} | inner | counts
    arrays = {}
    for name, value in _parts(found).items():
        if is_dataclass(value) or isinstance(value, dict):
            arrays |= {f"{name}, {k}": each for k, each in arrays_of(value).items()}
        elif value is not None:
            texts = isinstance(value, tuple)  # names of any kind, and records of rounds
            arrays[name] = np.array([*map(_text, value)]) if texts else np.asarray(value)
    return arrays


def _parts(found):
    return {f.name: getattr(found, f.name) for f in fields(found)} if is_dataclass(found) else found


def _text(value):
    return (
        json.dumps(value, sort_keys=True, default=float) if isinstance(value, dict) else str(value)
    )


def _and_labels(make, labels=data.classes):
    """A source whose labels come of its values."""

    def both(folder):
        X = make()
        return X, labels(X)

    return both


def _in_store(kind, values, target=None):
    def both(folder):
        return data.store(folder, kind), data.classes(values()) if target is None else target

    return both


SOURCES = {
    "reals": _and_labels(data.reals),
    "three classes": _and_labels(data.reals, lambda X: data.classes(X, 3)),
    "real target": _and_labels(data.reals, data.alone_and_together),
    "gaps": _and_labels(data.gaps),
    "dosages": _and_labels(data.dosages),
    "tall": _and_labels(lambda: data.reals(300, 1500)),
    "tall, real target": _and_labels(lambda: data.reals(300, 1500), data.alone_and_together),
    "few": _and_labels(lambda: data.reals(70, 44)),
    "few, three classes": _and_labels(lambda: data.reals(70, 44), lambda X: data.classes(X, 3)),
    "few, real target": _and_labels(lambda: data.reals(70, 44), data.alone_and_together),
    "chunks": _in_store("chunks", data.gaps),
    "shards": _in_store("shards", data.gaps),
    "zarr dosages": _in_store("dosages", data.dosages),
    "wide dosages": _and_labels(lambda: data.dosages(120, 1500)),
    "wide": _in_store("wide", lambda: data.reals(60, 5200)),
    "variants": _in_store("variants", None, "sample_trait"),
    "cells": _in_store("cells", None, "leiden"),
    "frame": lambda folder: (
        pd.DataFrame(data.reals()).rename(columns="f{}".format), data.classes(data.reals())
    ),
    "dask array": lambda folder: (
        da.from_array(data.gaps(), chunks=(90, 30)), data.classes(data.gaps())
    ),
    "xarray": lambda folder: (
        xr.DataArray(data.gaps(), dims=("samples", "features")), data.classes(data.gaps())
    ),
}  # fmt: skip


def _covariates(X):
    return data.covariates(len(X))


def _groups(X):
    return data.groups(X.shape[1])


def _two_targets(X):
    return np.column_stack(
        [data.classes(X, 3), data.alone_and_together(X), data.covariates(len(X))]
    )


def _matrix(X):
    x = data.alone_and_together(X)
    return 1 / (1 + np.square(x[:, None] - x[None]))


def _signs(X):
    return 2 * data.classes(X) - 1


EXACT, LOW = {"solver": "exact"}, {"solver": "lowrank", "step": 0.3}
FORWARD = {"method": "fohsic", "n_features_to_select": 5}
SINGLE = ("pearson", "centroid", "t", "snr", "moderated-t", "b", "shrunken-centroid", "mmd", "kta",
          "qmi", "ridge")  # fmt: skip
OF_A_REAL_TARGET = ("pearson", "kta", "ridge")
KERNELS = {
    "gaussian": "gaussian",
    "linear": "linear",
    "polynomial": "polynomial",
    "cubic": kernels.Polynomial(degree=3, offset=0.5),
    "laplace": "laplace",
    "laplace-l1": "laplace-l1",
    "rational": kernels.RationalQuadratic(alpha=2.0),
    "inverse-distance": "inverse-distance",
    "ridge": "ridge",
    "kernel ridge": kernels.KernelRidge(penalty=2.0),
}

#: Name of a run: which source, and what is asked for.
SELECTIONS = {
    **{f"backward, {name}": ("reals", EXACT | {"kernel": k}) for name, k in KERNELS.items()},
    **{
        f"backward, {name}, biased": (
            "reals", EXACT | {"kernel": k, "statistic": "biased", "step": 0.3}
        )
        for name, k in KERNELS.items()
    },
    **{
        f"forward, {name}": ("reals", FORWARD | {"kernel": k})
        for name, k in KERNELS.items()
        if "ridge" not in name and name != "inverse-distance"
    },
    **{
        f"by definition, {name}": ("few", {"solver": "direct", "step": 0.5, "kernel": name})
        for name in ("gaussian", "polynomial", "laplace", "laplace-l1", "inverse-distance")
    },
    **{
        f"low rank, {name}": ("tall", LOW | {"kernel": KERNELS[name]})
        for name in ("gaussian", "linear", "polynomial", "cubic")
    },
    **{
        f"labels {name}": (source, {"label_kernel": name, "target": target} if target else
                           {"label_kernel": name})
        for name, source, target in (
            ("binary", "few", _signs), ("balanced", "few", None), ("one-vs-rest",
            "few, three classes", None), ("multiclass", "few, three classes", None),
            ("linear", "few, real target", None), ("gaussian", "few, real target", None),
            ("precomputed", "few", _matrix),
        )
    },
    **{f"one pass, {name}": ("gaps", {"method": name}) for name in SINGLE},
    **{f"one pass, {name}, real": ("real target", {"method": name}) for name in OF_A_REAL_TARGET},
    "one pass, linear": ("gaps", {"method": "linear"}),
    "one pass, linear, biased, real": ("real target", {"method": "linear", "statistic": "biased"}),
    "one pass, mmd, median": ("reals", {"method": "mmd", "bandwidth": "median"}),
    "one pass, pearson, halves": ("reals", {"method": "pearson", "stability": 4}),
    "backward, auto": ("reals", {}),
    "backward, delta": ("dosages", {"kernel": "delta", "missing_code": None}),
    "backward, float64": ("reals", EXACT | {"dtype": "float64"}),
    "backward, one at a time": ("few", EXACT | {"step": 1}),
    "backward, seven at a time": ("reals", EXACT | {"step": 7}),
    "backward, median": ("few", EXACT | {"bandwidth": "median"}),
    "backward, fixed width": ("few", EXACT | {"bandwidth": 0.02}),
    "backward, narrow": ("few", EXACT | {"bandwidth": 2.0}),
    "backward, grid": ("few", EXACT | {"bandwidth": [0.001, 0.01, 0.1]}),
    "backward, real target": ("real target", EXACT),
    "backward, three classes": ("three classes", EXACT),
    "backward, several targets": ("reals", EXACT | {"target": _two_targets}),
    "backward, covariates": ("reals", EXACT | {"covariates": _covariates}),
    "backward, covariates, real": ("real target", EXACT | {"covariates": _covariates}),
    "backward, not scaled": ("reals", EXACT | {"standardize": False}),
    "backward, halves": ("few", EXACT | {"stability": 3}),
    "backward, itself": ("few", EXACT | {"target": None, "label_kernel": "self"}),
    "backward, gaps": ("gaps", EXACT),
    "backward, frame": ("frame", {"step": 0.3}),
    "backward, dask array": ("dask array", {"step": 0.3}),
    "backward, xarray": ("xarray", {"step": 0.3}),
    "backward, chunks": ("chunks", {}),
    "backward, shards": ("shards", {"step": 0.3}),
    "backward, cells": ("cells", {"step": 0.3}),
    "backward, dosages": ("dosages", {}),
    "backward, dosages, scaled": ("dosages", {"standardize": True}),
    "backward, zarr dosages": ("zarr dosages", {}),
    "backward, variants": ("variants", {}),
    "backward, variants that passed": ("variants", {"pass_only": True}),
    "backward, wide": ("wide", EXACT | {"step": 0.5}),
    "backward, wide, polynomial": ("wide", EXACT | {"step": 0.5, "kernel": "polynomial"}),
    "low rank, wide": ("wide", LOW | {"step": 0.5}),
    "low rank, real target": ("tall, real target", LOW | {"statistic": "biased"}),
    "low rank, strict": ("tall", LOW | {"max_expected_loss": 0.0, "random_state": 3}),
    "low rank, grid": ("tall", LOW | {"bandwidth": [0.001, 0.01, 0.1]}),
    "low rank, median": ("tall", LOW | {"bandwidth": "median"}),
    "low rank, covariates": ("tall, real target", LOW | {"covariates": _covariates}),
    "low rank, float64": ("tall", LOW | {"dtype": "float64"}),
    "low rank, dosages": ("wide dosages", LOW),
    "groups, gaussian": ("reals", {"feature_groups": _groups, "n_features_to_select": 4}),
    "groups, polynomial": ("few", {"feature_groups": _groups, "kernel": "polynomial", "step": 2}),
    "groups, laplace-l1": ("few", {"feature_groups": _groups, "kernel": "laplace-l1"}),
    "groups, forward": ("reals", FORWARD | {"feature_groups": _groups}),
    "groups, of a store": (
        "variants", {"feature_groups": "variant_gene", "n_features_to_select": 4}
    ),
    "forward, biased, real target": ("real target", FORWARD | {"statistic": "biased"}),
    "forward, three at a time": ("reals", FORWARD | {"step": 3, "n_features_to_select": 9}),
    "forward, grid": ("few", FORWARD | {"bandwidth": [0.01, 0.1, 1.0]}),
    "forward, by definition": ("few", FORWARD | {"solver": "direct"}),
    "forward, low rank": ("tall", FORWARD | {"solver": "lowrank"}),
    "forward, covariates": ("real target", FORWARD | {"covariates": _covariates}),
    "forward, itself": ("few", FORWARD | {"target": None, "label_kernel": "self"}),
    "forward, dosages": ("zarr dosages", FORWARD),
    "floating": ("reals", FORWARD | {"strategy": "floating", "n_features_to_select": 7}),
    "floating, polynomial": ("few", FORWARD | {"strategy": "floating", "kernel": "polynomial"}),
    "svm-rfe": ("reals", {"method": "svm-rfe"}),
    "svm-rfe, gaussian": ("few", {"method": "svm-rfe", "kernel": "gaussian", "penalty": 0.5}),
    "svm-rfe, three classes": ("few, three classes", {"method": "svm-rfe"}),
    "ccm": ("few", {"method": "ccm", "n_features_to_select": 4}),
    "ccm, real target": ("few, real target", {"method": "ccm", "epsilon": 0.1}),
    "ccm, soft": ("few", {"method": "ccm", "constraint": "soft", "max_iterations": 20}),
    "ccm, no inverse": ("few", {"method": "ccm", "inverse": "none", "max_iterations": 20}),
    "ccm, random features": (
        "few",
        {"method": "ccm", "approximation": "random_features", "n_random_features": 60},
    ),
    "weighting": ("few", {"method": "weighting"}),
    "weighting, unbiased, real": (
        "few, real target",
        {"method": "weighting", "statistic": "unbiased", "max_iterations": 5},
    ),
    "weighting, random start": (
        "few, three classes", {"method": "weighting", "start": "random", "random_state": 5}
    ),
}  # fmt: skip


def _estimates():
    X, found = data.reals(300, 44), {}
    y, C = data.alone_and_together(X), data.covariates(300)
    for name, kernel in KERNELS.items():
        if "ridge" not in name and name not in ("laplace-l1", "inverse-distance"):
            found[name] = dhsic.hsic(X, y, kernel=kernel, bandwidth="dimension")
            found[f"{name}, blockwise"] = dhsic.hsic(
                X, y, kernel=kernel, bandwidth="dimension", method="blockwise", statistic="biased"
            )
    for method in ("exact", "blockwise", "nystrom", "cholesky", "spectral", "random_features"):
        small = {} if method in ("exact", "blockwise") else {"n_landmarks": 60}
        asked = {"bandwidth": 0.01, "method": method} | small
        found[method] = dhsic.hsic(X, y, **asked)
        found[f"{method}, variance"] = dhsic.hsic_variance(X, data.classes(X, 3), **asked)
        found[f"{method}, covariates"] = dhsic.hsic(
            X, y, **asked | {"bandwidth": "median"}, covariates=C, statistic="biased"
        )
    return found


def _independence():
    X, y = data.reals(70, 44)[:, [3, 7]], data.classes(data.reals(70, 44))
    options = {"n_permutations": 99, "covariates": data.covariates(70)}
    found = {
        method: dhsic.hsic_test(X, y, method=method, **options)
        for method in ("permutation", "gamma", "normal")
    }
    found["biased"] = dhsic.hsic_test(X, y, statistic="biased", n_permutations=99, random_state=3)
    return found


def _tests_of_features():
    X, y = data.gaps(), data.classes(data.gaps())
    asked = {"bandwidth": "median", "n_permutations": 99}
    of_one_width = {
        method: dhsic.test_features(X, y, [3, 7, 40], method=method, **asked)
        for method in ("permutation", "gamma")
    }
    return of_one_width | {"multiscale": dhsic.test_features(X, y, [3, 7, 40])}


def _ranked_kernels():
    X = data.reals(70, 44)
    parts = [np.exp(-np.square(x[:, None] - x[None]) / 2) for x in X.T[[1, 7, 12, 17, 31, 40]]]
    return {
        f"{combine} {strategy} {statistic}": dhsic.rank_kernels(
            parts, data.classes(X), combine=combine, strategy=strategy, statistic=statistic
        )
        for combine in ("sum", "product")
        for strategy in ("backward", "forward")
        for statistic in ("unbiased", "biased")
    }


def _ranked_substructures():
    y, z = data.integers(13, 2, 24), data.bells(14, 16)
    strings, graphs = data.STRINGS, data.graphs()
    return {
        "spectrum": dhsic.rank_substrings(kernels.Spectrum(2), strings, y),
        "weighted": dhsic.rank_substrings(
            kernels.WeightedSubstrings(3), strings, y, statistic="biased"
        ),
        "paths": dhsic.rank_subgraphs(kernels.ShortestPaths(), graphs, z),
        "walks": dhsic.rank_subgraphs(kernels.Walks(2), graphs, z, statistic="biased"),
    }


def _matrices():
    X = data.reals(70, 44)
    return {
        name: np.asarray(
            dhsic.kernel_matrix(X, kernel, "dimension" if name != "gaussian" else "median", 32)
        )
        for name, kernel in KERNELS.items()
        if "ridge" not in name and name not in ("laplace-l1", "inverse-distance")
    }


def _fitted():
    """What estimators hold, in scikit-learn's manner."""
    X, found = data.reals(70, 44), {}
    for kind in (dhsic.BAHSIC, dhsic.FOHSIC, dhsic.CCM, dhsic.SVMRFE, dhsic.FeatureWeighting,
                 dhsic.LinearHSIC, dhsic.OnePass):  # fmt: skip
        model = kind(3, progress=False).fit(X, data.classes(X))
        found[f"{kind.__name__} scores"] = model.scores_
        found[f"{kind.__name__} ranking"] = model.ranking_
        found[f"{kind.__name__} kept"] = model.transform(X)[:4]
    return found


#: Runs that are no selection of features.
CALLS = {
    "estimates": _estimates,
    "tests of independence": _independence,
    "tests of features": _tests_of_features,
    "kernels ranked": _ranked_kernels,
    "substructures ranked": _ranked_substructures,
    "kernel matrices": _matrices,
    "estimators": _fitted,
}


def _commanded(folder, name, *more):
    """A table that the command line writes, and what it prints."""
    out = folder / name
    shown = run("select", *map(str, more), "--no-progress", "--json", "--out", out, "--force")
    return {"table": out.read_text().splitlines(),
            "shown": [json.dumps(row) for row in json.loads(shown.stdout)["selected"]]}  # fmt: skip


def _on_threads(folder):
    path = data.store(folder, "variants")
    asked = ("--target", "sample_trait", "-n", 5)
    one, three = (
        _commanded(folder, "v.tsv", path, *asked, "--threads", n, "--groups", "variant_gene")
        for n in (1, 3)
    )
    assert one == three, "threads change the result"
    return one


def _simulated(folder):
    path = folder / "simulated.vcz"
    run("simulate", path, "--samples", 40, "--variants", 300, "--causal", 3, "--pairs", 1,
        "--seed", 5)  # fmt: skip
    source = dhsic.open_source(path)
    (block,) = source.blocks(300)
    return {
        "dosages": np.asarray(source.read(block), dtype=np.float64),
        "trait": dhsic.read_target(path, "sample_trait"),
    }


#: Runs of the command line.
COMMANDS = {
    "command, groups, threads": _on_threads,
    "command, forward": lambda folder: _commanded(
        folder, "f.csv", data.store(folder, "variants"), "--target", "sample_trait",
        "--method", "fohsic", "-n", 4,
    ),
    "command, pearson": lambda folder: _commanded(
        folder, "p.tsv", data.store(folder, "cells"), "--target", "age", "--method", "pearson",
        "-n", 4,
    ),
    "command, simulate": _simulated,
}  # fmt: skip

#: Runs that are done by Dask workers too, and must be what they are on threads.
ON_WORKERS = ("backward, chunks", "low rank, wide", "forward, dosages", "svm-rfe",
              "weighting, unbiased, real", "groups, of a store", "one pass, b")  # fmt: skip


def on_a_cluster(folder):
    """The same runs by Dask workers of this process."""
    from dask import config
    from distributed import Client, LocalCluster

    with (
        config.set({"distributed.admin.low-level-log-length": 0}),
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster),
    ):
        for name in ON_WORKERS:
            source, options = SELECTIONS[name]
            result = selected(source, options | {"runtime": "dask"}, folder)
            yield f"workers: {name}", arrays_of(result)
