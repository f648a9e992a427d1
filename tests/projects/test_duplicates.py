"""Near duplicates: a picture saved again is grouped, a different picture is not."""

import os
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits, load_sample_images
from tests.projects.test_image_index import groups_of

from fewlabels.projects import duplicates
from fewlabels.projects.image_index import (
    fingerprint_file,
    representatives,
    scan,
    stacked,
)

PHOTOS = [Image.fromarray(image) for image in load_sample_images().images]
CIFAR = Path(os.environ.get("FEWLABELS_DATA", "data")) / "cifar10.npz"


def grouped(folder):
    """Return the names in each group."""
    return {tuple(file.path for file in group) for group in groups_of(scan(folder))}


def scene(seed, size=(300, 220)):
    """A made-up photo: soft light, some objects, a little noise."""
    random = np.random.default_rng(seed)
    coarse = Image.fromarray(random.integers(0, 256, (4, 5, 3), dtype=np.uint8))
    image = np.asarray(coarse.resize(size, Image.Resampling.BICUBIC)).astype(float)
    for _ in range(6):
        y, x = random.integers(0, 150, 2)
        image[y : y + 60, x : x + 70] = random.integers(0, 256, 3)
    image += random.normal(0, 4, image.shape)
    return Image.fromarray(image.clip(0, 255).astype(np.uint8))


@pytest.mark.parametrize("photo", [*PHOTOS, scene(0), scene(1)])
def test_a_photo_saved_again_is_the_same(tmp_path, photo):
    width, height = photo.size
    photo.save(tmp_path / "a.png")
    photo.save(tmp_path / "b.jpg", quality=75)
    photo.save(tmp_path / "c.jpg", quality=40)
    photo.save(tmp_path / "d.webp", quality=80)
    for name, share in (("e.png", 0.5), ("f.jpg", 0.9), ("g.png", 1.3)):
        photo.resize((int(width * share), int(height * share))).save(tmp_path / name)
    assert grouped(tmp_path) == {
        ("a.png", "b.jpg", "c.jpg", "d.webp", "e.png", "f.jpg", "g.png")
    }


def changed(photo, how):
    """Return a photo that a person would not call the same."""
    pixels = np.asarray(photo).copy()
    height, width = pixels.shape[:2]
    if how == "mirrored":
        return photo.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    if how == "cropped":
        return photo.crop((width // 8, height // 8, width, height))
    if how == "stretched":
        return photo.resize((width, height * 5 // 4))
    if how == "red and blue exchanged":
        return Image.fromarray(pixels[..., ::-1])
    side = height // 10  # a small object: under one hundredth of the picture
    corner = pixels[height // 2 :, width // 3 :][:side, :side]
    corner[:] = np.where(corner.mean() > 127, 0, 255)
    return Image.fromarray(pixels)


@pytest.mark.parametrize(
    "how",
    ["mirrored", "cropped", "stretched", "red and blue exchanged", "small object"],
)
@pytest.mark.parametrize("photo", [PHOTOS[0], scene(0)])
def test_a_changed_photo_is_another(tmp_path, photo, how):
    photo.save(tmp_path / "a.png")
    changed(photo, how).save(tmp_path / "b.png")
    assert grouped(tmp_path) == set()


def test_no_two_digits_are_taken_for_one(tmp_path):
    for number, pixels in enumerate(load_digits().images):
        grey = (pixels * 255 / 16).astype(np.uint8)
        Image.fromarray(grey).save(tmp_path / f"{number}.png")
    index = scan(tmp_path)
    assert len({file.digest for file in index.files}) == 1_797
    assert groups_of(index) == ()


@pytest.mark.skipif(not CIFAR.exists(), reason=f"{CIFAR.name} is not there")
def test_small_images_saved_again_are_found_and_no_others(tmp_path):
    with np.load(CIFAR) as arrays:
        images = arrays["x_test"][:500]
    for number, pixels in enumerate(images):
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
        Image.fromarray(pixels).save(tmp_path / f"{number}.jpg", quality=85)
    found = grouped(tmp_path)
    pairs = {(f"{number}.jpg", f"{number}.png") for number in range(500)}
    assert found <= pairs
    assert len(found) >= 0.97 * len(pairs)


def test_plain_pictures_are_not_told_apart_and_so_not_grouped(tmp_path):
    for number in range(5):
        Image.new("L", (40, 40), 100 + number).save(tmp_path / f"{number}.png")
    assert grouped(tmp_path) == set()


def test_a_turned_camera_is_the_same_picture(tmp_path):
    photo = scene(3)
    photo.save(tmp_path / "a.png")
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees to see it upright
    sideways = photo.transpose(Image.Transpose.ROTATE_90)
    sideways.save(tmp_path / "b.jpg", exif=exif, quality=95)
    assert grouped(tmp_path) == {("a.png", "b.jpg")}


# ------------------------------------------------------------------- the search itself


def taken(folder, thumbnails):
    """Return the fingerprints of grey thumbnails by a hash."""
    found = {}
    for pixels in thumbnails:
        Image.fromarray(pixels).save(folder / "x.png")
        one = fingerprint_file("x.png", folder / "x.png")[1]
        found[sha256(one).hexdigest()] = one
    return found


def slow_representatives(fingerprints):
    """The definition: the first free picture takes all free ones that agree with it."""
    digests = sorted(fingerprints)
    lightness, color, shape = stacked(fingerprints[one] for one in digests)
    light, hue = lightness.astype(float), color.astype(float)

    def same(a, b):
        spread = min(light[a].std(), light[b].std())
        apart = abs(light[a] - light[b])
        return (
            spread >= duplicates.LEAST_CONTRAST
            and apart.mean() <= duplicates.MEAN_DIFFERENCE
            and apart.mean() <= duplicates.CONTRAST_SHARE * spread
            and apart.max() <= duplicates.PART_DIFFERENCE
            and abs(hue[a] - hue[b]).max() <= duplicates.COLOUR_DIFFERENCE
            and max(shape[a] / shape[b], shape[b] / shape[a]) <= duplicates.PROPORTIONS
        )

    leader_of = {}
    for a in range(len(digests)):
        if a not in leader_of:
            free = [b for b in range(a, len(digests)) if b not in leader_of]
            leader_of |= {b: a for b in free if b == a or same(a, b)}
    return {digests[b]: digests[a] for b, a in leader_of.items()}


@pytest.mark.parametrize("noise", [0.5, 1, 2, 2.9, 3.1])
def test_the_search_finds_what_the_definition_says(tmp_path, noise):
    random = np.random.default_rng(int(10 * noise))
    basis = random.integers(20, 230, (4, 16, 16))
    strength = random.choice([0.04, 0.2, 1], (60, 1, 1))
    rough = 128 + strength * (basis[random.integers(0, 4, 60)] - 128)
    rough += random.uniform(-noise, noise, rough.shape)
    fingerprints = taken(tmp_path, rough.clip(0, 255).astype(np.uint8))
    found = representatives(fingerprints)
    assert found == slow_representatives(fingerprints)
    assert len(set(found.values())) < len(found) or noise > 3


def test_groups_depend_on_content_alone(tmp_path):
    random = np.random.default_rng(0)
    base = random.integers(0, 256, (16, 16))
    near = base + random.integers(-2, 3, (20, 16, 16))
    fingerprints = taken(tmp_path, near.clip(0, 255).astype(np.uint8))
    backwards = dict(reversed(fingerprints.items()))
    assert representatives(backwards) == representatives(fingerprints)
    assert set(representatives(fingerprints).values()) == {min(fingerprints)}


def test_a_film_is_not_one_group_from_end_to_end(tmp_path):
    random = np.random.default_rng(1)
    frame = random.integers(60, 160, (16, 16))
    film = taken(tmp_path, [(frame + step).astype(np.uint8) for step in range(40)])
    found = representatives(film)
    assert found == slow_representatives(film)
    assert len(set(found.values())) > 5


def test_no_picture_and_one_picture(tmp_path):
    assert representatives({}) == {}
    one = taken(tmp_path, [np.arange(256, dtype=np.uint8).reshape(16, 16)])
    assert representatives(one) == {key: key for key in one}


def test_compiled_and_plain_search_agree(tmp_path, monkeypatch):
    photos = [scene(seed, size=(90, 70)) for seed in range(6)]
    prints = {}
    for number, photo in enumerate(
        [*photos, *(one.resize((60, 47)) for one in photos)]
    ):
        photo.save(tmp_path / f"{number}.png")
        _, prints[f"{number:02d}"] = fingerprint_file("a", tmp_path / f"{number}.png")
    found = representatives(prints)
    assert 1 < len(set(found.values())) < len(prints)
    for name in ("_is_far", "_search"):
        monkeypatch.setattr(duplicates, name, getattr(duplicates, name).py_func)
    assert representatives(prints) == found
