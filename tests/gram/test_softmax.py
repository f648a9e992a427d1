import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests import reference
from tests.gram.toy import normal, whole

from fewlabels.errors import ShapeError
from fewlabels.gram import softmax_kernel


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_softmax_agrees_with_automatic_differentiation(temperature):
    features, weight, bias = normal(0, 6, 3), normal(1, 4, 3), normal(2, 4)
    kernel = softmax_kernel(features, (features @ weight.T + bias) / temperature)
    slow = reference.softmax_gram(features, weight / temperature, bias / temperature)
    torch.testing.assert_close(whole(kernel), slow)


@pytest.mark.parametrize(("num_features", "num_classes"), [(2, 3), (1, 4), (3, 2)])
def test_rank_reaches_the_bound_and_no_more(num_features, num_classes):
    kernel = softmax_kernel(normal(3, 40, num_features), normal(4, 40, num_classes))
    bound = (num_features + 1) * num_classes * (num_classes - 1) // 2
    assert kernel.rank_bound == bound
    assert int(torch.linalg.matrix_rank(whole(kernel), rtol=1e-12)) == bound


@given(seed=st.integers(0, 2**31 - 1), scale=st.sampled_from([0.1, 1.0, 30.0]))
def test_softmax_gram_is_positive_semi_definite(seed, scale):
    gram = whole(softmax_kernel(normal(seed, 8, 2), scale * normal(seed + 1, 8, 3)))
    values = torch.linalg.eigvalsh(gram)
    assert values[0] >= -1e-14 * values[-1].clamp_min(1)


def test_certain_predictions_vanish_and_a_temperature_brings_them_back():
    logits = torch.tensor([[60.0, 0.0, 0.0], [0.2, 0.1, 0.0]])
    cold = softmax_kernel(torch.zeros(2, 1), logits).diagonal(torch.arange(2))
    warm = softmax_kernel(torch.zeros(2, 1), logits / 30.0)
    assert cold[0] == pytest.approx(0, abs=1e-15)
    assert cold[1] > 0.1
    assert warm.diagonal(torch.tensor([0])) > 0.01


def test_normalizing_leaves_the_doubt():
    logits = normal(5, 3, 4)
    kernel = softmax_kernel(normal(6, 3, 5), logits, normalize=True)
    plain = softmax_kernel(torch.zeros(3, 5), logits)
    everything = torch.arange(3)
    torch.testing.assert_close(kernel.diagonal(everything), plain.diagonal(everything))


def test_features_and_logits_belong_together():
    with pytest.raises(ShapeError, match="logits has 4 entries; give 3"):
        softmax_kernel(torch.zeros(3, 2), torch.zeros(4, 2))
    with pytest.raises(ShapeError, match=r"logits have shape \(3,\); give"):
        softmax_kernel(torch.zeros(3, 2), torch.zeros(3))
