import pickle
import subprocess
from hashlib import md5
from pathlib import Path

import numpy as np
import pytest
from benchmarks.python2 import dumps

from fewlabels.data.cifar import CIFAR10, CIFAR100
from fewlabels.data.pickled import ByteArray, read_pickled
from fewlabels.errors import DataError


def words(text):
    return text.split()


TEN = words("airplane automobile bird cat deer dog frog horse ship truck")
TWENTY = words("""
aquatic_mammals fish flowers food_containers fruit_and_vegetables
household_electrical_devices household_furniture insects large_carnivores
large_man-made_outdoor_things large_natural_outdoor_scenes
large_omnivores_and_herbivores medium_mammals non-insect_invertebrates people
reptiles small_mammals trees vehicles_1 vehicles_2
""")
HUNDRED = words("""
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus
butterfly camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach
couch crab crocodile cup dinosaur dolphin elephant flatfish forest fox girl hamster
house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree
motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear
pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray road
rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar
sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip
turtle wardrobe whale willow_tree wolf woman worm
""")
ARRAY = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
OBJECTS = b"cnumpy\ndtype\nU\x02O8K\x00K\x01\x87R"


def plain(value):
    """Return what a pickler was given, as the reader gives it back."""
    match value:
        case np.ndarray():
            by_columns = value.flags.f_contiguous and not value.flags.c_contiguous
            return ByteArray(value.shape, value.tobytes("A"), by_columns)
        case list():
            return [plain(one) for one in value]
        case dict():
            return {plain(key): plain(one) for key, one in value.items()}
        case str():
            return value.encode()
    return value


@pytest.mark.parametrize(
    ("published", "table"),
    [
        (
            CIFAR10.md5["batches.meta"],
            {"num_cases_per_batch": 10_000, "label_names": TEN, "num_vis": 3072},
        ),
        (
            CIFAR100.md5["meta"],
            {"fine_label_names": HUNDRED, "coarse_label_names": TWENTY},
        ),
    ],
)
def test_the_published_files_are_read(published, table):
    """Two of them can be made anew to the last byte; their hashes say so."""
    content = dumps(table)
    assert md5(content).hexdigest() == published
    assert read_pickled(content, "meta") == plain(table)


def stored(count, *, order="C"):
    values = np.random.default_rng(count).integers(0, 256, (count, 3072), np.uint8)
    return np.asarray(values, order=order)


@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_stay_the_bytes_that_were_stored(order):
    table = {
        "batch_label": "training batch 1 of 5",
        "labels": list(range(256)) * 8,
        "data": stored(3, order=order),
        "filenames": [f"cow_s_{number:06}.png" for number in range(2100)],
        "-": [-1, 2**16, 2**31 - 1],
    }
    assert read_pickled(dumps(table), "data_batch_1") == plain(table)


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_writer_of_these_tests_writes_pickles(order):
    array = stored(3, order=order)
    back = pickle.loads(dumps({"data": array, "labels": [1, 2]}), encoding="latin1")
    assert back["labels"] == [1, 2]
    assert np.array_equal(back["data"], array)


def reshaped(shape):
    """Return a pickle of an array whose shape was changed."""
    content = dumps(stored(2))
    assert content.count(b"K\x02M\x00\x0c") == 1
    return content.replace(b"K\x02M\x00\x0c", shape)


class Evil:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(6))
def test_an_evil_pickle_does_nothing(tmp_path, protocol):
    trace = tmp_path / "trace"
    for evil in (
        Evil(Path.touch, trace),
        Evil(open, str(trace), "w"),
        Evil(subprocess.call, ["touch", str(trace)]),
        Evil(eval, f"open({str(trace)!r}, 'w')"),
        Evil(np.load, str(trace)),
    ):
        with pytest.raises(DataError, match="not a file of CIFAR as published"):
            read_pickled(pickle.dumps({"extra": evil}, protocol), "data_batch_1")
    assert not trace.exists()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "it is cut off"),
        (b"nothing", "does not begin like a pickle of Python 2"),
        (pickle.dumps({}), "does not begin like a pickle of Python 2"),
        (b"\x80\x02}", "it is cut off"),
        (b"\x80\x02.", "takes more than there is"),
        (b"\x80\x02}(.", "takes more than there is"),
        (b"\x80\x02e", "takes more than there is"),
        (b"\x80\x02\x87", "takes more than there is"),
        (b"\x80\x02}2\x86.", "byte 3 is b'2', which is unknown"),
        (b"\x80\x02h\x07.", "recalls value 7"),
        (b"\x80\x02}(e.", "appends to something that is not a list"),
        (b"\x80\x02](K\x01u.", "adds half a pair"),
        (b"\x80\x02}(K\x01K\x02u.", "a key of a dictionary is not a word"),
        (b"\x80\x02T\xff\xff\xff\xffabc.", "it is cut off"),
        (b"\x80\x02c" + b"a" * 100 + b"\nb\n.", f"it asks for '{'a' * 64}'."),
        (b"\x80\x02c" + b"a" * 100, "it is cut off"),
        (b"\x80\x02cos\nsystem\n.", "it asks for 'os.system'"),
        (b"\x80\x02" + b"]" * 2**20 + b".", "more than 1,048,576 instructions"),
        (b"\x80\x02K\x01K\x02R.", "something other than an array of bytes"),
        (b"\x80\x02" + OBJECTS + b".", "something other than an array of bytes"),
        (b"\x80\x02K\x01K\x02b.", "builds something other"),
        (b"\x80\x02" + ARRAY + b"K\x01b.", "bytes do not fit its shape"),
        (reshaped(b"K\x03M\x00\x0c"), "bytes do not fit its shape"),
        (
            reshaped(b"J\xfe\xff\xff\xffJ\x00\xf4\xff\xff"),  # -2 times -3072
            "bytes do not fit its shape",
        ),
    ],
)
def test_everything_else_is_refused(content, told):
    with pytest.raises(DataError, match="not a file of CIFAR as published") as caught:
        read_pickled(content, "data_batch_1")
    assert told in str(caught.value)


def test_pointers_from_a_file_are_not_followed():
    """NumPy took the bytes of this array for the addresses of objects."""
    void = b"cnumpy\ndtype\nU\x02V8K\x00K\x01\x87R(K\x03U\x01|NU\x01f\x85}U\x01f"
    kind = void + OBJECTS + b"K\x00\x86sK\x08K\x01K\x00tb"
    array = ARRAY + b"(K\x01K\x01\x85" + kind + b"\x89U\x08AAAAAAAAtb"
    with pytest.raises(DataError, match="something other than an array of bytes"):
        read_pickled(b"\x80\x02}(U\x0blabel_names" + array + b"u.", "batches.meta")


def test_a_short_file_takes_a_short_time():
    """The hash of this key, a tuple of tuples, would take two to the fortieth steps."""
    key = b"K\x01" + b"q\x00h\x00\x86" * 40
    with pytest.raises(DataError, match="a key of a dictionary is not a word"):
        read_pickled(b"\x80\x02}(" + key + b"K\x01u.", "batches.meta")
