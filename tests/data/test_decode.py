import os
import struct
import subprocess
import sys
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

import numpy as np
import pytest
from PIL import Image
from tests.data.pictures import pixels, save

from fewlabels.data import decode as decoding
from fewlabels.data.decode import MemoryBudget, decode, inspect
from fewlabels.errors import DataError


def seen(path, channels=3):
    file = inspect(path.name, path)
    return decode(file, (channels, file.height, file.width))


@pytest.mark.parametrize("extension", ["png", "bmp", "tiff", "ppm", "webp", "gif"])
def test_lossless_formats_give_the_pixels_back(tmp_path, extension):
    options = {"lossless": True} if extension == "webp" else {}
    path = save(tmp_path / f"a.{extension}", 1, **options)
    assert (seen(path, 1)[0] == pixels(1)).all()


def test_jpeg_is_nearly_the_same(tmp_path):
    smooth = Image.linear_gradient("L").resize((32, 32))
    smooth.save(tmp_path / "a.jpg", quality=95)
    difference = seen(tmp_path / "a.jpg", 1)[0].astype(int) - np.asarray(smooth)
    assert abs(difference).max() < 6


@pytest.mark.parametrize("orientation", range(1, 9))
def test_images_are_turned_upright(tmp_path, orientation):
    from PIL import ImageOps

    exif = Image.Exif()
    exif[0x0112] = orientation
    picture = Image.fromarray(pixels(2, height=4, width=6))
    picture.save(tmp_path / "a.png", exif=exif)
    with Image.open(tmp_path / "a.png") as stored:
        upright = np.asarray(ImageOps.exif_transpose(stored))
    assert (seen(tmp_path / "a.png", 1)[0] == upright).all()


def test_sixteen_bits_become_eight(tmp_path):
    values = np.array([[0, 255, 256, 65535]], dtype=np.uint16)
    Image.fromarray(values).save(tmp_path / "a.png")
    assert inspect("a", tmp_path / "a.png").is_grey
    assert seen(tmp_path / "a.png", 1).tolist() == [[[0, 0, 1, 255]]]


def test_transparency_is_laid_over_white(tmp_path):
    red = np.array([[[200, 0, 0, 255], [200, 0, 0, 0]]], dtype=np.uint8)
    Image.fromarray(red).save(tmp_path / "a.png")
    assert seen(tmp_path / "a.png")[:, 0].T.tolist() == [[200, 0, 0], [255, 255, 255]]


def test_palettes_and_print_colors_are_converted(tmp_path):
    red = Image.new("RGB", (4, 4), (200, 10, 10))
    red.quantize(4).save(tmp_path / "palette.png")
    red.convert("CMYK").save(tmp_path / "print.jpg", quality=100)
    for name in ("palette.png", "print.jpg"):
        assert not inspect(name, tmp_path / name).is_grey
        color = seen(tmp_path / name)[:, 0, 0].astype(int)
        assert abs(color - [200, 10, 10]).max() < 8, name


def test_the_whole_image_is_squeezed_into_the_square(tmp_path):
    halves = np.zeros((20, 40), dtype=np.uint8)
    halves[:, 20:] = 255
    Image.fromarray(halves).save(tmp_path / "a.png")
    small = decode(inspect("a", tmp_path / "a.png"), (1, 4, 4))[0]
    assert (small[:, 0] == 0).all()
    assert (small[:, 3] == 255).all()


def test_the_digest_is_of_the_bytes(tmp_path):
    one = inspect("one", save(tmp_path / "one.png", 1))
    twin = inspect("twin", save(tmp_path / "twin.png", 1))
    other = inspect("other", save(tmp_path / "other.png", 2))
    assert one.digest == twin.digest != other.digest
    assert one.item_id == f"one@{one.digest}"
    assert len(one.digest) == 16


def cut_off(path):
    whole = save(path, height=40, width=40).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


BREAK = {
    "empty": lambda path: path.touch(),
    "text": lambda path: path.write_text("this is no image"),
    "cut": cut_off,
    "folder": lambda path: path.mkdir(),
    "dangling": lambda path: path.symlink_to("nowhere.png"),
    "missing": lambda path: None,
    "byte": lambda path: path.write_bytes(b"P"),
    "pipe": os.mkfifo,
    "float": lambda path: Image.fromarray(np.zeros((2, 2), np.float32)).save(path),
}


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("empty", "0 bytes"),
        ("text", "not an image of a known format: PNG, JPEG"),
        ("cut", "damaged: .*truncated"),
        ("folder", "Is a directory"),
        ("dangling", "not found"),
        ("missing", "not found"),
        ("byte", "not an image of a known format"),
        ("pipe", "not a regular file"),
        ("float", "no fixed range"),
    ],
)
def test_the_reason_is_given(tmp_path, kind, reason):
    path = tmp_path / ("a.tiff" if kind == "float" else "a.png")
    BREAK[kind](path)
    with pytest.raises(DataError, match=reason):
        inspect(kind, path)


def test_a_cut_jpeg_is_found(tmp_path):
    path = save(tmp_path / "a.jpg", height=200, width=200)
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(DataError, match="damaged"):
        inspect("a", path)


def test_the_header_alone_refuses_a_bomb(tmp_path, monkeypatch):
    path = save(tmp_path / "a.png", height=20, width=20)
    monkeypatch.setattr(decoding, "MAX_PIXELS", 399)
    monkeypatch.setattr(Image.Image, "load", lambda self: pytest.fail("decoded"))
    with pytest.raises(DataError, match="20 x 20 is more than 399 pixels"):
        inspect("a", path)


def test_a_frame_far_beyond_the_image_is_damage(tmp_path):
    path = save(tmp_path / "a.gif", height=20, width=20)
    content = path.read_bytes()
    start = content.index(b",\0\0\0\0")  # the frame: its place, then its size
    path.write_bytes(content[: start + 5] + b"\xff" * 4 + content[start + 9 :])
    with pytest.raises(DataError, match=r"damaged: Image size \(4294836225 pixels\)"):
        inspect("a", path)


@pytest.mark.parametrize("name", ["nul\0.png", "half a letter\ud800.png"])
def test_a_name_that_no_file_can_have(tmp_path, name):
    with pytest.raises(DataError, match="no file can have this name"):
        inspect(name, tmp_path / name)


def test_a_huge_file_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(decoding, "MAX_BYTES", 10)
    with pytest.raises(DataError, match="bytes; at most 10"):
        inspect("a", save(tmp_path / "a.png"))


def flat_at_once(image):
    """Return what bands come to, from the whole image at once."""
    if image.mode.startswith("I"):
        return Image.fromarray((np.asarray(image).astype(np.int64) >> 8).astype("u1"))
    white = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(white, image.convert("RGBA")).convert("RGB")


def pictures_of_many_kinds():
    colored = Image.fromarray(pixels(1, 23, 17, channels=3))
    alpha = Image.fromarray(pixels(2, 23, 17))
    clear = colored.copy()
    clear.info["transparency"] = clear.getpixel((3, 3))
    yield clear
    palette = colored.quantize(16)
    palette.info["transparency"] = bytes(range(0, 160, 10))
    yield palette
    for mode in ("RGBA", "LA", "PA"):
        picture = colored.convert(mode)
        picture.putalpha(alpha)
        yield picture
    deep = np.random.default_rng(3).integers(0, 2**16, (23, 17))
    yield from (Image.fromarray(deep.astype(kind)) for kind in ("<u2", ">u2", "<i4"))


@pytest.mark.parametrize("image", [*pictures_of_many_kinds()], ids=lambda i: i.mode)
@pytest.mark.parametrize("band", [1, 40, 2**20])
def test_bands_give_the_same_as_the_whole(image, band, monkeypatch):
    monkeypatch.setattr(decoding, "_BAND", band)
    assert decoding._eight_bit(image) == flat_at_once(image)


def test_more_than_sixteen_bits_are_refused(tmp_path):
    for value in (-1, 2**16):
        values = np.zeros((9, 9), np.int32)
        values[8, 8] = value
        Image.fromarray(values).save(tmp_path / "a.tiff")
        with pytest.raises(DataError, match="more than 16 bits a pixel"):
            inspect("a", tmp_path / "a.tiff")


def test_a_palette_that_is_missing(tmp_path):
    path = tmp_path / "a.png"
    Image.fromarray(pixels(1)).quantize(4).save(path)
    content = path.read_bytes()
    start, end = content.index(b"PLTE") - 4, content.index(b"IDAT") - 4
    path.write_bytes(content[:start] + content[end:])
    with pytest.raises(DataError, match="the palette is missing"):
        inspect("a", path)


def test_a_jpeg_of_endless_scans_is_refused(tmp_path):
    """Each scan takes a hundred bytes, and goes over all pixels."""
    path = tmp_path / "a.jpg"
    Image.new("L", (2000, 2000)).save(path, progressive=True)
    assert inspect("a", path).width == 2000
    content = path.read_bytes()
    scan = content[content.rindex(b"\xff\xda") : -2]
    path.write_bytes(content[:-2] + scan * 1000 + content[-2:])
    with pytest.raises(DataError, match=r"1,006 scans of 2000 x 2000 pixels"):
        inspect("a", path)


def tiff(path, *, side, entries, data, more=b""):
    """Write a grey TIFF of one compressed strip or tile; entries of type LONG follow.

    The data are at byte 8, the directory is behind them, then whatever arrays it names.
    """
    own = {256: side, 257: side, 258: 8, 259: 8, 262: 1, 277: 1}
    listed = sorted([*own.items(), *entries])
    rows = [
        struct.pack(
            "<HHII", tag, 4, *(value if isinstance(value, tuple) else (1, value))
        )
        for tag, value in listed
    ]
    start = 8 + len(data)
    directory = struct.pack("<H", len(rows)) + b"".join(rows) + bytes(4)
    path.write_bytes(b"II*\0" + struct.pack("<I", start) + data + directory + more)
    return path


def huge_tile(path, side=32_000, *first):
    """Write an image of 16 x 16 pixels in a tile of so many."""
    packer = zlib.compressobj(1)
    data = b"".join(packer.compress(bytes(side)) for _ in range(side)) + packer.flush()
    entries = [*first, (322, side), (323, side), (324, 8), (325, len(data))]
    return tiff(path, side=16, entries=entries, data=data)


def test_a_tile_is_bounded_like_an_image(tmp_path, monkeypatch):
    assert inspect("a", huge_tile(tmp_path / "a.tiff", 256)).width == 16
    monkeypatch.setattr(decoding, "MAX_PIXELS", 256**2 - 1)
    monkeypatch.setattr(Image.Image, "load", lambda self: pytest.fail("decoded"))
    with pytest.raises(DataError, match="a tile of 256 x 256 is more than 65,535"):
        inspect("a", tmp_path / "a.tiff")


def test_tags_that_two_libraries_may_read_differently_are_refused(tmp_path):
    path = huge_tile(tmp_path / "a.tiff", 256, (322, 16))
    with pytest.raises(DataError, match="tags contradict each other"):
        inspect("a", path)
    content = huge_tile(path, 256).read_bytes()
    wide = struct.pack("<HH", 322, 4)
    assert content.count(wide) == 1
    path.write_bytes(content.replace(wide, struct.pack("<HH", 322, 18)))
    with pytest.raises(DataError, match="tags contradict each other"):
        inspect("a", path)


def test_a_big_endian_file_of_64_bits_is_refused(tmp_path):
    content = bytearray(huge_tile(tmp_path / "a.tiff", 256).read_bytes())
    content[:4] = b"MM\0+"
    (tmp_path / "a.tiff").write_bytes(content)
    with pytest.raises(DataError):
        inspect("a", tmp_path / "a.tiff")


def test_strips_do_not_share_their_bytes_a_thousand_times(tmp_path):
    """Each strip would be unpacked from the same megabytes."""
    data, side = zlib.compress(bytes(200)) + bytes(5_000), 200
    start = 8 + len(data) + 2 + 12 * 9 + 4
    entries = [(273, (side, start)), (278, 1), (279, (side, start + 4 * side))]
    places = struct.pack("<200I", *[8] * side)
    sizes = struct.pack("<200I", *[len(data)] * side)
    path = tmp_path / "a.tiff"
    tiff(path, side=side, entries=entries, data=data, more=places + sizes)
    with pytest.raises(DataError, match="more bytes than the file"):
        inspect("a", path)


def test_tiles_do_not_cover_the_image_again_and_again(tmp_path):
    """Without compression, each offset in a list is a pass over the pixels."""
    side, count = 100, 1000
    data = bytes(side * side)
    start = 8 + len(data) + 2 + 12 * 8 + 4
    entries = [(259, 1), (273, (count, start)), (278, side - 1)]
    places = struct.pack(f"<{count}I", *[8] * count)
    path = tmp_path / "a.tiff"
    tiff(path, side=side, entries=entries, data=data, more=places)
    content = path.read_bytes()
    deflated = struct.pack("<HHII", 259, 4, 1, 8)
    path.write_bytes(
        content.replace(deflated, b"", 1).replace(b"\x09\0\0\1", b"\x08\0\0\1")
    )
    with pytest.raises(DataError, match="tiles overlap"):
        inspect("a", path)


def rle_bmp(path, side):
    """Write a BMP whose lines hold a pixel each: four bytes, the rest is filled up."""
    palette = b"".join(bytes([i, 0, 0, 0]) for i in range(256))
    data = b"\1\0\0\0" * side + b"\0\1"
    start = 14 + 40 + len(palette)
    header = struct.pack("<IiiHHIIiiII", 40, side, side, 1, 8, 1, len(data), 0, 0, 0, 0)
    whole = struct.pack("<2sIHHI", b"BM", start + len(data), 0, 0, start)
    path.write_bytes(whole + header + palette + data)
    return path


SLOW = {
    "bmp_rle": lambda path: rle_bmp(path, 8_900),
    "ppm_plain": lambda path: path.write_bytes(b"P2 900 900 255\n" + b"#\n" * 500_000),
    "ppm": lambda path: path.write_bytes(b"P5 900 900 254\n" + bytes(900 * 900)),
}


@pytest.mark.parametrize("kind", SLOW)
def test_pixels_are_not_decoded_by_loops_in_python(tmp_path, kind):
    """A BMP of 36 kB, or a megabyte of comments in a PPM, took 50 s."""
    SLOW[kind](tmp_path / "a")
    begun = time.process_time()
    with pytest.raises(DataError, match=rf"encoding \({kind}\) is not supported; save"):
        inspect("a", tmp_path / "a")
    assert time.process_time() - begun < 1


BOMB = """
import resource, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from fewlabels.data.decode import inspect
from fewlabels.errors import DataError

def refused(path):
    try:
        inspect("a", path)
    except DataError as error:
        return str(error)

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with ThreadPoolExecutor(4) as threads:
    print(*threads.map(refused, [Path(sys.argv[1])] * 4), sep="\\n", file=sys.stderr)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="others count memory differently")
def test_a_huge_tile_takes_no_memory(tmp_path):
    """Four threads took 4 GB for tiles of 32,000 x 32,000 pixels in 1 MB."""
    path = huge_tile(tmp_path / "a.tiff", 20_000)
    command = [sys.executable, "-c", BOMB, str(path)]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    assert int(result.stdout) * 1024 < 3e7
    assert result.stderr.count("a tile of 20000 x 20000 is more than") == 4


MEASURED = """
import resource, sys, torch
from pathlib import Path
from fewlabels import data

pool = data.load(Path(sys.argv[1]))
pool.images.read(torch.arange(4).repeat(3))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="others count memory differently")
@pytest.mark.parametrize("kind", ["16 bits", "transparent"])
def test_large_images_share_the_memory(tmp_path, kind):
    """They took 5.8 GB, with four threads and more with more."""
    kinds = {"16 bits": ((8944, 8944), "u2"), "transparent": ((8944, 8944, 4), "u1")}
    image = Image.fromarray(np.zeros(*kinds[kind]))
    for number in range(4):
        image.save(tmp_path / f"{number}.png", compress_level=1)
    command = [sys.executable, "-c", MEASURED, str(tmp_path)]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    assert int(result.stdout) * 1024 < 1.5e9


def test_threads_never_take_more_than_there_is():
    budget, lock, held, seen = MemoryBudget(10), Lock(), [0], []

    def work(amount):
        with budget.reserve(amount):
            with lock:
                held[0] += amount
                seen.append(held[0])
            time.sleep(0.001)
            with lock:
                held[0] -= amount

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, [3, 7, 1, 10, 4, 6, 2, 9] * 10))
    assert len(seen) == 80
    assert max(seen) <= 10


def test_who_wants_too_much_gets_all_and_an_error_frees_it():
    budget = MemoryBudget(10)
    with budget.reserve(1000):
        assert budget._free == 0
    with pytest.raises(ZeroDivisionError), budget.reserve(4):
        raise ZeroDivisionError
    assert budget._free == 10
