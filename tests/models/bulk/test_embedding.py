"""Images become rows, each once, however often the work is begun."""

import csv
import json

import numpy as np
import pytest
import torch
from pyarrow import parquet
from tests.data.pictures import save
from tests.models.bulk.here import Here, pictures, rows, work

from fewlabels import errors
from fewlabels.data import load
from fewlabels.models import encoders
from fewlabels.models.bulk import Cost, planned
from fewlabels.models.embedding import embedded


@pytest.fixture
def images(tmp_path):
    """Ten images, and one that is none."""
    return pictures(tmp_path / "images", 10)


def test_every_image_becomes_the_row_that_its_encoder_gives(images, tmp_path):
    done = work(images, tmp_path / "out").run(Here())
    assert (done.num_rows, done.num_shards, done.num_found) == (10, 3, 0)
    found = rows(tmp_path / "out")
    assert list(found) == [f"{number}.png" for number in range(10)]
    with pytest.warns(errors.UnreadableFilesWarning):
        pool = load(images, size=16)
    wanted = embedded(pool.images, encoders.resolve("pixels"), dtype="float32")
    assert np.array_equal(np.stack(list(found.values())), np.asarray(wanted))


def test_rows_are_lists_of_one_length_as_other_programs_read_them(images, tmp_path):
    work(images, tmp_path / "out").run(Here())
    schema = parquet.read_schema(tmp_path / "out" / "shard-0000000.parquet")
    assert str(schema.field("id").type) == "string"
    assert str(schema.field("embedding").type) == "fixed_size_list<element: float>[256]"


def test_what_cannot_be_read_is_listed_and_does_no_harm(images, tmp_path):
    done = work(images, tmp_path / "out", shard_size=1).run(Here())
    (broken,) = done.unreadable
    with (tmp_path / "out" / "unreadable.csv").open() as file:
        (line,) = csv.DictReader(file)
    assert line == {"id": "broken.png", "reason": broken.reason}
    assert "not an image of a known format" in broken.reason
    assert done.num_shards == 11  # one of them without a row


def test_work_that_was_stopped_goes_on(images, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        work(images, tmp_path / "out").run(Here(most=1))
    again = Here()
    done = work(images, tmp_path / "out").run(again)
    assert again.files == ["shard-0000001.parquet", "shard-0000002.parquet"]
    assert done.num_found == 1
    work(images, tmp_path / "whole").run(Here())
    for number in range(3):
        name = f"shard-{number:07}.parquet"
        one, other = (tmp_path / place / name for place in ("out", "whole"))
        assert one.read_bytes() == other.read_bytes()


def test_a_damaged_shard_is_made_anew(images, tmp_path):
    work(images, tmp_path / "out").run(Here())
    file = tmp_path / "out" / "shard-0000001.parquet"
    whole = file.read_bytes()
    file.write_bytes(whole[:-10])
    again = Here()
    work(images, tmp_path / "out").run(again)
    assert again.files == [file.name]
    assert file.read_bytes() == whole


def test_a_folder_that_was_begun_with_something_else_is_left_alone(images, tmp_path):
    work(images, tmp_path / "out").run(Here())
    with pytest.raises(errors.SettingsChangedError, match="shard_size was 4 and is 5"):
        work(images, tmp_path / "out", shard_size=5).run(Here())
    save(images / "new.png", 20, channels=3)
    with pytest.raises(errors.SettingsChangedError, match="images was 11 and is 12"):
        work(images, tmp_path / "out").run(Here())


def test_a_folder_of_somebody_else_is_left_alone(images, tmp_path):
    (tmp_path / "out").mkdir()
    for name in ("mine.txt", ".mine.too.begun"):
        (tmp_path / "out" / name).write_text("mine")
    with pytest.raises(errors.ForeignFolderError, match="mine"):
        work(images, tmp_path / "out").run(Here())
    assert (tmp_path / "out" / ".mine.too.begun").exists()


def test_a_damaged_plan_is_told(images, tmp_path):
    work(images, tmp_path / "out").run(Here())
    plan = tmp_path / "out" / "embed.json"
    plan.write_text(plan.read_text().replace('"side": 16', '"side": 17'))
    with pytest.raises(errors.SettingsChangedError, match="checksum"):
        work(images, tmp_path / "out").run(Here())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"shard_size": 0}, "shard_size is .* at most 2796202"),
        ({"quality": "fast"}, "omit it"),
        ({"quality": "good", "encoder": None}, "quality called 'good'"),
    ],
)
def test_what_cannot_be_meant(images, tmp_path, options, words):
    with pytest.raises(errors.UsageError, match=words):
        work(images, tmp_path / "out", **options)


def test_the_quality_says_what_a_pretrained_network_sees(images, tmp_path):
    for quality, side in (("fast", 96), (None, 160)):
        found = planned(images, tmp_path / "out", quality=quality)
        assert (found.side, found.options) == (side, {"size": side})


def test_a_network_can_be_moved():
    encoder = encoders.resolve(torch.nn.Flatten())
    encoder.to("cpu")
    images = torch.zeros(2, 1, 2, 2, dtype=torch.uint8)
    assert encoder.embed(images).shape == (2, 4)


def test_the_cost_grows_with_images_and_shrinks_with_workers():
    cost = Cost(1000, 100, 2.0, 0.001, 0.008, 0.1, 0.009, 100.0)
    assert cost.seconds(1) == pytest.approx(12)
    assert cost.seconds(2) == pytest.approx(7)
    assert cost.worker_hours == pytest.approx(1 / 360)
    assert cost.num_bytes == 100_000


def test_the_cost_is_measured_and_nothing_is_kept(images, tmp_path, forked_workers):
    cost = work(images, tmp_path / "out").estimate(2)
    assert cost.num_images == 11
    assert min(cost.decoding, cost.embedding, cost.writing) > 0
    assert cost.starting >= 0
    assert cost.row_bytes > 1024
    assert cost.processor > 0
    assert not (tmp_path / "out").exists()
    assert json.dumps(vars(cost))
