"""Computations of emitted programs: the cells of a tile, from its part of the input in the buffer."""

from __future__ import annotations

from cenote.ops.pool.window import ExtremePool
from cenote.tiling.problem import TilingPlan

# A row of the input in the buffer: plane `plane` of those that were loaded, d and h counted in the whole input.
_ROW = """
static const element *row(const unsigned char *in, const task *t, ptrdiff_t plane, ptrdiff_t d, ptrdiff_t h) {
  const ptrdiff_t number = (plane * t->in_d + d - t->low_d) * t->in_h + h - t->low_h;
  return (const element *)(const void *)(in + number * INPUT_PITCH);
}
"""


def _over_cells(arguments: str, body: str, more: str = "") -> str:
    return f"""{_ROW}
static void compute({arguments}, const task *t) {{
  for (ptrdiff_t p = t->first; p < t->last; p++)
    for (ptrdiff_t d = t->d0; d < t->d1; d++)
      for (ptrdiff_t h = t->h0; h < t->h1; h++) {{
        element *y = (element *)(void *)out;{more}
        for (ptrdiff_t w = t->w0; w < t->w1; w++) {{
{body}
        }}
        out += OUTPUT_PITCH;
      }}
}}"""


def _over_taps(body: str) -> str:
    return f"""          for (ptrdiff_t i = 0; i < count_d[d]; i++)
            for (ptrdiff_t j = 0; j < count_h[h]; j++) {{
              const ptrdiff_t at_d = first_d[d] + i * STEP_D, at_h = first_h[h] + j * STEP_H;
              const element *from = row(in, t, p - t->first, at_d, at_h);
              for (ptrdiff_t k = 0; k < count_w[w]; k++) {{
                const ptrdiff_t at_w = first_w[w] + k * STEP_W;
{body}
              }}
            }}"""


def _finished(plan: TilingPlan, value: str) -> str:
    """Return the statement that writes a cell, with what is fused behind."""
    if not plan.layer.fused:
        return f"          y[w - t->w0] = {value};"
    return f"""          const element made = {value};
          y[w - t->w0] = made < 0 ? 0 : made; /* NaN stays */"""


def maximum(plan: TilingPlan) -> str:
    has_places = plan.layer.indices is not None
    assert isinstance(plan.layer.op, ExtremePool)
    order = ">" if plan.layer.op.largest else "<"
    taken = "best = value, found = (at_d * IN_H + at_h) * IN_W + at_w" if has_places else "best = value"
    found = "          ptrdiff_t found = 0;\n" if has_places else ""
    placed = "\n          at[w - t->w0] = (place)found;" if has_places else ""
    body = f"""          element best = 0;
          int any = 0;
{found}{
        _over_taps(f'''                const element value = from[at_w - t->low_w];
                /* The first of equals; the last NaN. */
                if (!any || value {order} best || value != value) {taken};
                any = 1;''')
    }
{_finished(plan, "best")}{placed}"""
    arguments = "unsigned char *out, const unsigned char *in"
    if not has_places:
        return _over_cells(arguments, body)
    text = _over_cells(
        f"{arguments}, unsigned char *places", body, "\n        place *at = (place *)(void *)places;"
    )
    return text.replace(
        "        out += OUTPUT_PITCH;", "        out += OUTPUT_PITCH;\n        places += PLACE_PITCH;"
    )


def average(plan: TilingPlan) -> str:
    body = f"""          double total = 0;
{_over_taps("                total += (double)from[at_w - t->low_w];")}
{_finished(plan, "(element)(total / ((double)divisor_d[d] * divisor_h[h] * divisor_w[w]))")}"""
    return _over_cells("unsigned char *out, const unsigned char *in", body)


WEIGHTS = """
/* Input planes of a part of the tile's channels, within the image. */
static void channels_of(const task *t, ptrdiff_t part, ptrdiff_t *first, ptrdiff_t *last) {
  const ptrdiff_t f0 = t->first % FILTERS, f1 = (t->last - 1) % FILTERS;
  const ptrdiff_t low = f0 / GROUP_FILTERS * GROUP_CHANNELS;
  *first = PARTS == 1 ? low : low + part * TILE_CHANNELS;
  *last = (f1 / GROUP_FILTERS + 1) * GROUP_CHANNELS;
  if (PARTS > 1 && *first + TILE_CHANNELS < low + GROUP_CHANNELS) *last = *first + TILE_CHANNELS;
  else if (PARTS > 1) *last = low + GROUP_CHANNELS;
}

/* Weights of the tile's filters for a part of the channels, one filter behind the other. */
static ptrdiff_t load_weights(unsigned char *to, const element *w, const task *t, ptrdiff_t part) {
  const ptrdiff_t low = PARTS == 1 ? 0 : part * TILE_CHANNELS;
  const ptrdiff_t rest = GROUP_CHANNELS - low, count = rest < TILE_CHANNELS ? rest : TILE_CHANNELS;
  const size_t bytes = (size_t)(count * TAPS) * sizeof(element);
  for (ptrdiff_t f = t->first % FILTERS; f < t->first % FILTERS + t->last - t->first; f++) {
    TILE_COPY(to, w + (f * GROUP_CHANNELS + low) * TAPS, bytes);
    to += bytes;
  }
  return count;
}"""


def product(plan: TilingPlan) -> str:
    bias = " + bias[p - t->first]" if plan.layer.has_bias else ""
    one = plan.layer.channel_parts(plan.tile.channels) == 1
    total = "total" if one else "(double)kept[w - t->w0]"
    last = (
        _finished(plan, f"(element)({total}{bias})")
        if one
        else f"""          kept[w - t->w0] = (sum)(part ? (double)kept[w - t->w0] + total : total);
          if (part < PARTS - 1) continue;
{_finished(plan, f"(element)(kept[w - t->w0]{bias})")}"""
    )
    sums = "" if one else "\n        sum *kept = (sum *)(void *)sums;"
    step = "" if one else "\n        sums += SUMS_PITCH;"
    biased = (
        "\n  const element *bias = (const element *)(const void *)(w_in + BIAS_IN);"
        if plan.layer.has_bias
        else ""
    )
    kept = "" if one else ", unsigned char *sums, ptrdiff_t part"
    taps = """              const ptrdiff_t tap = ((tap_d[d] + i) * TAPS_H + tap_h[h] + j) * TAPS_W + tap_w[w];
              for (ptrdiff_t c = 0; c < count; c++) {
                const element *from = row(in, t, group + c, first_d[d] + i * STEP_D, first_h[h] + j * STEP_H);
                for (ptrdiff_t k = 0; k < count_w[w]; k++)
                  total += (double)from[first_w[w] + k * STEP_W - t->low_w] * (double)weights[c * TAPS + tap + k];
              }"""
    return f"""{_ROW}
static void compute(unsigned char *out, const unsigned char *in, const unsigned char *w_in, ptrdiff_t count{kept},
                    const task *t) {{{biased}
  for (ptrdiff_t p = t->first; p < t->last; p++) {{
    const ptrdiff_t f = p % FILTERS;
    const ptrdiff_t group = (f / GROUP_FILTERS - t->first % FILTERS / GROUP_FILTERS) * GROUP_CHANNELS;
    const element *weights = (const element *)(const void *)w_in + (p - t->first) * count * TAPS;
    for (ptrdiff_t d = t->d0; d < t->d1; d++)
      for (ptrdiff_t h = t->h0; h < t->h1; h++) {{
        element *y = (element *)(void *)out;{sums}
        for (ptrdiff_t w = t->w0; w < t->w1; w++) {{
          double total = 0;
          for (ptrdiff_t i = 0; i < count_d[d]; i++)
            for (ptrdiff_t j = 0; j < count_h[h]; j++) {{
{taps}
            }}
{last}
        }}
        out += OUTPUT_PITCH;{step}
      }}
  }}
}}"""
