"""The 45 traps of pooling, each a test: ROWS says which. Where frameworks get one wrong, the test says who."""

from __future__ import annotations

import importlib

# Row of the checklist -> tests, named module.test.
ROWS = {
    1: "pool.test_pool_traps_geometry.ceil_drop_rule",
    2: "pool.test_pool_traps_geometry.ceil_overhang_divisors",
    3: "pool.test_pool_traps_geometry.corner_divisors_are_products",
    4: "pool.test_pool_traps_geometry.asymmetric_pads",
    5: "pool.test_pool_traps_geometry.include_pad_with_same_lower",
    6: "pool.test_pool_traps_geometry.divisor_override",
    7: "pool.test_pool_traps_geometry.windows_of_padding_only",
    8: "pool.test_pool_traps_geometry.pad_limits",
    9: "pool.test_pool_traps_geometry.window_larger_than_padded_input",
    10: "pool.test_pool_traps_geometry.sizes_in_integers",
    11: "pool.test_pool_traps_geometry.same_padding_amounts",
    12: "pool.test_pool_traps_geometry.same_with_dilation pool.test_pool_traps_geometry.valid_with_ceil",
    13: "pool.test_pool_traps_geometry.stride_larger_than_window pool.test_backward.stride_larger_than_window",
    14: "pool.test_pool_traps_values.nan_by_place",
    15: "pool.test_pool_traps_values.nan_in_body_and_tail",
    16: "pool.test_pool_traps_values.all_lowest",
    17: "pool.test_pool_traps_values.ties",
    18: "pool.test_pool_traps_values.infinities_stay_in_their_windows",
    19: "pool.test_pool_traps_values.index_bases",
    20: "pool.test_pool_traps_values.indices_with_padding_and_dilation",
    21: "pool.test_pool_traps_values.index_limits",
    22: "pool.test_pool_traps_geometry.huge_arguments",
    23: "pool.test_pool_traps_values.unpool",
    24: "pool.test_pool_traps_values.unpool_inverts",
    25: "pool.test_pool_traps_geometry.adaptive_sizes",
    26: "pool.test_backward.adaptive_windows_that_overlap_sum",
    27: "pool.test_pool_traps_geometry.global_is_adaptive_is_window",
    28: "pool.test_pool_traps_others.fractional",
    29: "pool.test_pool_traps_values.lp pool.test_backward.lp_of_zeros",
    30: "pool.test_pool_traps_others.roi",
    31: "pool.test_pool_traps_others.pyramid",
    32: "pool.test_pool_traps_values.narrow_integer_averages",
    33: "pool.test_pool_traps_values.int64_averages",
    34: "pool.test_pool_traps_values.half_accumulators",
    35: "pool.test_pool_traps_values.long_sums",
    36: "pool.test_pool_traps_geometry.empty_and_rank",
    37: "pool.test_pool_traps_others.memory_of_inputs test_dispatch.layouts_of_memory",
    38: "pool.test_pool_traps_others.channels_last",
    39: "pool.test_pool_traps_others.threads_and_repetition test_dispatch.after_fork",
    40: "pool.test_backward.finite_differences pool.test_backward.max_gradient_is_conserved",
    41: "pool.test_pool_traps_geometry.every_window_size",
    42: "pool.test_pool_traps_others.regions",
    43: "pool.test_pool_traps_others.out_does_not_overlap pool.test_pool_traps_others.pools_never_work_in_place",
    44: "pool.test_pool_traps_others.onnx_defaults",
    45: "pool.test_pool_traps_geometry.kinds_of_arguments",
}


def test_every_row_has_its_tests() -> None:
    assert sorted(ROWS) == list(range(1, 46))
    for names in ROWS.values():
        for name in names.split():
            module, _, function = name.rpartition(".")
            home = (
                importlib.import_module(f"tests.functional.{module}")
                if module
                else importlib.import_module(__name__)
            )
            assert callable(getattr(home, f"test_{function}")), name
