"""Functions of the package whose sentences name an option or a parameter, by their tests.

Each line of a text is a module and the functions in it. `FOLLOWED` maps functions to the test file
that does what their sentences advise; `VALIDATION` has functions that only state allowed values, or
advise no parameter; `UNFOLLOWED` those that no test follows, and why.
"""

from collections.abc import Iterator


def functions(text: str) -> Iterator[str]:
    """Functions of a text, as ``module:function``."""
    module = ""
    for word in text.split():
        if word.endswith(":"):
            module = word
        else:
            yield module + word


#: Advice about features, labels, covariates, files and commands.
ON_DATA = """
    cli/association.py: AssociationTables.of
    cli/effects.py: response_of
    cli/job.py: SelectJob._set SelectJob.check SelectJob.kept_in SelectJob.selector
        _without_names_of_plink
    cli/label_values.py: _refuse_merged
    cli/label_checks.py: _refuse_mixed check_categories check_na refuse_coded
    cli/labels.py: _add_labels _but_names _check_said _order _refuse_leaks _refuse_second
    cli/out.py: check_out
    cli/pairs.py: _check_shares
    cli/select.py: _supposed plan
    joins/covariates.py: design design_of
    joins/filters.py: Filters._check of_diploids
    joins/group_order.py: check_group_order
    joins/labels.py: _check_each_other _columns_apart
    joins/mixed_values.py: _check_types
    joins/places.py: Place.holds features_at
    joins/regions.py: Regions.holding _parsed
    joins/replicates.py: warn_of_replicates
    joins/sexes.py: missing_rates
    joins/table.py: Table._check_nameless
    joins/targets.py: refuse_held warn_of_leaks
    joins/text.py: check_numbers phenotype
    joins/variables.py: _refuse_absent
    sources/arrays.py: _dosage _open_matrix _refuse_masked_zeros
    sources/delimited.py: Delimited._refuse_rules
    sources/h5ad.py: AnnDataObject.__post_init__ AnnDataObject.matrix _opened
    sources/hdf5.py: _open_genome _with_names
    sources/males.py: males_by_calls
    sources/opening.py: _codes_of _open_one _refuse_na _refuse_scaled _without
    sources/options.py: OpenOptions.__post_init__ OpenOptions._by_length OpenOptions._sample_axis
        OpenOptions.check_dim OpenOptions.choose refuse_variable
    sources/parquet.py: ParquetSource._check_decimal
    sources/plink.py: _check_bed _pgenlib open_plink
    sources/scaling.py: Scaling.check
    sources/sentinels.py: _refuse_beside_scales refuse_sentinels
    sources/stores.py: WatchedStore._missing
    sources/tables.py: refuse_parts
    sources/text_refusal.py: TextRefusal.refuse_descriptions
    sources/values.py: Alleles.genotype_counts Alleles.minor_frequency _judged _refuse
    sources/variants.py: passing
    sources/vcz.py: Calls._check_half_calls _variants_axis
    sources/zarr_matrices.py: refuse_groups
"""

#: Advice about estimators, tests, kernels, pairs and plans.
ON_ESTIMATES = """
    criteria/null.py: NullOf.of
    hsic.py: _check_left check_statistic
    independence/__init__.py: _features_left _some_rows features_at test_features
    independence/estimate.py: _factored _form hsic
    independence/test.py: HsicTest.__post_init__ HsicTest._check_room TestResult.interval
    interactions/anova.py: KernelTerms.of _called _selected shares_of
    kernels/__init__.py: check_bandwidth check_overflow check_solver
    kernels/label_parts.py: ClassTarget.factor GivenMatrix.factor
    kernels/labels.py: _class_target label_matrix
    kernels/real_labels.py: _numbers
    matrix.py: _sigma
    memory.py: MemoryEstimate.check
    pairs/test.py: Forecast.check check_columns check_main
    plans/__init__.py: _check_reach plan plan_of
    relatedness.py: ComponentsRequest._check _components chromosomes_of
"""

#: Advice about parameters of methods.
ON_RUNS = """
    algorithms/ridge.py: inverse
    criteria/features.py: resolve_width
    passes/dependence.py: check_gains
    passes/scorer.py: own_labels
    runtime/clients.py: connect
    selection/cross_validation.py: Scores.__post_init__ Validation._folds Validation._sizes
        Validation.scores _labels
    selection/holdout.py: HoldOut.before _mask
    selection/multi_output.py: classes_of
    selection/pair_scan.py: planned_scan
    selection/rerank.py: _root
    selection/run.py: SelectionRun.check_sizes
    selection/shadows.py: Shadows.before Shadows.check_parameters
    selection/stability.py: Stability.check Stability.check_parameters
    selection/stages.py: _resolved
    selectors/__init__.py: select
    methods/bahsic.py: BAHSIC.check_samples
    methods/base.py: Selector.check
    methods/ccm.py: CCM._objective WithoutInverse._solved
    methods/descent.py: DescentSelector._check_converged width_of
    methods/fohsic.py: FOHSIC._check_floating FOHSIC._check_low_rank FOHSIC.check_samples
    methods/kernel.py: AbstractElimination._warn KernelSelector._check_statistic
    methods/onepass.py: OnePass._by_chromosome OnePass._check_together _record
    methods/svmrfe.py: SVMRFE._check_rounds _dual
    methods/weighting.py: ZeroNorm.steps
"""

#: Advice about results, clusters and single kernels.
ON_RESULTS = """
    annotations.py: _check_free _check_parameters
    conversion/matrices.py: passes_of
    detached/__init__.py: _check_parameters attach
    detached/folder.py: Folder.request
    detached/run.py: Run.listen
    kernels/base.py: AbstractKernel.expansion
    kernels/graphs.py: _walks
    kernels/labels.py: _columns
    kernels/levels.py: AbstractProduct.gram
    kernels/ridge.py: AbstractMatrixFunction._refuse
    renamed.py: current_names
    reports/html.py: report
    results/files.py: check_vacant load
    results/tables.py: read_table
    runtime/__init__.py: choose_runtime
    runtime/clients.py: client_at
    runtime/dask.py: DaskRuntime._send_source
    runtime/threads.py: Threads.__init__
    selection/loci.py: LociRequest._clump LociRequest.check
    simulation/truth.py: TraitPlan.check_room
    sources/zarr.py: check_free
"""

#: Advice about features with an environment, and about sets of features.
ON_ENVIRONMENTS = """
    cli/labels.py: _environment
    interactions/feature_sets.py: feature_sets
    joins/environment.py: Environment.of _check_distinct named_columns
    pairs/test.py: PairTest.of
"""

#: Advice about times to an event.
ON_CENSORED = """
    joins/censoring.py: _typed _events _numbers of_records with_censoring
    joins/targets.py: refuse_records
    kernels/labels.py: _of_censored
    methods/onepass.py: OnePass.labels
"""

#: Advice about ordinal labels.
ON_ORDINAL = """
    cli/label_levels.py: in_order levels_by_target
    cli/label_checks.py: _refuse_commas refuse_marked
    kernels/real_labels.py: _without_order
"""

#: Advice about blocks of samples.
ON_BLOCKS = """
    criteria/blocks.py: BlockIndependence.read _constant_within
    joins/blocks.py: names_of_blocks
    joins/donors.py: warn_of_donors
    linalg/blocks.py: Blocks.check Blocks.of_units
    selection/block_options.py: with_blocks
    methods/onepass.py: OnePass.check_blocks
"""

#: Advice about marginal interactions.
ON_MARGINAL = """
    cli/marginal.py: refuse_beside_marginal
    interactions/marginal.py: check_screen screened
    pairs/marginal_test.py: _partner_products
"""

#: Advice about weights of samples.
ON_WEIGHTS = """
    cli/labels.py: _weights
    criteria/label_functions.py: weighted_directions
    cli/association.py: _check_samples
    independence/__init__.py: _check_samples
    joins/sample_weights.py: checked_weights
    selection/request.py: Request.labelled
    methods/base.py: Selector.check_weights
    methods/onepass.py: OnePass.check_weights
"""

#: Advice about weights of samples in selections.
ON_WEIGHTED_SELECTIONS = """
    methods/kernel.py: KernelSelector.check_weights
"""

#: Advice about several files that are one matrix.
ON_FILES = """
    sources/joining.py: _check_kinds _refuse_other_samples
"""

#: Advice about tables with categories.
ON_CATEGORIES = """
    independence/__init__.py: _categories_refused
    passes/single_pass.py: _set_categories
    selection/categories.py: refuse_unsupported
    sources/categories.py: check_known check_levels
    sources/mixed_tables.py: refuse_categories refuse_codes
"""

#: Advice about pictures of p-values.
ON_REGIONS = """
    cli/plot.py: _check_picture _drawn _run_of
    cli/export.py: export
    plot/region.py: _axes_below _lead_of
"""

FOLLOWED = {
    **dict.fromkeys(functions(ON_CATEGORIES), "test_text_categories.py"),
    **dict.fromkeys(functions(ON_REGIONS), "test_region.py"),
    "cli/gwas_ssf.py:check_ssf": "test_gwas_ssf.py",
    "joins/censoring.py:warn_of_events": "test_unnamed_events.py",
    "cli/job.py:SelectJob._check_covariates": "test_units_and_signs.py",
    "results/tables.py:_warn_of_list": "test_lists.py",
    "get.py:_members": "test_get.py",
    "get.py:rank_genes_groups_like": "test_get.py",
    **dict.fromkeys(functions(ON_FILES), "test_joined.py"),
    **dict.fromkeys(functions(ON_ENVIRONMENTS), "test_environment.py"),
    **dict.fromkeys(functions(ON_ORDINAL), "test_ordinal.py"),
    **dict.fromkeys(functions(ON_BLOCKS), "test_blocks.py"),
    **dict.fromkeys(functions(ON_MARGINAL), "test_marginal.py"),
    **dict.fromkeys(functions(ON_WEIGHTS), "test_weights.py"),
    **dict.fromkeys(functions(ON_WEIGHTED_SELECTIONS), "test_weighted_selections.py"),
    **dict.fromkeys(functions(ON_CENSORED), "test_advice_on_censored.py"),
    "joins/frame_rows.py:_refuse_reset": "test_frames.py",
    "methods/bahsic.py:BAHSIC._check_balance": "test_omics.py",
    "cli/shared_columns.py:check_shared_columns": "test_shared_columns.py",
    "joins/shared_columns.py:check_shared_frames": "test_shared_columns.py",
    **dict.fromkeys(functions(ON_DATA), "test_advice_on_data.py"),
    **dict.fromkeys(functions(ON_ESTIMATES), "test_advice_on_estimates.py"),
    **dict.fromkeys(functions(ON_RUNS), "test_advice_on_runs.py"),
    **dict.fromkeys(functions(ON_RESULTS), "test_advice_on_results.py"),
    "runtime/clients.py:_check_certificates": "test_security.py",
    "sources/bgen.py:BgenSource._check_ploidy": "test_bgen.py",
    "sources/bgen.py:open_bgen": "test_bgen.py",
    "joins/imputation_quality.py:imputation_quality": "test_imputation_quality.py",
    "joins/mass_spectra.py:warn_of_descriptions": "test_mass_spectra.py",
    "plot/rounds.py:accuracy": "test_plot.py",
    "plot/survival.py:survival": "test_censored.py",
    "sources/text_tables.py:TextTable._refuse_empty": "test_geo.py",
}

VALIDATION = frozenset(
    functions(
        """
        algorithms/__init__.py: check_step how_many
        criteria/__init__.py: criterion_of
        criteria/linear.py: RidgeRegression.__post_init__
        datasets.py: nonlinear_regression
        independence/__init__.py: standardised
        independence/estimate.py: check_seed
        joins/censoring.py: Censoring.__post_init__
        joins/sample_weights.py: read_weights
        kernels/__init__.py: resolve_kernel
        kernels/bandwidth.py: resolve_bandwidth
        kernels/counting.py: check_lengths
        kernels/dot.py: Polynomial.__post_init__
        kernels/radial.py: InverseDistance.__post_init__ RationalQuadratic.__post_init__
        kernels/ridge.py: KernelRidge.__post_init__ _check_penalty inverse_of
        lowrank/__init__.py: resolve_factorizer
        lowrank/factorizers.py: Nystrom.__post_init__ Spectral.__post_init__ _check
        matrix.py: kernel_matrix
        pairs/test.py: PairTest.check filtered_features
        plans/__init__.py: bytes_of
        plans/time.py: Rates.of
        plot/genome.py: genome
        plot/region.py: region
        relatedness.py: pca
        selection/multi_output.py: targets_of
        selection/progress.py: check_progress
        selection/request.py: Request.of
        methods/__init__.py: parameters_of
        selectors/__init__.py: select_many
        selectors/base.py: Estimator.fit
        simulation/__init__.py: _check_choices
        simulation/haplotypes.py: Cohort.__post_init__
        simulation/truth.py: TraitPlan.__post_init__
        storage/folder.py: FileStore.make
        structured.py: rank_kernels
        validation.py: seed_of
        """
    )
)

UNFOLLOWED = {
    "sources/vcf.py:_opened": "needs plink2, or a package that is not installed",
    "engines/increment.py:Increment._definition": "needs values too large for an expansion",
    "lowrank/factorizers.py:RandomFeatures._directions": "only reached from a factorizer",
    "passes/reader.py:AbstractReader._keep_apart": "needs a full disk",
    "passes/scratch.py:_lost": "needs a file that is removed while it is read",
    "relatedness.py:Relate._measured": "needs dosages above the ploidy",
    "methods/fohsic.py:FOHSIC._warn": "needs uncertain scores of many samples",
    "validation.py:refuse_lossy": "needs anndata, which the tests do not have",
}
