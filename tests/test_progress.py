"""Progress is told to who listens, and to nobody else."""

import pytest

from fewlabels.progress import reporting, track


class Listener:
    def __init__(self):
        self.heard = []

    def start(self, task, total):
        self.heard.append(("start", task, total))
        return len(self.heard)

    def advance(self, handle, amount, note):
        self.heard.append(("advance", handle, amount, note))

    def finish(self, handle):
        self.heard.append(("finish", handle))


def test_a_listener_hears_the_whole_task():
    listener = Listener()
    with reporting(listener), track("Training", 3) as advance:
        advance()
        advance(2, note="loss 0.5")
    assert listener.heard == [
        ("start", "Training", 3),
        ("advance", 1, 1, ""),
        ("advance", 1, 2, "loss 0.5"),
        ("finish", 1),
    ]


def test_without_a_listener_nothing_happens(capsys):
    with track("Training", 3) as advance:
        advance()
        advance(2, note="loss 0.5")
    assert capsys.readouterr() == ("", "")


def test_a_broken_task_is_finished_all_the_same():
    listener = Listener()
    with pytest.raises(RuntimeError, match="broke"):  # noqa: SIM117 - too long in one
        with reporting(listener), track("Training", 3):
            raise RuntimeError("broke")
    assert listener.heard[-1] == ("finish", 1)


def test_listening_ends_with_the_block():
    listener = Listener()
    with reporting(listener):
        pass
    with track("Training", 1) as advance:
        advance()
    assert listener.heard == []


def test_the_inner_listener_hears_and_the_outer_one_comes_back():
    outer, inner = Listener(), Listener()
    with reporting(outer):
        with reporting(inner), track("Search", 1):
            pass
        with track("Training", 1):
            pass
    assert [event[1] for event in inner.heard if event[0] == "start"] == ["Search"]
    assert [event[1] for event in outer.heard if event[0] == "start"] == ["Training"]


def test_tasks_inside_tasks_have_their_own_handles():
    listener = Listener()
    with reporting(listener), track("Run", 1) as run, track("Training", 1) as training:
        training()
        run()
    handles = [event[1] for event in listener.heard if event[0] == "advance"]
    assert len(set(handles)) == 2
