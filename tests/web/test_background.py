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
    reserve = background._reserve
    assert reserve("training")  # and so one is under way

    def ends_meanwhile(name):
        monkeypatch.setattr(background, "_reserve", reserve)
        assert not reserve(name)
        background._watch(name, Over())
        return False

    def start(call, *_, **__):
        begun.append(call)
        return Over()

    monkeypatch.setattr(module, "start", start)
    monkeypatch.setattr(background, "_reserve", ends_meanwhile)
    background.train()
    assert begun == ["fewlabels.projects.project:train"]
