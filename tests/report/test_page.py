"""The page: right numbers, nothing from outside, nothing that a name can break."""

import base64
import re
from html.parser import HTMLParser
from importlib.resources import files
from io import BytesIO

import matplotlib
import numpy as np
import pytest
import torch
from PIL import Image
from tests.report.conftest import Writer, make_pool

from fewlabels.errors import DataError
from fewlabels.pool import ArrayImages, Pool
from fewlabels.report import write_report
from fewlabels.report.page import Page

EMPTY = {"img", "meta", "br", "path", "use", "link"}


class Reader(HTMLParser):
    """Collects tags, attributes and text, and complains about unclosed elements."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.words = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag not in EMPTY:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] != "style":
            self.words.append(data)


def read(path):
    reader = Reader()
    reader.feed(path.read_text("utf-8"))
    assert reader.open == []
    return reader


def text_of(path):
    words = " ".join(" ".join(read(path).words).split())
    return words.replace("\N{NON-BREAKING HYPHEN}", "-")


def pictures(path):
    sources = [attrs["src"] for tag, attrs in read(path).tags if tag == "img"]
    return [
        np.asarray(Image.open(BytesIO(base64.b64decode(source.partition(",")[2]))))
        for source in sources
    ]


def check_sound(path):
    """Nothing is run or fetched, every picture has words, every id is there once."""
    tags, html = read(path).tags, path.read_text("utf-8")
    assert {tag for tag, _ in tags}.isdisjoint({"script", "b", "iframe", "object", "a"})
    assert not [attrs for _, attrs in tags for name in attrs if name.startswith("on")]
    assert not re.search(r"https?:|url\(|@import", html)
    for _, attrs in tags:
        for name in ("src", "href", "xlink:href", "action", "data", "srcset"):
            assert attrs.get(name, "#").startswith(("#", "data:image/"))
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    assert f'content="{policy}"' in html
    assert ("html", {"lang": "en"}) in tags
    assert all(attrs["alt"] for tag, attrs in tags if tag == "img")
    assert all("scope" in attrs for tag, attrs in tags if tag == "th")
    identifiers = [attrs["id"] for _, attrs in tags if "id" in attrs]
    assert len(identifiers) == len(set(identifiers))


def report(folder, pool):
    return write_report(folder.report_file, folder, pool)


# -------------------------------------------------------------------- the numbers shown


def test_medians_are_in_the_table_and_in_no_curve(npc, tmp_path, pool):
    writer = Writer(tmp_path / "run", pool, "margin")
    folder = writer.add(0.7, median=0.612).add(0.9, size=0, median=0.934).folder
    shown = text_of(report(folder, pool))
    assert "Median at the end 61.2 % 93.4 %" in shown
    assert shown.count("61.2 %") == 1
    assert "Median" not in text_of(report(npc, pool))


def test_one_run_in_numbers(npc, pool):
    shown = text_of(report(npc, pool))
    for words in (
        "npc on pets",
        "97.2 % of 500 held-out images right after 11 labels.",
        "14 of 500 images are wrong",
        "between 95.3 and 98.5 % (95 % interval)",
        "74.2 % 95.4 % 97.2 %",
        "3 → 7 labels 4 asked for",
        "3 last-layer 0.5 0.8 62.5 %",
        "7 last-layer 1.5 × 10⁻¹⁴ (tie) 0.6 0.0 %",
        "this choice is no better than random",
        "Total 4.5 s 0.50 s",
        "Every class has a label.",
        "Trainer fixmatch (steps = 400)",
        "Num test 500",
        "Classes 3: cat, dog, fox",
        "torch 2.13.0",
        "f00d" * 16,
        "One run is one seed.",
    ):
        assert words in shown, words


# ------------------------------------------------------------------------ odd runs


def test_a_run_that_has_just_begun(tmp_path, pool):
    shown = text_of(report(Writer(tmp_path / "run", pool).folder, pool))
    assert "No round is finished yet." in shown
    assert "This run is not finished: 3 of 11 labels." in shown
    assert "Starting set" in shown
    assert "Time" not in shown


def test_a_run_without_even_a_starting_set(tmp_path, pool):
    folder = Writer(tmp_path / "run", pool).folder
    folder.start_file.unlink()
    assert "Queries" not in text_of(report(folder, pool))


def test_no_test_split(tmp_path, pool):
    writer = Writer(tmp_path / "run", pool, num_test=0).add(None).add(None, size=0)
    path = report(writer.folder, pool)
    assert "without held-out images, there is no way to tell how good" in text_of(path)
    assert "Accuracy was not measured" in text_of(path)
    assert "<svg" not in path.read_text("utf-8")


def test_where_no_label_came_the_later_measurement_stands(tmp_path, pool):
    writer = Writer(tmp_path / "run", pool)
    writer.add(0.5, answers=[-1] * 4).add(0.6, size=0)
    assert "Labels 3 Accuracy 60.0 %" in text_of(report(writer.folder, pool))


def test_time_that_nobody_took_is_not_zero(tmp_path, pool):
    writer = Writer(tmp_path / "run", pool).add(0.5).add(0.6, size=0)
    assert "Total 3.0 s 0.25 s" in text_of(report(writer.folder, pool))
    writer.folder.timings_file.unlink()
    assert "Total – –" in text_of(report(writer.folder, pool))


def test_values_are_shares_of_their_ceiling_where_there_is_one(tmp_path, pool):
    writer = Writer(tmp_path / "run", pool, "dal")
    writer.add(0.5, value=0.5, ceiling=0.8).add(0.6, value=2.0).add(0.7)
    shown = text_of(report(writer.folder, pool))
    assert "3 – 0.5 0.8 62.5 % 7 – 2 – –" in shown


def test_items_skipped_and_left_open_are_marked(tmp_path, pool):
    writer = Writer(tmp_path / "run", pool).add(0.5, answers=[0, -1, None, 2])
    path = report(writer.folder, pool)
    shown = text_of(path)
    assert "3 → 5 labels 4 asked for, 2 answered, 1 skipped, 1 left open" in shown
    states = [attrs.get("class") for tag, attrs in read(path).tags if tag == "li"]
    assert states == ["labeled"] * 4 + ["skipped", "open", "labeled"]


def test_a_hundred_classes_are_a_strip_and_those_without_a_label_are_named(tmp_path):
    pool = make_pool(300, classes=tuple(f"kind {number}" for number in range(100)))
    writer = Writer(tmp_path / "run", pool, start=80).add(0.1, size=70)
    path = report(writer.add(0.2, size=0).folder, pool)
    shown = text_of(path)
    assert "Labels 80 150 Classes with a label 80 100 Every class has a label." in shown
    assert "and 10 more" in shown  # of the 70 images asked for
    assert len(pictures(path)) == 120
    early = Writer(tmp_path / "early", pool, start=98).add(0.1, size=0).folder
    assert "Not covered yet: kind 98, kind 99." in text_of(report(early, pool))


# ---------------------------------------------------------------------- the images


def test_small_images_are_kept_pixel_by_pixel(npc, pool):
    shown = pictures(report(npc, pool))
    assert len(shown) == 11
    for index, picture in enumerate(shown):
        assert np.array_equal(picture, pool.images.items[index, 0].numpy())


def test_colors_stay_and_large_images_are_reduced_in_proportion(tmp_path):
    pool = make_pool(shape=(3, 32, 32))
    shown = pictures(report(Writer(tmp_path / "small", pool).add(0.5).folder, pool))
    assert np.array_equal(shown[2], pool.images.items[2].permute(1, 2, 0).numpy())
    pool = make_pool(10, shape=(3, 150, 300))
    path = report(Writer(tmp_path / "run", pool).add(0.5).folder, pool)
    assert {picture.shape for picture in pictures(path)} == {(64, 128, 3)}


def test_an_item_that_is_gone_is_an_empty_frame_with_its_name(tmp_path, pool):
    ids = [*pool.ids[3:6], "lost/cat one.png@beef"]
    path = report(Writer(tmp_path / "run", pool).add(0.5, ids=ids).folder, pool)
    assert '<span class="gone">lost/cat one.png</span>' in path.read_text("utf-8")
    assert len(pictures(path)) == 6


def test_an_item_that_cannot_be_read_any_more_is_an_empty_frame(tmp_path, pool):
    class Broken(ArrayImages):
        def read(self, indices):
            if 4 in indices.tolist():
                raise DataError("The file was cut short.")
            return super().read(indices)

    broken = Pool.build(
        Broken(pool.images.items), pool.labels, pool.classes, ids=pool.ids
    )
    path = report(Writer(tmp_path / "run", pool).add(0.5).folder, broken)
    assert '<span class="gone">pets/4.png</span>' in path.read_text("utf-8")
    assert len(pictures(path)) == 6


def test_vectors_have_no_picture(tmp_path, pool):
    vectors = Pool.build(
        ArrayImages(torch.zeros(200, 5)), pool.labels, pool.classes, ids=pool.ids
    )
    path = report(Writer(tmp_path / "run", vectors).add(0.5).folder, vectors)
    assert pictures(path) == []
    assert '<span class="gone">pets/4.png</span>' in path.read_text("utf-8")


# ---------------------------------------------------- safe, self-contained, repeatable

WILD = "<script>alert(1)</script>"
WILD_FILE = "été '写真' \"quoted\" & <b>.png@00"


@pytest.fixture
def wild(tmp_path):
    ids = [f"{index}/{WILD_FILE}" for index in range(40)]
    pool = make_pool(40, classes=(WILD, '" onload="x', "$a_1$"), ids=ids)
    folders = [
        Writer(
            tmp_path / f"{number}{WILD[1:7]}",
            pool,
            strategy=f"{WILD} $x^2$ 写真",
            data={"name": f"/photos/{WILD}", "options": {WILD: '"'}},
        )
        .add(0.5, kernel=WILD, value=0.1)
        .add(0.6)
        .folder
        for number in range(2)
    ]
    return report(folders[0], pool)


def test_names_from_outside_are_only_ever_text(wild):
    check_sound(wild)
    html = wild.read_text("utf-8")
    assert WILD not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    alts = {attrs["alt"] for tag, attrs in read(wild).tags if tag == "img"}
    assert "0/été '写真' \"quoted\" & <b>.png" in alts


def test_the_page_can_be_read_out(npc, pool):
    path = report(npc, pool)
    check_sound(path)
    (words,) = [attrs["aria-label"] for tag, attrs in read(path).tags if tag == "svg"]
    assert "97.2\N{NO-BREAK SPACE}% after 11 labels" in words


def test_the_same_run_gives_the_same_bytes(npc, pool, tmp_path):
    matplotlib_before = dict(matplotlib.rcParams)
    first = write_report(tmp_path / "new" / "a.html", npc, pool)
    with matplotlib.rc_context({"lines.linewidth": 9, "axes.facecolor": "red"}):
        second = write_report(tmp_path / "b.html", npc, pool)
    assert first.read_bytes() == second.read_bytes()
    assert dict(matplotlib.rcParams) == matplotlib_before


def test_half_a_surrogate_pair_does_not_stop_the_page(tmp_path):
    page = Page(
        kind="report",
        title="caf\udce9",
        headline="",
        explanation=(),
        sections=(),
        facts={},
    )
    path = page.write(tmp_path / "page.html")
    assert "<h1>caf?</h1>" in path.read_text("utf-8")


def test_template_and_style_are_part_of_the_package():
    names = {entry.name for entry in files("fewlabels.report").iterdir()}
    assert {"about.html.j2", "base.html.j2", "page.html.j2"} <= names
    assert {"sheet.html.j2", "style.css"} <= names
