"""A network's name builds the same architecture again."""

import pytest
from torch import nn

from fewlabels import models, rng
from fewlabels.errors import UsageError


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("wrn-10-1", (1, 8, 8)),
        ("wrn-16-3", (3, 8, 8)),
        ("wrn-28-2", (3, 8, 8)),
        ("linear", (5,)),
        ("mlp-7", (5,)),
    ],
)
def test_the_name_of_a_network_is_the_one_it_was_built_by(name, shape):
    assert models.name_of(models.build(name, shape, 3, rng.stream(0, "w"))) == name


def test_another_network_has_no_name():
    class Own(models.Network):
        head = nn.Linear(2, 2)

    with pytest.raises(UsageError, match="A network of type Own has no name"):
        models.name_of(Own())
