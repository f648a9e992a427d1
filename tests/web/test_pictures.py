"""What reaches the browser of a file: its pixels, and nothing else."""

import struct
import zlib
from io import BytesIO

import pytest
from PIL import Image
from tests.data.pictures import save
from tests.projects.toy import begin
from tests.web.pages import Browser

SCRIPT = b"<script>alert(1)</script>"


def name_of(browser, path):
    gallery = browser.session.images
    items = {one.path: one.id for one in browser.session.project.store.items()}
    return gallery.name_of(items[path])


def shown(browser, path, side=320):
    return browser.get(f"/api/images/{name_of(browser, path)}/{side}")


def opened(answer):
    return Image.open(BytesIO(answer.content))


def bomb(path):
    """Write a PNG of a few bytes that says it has a billion pixels."""
    head = struct.pack(">IIBBBBB", 40_000, 40_000, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", head), (b"IDAT", zlib.compress(b"\0" * 1000)), (b"IEND", b"")]
    chunks = [
        struct.pack(">I", len(body))
        + kind
        + body
        + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in parts
    ]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))


def test_a_picture_is_written_anew_in_its_own_proportions(tmp_path):
    images = tmp_path / "images"
    for number in range(6):
        save(images / f"{number:02d}.png", number)
    large = Image.effect_noise((400, 200), 50).convert("RGB")
    large.save(images / "large.jpg", exif=b"Exif\0\0" + SCRIPT, comment=SCRIPT)
    with begin(tmp_path, budget=4, audit=1) as project:
        browser = Browser(project)
        found = shown(browser, "large.jpg", 160)
        assert found.headers["content-type"] == "image/jpeg"
        assert opened(found).size == (160, 80)
        assert opened(shown(browser, "large.jpg", 2560)).size == (400, 200)
        assert SCRIPT not in shown(browser, "large.jpg", 1280).content
        small = shown(browser, "00.png")
        assert small.headers["content-type"] == "image/png"
        with Image.open(images / "00.png") as original:
            assert opened(small).tobytes() == original.tobytes()


def test_what_is_no_image_is_not_asked_about_nor_shown(tmp_path):
    images = tmp_path / "images"
    for number in range(6):
        save(images / f"{number:02d}.png", number)
    (images / "vector.png").write_bytes(b"<svg xmlns='http://www.w3.org/2000/svg'/>")
    bomb(images / "bomb.png")
    with (images / "00.png").open("ab") as both:
        both.write(SCRIPT)  # an image and a page at once
    with pytest.warns(UserWarning, match="bomb.png"):
        project = begin(tmp_path, budget=4, audit=1)
    with project:
        browser = Browser(project)
        paths = {one.path for one in project.store.items()}
        assert paths == {f"{number:02d}.png" for number in range(6)}
        told = shown(browser, "00.png")
        assert told.status_code == 200
        assert SCRIPT not in told.content
        assert told.headers["content-type"] == "image/png"


def test_a_file_that_was_exchanged_is_not_shown(browser):
    folder = browser.session.project.images_folder
    assert shown(browser, "01.png").status_code == 200
    bomb(folder / "01.png")
    told = shown(browser, "01.png")
    assert told.status_code == 404
    assert "pixels" in told.json()["error"]
    save(folder / "02.png", 77)
    assert "changed" in shown(browser, "02.png").json()["error"]
    (folder / "03.png").unlink()
    assert shown(browser, "03.png").status_code == 404


def test_a_link_out_of_the_folder_is_not_followed(tmp_path):
    images, outside = tmp_path / "images", tmp_path / "private.png"
    save(outside, 99)
    for number in range(6):
        save(images / f"{number:02d}.png", number)
    (images / "link.png").symlink_to(outside)
    (images / "inner.png").symlink_to(images / "00.png")
    with begin(tmp_path, budget=4, audit=1) as project:
        browser = Browser(project)
        told = shown(browser, "link.png")
        assert told.status_code == 404
        assert "leads out of the folder" in told.json()["error"]
        assert shown(browser, "inner.png").status_code == 200


@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd", "..%2f..%2fetc%2fpasswd", "%00", "a" * 24, "A" * 24, "0" * 23],
)
def test_a_name_is_never_a_path(browser, name):
    assert browser.get(f"/api/images/{name}/320").status_code in {404, 422}
    assert browser.get(f"/static/{name}").status_code == 404


def test_only_a_few_sizes_are_made(browser):
    for side in ("100000", "0", "-1", "1e3", "x"):
        assert shown(browser, "01.png", side).status_code in {404, 422}


def test_a_few_of_many_are_looked_up_alone(project, browser, monkeypatch):
    shown = browser.lease(3)
    assert len(browser.session.images._files) == 3
    for one in shown:
        assert browser.get(f"/api/images/{one['id']}/320").status_code == 200
    assert len(browser.session.images._files) == 3
    other = name_of(browser, "00.png")
    assert browser.get(f"/api/images/{other}/320").status_code == 200
    assert len(browser.session.images._files) == 24
