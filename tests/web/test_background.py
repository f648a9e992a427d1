"""Wishes that come while a job ends."""

from fewlabels.web import background as module
from fewlabels.web.background import Background


class Over:
    """A job that is done."""

    def events(self):
        yield {"event": "done", "result": {}}


def test_a_training_that_is_asked_for_as_one_ends_is_not_forgotten(
    tmp_path, monkeypatch
):
    begun, background = [], Background(tmp_path)
    is_free = background._is_free
    assert is_free("training")  # and so one is under way

    def ends_meanwhile(name):
        monkeypatch.setattr(background, "_is_free", is_free)
        assert not is_free(name)
        background._watch(name, Over(), None)
        return False

    def start(call, *_, **__):
        begun.append(call)
        return Over()

    monkeypatch.setattr(module, "start", start)
    monkeypatch.setattr(background, "_is_free", ends_meanwhile)
    background.train()
    assert begun == ["fewlabels.projects.jobs:train"]
