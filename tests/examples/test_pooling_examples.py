"""The examples with pictures run, and their pictures show what they say."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import cenote.functional as F
from examples import background, pictures, pooling_contact_sheet

ROOT = Path(__file__).resolve().parents[2]
SIDE = pooling_contact_sheet.SIDE
MOST_BYTES = 400_000  # of a picture in the documentation
WINDOW = 15


def waves(height: int, width: int) -> Any:
    """An RGB picture that needs no package: waves, another one in each colour, and a few specks."""
    y, x = np.mgrid[:height, :width]
    colours = [127 + 120 * np.sin(x / 7 + k) * np.cos(y / 11 - k) for k in range(3)]
    picture = np.stack(colours, axis=2).astype(np.uint8)
    picture[5::23, 3::19] = 255
    return picture


def page(height: int = 48, width: int = 80) -> tuple[Any, Any]:
    """A sheet with a shadow from left to right, strokes that are 60 darker than it, and where they are."""
    paper = np.broadcast_to(np.linspace(90, 230, width), (height, width))
    ink = np.zeros((height, width), bool)
    ink[6::8, 4:-4] = True
    ink[:, 20:-4:20] = True
    return np.round(paper - 60 * ink).astype(np.uint8), ink


@pytest.fixture(scope="module", params=["waves", "astronaut"])
def known(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What the calls of the contact sheet may name."""
    if request.param == "waves":
        picture = waves(100, 130)
    else:
        pytest.importorskip("skimage", reason="scikit-image has the pictures")
        picture = pictures.sample("astronaut")[pooling_contact_sheet.PORTRAIT]
    return pooling_contact_sheet.names(pooling_contact_sheet.photograph(picture), pooling_contact_sheet.FACE)


def value(known: dict[str, Any], start: str) -> Any:
    """The result of the one call that starts so."""
    (call,) = (call for call in pooling_contact_sheet.CALLS if call.startswith(start))
    return eval(call, {}, known)


def test_every_pooling_has_a_tile() -> None:
    pools = {name for name in F.__all__ if getattr(F, name).__module__.startswith("cenote.functional.pool.")}
    poolings = {name for name in pools if not name.endswith("_backward")}
    shown = [call.split("(")[0] for call in pooling_contact_sheet.CALLS]
    assert sorted(shown) == sorted(poolings)


def test_tiles_show_their_calls(known: dict[str, Any]) -> None:
    sheet = np.asarray(pooling_contact_sheet.contact_sheet(known["x"], pooling_contact_sheet.FACE))
    step_y = SIDE + 2 * pictures.LINE + pictures.GAP + 6
    for number, call in enumerate(pooling_contact_sheet.CALLS, start=1):
        tile = pooling_contact_sheet.tile(call, known)
        assert (tile.title + tile.detail) == call
        row, column = divmod(number, pooling_contact_sheet.COLUMNS)
        y, x = pictures.MARGIN + row * step_y, pictures.MARGIN + column * (SIDE + pictures.GAP)
        np.testing.assert_array_equal(sheet[y : y + SIDE, x : x + SIDE], tile.pixels)
        below = sheet[y + SIDE : y + SIDE + 2 * pictures.LINE, x : x + SIDE]
        assert (below == pictures.INK).all(axis=2).any()
        assert (below == pictures.FAINT_INK).all(axis=2).any()


def test_labels_do_not_run_into_each_other() -> None:
    font = pictures.ImageFont.load_default(pictures.FONT_SIZE)
    for call in pooling_contact_sheet.CALLS:
        name, rest = call.split("(", 1)
        assert max(font.getlength(name), font.getlength(f"({rest}")) < SIDE + pictures.GAP / 2, call


def test_pools_of_one_window_are_in_order(known: dict[str, Any]) -> None:
    most, average, least = (value(known, name) for name in ("max_pool2d", "avg_pool2d", "min_pool"))
    assert most.shape == average.shape == least.shape == (3, 32, 32)
    rounding = 1e-5
    assert (most >= average - rounding).all()
    assert (average >= least - rounding).all()
    assert (most > least).any()
    norm, generalised = value(known, "lp_pool2d"), value(known, "gem_pool")
    for larger, smaller in ((norm, average), (generalised, norm), (most, generalised)):
        assert (larger >= smaller - rounding).all()
    soft, drawn = value(known, "soft_pool"), value(known, "stochastic_pool")
    assert ((soft >= average - rounding) & (soft <= most + rounding)).all()
    windows = known["x"].reshape(3, 32, 6, 32, 6)
    assert (windows == drawn[:, :, None, :, None]).any(axis=(2, 4)).all()


def test_morphology_and_median_lie_around_the_picture(known: dict[str, Any]) -> None:
    low, high, median = (value(known, name) for name in ("erosion", "dilation", "median_pool"))
    for between in (known["x"], median):
        assert ((low <= between) & (between <= high)).all()


def test_unpooling_puts_maxima_back(known: dict[str, Any]) -> None:
    for rank in (1, 2, 3):
        spread, top = value(known, f"max_unpool{rank}d"), known[f"top{rank}"]
        assert np.count_nonzero(spread) == np.count_nonzero(top)
        np.testing.assert_array_equal(np.sort(spread[spread > 0]), np.sort(top[top > 0], axis=None))


def test_pools_over_colours_and_rows(known: dict[str, Any]) -> None:
    x = known["x"]
    np.testing.assert_allclose(
        value(known, "avg_pool3d")[0], F.avg_pool2d(x, 6).mean(0, keepdims=True), atol=1e-6
    )
    np.testing.assert_array_equal(value(known, "max_pool3d")[0], F.max_pool2d(x, 6).max(0, keepdims=True))
    np.testing.assert_array_equal(value(known, "max_pool1d"), x.reshape(3, SIDE, 12, 16).max(3))
    np.testing.assert_allclose(
        value(known, "global_avg_pool")[:, 0, 0], x.mean((1, 2), np.float64), rtol=1e-6
    )


def test_regions_of_the_whole_picture_are_windows(known: dict[str, Any]) -> None:
    """Where bins fall on whole pixels; roi_pool counts the second corner in."""
    x = known["x"]
    whole = known | {"face": np.array([[0, 0, 0, SIDE, SIDE]], np.float32)}
    np.testing.assert_allclose(value(whole, "ps_roi_pool")[0], F.avg_pool2d(x, SIDE // 8), atol=1e-6)
    inner = known | {"face": np.array([[0, 0, 0, SIDE - 1, SIDE - 1]], np.float32)}
    np.testing.assert_array_equal(value(inner, "roi_pool")[0], F.max_pool2d(x, SIDE // 24))


def test_the_pyramid_is_unrolled_in_order(known: dict[str, Any]) -> None:
    pixels = pooling_contact_sheet.tile("spatial_pyramid_pool(x, (4, 8, 16, 32))", known).pixels
    half = SIDE // 2
    for level, (row, column) in zip(
        (4, 8, 16, 32), ((0, 0), (0, half), (half, 0), (half, half)), strict=True
    ):
        expected = pooling_contact_sheet.shades(F.max_pool2d(known["x"], SIDE // level))
        part = pixels[row : row + half, column : column + half]
        np.testing.assert_array_equal(part, pictures.enlarged(expected, half, half))


def test_contact_sheet_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    picture, out = tmp_path / "waves.png", tmp_path / "new" / "sheet.png"
    Image.fromarray(waves(60, 90)).save(picture)
    words = ["sheet", "--picture", str(picture), "--face", "10", "20", "90", "80", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", words)
    pooling_contact_sheet.main()
    with Image.open(out) as written:
        assert written.size == (1244, 1496)
    assert "1244 x 1496 pixels" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "size"), [("pooling", (1244, 1496)), ("background", (812, 1000))])
def test_pictures_of_the_documentation(name: str, size: tuple[int, int]) -> None:
    path = ROOT / "docs" / "pictures" / f"{name}.png"
    assert path.stat().st_size <= MOST_BYTES
    with Image.open(path) as picture:
        assert picture.size == size
    assert f"(pictures/{name}.png)" in (ROOT / "docs" / "pooling_pictures.md").read_text(encoding="utf-8")


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "skimage", None)
    with pytest.raises(SystemExit, match="pip install scikit-image, or name a picture"):
        pictures.sample("page")
    (tmp_path / "text.png").write_text("no picture")
    with pytest.raises(SystemExit, match=r"text\.png cannot be read as a picture"):
        pictures.read(tmp_path / "text.png", "RGB")


def test_envelopes_lie_on_their_side() -> None:
    sheet, ink = page()
    closing, opening = background.envelope(sheet, WINDOW), background.envelope(sheet, WINDOW, light=True)
    assert (closing >= sheet).all()
    assert (opening <= sheet).all()
    # Turning the greys round turns one into the other.
    np.testing.assert_array_equal(255 - background.envelope(255 - sheet, WINDOW, light=True), closing)
    # Strokes are narrower than the window: what remains is paper, 60 lighter than they but for a pixel's slope (2) and
    # rounding.
    assert (closing[ink].astype(int) - sheet[ink]).min() >= 57


def test_envelope_is_that_of_scipy() -> None:
    ndimage = pytest.importorskip("scipy.ndimage", reason="the oracle")
    noise = np.random.default_rng(3).integers(0, 256, (40, 53), np.uint8)
    for window in (3, WINDOW, 31):
        np.testing.assert_array_equal(
            background.envelope(noise, window), ndimage.grey_closing(noise, (window, window))
        )


def test_mean_counts_what_lies_on_the_picture() -> None:
    sheet, _ = page(20, 30)
    reach = WINDOW // 2
    expected = [
        [
            sheet[max(0, y - reach) : y + reach + 1, max(0, x - reach) : x + reach + 1].mean()
            for x in range(sheet.shape[1])
        ]
        for y in range(sheet.shape[0])
    ]
    np.testing.assert_allclose(background.mean(sheet, WINDOW), expected, rtol=1e-5)


def test_contrast_is_the_best_of_all_thresholds() -> None:
    values = np.random.default_rng(5).normal(0, 1, (6, 7)).astype(np.float32)
    values[:2] += 4
    shares = {}
    for threshold in np.sort(values, axis=None)[:-1].astype(np.float64):
        low, high = values[values <= threshold], values[values > threshold]
        weights = low.size * high.size / values.size**2
        shares[threshold] = weights * (high.mean() - low.mean()) ** 2 / values.var()
    share, threshold = background.contrast(values)
    assert share == pytest.approx(max(shares.values()), rel=1e-5)
    assert shares[threshold] == max(shares.values())
    assert background.contrast(7 * values - 30)[0] == pytest.approx(share, rel=1e-4)
    assert background.contrast(np.full((3, 4), 9, np.uint8))[0] == 0


def test_ink_without_its_background() -> None:
    sheet, ink = page()
    before = background.split(sheet) == 0
    after = background.split(sheet - background.background(sheet, WINDOW, "envelope")) == 0
    assert (before != ink).mean() > 0.1
    assert (after == ink).all()


@pytest.mark.parametrize("how", ["envelope", "mean"])
def test_the_page_gains_contrast(how: str) -> None:
    pytest.importorskip("skimage", reason="scikit-image has the page")
    sheet, shares = background.before_and_after(pictures.sample("page"), background.WINDOW)
    assert sheet.size == (812, 1000)
    assert shares["picture"] == pytest.approx(0.719, abs=0.001)
    assert shares[how] > shares["picture"] + 0.05


def test_background_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    file, out = tmp_path / "page.png", tmp_path / "flat.png"
    Image.fromarray(255 - page()[0]).save(file)
    words = ["background", "--picture", str(file), "--light", "--window", str(WINDOW), "--out", str(out)]
    monkeypatch.setattr(sys, "argv", words)
    monkeypatch.setattr(background, "LARGE", 64)
    background.main()
    printed = capsys.readouterr().out
    assert "48 x 80, closing, uint8: Cenote" in printed
    assert "64 x 64, mean, float32: Cenote" in printed
    with Image.open(out) as written:
        assert written.width == 2 * (80 + pictures.MARGIN) + pictures.GAP
    monkeypatch.setattr(sys, "argv", ["background", "--window", "4"])
    with pytest.raises(SystemExit):
        background.main()
    assert "the window must be odd and positive, got 4" in capsys.readouterr().err
