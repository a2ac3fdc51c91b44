"""The 45 traps of pooling, each a test: ROWS says which. Where frameworks get one wrong, the test says who."""

from __future__ import annotations

import importlib

# Row of the checklist -> tests, named module.test.
ROWS = {
    1: "test_traps_geometry.ceil_drop_rule",
    2: "test_traps_geometry.ceil_overhang_divisors",
    3: "test_traps_geometry.corner_divisors_are_products",
    4: "test_traps_geometry.asymmetric_pads",
    5: "test_traps_geometry.include_pad_with_same_lower",
    6: "test_traps_geometry.divisor_override",
    7: "test_traps_geometry.windows_of_padding_only",
    8: "test_traps_geometry.pad_limits",
    9: "test_traps_geometry.window_larger_than_padded_input",
    10: "test_traps_geometry.sizes_in_integers",
    11: "test_traps_geometry.same_padding_amounts",
    12: "test_traps_geometry.same_with_dilation test_traps_geometry.valid_with_ceil",
    13: "test_traps_geometry.stride_larger_than_window test_backward.stride_larger_than_window",
    14: "test_traps_values.nan_by_place",
    15: "test_traps_values.nan_in_body_and_tail",
    16: "test_traps_values.all_lowest",
    17: "test_traps_values.ties",
    18: "test_traps_values.infinities_stay_in_their_windows",
    19: "test_traps_values.index_bases",
    20: "test_traps_values.indices_with_padding_and_dilation",
    21: "test_traps_values.index_limits",
    22: "test_traps_geometry.huge_arguments",
    23: "test_traps_values.unpool",
    24: "test_traps_values.unpool_inverts",
    25: "test_traps_geometry.adaptive_sizes",
    26: "test_backward.adaptive_windows_that_overlap_sum",
    27: "test_traps_geometry.global_is_adaptive_is_window",
    28: "test_traps_others.fractional",
    29: "test_traps_values.lp test_backward.lp_of_zeros",
    30: "test_traps_others.roi",
    31: "test_traps_others.pyramid",
    32: "test_traps_values.narrow_integer_averages",
    33: "test_traps_values.int64_averages",
    34: "test_traps_values.half_accumulators",
    35: "test_traps_values.long_sums",
    36: "test_traps_geometry.empty_and_rank",
    37: "test_traps_others.memory_of_inputs test_arrays.layouts_of_memory",
    38: "test_traps_others.channels_last",
    39: "test_traps_others.threads_and_repetition test_arrays.after_fork",
    40: "test_backward.finite_differences test_backward.max_gradient_is_conserved",
    41: "test_traps_geometry.every_window_size",
    42: "test_traps_others.regions",
    43: "test_traps_others.out_does_not_overlap test_traps_others.pools_never_work_in_place",
    44: "test_traps_others.onnx_defaults",
    45: "test_traps_geometry.kinds_of_arguments",
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
