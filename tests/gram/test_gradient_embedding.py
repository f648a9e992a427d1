import pytest
import torch
from tests.gram.toy import normal, whole

from fewlabels.errors import ShapeError
from fewlabels.gram import euclidean_kernel, gradient_embedding_kernel, kernels


def embeddings(features, weight, bias):
    """Gradients of the predicted class's cross-entropy, by autograd."""
    found = []
    for row in features:
        leaf = weight.clone().requires_grad_()
        logits = row @ leaf.T + bias
        loss = torch.nn.functional.cross_entropy(logits, logits.argmax())
        found.append(torch.autograd.grad(loss, leaf)[0].flatten())
    return torch.stack(found)


def test_agrees_with_automatic_differentiation():
    features, weight, bias = normal(0, 8, 3), normal(1, 4, 3), normal(2, 4)
    kernel = gradient_embedding_kernel(features, features @ weight.T + bias)
    written_out = embeddings(features, weight, bias)
    torch.testing.assert_close(whole(kernel), written_out @ written_out.T)


def test_small_doubts_are_kept_and_none_is_zero():
    logits = torch.tensor([[40.0, 0.0, 0.0], [1e4, 0.0, 0.0]], dtype=torch.float64)
    kernel = gradient_embedding_kernel(torch.ones(2, 1, dtype=torch.float64), logits)
    doubt = 2 * torch.exp(torch.tensor(-40.0, dtype=torch.float64))
    expected = doubt**2 + 2 * (doubt / 2) ** 2
    torch.testing.assert_close(kernel.diagonal(torch.tensor([0]))[0], expected)
    assert float(kernel.diagonal(torch.tensor([1]))) == 0


def test_rank_reaches_the_bound_and_no_more():
    kernel = gradient_embedding_kernel(normal(3, 40, 3), normal(4, 40, 4))
    assert kernel.rank_bound == 9
    assert int(torch.linalg.matrix_rank(whole(kernel), rtol=1e-12)) == 9


def test_the_chunk_size_changes_nothing(monkeypatch):
    features, logits = normal(5, 11, 3).float(), normal(6, 11, 4).float()
    at_once = whole(gradient_embedding_kernel(features, logits))
    monkeypatch.setattr(kernels, "_CHUNK_BYTES", 100)
    torch.testing.assert_close(
        whole(gradient_embedding_kernel(features.numpy(), logits.numpy())), at_once
    )


def test_features_and_logits_belong_together():
    with pytest.raises(ShapeError, match="logits has 4 entries; give 3"):
        gradient_embedding_kernel(torch.zeros(3, 2), torch.zeros(4, 2))


def test_euclidean_distances_survive_a_distant_origin():
    near = normal(7, 9, 3)
    kernel = euclidean_kernel(near + 1e6)
    gram = whole(kernel)
    squares = gram.diagonal()[:, None] + gram.diagonal() - 2 * gram
    torch.testing.assert_close(
        squares, torch.cdist(near, near).square(), atol=1e-8, rtol=0
    )
    assert float(kernel.diagonal(torch.arange(9)).max()) < 100


def test_normalized_rows_have_length_one_and_the_user_keeps_theirs():
    features = normal(8, 5, 3)
    before = features.clone()
    gram = whole(euclidean_kernel(features, normalize=True))
    whole(euclidean_kernel(features))
    torch.testing.assert_close(
        gram,
        torch.nn.functional.normalize(before) @ torch.nn.functional.normalize(before).T,
    )
    assert torch.equal(features, before)
