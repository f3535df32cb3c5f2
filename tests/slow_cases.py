"""Cases that only ``make slow`` runs, because a faster case covers the same code.

A pattern is a test of a file, with the beginning of its parameters. The tests of a file that are
not listed run by default.
"""

#: Beginnings of node identifiers, without the folder.
SLOW_CASES = (
    "test_accelerator.py::test_same_ranking_on_a_device[exact, biased",
    "test_accelerator.py::test_same_ranking_on_a_device[laplace",
    "test_arrow.py::test_feather_is_read_as_parquet[lz4-x",
    "test_arrow.py::test_feather_is_read_as_parquet[uncompressed-x.arrow",
    "test_arrow.py::test_parquet_is_known_by_its_name_or_content[x.PARQUET",
    "test_arrow.py::test_parquet_is_known_by_its_name_or_content[x.p",
    "test_certificate.py::test_the_estimated_deviation_covers_the_true_one[False",
    "test_changed_data.py::test_altered_data_are_found_or_are_the_same[sharded-0",
    "test_changed_data.py::test_altered_data_are_found_or_are_the_same[sharded-1",
    "test_changed_data.py::test_altered_data_are_found_or_are_the_same[v2-1",
    "test_changed_data.py::test_altered_data_are_found_or_are_the_same[v3-1",
    "test_changed_data.py::test_data_that_change_in_a_run_are_found[bahsic-threads",
    "test_changed_data.py::test_data_that_change_in_a_run_are_found[low rank-dask",
    "test_changed_data.py::test_data_that_change_in_a_run_are_found[low rank-threads",
    "test_changed_data.py::test_every_method_finds_one_value[bahsic",
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
    "test_docs.py::test_what_a_page_shows_runs",
    "test_environment.py::test_the_level_holds_although_the_environment_acts",
    "test_examples.py::test_from_a_file_to_a_table[A bucket",
    "test_examples.py::test_from_a_file_to_a_table[PLINK",
    "test_genotypes.py::test_missing_calls_of_linked_variants_are_no_interaction[1-both",
    "test_genotypes.py::test_missing_calls_of_linked_variants_are_no_interaction[1-one",
    "test_genotypes.py::test_more_missing_calls_in_one_class_are_no_association[True-0.5",
    "test_genotypes.py::test_more_missing_calls_in_one_class_are_no_association[True-median",
    "test_given_others.py::test_same_bits_everywhere[1-lowrank",
    "test_given_others.py::test_same_bits_everywhere[3-exact",
    "test_joins.py::test_the_ranking_is_that_of_the_labels_of_the_store[FID IID pheno",
    "test_joins.py::test_the_ranking_is_that_of_the_labels_of_the_store[FID IID value",
    "test_joins.py::test_the_ranking_is_that_of_the_labels_of_the_store[pheno IID",
    "test_lazy.py::test_a_run_is_resumed_to_the_same_bits[0.06-",
    "test_lowrank_runs.py::test_a_run_that_goes_on_gives_the_same_bits[measured-gaussian-all",
    "test_lowrank_runs.py::test_a_run_that_goes_on_gives_the_same_bits[populations-gaussian",
    "test_lowrank_runs.py::test_it_does_from_a_store_with_scratch[measured",
    "test_lowrank_runs.py::test_rounds_of_wide_data_agree[0-gaussian-192",
    "test_lowrank_runs.py::test_rounds_of_wide_data_agree[0-gaussian-40",
    "test_lowrank_runs.py::test_the_seed_chooses_landmarks[measured",
    "test_lowrank_runs.py::test_threads_and_workers_give_the_same_bits[populations-gaussian",
    "test_lowrank_runs.py::test_what_is_told_is_so_without_squares",
    "test_many.py::test_a_run_that_is_killed_goes_on_to_the_same_bits",
    "test_many.py::test_each_target_is_ranked_as_alone[low rank",
    "test_many.py::test_on_a_cluster_runs_find_what_they_find_alone_here[exact-have",
    "test_many.py::test_on_a_cluster_runs_find_what_they_find_alone_here[low rank-come",
    "test_many.py::test_on_a_cluster_runs_find_what_they_find_alone_here[low rank-have",
    "test_many.py::test_on_a_cluster_runs_find_what_they_find_alone_here[low rank-stay",
    "test_memory.py::test_peak_stays_below_the_promise[polynomial",
    "test_multiscale.py::test_p_values_of_noise_are_uniform[places",
    "test_ordinal.py::test_covariates_hold_out_stability_shadows_and_cross_validation[rank",
    "test_ordinal.py::test_other_chromosomes_predict_scores",
    "test_plan.py::test_data_of_this_process_do_not_travel",
    "test_plan.py::test_tasks_of_a_cluster_are_foreseen[False",
    "test_relatedness.py::test_calibrated_tests_are_the_same_everywhere",
    "test_relatedness.py::test_level_is_right_among_relatives",
    "test_same_everywhere.py::test_same_bits[3-lazy-stay",
    "test_same_everywhere.py::test_same_bits[5-lazy-have",
    "test_same_everywhere.py::test_same_bits[5-weighting-have",
    "test_same_everywhere.py::test_same_bits_on_tiles",
    "test_same_samples.py::test_copies_are_told_in_every_format_until_they_are_left_out[pairs",
    "test_scores_of_labels.py::test_microarrays_have_no_scores_unless_planted[leukaemia",
    "test_scores_of_labels.py::test_microarrays_have_no_scores_unless_planted[lymphoma",
    "test_several_answers.py::test_numbers_of_two_sites_have_a_command_for_each_reading[,",
    "test_several_answers.py::test_numbers_of_two_sites_have_a_command_for_each_reading[\\t",
    "test_sexes.py::test_a_store_keeps_the_sexes[.traw",
    "test_shapes_selected.py::test_a_single_shape_is_first[False-absolute",
    "test_shapes_selected.py::test_a_single_shape_is_first[False-bump",
    "test_shapes_selected.py::test_a_single_shape_is_first[False-fast",
    "test_shapes_selected.py::test_a_single_shape_is_first[False-step",
    "test_shapes_selected.py::test_a_single_shape_is_first[False-two-sided",
    "test_shapes_selected.py::test_a_single_shape_is_first[False-wave",
    "test_spatial.py::test_genes_with_a_pattern_in_space_are_found",
    "test_stability.py::test_a_class_of_three_is_a_class_in_every_part[int",
    "test_subset.py::test_the_ranking_is_that_of_a_store_of_those_features[False-bahsic",
    (
        "test_suspects.py::test_labels_again_are_told_in_every_format_and_the_option_leaves_them_out["
        "code"
    ),
    (
        "test_suspects.py::test_labels_again_are_told_in_every_format_and_the_option_leaves_them_out["
        "mon"
    ),
    (
        "test_suspects.py::test_labels_again_are_told_in_every_format_and_the_option_leaves_them_out["
        "rou"
    ),
    (
        "test_suspects.py::test_labels_again_are_told_in_every_format_and_the_option_leaves_them_out["
        "turned"
    ),
    "test_targets.py::test_several_names_are_one_target[dataset",
    "test_targets.py::test_several_names_are_one_target[parquet",
    "test_targets.py::test_several_names_are_one_target[polars",
    "test_turns.py::test_a_run_that_goes_on_tells_the_same_turns[gaussian-exact",
    "test_weights.py::test_a_weight_of_zero_leaves_the_sample_out_to_the_bit[integers",
    "test_weights.py::test_weights_restore_the_level_that_sampling_destroys[real",
    "test_whole_numbers.py::test_a_joint_target_finds_what_each_column_finds_alone[four",
    "test_whole_numbers.py::test_a_joint_target_finds_what_each_column_finds_alone[two",
    "test_whole_numbers.py::test_a_joint_target_finds_what_each_column_finds_alone[whole numbers-1",
    "test_whole_numbers.py::test_a_joint_target_finds_what_each_column_finds_alone[whole numbers-2",
    (
        "test_whole_numbers.py::test_features_that_follow_a_whole_number_are_found_as_of_real_values["
        "counts"
    ),
    (
        "test_whole_numbers.py::test_features_that_follow_a_whole_number_are_found_as_of_real_values["
        "scores"
    ),
)
