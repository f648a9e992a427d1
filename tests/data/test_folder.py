import os
import warnings
from collections import Counter
from io import BytesIO

import pytest
import torch
from PIL import Image
from tests.data.pictures import pixels, save, tree

from fewlabels.data.files import is_held_out
from fewlabels.data.folder import folder_pool
from fewlabels.errors import DataError, FewlabelsWarning, UnreadableFilesWarning
from fewlabels.files import digest_of


def loaded(folder, **options):
    return folder_pool(folder, **{"size": None, "test_share": 0.2, **options})


def label_of(pool):
    return dict(zip(pool.ids, pool.labels.tolist(), strict=True))


def test_a_plain_folder_has_no_labels(tmp_path):
    for number in (10, 9, 1):
        save(tmp_path / f"{number}.png", number)
    save(tmp_path / "deep" / "er" / "2.png", 2)
    pool = loaded(tmp_path)
    names = [name.partition("@")[0] for name in pool.ids]
    assert names == ["1.png", "9.png", "10.png", "deep/er/2.png"]
    assert pool.classes == ()
    assert pool.test is None
    assert pool.candidates.tolist() == [0, 1, 2, 3]


def test_folders_are_classes_in_natural_order(tmp_path):
    tree(tmp_path, ["10", "9", "cat"], each=4)
    pool = loaded(tmp_path, test_share=0)
    assert pool.classes == ("9", "10", "cat")
    assert pool.class_counts == (4, 4, 4)
    assert pool.test is None
    assert (pool.images.read(torch.tensor([0]))[0, 0].numpy() == pixels(4)).all()


def test_images_beside_the_classes_have_no_label(tmp_path):
    save(tree(tmp_path, each=3) / "new.png", 99)
    pool = loaded(tmp_path, test_share=0)
    assert pool.labels.tolist() == [0, 0, 0, 1, 1, 1, -1]
    assert pool.ids[6].startswith("new.png@")


def test_folders_are_not_classes_if_told_so(tmp_path):
    pool = loaded(tree(tmp_path), use_labels=False)
    assert pool.classes == ()
    assert len(pool) == 20


@pytest.mark.parametrize("name", ["test", "val", "validation", "valid", "Test"])
def test_train_and_test_are_the_split(tmp_path, name):
    tree(tmp_path / "train", each=3)
    tree(tmp_path / name, each=2, start=50)
    pool = loaded(tmp_path)
    assert pool.class_counts == (3, 3)
    assert pool.test.labels.tolist() == [0, 0, 1, 1]
    assert pool.ids[0].startswith("train/cat/0.png@")


def test_validation_joins_the_pool_beside_a_test_split(tmp_path):
    for start, name in enumerate(("train", "val", "test")):
        tree(tmp_path / name, each=2, start=10 * start)
    pool = loaded(tmp_path)
    assert len(pool) == 8
    assert len(pool.test) == 4


def test_the_share_is_about_right_and_follows_the_content(tmp_path):
    tree(tmp_path, each=200)
    pool = loaded(tmp_path)
    assert 50 < len(pool.test) < 110
    (tmp_path / "dog" / "0.png").rename(tmp_path / "dog" / "renamed.png")
    again = loaded(tmp_path)
    assert len(again.test) == len(pool.test)


def test_other_files_are_passed_over(tmp_path):
    save(tmp_path / "a.PNG")
    (tmp_path / ".hidden.png").touch()
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "b.png").touch()
    for name in ("Thumbs.db", "notes.txt", "labels.csv", "meta.json"):
        (tmp_path / name).touch()
    assert len(loaded(tmp_path)) == 1


def test_links_to_folders_are_not_followed(tmp_path):
    outside = tmp_path / "outside"
    save(outside / "secret.png")
    inside = tmp_path / "inside"
    save(inside / "a.png")
    (inside / "link").symlink_to(outside, target_is_directory=True)
    (inside / "loop").symlink_to(inside, target_is_directory=True)
    with pytest.warns(UnreadableFilesWarning, match=r"link \(a link to a folder"):
        pool = loaded(inside)
    assert len(pool) == 1


def test_formats_that_are_not_read_are_reported(tmp_path):
    save(tmp_path / "a.png")
    (tmp_path / "phone.HEIC").write_bytes(b"x")
    with pytest.warns(UnreadableFilesWarning, match=r"phone.HEIC \(\.heic is not read"):
        loaded(tmp_path)


def test_nothing_usable_is_an_error(tmp_path):
    with pytest.raises(DataError, match="There is no image in"):
        loaded(tmp_path)
    (tmp_path / "a.png").touch()
    with pytest.raises(DataError, match=r"1 cannot be used: a\.png \(empty"):
        loaded(tmp_path)


def test_a_closed_folder_is_named(tmp_path, monkeypatch):
    save(tmp_path / "a.png")
    (tmp_path / "shut").mkdir()
    scandir = os.scandir

    def refuse(path):
        if os.fspath(path).endswith("shut"):
            raise PermissionError(13, "Permission denied", os.fspath(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.warns(UnreadableFilesWarning, match=r"shut \(folder cannot be read"):
        loaded(tmp_path)
    with pytest.raises(DataError, match=r"shut cannot be read: Permission denied\."):
        loaded(tmp_path / "shut")


def break_fourteen(folder):
    """Put two files of each of seven kinds into a folder."""
    whole = save(folder / "whole.png", 5000, height=40, width=40)
    content = whole.read_bytes()
    whole.unlink()
    for number in range(2):
        (folder / f"empty{number}.png").touch()
        (folder / f"text{number}.jpg").write_text("not an image")
        (folder / f"cut{number}.png").write_bytes(content[: len(content) // 2])
        (folder / f"head{number}.png").write_bytes(content[:20])
        (folder / f"dangling{number}.png").symlink_to("nowhere")
        (folder / f"folder{number}.png").mkdir()
        Image.new("1", (15_000, 15_000)).save(folder / f"bomb{number}.png")


def test_a_thousand_images_with_fourteen_broken_ones(tmp_path):
    tree(tmp_path, [f"class{number}" for number in range(10)], each=100)
    break_fourteen(tmp_path / "class3")
    with pytest.warns(UnreadableFilesWarning) as caught:
        pool = loaded(tmp_path)
    (warning,) = [one.message for one in caught]
    kinds = Counter(one.name.split("/")[1].split(".")[0][:-1] for one in warning.files)
    assert len(kinds) == 7
    assert set(kinds.values()) == {2}
    assert all(one.name in str(warning) and one.reason for one in warning.files)
    assert len(pool) + len(pool.test) == 1000

    name = pool.ids[500].partition("@")[0]
    (tmp_path / name).unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = loaded(tmp_path)
    before = label_of(pool)
    del before[pool.ids[500]]
    assert label_of(again) == before
    assert len(again.test) == len(pool.test)


def test_more_than_a_hundred_files_are_counted(tmp_path):
    save(tmp_path / "good.png")
    for number in range(105):
        (tmp_path / f"bad{number:03}.png").touch()
    with pytest.warns(
        UnreadableFilesWarning, match=r"bad099.*; and 5 more, listed in"
    ) as caught:
        loaded(tmp_path)
    assert len(caught[0].message.files) == 105
    assert "bad100" not in str(caught[0].message)


def test_names_that_are_not_utf8_are_reported(tmp_path):
    tree(tmp_path, each=2)
    odd = os.fsdecode(b"odd\xff")
    try:
        save(tmp_path / "cat" / f"{odd}.png", 90)
    except OSError:
        pytest.skip("this file system has UTF-8 names only")
    save(tmp_path / odd / "0.png", 91)
    (tmp_path / f"{odd}.txt").touch()
    with pytest.warns(UnreadableFilesWarning) as caught:
        pool = loaded(tmp_path, test_share=0)
    names = [one.name for one in caught[0].message.files]
    assert names == [r"cat/odd\xff.png", r"odd\xff"]
    assert r"cat/odd\xff.png (its name is not UTF-8" in str(caught[0].message)
    assert pool.classes == ("cat", "dog")
    "".join(pool.ids).encode()


def test_one_folder_is_no_class_and_that_is_said(tmp_path):
    tree(tmp_path, ["cat"], each=3)
    with pytest.warns(
        FewlabelsWarning, match=r"All 3 images in .* in the one folder 'cat'.*no label"
    ):
        pool = loaded(tmp_path)
    assert pool.classes == ()
    assert loaded(tmp_path, use_labels=False).classes == ()


def test_identical_images_cannot_be_split(tmp_path):
    content = measured_image()
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        for number in range(20):
            (tmp_path / name / f"{number}.png").write_bytes(content)
    with pytest.raises(DataError, match="equal images stay together") as caught:
        loaded(tmp_path)
    assert "set test_share to 0" in str(caught.value)
    assert len(loaded(tmp_path, test_share=0)) == 40


def measured_image():
    """Return an image whose content puts it into the test split."""
    for number in range(100):
        stored = BytesIO()
        Image.fromarray(pixels(number)).save(stored, "PNG")
        if is_held_out(digest_of(stored.getvalue()), 0.2):
            return stored.getvalue()
    return pytest.fail("none of a hundred images is held out")
