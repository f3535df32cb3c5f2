"""Cases that only ``make slow`` runs, because a faster case covers the same lines and branches.

A pattern is a test of a file, with the beginning of its parameters. The tests of a file that are
not listed run by default.
"""

from collections import Counter

#: Beginnings of node identifiers, without the folder.
SLOW_CASES = (
    "test_accelerator.py::test_same_ranking_on_a_device[exact, biased",
    "test_accelerator.py::test_same_ranking_on_a_device[laplace",
    "test_advice_of_commands.py::test_advice_leads_on[labels_with_l",
    "test_advice_of_commands.py::test_advice_leads_on[missing",
    "test_advice_of_commands.py::test_advice_leads_on[targets",
    "test_advice_on_data.py::test_advice_leads_on[inbred_",
    "test_advice_on_data.py::test_advice_leads_on[text_am",
    "test_advice_on_runs.py::test_a_call_succeeds_once_its_advice_is_followed[31-sele",
    "test_arrow.py::test_feather_is_read_as_parquet[lz4-x",
    "test_arrow.py::test_feather_is_read_as_parquet[uncompressed-x.arrow",
    "test_arrow.py::test_parquet_is_known_by_its_name_or_content[x.PARQUET",
    "test_arrow.py::test_parquet_is_known_by_its_name_or_content[x.p",
    "test_bgen.py::test_whole_dosages_rank_as_calls[False-8",
    "test_bgen.py::test_whole_dosages_rank_as_calls[True-8]",
    "test_certificate.py::test_the_estimated_deviation_covers_the_true_one[False",
    "test_changed_data.py::test_altered_data_are_found_or_are_the_same[sharded-0",
    "test_changed_data.py::test_altered_data_are_found_or_are_the_same[sharded-1",
    "test_changed_data.py::test_altered_data_are_found_or_are_the_same[v2-1",
    "test_changed_data.py::test_altered_data_are_found_or_are_the_same[v3-1",
    "test_changed_data.py::test_data_that_change_in_a_run_are_found[bahsic-",
    "test_changed_data.py::test_data_that_change_in_a_run_are_found[direct-",
    "test_changed_data.py::test_data_that_change_in_a_run_are_found[low ran",
    "test_changed_data.py::test_data_that_change_in_a_run_are_found[svm-rfe",
    "test_changed_data.py::test_every_method_finds_one_value[bahsic",
    "test_changed_data.py::test_every_method_finds_one_value[direct]",
    "test_changed_data.py::test_every_method_finds_one_value[low rank]",
    "test_checkpoint.py::test_damage_anywhere_leaves_a_valid_round_or_a_sentence[URL",
    "test_checkpoint.py::test_killed_processes_are_resumed_by_the_next[URL",
    "test_clumping.py::test_of_a_file_that_was_loaded_and_compacted_as_of_an_array[asked0",
    "test_clumping.py::test_of_a_file_that_was_loaded_and_compacted_as_of_an_array[asked1",
    "test_compaction.py::test_a_run_that_is_killed_leaves_no_scratch[15",
    "test_compaction.py::test_rankings_are_the_same[gaussian",
    "test_contributing.py::test_a_stage_nests_with_others[holdout",
    "test_contributing.py::test_a_stage_nests_with_others[shadows",
    "test_contributing.py::test_a_stage_nests_with_others[stability",
    "test_contributing.py::test_a_stage_of_its_own_parameters_needs_no_table",
    "test_default_pairs.py::test_each_of_several_targets_has_its_own_pairs",
    "test_default_pairs.py::test_no_pair_is_scanned_by_default[options4",
    "test_docs.py::test_what_a_page_shows_runs",
    "test_environment.py::test_the_level_holds_although_the_environment_acts",
    "test_examples.py::test_from_a_file_to_a_table[A bucket",
    "test_examples.py::test_from_a_file_to_a_table[PLINK",
    "test_frames.py::test_frames_are_joined_by_their_ids_which_are_no_values[given0]",
    "test_frames.py::test_frames_are_joined_by_their_ids_which_are_no_values[given3]",
    "test_genotypes.py::test_missing_calls_of_linked_variants_are_no_interaction[1-both",
    "test_genotypes.py::test_missing_calls_of_linked_variants_are_no_interaction[1-one",
    "test_genotypes.py::test_more_missing_calls_in_one_class_are_no_association[True-0.5",
    "test_genotypes.py::test_more_missing_calls_in_one_class_are_no_association[True-median",
    "test_given_others.py::test_same_bits_everywhere[1-lowrank",
    "test_given_others.py::test_same_bits_everywhere[3-exact",
    "test_joined.py::test_the_ranking_is_that_of_one_file[{'method': 'h",
    "test_joins.py::test_the_ranking_is_that_of_the_labels_of_the_store[FID IID pheno",
    "test_joins.py::test_the_ranking_is_that_of_the_labels_of_the_store[FID IID value",
    "test_joins.py::test_the_ranking_is_that_of_the_labels_of_the_store[pheno IID",
    "test_lazy.py::test_a_run_is_resumed_to_the_same_bits[0.06-",
    "test_lowrank_runs.py::test_a_run_that_goes_on_gives_the_same_bits[measured-g",
    "test_lowrank_runs.py::test_a_run_that_goes_on_gives_the_same_bits[populations-gaussian",
    "test_lowrank_runs.py::test_it_does_from_a_store_with_scratch[measured",
    "test_lowrank_runs.py::test_rounds_of_wide_data_agree[0-gaussian-192",
    "test_lowrank_runs.py::test_rounds_of_wide_data_agree[0-gaussian-40",
    "test_lowrank_runs.py::test_the_seed_chooses_landmarks[measured",
    "test_lowrank_runs.py::test_threads_and_workers_give_the_same_bits[populations-gaussian",
    "test_lowrank_runs.py::test_what_is_told_is_so_without_squares",
    "test_many.py::test_a_run_that_is_killed_goes_on_to_the_same_bits",
    "test_many.py::test_each_target_is_ranked_as_alone[exact]",
    "test_many.py::test_each_target_is_ranked_as_alone[low rank",
    "test_many.py::test_on_a_cluster_runs_find_what_they_find_alone_here[exact-have",
    "test_many.py::test_on_a_cluster_runs_find_what_they_find_alone_here[low rank-come",
    "test_many.py::test_on_a_cluster_runs_find_what_they_find_alone_here[low rank-have",
    "test_many.py::test_on_a_cluster_runs_find_what_they_find_alone_here[low rank-stay",
    "test_memory.py::test_peak_stays_below_the_promise[polynomial",
    "test_methods.py::test_same_from_python_command_line_dask_and_checkpoint[bahsic]",
    "test_methods.py::test_same_from_python_command_line_dask_and_checkpoint[ccm]",
    "test_methods.py::test_same_from_python_command_line_dask_and_checkpoint[fohsic]",
    "test_methods.py::test_same_from_python_command_line_dask_and_checkpoint[svm-rfe",
    "test_methods.py::test_same_from_python_command_line_dask_and_checkpoint[weighti",
    "test_multiscale.py::test_p_values_of_noise_are_uniform[places",
    "test_ordinal.py::test_covariates_hold_out_stability_shadows_and_cross_validation[rank",
    "test_ordinal.py::test_other_chromosomes_predict_scores",
    "test_plan.py::test_data_of_this_process_do_not_travel",
    "test_plan.py::test_passes_that_sizes_decide_on_are_those_of_the_run[{'solver': 'exact', 's",
    "test_plan.py::test_passes_that_sizes_decide_on_are_those_of_the_run[{'solver': 'l",
    "test_plan.py::test_tasks_of_a_cluster_are_foreseen[False",
    "test_plink.py::test_dosages_that_are_not_read_are_said[1]",
    "test_relatedness.py::test_calibrated_tests_are_the_same_everywhere",
    "test_relatedness.py::test_level_is_right_among_relatives",
    "test_remedies.py::test_remedies_are_parameters_of_what_was_called_and_work[numbers",
    "test_remedies.py::test_remedies_are_parameters_of_what_was_called_and_work[square-fin",
    "test_report.py::test_tables_have_reports_too[test-.p",
    "test_report.py::test_tables_have_reports_too[test-.tsv]",
    "test_same_everywhere.py::test_same_bits[3-lazy-stay",
    "test_same_everywhere.py::test_same_bits[5-lazy-have",
    "test_same_everywhere.py::test_same_bits[5-weighting-have",
    "test_same_everywhere.py::test_same_bits_on_tiles",
    "test_same_samples.py::test_copies_are_told_in_every_format_until_they_are_left_out[pairs",
    "test_scores_of_labels.py::test_microarrays_have_no_scores_unless_planted[leukaemia",
    "test_scores_of_labels.py::test_microarrays_have_no_scores_unless_planted[lymphoma",
    "test_selectors.py::test_a_linear_confounder_of_real_labels_is_taken_out[BAHSIC]",
    "test_sentinels.py::test_codes_among_covariates_and_labels_are_refused[9999]",
    "test_sentinels.py::test_codes_among_covariates_and_labels_are_refused[999]",
    "test_sentinels.py::test_several_codes_in_a_column_are_refused_together_and_left_out[[77, 88",
    "test_sentinels.py::test_several_codes_in_a_column_are_refused_together_and_left_out[[888, 9",
    "test_sentinels.py::test_several_codes_in_one_feature_are_refused_together[[-999, ",
    "test_sentinels.py::test_several_codes_in_one_feature_are_refused_together[[888, 9",
    "test_sentinels.py::test_several_codes_in_one_feature_are_refused_together[[8888, ",
    "test_several_answers.py::test_numbers_of_two_sites_have_a_command_for_each_reading[,",
    "test_several_answers.py::test_numbers_of_two_sites_have_a_command_for_each_reading[\\t",
    "test_sexes.py::test_a_store_keeps_the_sexes[.pgen]",
    "test_sexes.py::test_a_store_keeps_the_sexes[.traw",
    "test_sexes.py::test_a_store_keeps_the_sexes[SEX]",
    "test_sexes.py::test_a_store_keeps_the_sexes[some]",
    "test_shadows.py::test_rates_are_counted_down_the_ranking_of_features_and_shadows[selector0",
    "test_shapes_selected.py::test_a_single_shape_is_first[False-absolute",
    "test_shapes_selected.py::test_a_single_shape_is_first[False-bump",
    "test_shapes_selected.py::test_a_single_shape_is_first[False-fast",
    "test_shapes_selected.py::test_a_single_shape_is_first[False-step",
    "test_shapes_selected.py::test_a_single_shape_is_first[False-two-sided",
    "test_shapes_selected.py::test_a_single_shape_is_first[False-wave",
    "test_sklearn.py::test_scikit_learn_checks[BAHSIC(n_features_to_select=2,progress=False,runtime='threads')-check_estimator_sparse_a",
    "test_sklearn.py::test_scikit_learn_checks[BAHSIC(n_features_to_select=2,progress=False,runtime='threads')-check_estimator_sparse_m",
    "test_sklearn.py::test_scikit_learn_checks[BAHSIC(n_features_to_select=2,progress=False,runtime='threads')-check_sample_weight_equivalence_on_d",
    "test_sklearn.py::test_scikit_learn_checks[OnePass(criterion='t',n_features_to_select=2,progress=False,runtime='threads')-check_sample_weights_not_o",
    "test_spatial.py::test_genes_with_a_pattern_in_space_are_found",
    "test_stability.py::test_a_class_of_three_is_a_class_in_every_part[int",
    "test_stability.py::test_it_counts_selections_from_halves[BAHSIC]",
    "test_subset.py::test_the_ranking_is_that_of_a_store_of_those_features[False-bahsic",
    "test_subset.py::test_the_ranking_is_that_of_a_store_of_those_features[True-ba",
    "test_suspects.py::test_labels_again_are_told_in_every_format_and_the_option_leaves_them_out[code",
    "test_suspects.py::test_labels_again_are_told_in_every_format_and_the_option_leaves_them_out[mon",
    "test_suspects.py::test_labels_again_are_told_in_every_format_and_the_option_leaves_them_out[rou",
    "test_suspects.py::test_labels_again_are_told_in_every_format_and_the_option_leaves_them_out[turned",
    "test_suspects.py::test_parts_of_the_labels_and_copies_with_errors_are_told[select-",
    "test_tables.py::test_every_format_says_what_the_result_says[of_genes-.tsv]",
    "test_tables.py::test_every_format_says_what_the_result_says[of_variants-.tsv]",
    "test_targets.py::test_several_names_are_one_target[dataset",
    "test_targets.py::test_several_names_are_one_target[parquet",
    "test_targets.py::test_several_names_are_one_target[polars",
    "test_text_tables.py::test_rows_that_sum_up_samples_are_known_by_their_numbers[Summe-p",
    "test_text_tables.py::test_rows_that_sum_up_samples_are_known_by_their_numbers[Summe-t",
    "test_text_tables.py::test_rows_that_sum_up_samples_are_known_by_their_numbers[describe-p",
    "test_turns.py::test_a_run_that_goes_on_tells_the_same_turns[gaussian-exact",
    "test_values_of_text.py::test_genotypes_of_letters_become_dosages_by_the_command[False-no",
    "test_values_of_text.py::test_genotypes_of_letters_become_dosages_by_the_command[True-no",
    "test_weights.py::test_a_weight_of_zero_leaves_the_sample_out_to_the_bit[integers",
    "test_weights.py::test_weights_of_zero_and_one_are_a_filter_for_every_method[bahsic]",
    "test_weights.py::test_weights_restore_the_level_that_sampling_destroys[real",
    "test_whole_numbers.py::test_a_joint_target_finds_what_each_column_finds_alone[four",
    "test_whole_numbers.py::test_a_joint_target_finds_what_each_column_finds_alone[two",
    "test_whole_numbers.py::test_a_joint_target_finds_what_each_column_finds_alone[whole numbers-1",
    "test_whole_numbers.py::test_a_joint_target_finds_what_each_column_finds_alone[whole numbers-2",
    "test_whole_numbers.py::test_features_that_follow_a_whole_number_are_found_as_of_real_values[counts",
    "test_whole_numbers.py::test_features_that_follow_a_whole_number_are_found_as_of_real_values[scores",
)

#: Tests with many cases, by file, and beginnings of the parameters of those that run by default.
KEPT_CASES = {
    "test_anndata.py": {
        "test_sparse_matrices_rank_as_dense_ones": ("[csr_matrix-3",),
    },
    "test_bahsic.py": {
        "test_block_splitting_does_not_change_the_ranking": ("[linear]",),
    },
    "test_blocks.py": {
        "test_p_values_of_few_blocks_are_exact": ("[within1",),
    },
    "test_censored.py": {
        "test_level_of_null_features": (
            "[False-0.5",
            "[False-0.8",
            "[True-0.8",
        ),
    },
    "test_changed_data.py": {
        "test_altered_data_are_found_or_are_the_same": (
            "[numpy-1",
            "[v2-2]",
            "[v3-2]",
            "[vcz-1]",
            "[vcz-2]",
            "[zip-1]",
            "[zip-2]",
        ),
        "test_what_a_ranking_does_not_depend_on_may_change": ("[alleles",),
    },
    "test_column_advice.py": {
        "test_features_with_marks_are_written_as_numbers_by_the_command": ("[blank]",),
        "test_labels_with_marks_are_written_as_numbers_by_the_command": ("[blank]",),
        "test_names_of_features_that_repeat_are_made_unique_and_stay": ("[\\t]",),
    },
    "test_columns.py": {
        "test_results_are_the_same": ("[plain]",),
        "test_workers_write_what_a_store_says_where_they_see_the_result": ("[False]",),
    },
    "test_contributing.py": {
        "test_a_kernel_of_other_sums": ("[fohsic]",),
    },
    "test_criteria.py": {
        "test_more_missing_values_in_one_class_are_no_dependence": ("[genotypes-n",),
    },
    "test_cv.py": {
        "test_scores_are_those_of_a_ranking_in_each_fold": ("[FOHSIC]",),
    },
    "test_genotypes.py": {
        "test_features_that_lack_values_by_label_are_named": (
            "[median-c",
            "[median-t",
        ),
        "test_more_missing_calls_in_one_class_are_no_association": (
            "[False-0.5-c",
            "[False-0.5-u",
            "[False-median-u",
            "[True-multiscale-c",
            "[True-multiscale-u",
        ),
        "test_one_copy_of_males_written_as_two_is_told": ("[23-0.93",),
    },
    "test_given_others.py": {
        "test_same_bits_everywhere": ("[3-lowra",),
    },
    "test_h5ad.py": {
        "test_an_object_ranks_as_its_matrix": ("[csr_arr",),
        "test_every_layout_ranks_as_the_matrix": ("[csr_mat",),
    },
    "test_holdout.py": {
        "test_it_is_a_selection_on_some_and_tests_on_others": ("[selector1",),
    },
    "test_hsic_test.py": {
        "test_confounders": ("[unbiased-p",),
    },
    "test_joined_formats.py": {
        "test_files_rank_as_the_merged_file_everywhere": ("[16.bgen",),
        "test_samples_are_matched_by_name": ("[8.bgen]",),
    },
    "test_joins.py": {
        "test_numbers_of_rows_are_no_names_and_a_column_of_both_tables_is": ("[csv-1]",),
    },
    "test_lazy.py": {
        "test_a_run_is_resumed_to_the_same_bits": (
            "[0.25-14",
            "[0.25-19",
        ),
    },
    "test_likeness.py": {
        "test_ids_written_otherwise_are_made_the_same_by_the_command": ("[files in the data-#",),
        "test_ids_written_otherwise_are_made_the_same_in_python": (
            "[an X of",
            "[fractio",
            "[some wi",
            "[zeros a",
            "[zeros in the d",
        ),
    },
    "test_lowrank_runs.py": {
        "test_a_run_is_not_resumed_with_another_tolerance_or_seed": ("[measure",),
        "test_every_kind_of_round_agrees": (
            "[measured-as they are,",
            "[measured-p",
            "[populations-as they are, l",
            "[populations-as they are, p",
            "[populations-biased ",
            "[populations-g",
            "[populations-linear]",
            "[populations-p",
        ),
        "test_tall_data_are_ranked_as_by_definition": (
            "[gaussian-u",
            "[linear-u",
            "[polynomial-u",
        ),
        "test_threads_and_workers_give_the_same_bits": (
            "[measured-l",
            "[populations-l",
        ),
    },
    "test_measured_text.py": {
        "test_labels_of_tables_become_numbers_by_the_command": ("[clock]",),
    },
    "test_missing_labels.py": {
        "test_names_stay_apart_that_python_reads_as_one_number": ("[names2-",),
        "test_select_refuses_and_says_both_ways": ("[plink]",),
    },
    "test_mixed.py": {
        "test_p_values_are_uniform_without_dependence": ("[classes",),
    },
    "test_more_kernels.py": {
        "test_ranking_is_that_of_the_definition_where_float32_is_used": (
            "[biased-laplace-",
            "[unbiased-laplace-",
        ),
        "test_threads_and_a_cluster_give_the_same_bits": (
            "[delta]",
            "[laplace-",
            "[ridge]",
        ),
    },
    "test_multiscale.py": {
        "test_p_values_are_those_of_permutations": ("[no ties",),
        "test_p_values_of_noise_are_uniform": (
            "[real-no",
            "[two-los",
        ),
    },
    "test_ordinal.py": {
        "test_every_command_takes_an_order_and_says_so": (
            "[plan]",
            "[test]",
        ),
    },
    "test_packing.py": {
        "test_a_path_gives_what_xarray_reads": ("[uint8, offset-2",),
        "test_the_command_line_leaves_out_samples_without_a_label": ("[3-group",),
    },
    "test_plan.py": {
        "test_rounds_and_bytes_are_those_of_the_run": (
            "[{'kerne",
            "[{'label",
            "[{'metho",
            "[{'solver': 'exact', 'kernel': 'p",
            "[{'solver': 'lowrank', 'k",
        ),
    },
    "test_python_advice.py": {
        "test_other_types_of_arrow_are_converted_by_the_command": ("[parquet-l",),
    },
    "test_quality_filters.py": {
        "test_names_that_the_data_lack_are_counted": ("[--extra",),
    },
    "test_relatedness.py": {
        "test_features_of_many_values_are_calibrated_as_those_of_few": ("[unbiase",),
    },
    "test_same_everywhere.py": {
        "test_same_bits": (
            "[1-exact ",
            "[1-fohsi",
            "[1-linea",
            "[1-low r",
            "[1-svm-r",
            "[2-fohsi",
            "[2-linea",
            "[2-weigh",
            "[3-exact ",
            "[5-exact",
            "[5-linea",
            "[5-svm-r",
        ),
    },
    "test_same_samples.py": {
        "test_copies_are_told_by_every_function": ("[test_fe",),
        "test_copies_are_told_in_every_format_until_they_are_left_out": ("[test]",),
    },
    "test_sentinels.py": {
        "test_a_code_in_features_is_refused_by_name_value_and_count": ("[99999]",),
        "test_codes_that_stand_apart_in_few_features_are_told_with_an_option": ("[-1 of i",),
        "test_counts_of_features_have_no_codes": ("[0.5]",),
        "test_fill_values_of_programs_are_refused_and_declared": (
            "[float32",
            "[float64--999",
            "[float64-1",
        ),
        "test_minus_one_beside_classes_from_zero_is_told": ("[2]",),
        "test_negative_codes_beside_values_from_0_on_are_refused_in_few_features": (
            "[4-1--99",
            "[500-1--8",
            "[500-1--9",
            "[500-14--8",
            "[500-2--9",
            "[75-1--7",
            "[75-14--7",
        ),
        "test_text_in_a_covariate_of_numbers_is_counted_named_and_left_out": ("[('n/a '",),
    },
    "test_several_answers.py": {
        "test_numbers_of_two_sites_have_a_command_for_each_reading": ("[;-True]",),
        "test_several_answers_become_columns_of_0_and_1": ("[;-,3]",),
    },
    "test_sexes.py": {
        "test_a_trait_that_depends_on_sex_alone_has_no_hits_on_x": ("[Dataset",),
    },
    "test_sklearn.py": {
        "test_sparse_matrices_stay_sparse_there_and_back": ("[csr_arr",),
    },
    "test_spatial.py": {
        "test_sparse_on_disk_has_the_bits_of_dense_in_memory": ("[csc_mat",),
    },
    "test_stability.py": {
        "test_a_class_of_three_is_a_class_in_every_part": ("[str]",),
    },
    "test_storage.py": {
        "test_methods_that_keep_arrays_go_on_at_a_url": ("[ccm]",),
    },
    "test_subset.py": {
        "test_workers_rank_as_threads_do": ("[store]",),
    },
    "test_survival.py": {
        "test_it_covers_what_is_lost_and_not_by_much": ("[0-0.999",),
    },
    "test_suspects.py": {
        "test_numbers_of_rows_are_refused_in_frames_and_typed_tables": (
            "[falling",
            "[timesta",
        ),
    },
    "test_tables.py": {
        "test_parts_make_the_same_table": (
            "[.json]",
            "[.parque",
        ),
    },
    "test_targets.py": {
        "test_several_names_are_one_target": ("[csv]",),
    },
    "test_text_tables.py": {
        "test_commas_mean_what_all_values_say_and_the_remedy_works": (
            "[written0-numbers0-,",
            "[written2-numbers2-,",
            "[written3-numbers3-,",
            "[written3-numbers3-;",
            "[written4-numbers4-;",
            "[written6-numbers6-\\",
        ),
        "test_the_command_for_german_numbers_leaves_other_columns": ("[30-,]",),
    },
    "test_turned_tables.py": {
        "test_a_row_of_parquet_is_found_after_the_command": ("[parquet-F",),
    },
    "test_turns.py": {
        "test_a_run_that_goes_on_tells_the_same_turns": ("[polynomial-e",),
    },
    "test_values.py": {
        "test_a_lone_code_among_imputed_dosages_is_refused": ("[-2]",),
        "test_a_store_that_is_looked_at_whole_is_read_once": ("[None-in",),
        "test_dosages_keep_their_scale_and_nothing_else_does": (
            "[ccm]",
            "[fohsic]",
        ),
    },
    "test_values_as_written.py": {
        "test_commands_in_sentences_are_the_same_in_every_command": ("[plan]",),
        "test_dates_are_refused_and_the_command_makes_days_of_them": (
            "[days and months---t",
            "[digits---t",
        ),
        "test_minus_one_below_grades_is_told_with_the_option_that_declares_it": ("[--covar",),
        "test_thousands_in_features_are_refused_and_both_commands_work": ("[\\t]",),
        "test_thousands_in_labels_and_covariates_are_refused_and_both_commands_work": ("[--targe",),
    },
    "test_variants.py": {
        "test_pass_only_ranks_what_bcftools_would_keep": ("[more2]",),
    },
    "test_weighting.py": {
        "test_threads_and_dask_agree_to_the_last_bit": ("[eq. 17]",),
    },
    "test_weights.py": {
        "test_a_weight_of_zero_leaves_the_sample_out_to_the_bit": ("[three]",),
        "test_whole_weights_repeat_samples": ("[two]",),
    },
    "test_whole_numbers.py": {
        "test_every_command_has_a_label_kernel": ("[test]",),
        "test_features_that_differ_between_classes_called_by_numbers_are_found": ("[10]",),
        "test_features_that_follow_a_whole_number_are_found_as_of_real_values": ("[pain to",),
    },
}


def is_slow(node: str) -> bool:
    """Whether only ``make slow`` runs the test with this node identifier, without the folder."""
    kept = _kept(node)
    _, _, case = node.partition("[")
    is_left_out = kept is not None and not f"[{case}".startswith(kept)
    return is_left_out or node.startswith(SLOW_CASES)


def without_cases(nodes: list[str]) -> set[str]:
    """Tests of `KEPT_CASES` none of whose cases run by default, among several collected cases."""
    cases = Counter(node.partition("[")[0] for node in nodes)
    several = {test for test, n in cases.items() if n > 1 and _kept(test) is not None}
    return several - {node.partition("[")[0] for node in nodes if not is_slow(node)}


def _kept(node: str) -> tuple[str, ...] | None:
    """Return the beginnings of the cases of a test that run by default; None for all cases."""
    file, _, test = node.partition("[")[0].partition("::")
    return KEPT_CASES.get(file, {}).get(test)
