import numpy as np
import torch
from sklearn.datasets import load_digits

from fewlabels.data.digits import digits_pool


def test_the_split_is_1297_and_500_and_stratified(untouched_randomness):
    pool = digits_pool()
    assert len(pool) == 1297
    assert len(pool.test) == 500
    whole = np.bincount(load_digits().target)
    measured = np.bincount(pool.test.labels.numpy())
    assert (abs(measured - whole * 500 / 1797) < 1).all()
    assert (measured + pool.class_counts == whole).all()


def test_pixels_are_those_of_the_source():
    pool = digits_pool()
    positions = [int(name.split("/")[1].partition("@")[0]) for name in pool.ids]
    assert positions == sorted(positions)
    source = load_digits()
    read = pool.images.read(torch.arange(len(pool))).numpy()[:, 0]
    assert np.array_equal(np.round(read / 255 * 16), source.images[positions])
    assert pool.labels.tolist() == source.target[positions].tolist()
    assert read.max() == 255


def test_the_split_never_moves():
    pool = digits_pool()
    assert pool.ids[0] == "digits/0@c4912d6aa165cfbc"
    assert pool.test.labels[:10].tolist() == [6, 2, 3, 7, 9, 5, 0, 9, 7, 7]
