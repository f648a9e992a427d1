import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.data.pictures import save

from fewlabels.data.decode import digest_of
from fewlabels.data.listing import Listed, file_pool, is_held_out
from fewlabels.errors import DataError


@given(st.binary(max_size=20), st.floats(0, 1), st.floats(0, 1))
def test_a_larger_share_only_adds(content, one, other):
    digest = digest_of(content)
    small, large = sorted((one, other))
    assert not is_held_out(digest, small) or is_held_out(digest, large)
    assert not is_held_out(digest, 0)
    assert is_held_out(digest, 1)


def test_the_share_is_kept_on_average():
    digests = [digest_of(str(number).encode()) for number in range(10_000)]
    assert abs(sum(is_held_out(one, 0.2) for one in digests) - 2000) < 120


def test_a_pool_is_never_empty(tmp_path):
    path = save(tmp_path / "a.png")
    listed = [Listed("a.png", path, "cat", "test")]
    with pytest.raises(DataError, match=r"All 1 images .*test split.*in 'test'. Put"):
        file_pool(tmp_path, listed, size=None, test_share=0.2)
