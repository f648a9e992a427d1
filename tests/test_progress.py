"""Progress is reported to all reporters; work stops when it is asked to."""

import threading

import pytest

from fewlabels.progress import (
    Canceled,
    Interrupt,
    current_part,
    duration,
    handle_cancellation,
    is_stopped,
    part,
    reporting,
    stopping,
    tell,
    track,
)


class Listener:
    def __init__(self, first_handle=0):
        self.heard = []
        self.num_started = first_handle

    def start(self, task, total, done):
        self.heard.append(("start", task, total, done))
        self.num_started += 1
        return self.num_started

    def advance(self, handle, amount):
        self.heard.append(("advance", handle, amount))

    def tell(self, step, figures):
        self.heard.append(("tell", step, figures))

    def finish(self, handle):
        self.heard.append(("finish", handle))

    @property
    def started(self):
        return [event[1] for event in self.heard if event[0] == "start"]


def test_a_listener_hears_the_whole_task():
    listener = Listener()
    with reporting(listener), track("Training", 3) as advance:
        advance()
        tell(1, {"loss": 0.5, "kept-refined": 0.25})
        advance(2)
    assert listener.heard == [
        ("start", "Training", 3, 0),
        ("advance", 1, 1),
        ("tell", 1, {"loss": 0.5, "kept-refined": 0.25}),
        ("advance", 1, 2),
        ("finish", 1),
    ]


def test_work_that_is_taken_up_again_says_how_much_was_done():
    listener = Listener()
    with reporting(listener), track("Training", 30, done=20) as advance:
        advance(10)
    assert listener.heard[0] == ("start", "Training", 30, 20)


def test_without_a_listener_nothing_happens(capsys):
    with track("Training", 3, done=1) as advance:
        advance()
        advance(2)
        tell(2, {"loss": 0.5})
    assert capsys.readouterr() == ("", "")


def test_several_listeners_hear_the_same_each_with_its_own_handle():
    one, other = Listener(), Listener(first_handle=100)
    with reporting(one, other), track("Training", 3) as advance:
        advance(3)
        tell(3, {"loss": 0.5})
    assert one.heard == [
        ("start", "Training", 3, 0),
        ("advance", 1, 3),
        ("tell", 3, {"loss": 0.5}),
        ("finish", 1),
    ]
    assert other.heard == [
        ("start", "Training", 3, 0),
        ("advance", 101, 3),
        ("tell", 3, {"loss": 0.5}),
        ("finish", 101),
    ]


def test_who_listened_before_goes_on_listening():
    outer, inner = Listener(), Listener()
    with reporting(outer):
        with reporting(inner), track("Search", 1):
            pass
        with track("Training", 1):
            pass
    assert inner.started == ["Search"]
    assert outer.started == ["Search", "Training"]


def test_a_broken_task_is_finished_for_everybody():
    one, other = Listener(), Listener()
    with pytest.raises(RuntimeError, match="broke"):  # noqa: SIM117 - too long in one
        with reporting(one, other), track("Training", 3):
            raise RuntimeError("broke")
    assert one.heard[-1] == other.heard[-1] == ("finish", 1)


def test_a_listener_that_breaks_leaves_no_task_open_for_the_others():
    class Broken(Listener):
        def start(self, task, total, done):
            raise OSError("no more room")

        def finish(self, handle):
            raise AssertionError("it never began")

    first = Listener()
    with (
        pytest.raises(OSError, match="no more room"),
        reporting(first, Broken()),
        track("Training", 3),
    ):
        pass
    assert first.heard == [("start", "Training", 3, 0), ("finish", 1)]


def test_listening_ends_with_the_block():
    listener = Listener()
    with reporting(listener):
        pass
    with track("Training", 1) as advance:
        advance()
        tell(1, {"loss": 0.5})
    assert listener.heard == []


def test_tasks_inside_tasks_have_their_own_handles():
    listener = Listener()
    with reporting(listener), track("Run", 1) as run, track("Training", 1) as training:
        training()
        run()
    handles = [event[1] for event in listener.heard if event[0] == "advance"]
    assert len(set(handles)) == 2


def test_another_thread_is_not_listened_to():
    listener = Listener()
    with reporting(listener):
        other = threading.Thread(target=lambda: tell(1, {"loss": 0.5}))
        other.start()
        other.join()
    assert listener.heard == []


def test_a_reporter_can_ask_which_part_it_hears_of():
    class Asking(Listener):
        def tell(self, step, figures):
            self.heard.append(current_part())

    one, other = Asking(), Asking()
    with reporting(one, other):
        tell(0, {})
        with part("npc"):
            with part("round-000"):
                tell(0, {})
            with pytest.raises(RuntimeError), part("round-001"):
                raise RuntimeError("broke")
            tell(0, {})
    assert one.heard == other.heard == ["", "npc/round-000", "npc"]
    assert current_part() == ""


def test_work_that_handles_nothing_is_interrupted_at_once():
    with pytest.raises(Canceled):
        Interrupt()(2, None)


def test_work_that_handles_a_request_to_stop_is_not_interrupted_before_the_second():
    interrupt, seen = Interrupt(), []

    def work():
        with handle_cancellation():
            interrupt(2, None)
            seen.append(is_stopped())
            with pytest.raises(Canceled):
                interrupt(2, None)
            seen.append(is_stopped())

    with stopping(lambda: interrupt.is_asked), pytest.raises(Canceled):
        work()
    assert seen == [True, True]
    assert not is_stopped()
    with pytest.raises(Canceled):  # nothing handles it any longer
        Interrupt()(2, None)


def test_nobody_who_asks_stops_nothing():
    with handle_cancellation(), stopping(lambda: False):
        assert not is_stopped()


def test_what_ends_by_itself_while_handling_ends_as_it_did():
    with pytest.raises(KeyError), stopping(lambda: True), handle_cancellation():
        raise KeyError


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "a second"),
        (12.4, "about 12 seconds"),
        (89, "about 1 minute"),
        (600, "about 10 minutes"),
        (3600, "about 1.0 hour"),
        (9000, "about 2.5 hours"),
    ],
)
def test_times_as_people_say_them(seconds, words):
    assert duration(seconds) == words
