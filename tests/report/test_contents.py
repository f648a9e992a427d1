"""What the page is told to show, before it becomes HTML."""

from tests.report.conftest import Writer, make_pool

from fewlabels.report.measures import share_of_ceiling
from fewlabels.report.page import page_contents
from fewlabels.report.recorded import read_runs


def contents(folder, pool):
    return page_contents(read_runs([folder]), pool)


def test_the_caption_says_where_the_axis_begins(npc, tmp_path, pool):
    caption = "The vertical axis begins at 70\N{NO-BREAK SPACE}%."
    assert contents(npc, pool).caption == caption
    low = Writer(tmp_path / "low", pool).add(0.01).add(0.9).folder
    assert contents(low, pool).caption == ""


def test_pixels_are_shown_while_images_are_small(npc, pool):
    sizes = [
        contents(npc, make_pool(20, shape=(1, side, side))).image_size
        for side in (8, 32, 65)
    ]
    assert sizes == ["tiny", "small", "large"]


def test_a_gallery_knows_states_and_what_it_leaves_out(tmp_path, pool):
    answers = [None, -1, 2] + [0] * 62
    run = Writer(tmp_path / "run", pool).add(0.5, size=65, answers=answers).folder
    (gallery,) = contents(run, pool).runs[0].galleries
    assert gallery.num_more == 5
    assert [(item.state, item.caption) for item in gallery.items[:4]] == [
        ("open", "open"),
        ("skipped", "skipped"),
        ("labeled", "fox"),
        ("labeled", "cat"),
    ]


def test_hashes_are_marked_as_code_and_numbers_are_not(npc, pool):
    rows = [row for group in contents(npc, pool).facts for row in group.rows]
    assert [row.values for row in rows if row.is_code] == [("f00d" * 16,)]
    assert [row.values for row in rows if row.name == "Seed"] == [("0",)]


def test_values_are_shares_of_their_ceiling_where_there_is_one(tmp_path, pool):
    writer = Writer(tmp_path / "run", pool, "dal")
    writer.add(0.5, value=0.5, ceiling=0.8).add(0.6, value=2.0).add(0.7)
    rows = contents(writer.folder, pool).runs[0].values
    assert [share_of_ceiling(row) for row in rows] == [0.625, None]
    assert [row.num_labeled for row in rows] == [3, 7]


def test_time_that_nobody_took_is_not_zero(tmp_path, pool):
    writer = Writer(tmp_path / "run", pool).add(0.5).add(0.6, size=0)
    total = contents(writer.folder, pool).runs[0].total
    assert (total.train, total.query) == (3.0, 0.25)
    writer.folder.timings_file.unlink()
    total = contents(writer.folder, pool).runs[0].total
    assert (total.train, total.query) == (None, None)
