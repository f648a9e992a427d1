import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tests.data.pictures import pixels, save

from fewlabels.data import files as module
from fewlabels.data.files import (
    FileImages,
    Listed,
    check_files,
    common_shape,
    file_pool,
    is_held_out,
)
from fewlabels.errors import DataError
from fewlabels.files import digest_of


def checked(folder, names):
    return check_files((name, folder / name) for name in names)


def test_order_is_kept_and_the_broken_are_named(tmp_path):
    save(tmp_path / "b.png", 1)
    (tmp_path / "x.png").touch()
    save(tmp_path / "a.png", 2)
    usable, unreadable = checked(tmp_path, ["b.png", "x.png", "a.png"])
    assert [file.name for file in usable] == ["b.png", "a.png"]
    assert [str(one) for one in unreadable] == ["x.png (empty: 0 bytes)"]


def test_threads_leave_the_filters_of_warnings_alone(tmp_path):
    for number in range(20):
        save(tmp_path / f"{number}.png", number)
    Image.new("1", (9_500, 9_500)).save(tmp_path / "bomb.png")
    names = [path.name for path in tmp_path.iterdir()]
    before = list(warnings.filters)
    with ThreadPoolExecutor(3) as threads:
        found = list(threads.map(lambda _: checked(tmp_path, names), range(12)))
    assert warnings.filters == before
    assert {len(usable) for usable, _ in found} == {20}
    reason = "bomb.png (9500 x 9500 is more than 80,000,000 pixels)"
    assert {str(one) for _, unreadable in found for one in unreadable} == {reason}


@pytest.mark.parametrize(
    ("sizes", "size", "expected"),
    [
        ([(8, 8), (8, 8)], None, (1, 8, 8)),
        ([(64, 48)], None, (1, 64, 48)),
        ([(65, 48)], None, (1, 32, 32)),
        ([(8, 8), (8, 9)], None, (1, 32, 32)),
        ([(8, 8), (8, 9)], 16, (1, 16, 16)),
    ],
)
def test_one_common_size_is_kept(tmp_path, sizes, size, expected):
    for number, (height, width) in enumerate(sizes):
        save(tmp_path / f"{number}.png", height=height, width=width)
    usable, _ = checked(tmp_path, [f"{number}.png" for number in range(len(sizes))])
    assert common_shape(usable, size) == expected


def test_one_color_image_makes_three_channels(tmp_path):
    save(tmp_path / "grey.png", 1)
    save(tmp_path / "color.png", 2, channels=3)
    usable, _ = checked(tmp_path, ["grey.png", "color.png"])
    shape = common_shape(usable, None)
    assert shape == (3, 8, 8)
    read = FileImages(tuple(usable), shape).read(torch.tensor([1, 0]))
    assert (read[0].numpy() == pixels(2, channels=3).transpose(2, 0, 1)).all()
    assert (read[1].numpy() == pixels(1)).all()


@pytest.fixture
def images(tmp_path):
    names = [save(tmp_path / f"{number}.png", number).name for number in range(12)]
    usable, _ = checked(tmp_path, names)
    return FileImages(tuple(usable), (1, 8, 8))


def test_any_indices_can_be_read(images):
    order = torch.tensor([11, 0, 5, 5, 1, 2, 3, 4, 6, 7])
    read = images.read(order)
    assert read.dtype == torch.uint8
    for row, index in zip(read, order.tolist(), strict=True):
        assert (row[0].numpy() == pixels(index)).all()
    assert images.read(torch.tensor([], dtype=torch.int64)).shape == (0, 1, 8, 8)


def test_a_file_is_decoded_once(images, monkeypatch):
    images.read(torch.arange(12))
    monkeypatch.setattr(module, "decode", lambda *_: pytest.fail("decoded again"))
    images.read(torch.arange(12))


def test_memory_is_bounded(images, monkeypatch):
    monkeypatch.setattr(module, "_MEMORY", 3 * 64)
    images.read(torch.arange(12))
    assert len(images._decoded) == 3


@pytest.mark.parametrize("content", [None, b"garbage"])
def test_a_file_that_breaks_later_is_named(images, content):
    path = images.files[4].path
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(DataError, match=r"4\.png has changed.*Load it again"):
        images.read(torch.tensor([4]))


@given(st.binary(max_size=20), st.floats(0, 1), st.floats(0, 1))
def test_a_larger_share_only_adds(content, one, other):
    digest = digest_of(content)
    small, large = sorted((one, other))
    assert not is_held_out(digest, small) or is_held_out(digest, large)
    assert not is_held_out(digest, 0)
    assert is_held_out(digest, 1)


def test_the_share_is_kept_on_average():
    digests = [digest_of(str(number).encode()) for number in range(10_000)]
    assert abs(sum(is_held_out(one, 0.2) for one in digests) - 2000) < 120


def test_a_pool_is_never_empty(tmp_path):
    path = save(tmp_path / "a.png")
    listed = [Listed("a.png", path, "cat", "test")]
    with pytest.raises(DataError, match=r"All 1 images .*test split.* Put some"):
        file_pool(tmp_path, listed, size=None, test_share=0.2)
