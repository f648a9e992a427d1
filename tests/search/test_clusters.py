import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fewlabels.rng import stream
from fewlabels.search.clusters import k_means, typicality


def blobs(seed, spread=0.05):
    generator = stream(seed, "blobs")
    centers = 10 * torch.randn(4, 3, generator=generator)
    rows = centers.repeat_interleave(25, dim=0)
    return rows + spread * torch.randn(100, 3, generator=generator)


def test_separate_blobs_are_found():
    clusters = k_means(blobs(0), 4, stream(1))
    groups = {
        tuple(clusters[start : start + 25].tolist()) for start in range(0, 100, 25)
    }
    assert all(len(set(group)) == 1 for group in groups)
    assert len(groups) == 4


@given(seed=st.integers(0, 2**31 - 1), num_clusters=st.integers(1, 40))
def test_no_cluster_is_empty_and_none_is_nearer(seed, num_clusters):
    rows = torch.randn(60, 4, generator=stream(seed), dtype=torch.float64)
    clusters = k_means(rows, num_clusters, stream(0), num_turns=100)
    assert set(clusters.tolist()) == set(range(num_clusters))
    centers = torch.stack(
        [rows[clusters == k].mean(dim=0) for k in range(num_clusters)]
    )
    own = (rows - centers[clusters]).norm(dim=1)
    alone = torch.bincount(clusters)[clusters] == 1
    nearest = torch.cdist(rows, centers).min(dim=1).values
    assert bool(((own <= nearest + 1e-9) | alone).all())


def test_copies_still_fill_every_cluster():
    rows = torch.ones(10, 2)
    assert set(k_means(rows, 4, stream(0)).tolist()) == {0, 1, 2, 3}


def test_dense_rows_are_typical():
    rows = torch.cat([blobs(2), 50 + 30 * torch.randn(10, 3, generator=stream(3))])
    found = typicality(rows, stream(0))
    assert float(found[:100].min()) > float(found[100:].max())
    assert bool((found > 0).all())


def test_neighbors_come_from_a_part_where_there_are_many():
    rows = blobs(4, spread=1.0)
    exact = typicality(rows, stream(0), num_neighbors=5, num_references=100)
    rough = typicality(rows, stream(0), num_neighbors=5, num_references=60)
    agreement = torch.corrcoef(torch.stack([exact, rough]))[0, 1]
    assert float(agreement) > 0.5


def test_equal_rows_have_a_finite_typicality():
    assert bool(torch.isfinite(typicality(torch.ones(30, 2), stream(0))).all())


@pytest.mark.parametrize("num_turns", [1, 20])
def test_the_same_seed_gives_the_same_clusters(num_turns):
    rows = blobs(5, spread=3.0)
    one, other = (k_means(rows, 7, stream(9), num_turns=num_turns) for _ in range(2))
    assert torch.equal(one, other)
