"""What goes on behind the page: in time, once, and as the command line would do it."""

import threading
import time
from copy import deepcopy

import pytest
from tests.projects.toy import CLASSES, answer, begin, pictures
from tests.web.pages import Browser

from fewlabels.errors import BudgetError, JobError, UsageError
from fewlabels.experiments.settings import Choice
from fewlabels.projects import Project
from fewlabels.web import background as module
from fewlabels.web import guesses, work
from fewlabels.web.background import Background, StateBroadcaster

HEAD = Choice(name="frozen-linear", options={"encoder": "pixels"})


def test_a_project_begins_with_some_of_its_images_and_the_rest_follows(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(work, "FIRST_IMAGES", 10)
    pictures(tmp_path / "images")
    folder, images = str(tmp_path / "project"), str(tmp_path / "images")
    options = {
        "budget": 12,
        "query": 4,
        "trainer": "frozen-linear",
        "encoder": "pixels",
    }
    work.begin(folder, images, list(CLASSES), options, allow_code=False)
    with Project.open(folder) as project:
        some = {one.path for one in project.store.items()}
        assert len(some) == 10
        (first,) = project.store.rounds()
        assert first.strategy == "random"
        assert [one.role for one in first.items].count("audit") == 2
        facts = {"takes_steps": False, "goes_on": False}
        assert work.prepare(folder, allow_code=False) == facts
        every = {one.path for one in project.store.items()}
        assert some < every
        assert len(every) == 24
        assert Browser(project).lease()


def test_code_that_a_job_names_is_not_imported(tmp_path):
    options = {"budget": 12, "strategy": "tests.web.nowhere:Evil"}
    with pytest.raises(UsageError, match="names code to import"):
        work.begin(
            str(tmp_path / "p"), str(tmp_path), ["a", "b"], options, allow_code=()
        )


def test_the_next_round_learns_first_where_that_takes_no_time(tmp_path):
    with begin(tmp_path, trainer=HEAD, strategy="margin") as project:
        folder = str(project.folder)
        told = work.next_round(folder, at_random=True, allow_code=False)
        assert told == {"round": 0, "model": None}
        answer(project, project.ask())
        told = work.next_round(folder, at_random=False, allow_code=False)
        assert told == {"round": 1, "model": "model-000"}
        assert project.store.rounds()[1].strategy == "margin"


@pytest.mark.parametrize("at_random", [False, True])
def test_a_round_that_is_chosen_ahead_keeps_to_the_budget(tmp_path, at_random):
    with begin(tmp_path, trainer=HEAD, strategy="margin") as project:
        folder = str(project.folder)
        asked = project.ask(strategy="random")
        browser = Browser(project)
        shown = browser.lease(7)
        for item in shown[:5]:
            browser.act("label", item=item["id"], name="odd")
        work.next_round(folder, at_random=at_random, allow_code=False)
        work.next_round(folder, at_random=at_random, allow_code=False)
        _, second, third = project.store.rounds()
        assert len(asked.items) == 7
        assert (len(second.items), len(third.items)) == (4, 1)  # of a budget of 12
        assert not {one.item for one in asked.items} & {o.item for o in second.items}
        assert len(project.ask().items) == 7  # two, four and one are open
        with pytest.raises(BudgetError, match="5 of 12 labels are spent"):
            work.next_round(folder, at_random=at_random, allow_code=False)
        fresh = {item["id"] for item in browser.lease(20)} - {o["id"] for o in shown}
        assert len(fresh) == 5
        for item in shown[5:]:  # what the tab had is still taken
            assert browser.act("label", item=item["id"], name="even").status_code == 200


def test_an_export_has_all_files(tmp_path):
    with begin(tmp_path, trainer=HEAD) as project:
        answer(project, project.ask())
        target = str(tmp_path / "export")
        told = work.export(
            str(project.folder), target=target, as_is=False, allow_code=False
        )
    names = {"labels.csv", "predictions.parquet", "report.html", "model/config.json"}
    assert names <= set(told["files"])
    assert "Exported model-000, which learned from 4 labels" in told["message"]


def test_the_first_model_is_trained_once_there_are_labels_to_learn_from(tmp_path):
    with begin(tmp_path, trainer=HEAD) as project:
        folder = str(project.folder)
        guesses.guess(folder, learns=True, allow_code=False)
        assert not project.records()  # there are no labels
        answer(project, project.ask())
        guesses.guess(folder, allow_code=False)
        assert not project.records()
        guesses.guess(folder, learns=True, allow_code=False)
        answer(project, project.ask())
        guesses.guess(folder, learns=True, allow_code=False)
        assert len(project.records()) == 1  # the next round trains the second one


def test_a_final_training_is_measured_and_done_while_heads_serve(tmp_path, monkeypatch):
    few = Choice(name="fixmatch-darp", options={"steps": 2, "target": [0.75, 0.25]})
    monkeypatch.setattr(work, "_from_scratch", lambda _: few)
    with begin(tmp_path, trainer=HEAD, budget=20) as project:
        folder = str(project.folder)
        assert work.estimate_final(folder, allow_code=False)["expected"] == ""
        answer(project, project.ask())
        assert work.next_round(folder, at_random=False, allow_code=False)
        told = work.estimate_final(folder, allow_code=False)
        assert told["expected"].startswith("Expected: ")
        told = work.train_finally(folder, allow_code=False)
        assert told == {"model": "model-001", "num_labels": 4}
        # It stays the latest model, and is exported, until there are new labels.
        work.next_round(folder, at_random=False, allow_code=False)
        assert project.export(tmp_path / "out").model.trainer == "fixmatch-darp"
        answer(project, project.ask())
        work.next_round(folder, at_random=False, allow_code=False)
        assert [one.trainer for one in project.records()][2:] == ["frozen-linear"]


def test_a_network_from_scratch_is_given_known_shares(tmp_path):
    with begin(tmp_path, trainer=HEAD, shares="3,1") as project:
        chosen = work._from_scratch(project)
        target = {"target": [0.75, 0.25]}
        assert (chosen.name, chosen.options) == ("fixmatch-darp", target)
    (tmp_path / "b").mkdir()
    with begin(tmp_path / "b", trainer=HEAD) as project:
        assert work._from_scratch(project).name == "flexmatch"


# ------------------------------------------------------------------------- when


class FakeJob:
    """A job that ends as it is told."""

    def __init__(self, call, arguments, end):
        self.call, self.arguments, self.end = call, arguments, end
        self.is_canceled = False

    def events(self):
        told = {"event": "progress", "task": "Embedding", "done": 1, "total": 2}
        yield {**told, "is_over": False}
        yield self.end

    def cancel(self):
        self.is_canceled = True

    def kill(self):
        pass


@pytest.fixture
def jobs(monkeypatch, tmp_path):
    """A background whose jobs are only noted down."""

    class Jobs:
        arrived = threading.Condition()

    def started(call, arguments, **options):
        name = call.rpartition(":")[2]
        usual = {"takes_steps": False, "predictions": {}}
        end = Jobs.ends.get(name, {"event": "done", "result": usual})
        job = FakeJob(name, arguments, deepcopy(end))
        with Jobs.arrived:
            if name not in Jobs.ignored:
                Jobs.started.append(job)
            Jobs.arrived.notify_all()
        return job

    class FakeWorker:
        def __init__(self, **options):
            pass

        def start(self, call, arguments):
            return started(call, arguments)

        def close(self):
            pass

    monkeypatch.setattr(module, "start", started)
    monkeypatch.setattr(module, "Worker", FakeWorker)
    Jobs.started, Jobs.ends, Jobs.ignored = [], {}, {"warm_up", "guess"}
    Jobs.background = Background(tmp_path)
    yield Jobs
    Jobs.background.close()


def calls(jobs, number, name="round"):
    """Wait for some jobs, and until one of them is over; return what was called."""
    with jobs.arrived:
        assert jobs.arrived.wait_for(lambda: len(jobs.started) >= number, 10)
    while jobs.background.status()[name]["status"] == "running":
        threading.Event().wait(0.01)
    return [(job.call, job.arguments.get("at_random")) for job in jobs.started]


def labeling_state(number=0, left=7, size=10, spent=0, budget=100, sequence=0):
    asked = None if number is None else {"number": number, "open": left, "size": size}
    told = {"round": asked, "open": left, "waiting": left if asked else 0}
    return told | {"spent": spent, "budget": budget, "sequence": sequence}


def test_the_first_round_does_not_wait_for_features(jobs):
    jobs.background.consider(labeling_state(None))
    jobs.background.consider(labeling_state(None))
    assert calls(jobs, 1) == [("next_round", True)]


def test_without_features_the_budget_is_not_spent_at_random_unless_asked_to(jobs):
    background = jobs.background
    background.want_images(0)
    background.consider(labeling_state(left=0))
    assert jobs.started == []
    background.choose_again(at_random=True)
    background.consider(labeling_state(left=0))
    assert calls(jobs, 1) == [("next_round", True)]
    background.want_images(1)
    background.consider(labeling_state(number=1, left=0))
    assert len(jobs.started) == 1  # once, and not for the rest of the budget
    background.begin()
    calls(jobs, 2, "features")
    background.consider(labeling_state(number=1, left=0))  # now it goes on by itself
    assert calls(jobs, 3)[2] == ("next_round", False)


def test_the_last_labels_of_the_budget_are_learned(tmp_path):
    with begin(tmp_path, trainer=HEAD, budget=4, audit=1) as project:
        answer(project, project.ask())
        with pytest.raises(BudgetError, match="4 of 4 labels are spent"):
            work.next_round(str(project.folder), at_random=False, allow_code=False)
        assert [record.name for record in project.records()] == ["model-000"]


def test_the_last_labels_of_the_budget_are_learned_once_and_more_of_it_goes_on(jobs):
    background = jobs.background
    background.begin()
    calls(jobs, 1, "features")
    for _ in range(2):
        background.consider(labeling_state(number=2, left=0, spent=100))
        assert calls(jobs, 2)[1:] == [("next_round", False)]
    background.consider(labeling_state(number=2, left=0, spent=100, budget=140))
    assert len(calls(jobs, 3)) == 3


def test_a_round_is_chosen_once_when_a_tab_gets_too_few_images(jobs):
    background = jobs.background
    background.begin()
    calls(jobs, 1, "features")
    background.consider(labeling_state(left=6))
    assert len(jobs.started) == 1
    background.want_images(0)
    background.consider(labeling_state(left=6))
    background.consider(labeling_state(left=5))
    background.consider(labeling_state(left=0))
    assert calls(jobs, 2) == [("prepare", None), ("next_round", False)]
    background.consider(
        labeling_state(number=1, left=9)
    )  # which has images for the tab
    assert len(jobs.started) == 2
    background.consider(labeling_state(number=1, left=0))
    assert len(calls(jobs, 3)) == 3


def test_how_long_a_job_will_take_follows_from_its_progress(jobs, monkeypatch):
    clock = iter([0.0, 10.0, 10.0, 10.5, 10.5, 14.0, 14.0, 20.0])
    monkeypatch.setattr(module, "monotonic", lambda: next(clock))
    seen, told = [], {"event": "progress", "task": "Embedding", "total": 9, "id": 1}

    def events(job):
        for done in (1, 2, 3):
            yield {**told, "done": done, "is_over": False}
            seen.append(jobs.background.status()["training"]["seconds_left"])
        yield job.end

    monkeypatch.setattr(FakeJob, "events", events)
    jobs.background.train()
    calls(jobs, 1, "training")
    assert seen == [None, None, 12]  # two took four seconds, six are left
    assert jobs.background.status()["training"]["seconds"] == 20


def test_the_first_model_is_trained_within_a_round(jobs):
    jobs.ignored = {"warm_up"}
    background = jobs.background
    background.begin()
    calls(jobs, 1, "features")
    for spent in (9, 10, 10, 11):
        background.consider(labeling_state(spent=spent, sequence=spent))
        calls(jobs, 0, "guesses")
    learns = [job.arguments["learns"] for job in jobs.started if job.call == "guess"]
    assert learns == [False, True, True]


def test_an_export_that_lacks_something_asks(jobs):
    jobs.ends["export"] = {
        "event": "failed",
        "error": "UnlearnedLabelsError",
        "reason": "There is no model yet.",
    }
    jobs.background.export()
    calls(jobs, 1, "export")
    told = jobs.background.status()["export"]
    assert (told["status"], told["error"]) == ("asks", "There is no model yet.")


def test_guesses_follow_each_label_and_round(jobs):
    jobs.ignored = {"warm_up"}
    jobs.background.consider(labeling_state(sequence=5))
    assert jobs.started == []
    jobs.background.begin()
    calls(jobs, 1, "features")
    made = {"by": "a model", "predictions": {"items": "some"}}
    jobs.ends["guess"] = {"event": "done", "result": made}
    for number, sequence in ((0, 5), (0, 5), (0, 6), (1, 6)):
        jobs.background.consider(labeling_state(number, sequence=sequence))
        calls(jobs, 2, "guesses")
    assert [job.call for job in jobs.started] == ["prepare", *["guess"] * 3]
    assert jobs.background.predictions == {"items": "some"}
    assert jobs.background.status()["guesses"]["result"] == {"by": "a model"}


def test_few_wait_for_the_model_and_none_in_vain(jobs, monkeypatch):
    jobs.background.begin()
    calls(jobs, 1, "features")
    going_on = threading.Event()
    jobs.background._executor.submit(going_on.wait, 10)  # it is busy
    monkeypatch.setattr(module, "_MOST_SECONDS", 0.01)
    seats = jobs.background._slots
    while seats.acquire(blocking=False):
        pass
    with pytest.raises(JobError, match="Others wait"):
        jobs.background.ask("second_looks")
    seats.release()
    for _ in range(2):  # whoever gives up leaves the seat to the next
        with pytest.raises(JobError, match="longer than"):
            jobs.background.ask("second_looks")
    going_on.set()
    jobs.background._executor.submit(int).result(10)
    assert [job.call for job in jobs.started] == ["prepare"]


def test_nothing_is_chosen_past_the_budget(jobs):
    background = jobs.background
    background.begin()
    calls(jobs, 1, "features")
    background.want_images(0)
    background.consider(labeling_state(left=5, spent=95))
    calls(jobs, 1, "guesses")
    assert "next_round" not in {job.call for job in jobs.started}


def test_a_project_is_created_behind_the_page(jobs, tmp_path):
    ends = []
    wish = {"images": "photos", "classes": ["a", "b"], "options": {}}
    background = jobs.background = Background(tmp_path, creation=wish)
    background.on_created = ends.append
    jobs.ends["begin"] = {"event": "failed", "error": "DataError", "reason": "None."}
    background.begin()
    calls(jobs, 1, "creation")
    assert background.status()["creation"]["error"] == "None."
    jobs.ends["begin"] = {"event": "done", "result": {"reason": "It fits."}}
    background.begin()
    calls(jobs, 3, "creation")
    assert [job.call for job in jobs.started] == ["begin", "begin", "prepare"]
    assert jobs.started[1].arguments == {"folder": str(tmp_path), **wish}
    assert [end["event"] for end in ends] == ["failed", "done"]


def test_a_round_that_is_answered_while_it_is_being_told_has_a_next_one(jobs):
    going_on, slow = threading.Event(), FakeJob.events

    def events(job):
        going_on.wait(10)
        yield from slow(job)

    jobs.background.start("features")
    calls(jobs, 1, "features")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeJob, "events", events)
        jobs.background.consider(labeling_state(left=0))
        jobs.background.consider(labeling_state(number=1, left=0))  # the job still runs
        going_on.set()
        calls(jobs, 2)
        jobs.background.consider(labeling_state(number=1, left=0))
        assert len(calls(jobs, 3)) == 3


def test_a_job_that_cannot_start_has_failed(jobs, monkeypatch):
    def refused(*_, **__):
        raise OSError("no memory")

    monkeypatch.setattr(module, "start", refused)
    monkeypatch.setattr(jobs.background._worker, "start", refused)
    jobs.background.train()
    jobs.background.export()
    for name in ("training", "export"):
        calls(jobs, 0, name)
        told = jobs.background.status()[name]
        assert (told["status"], told["error"][-9:]) == ("failed", "no memory")


def test_the_state_is_sent_after_a_read_that_failed():
    looks = iter([OSError("no memory"), RuntimeError("no thread")])

    def look():
        for error in looks:
            raise error
        return {"round": 1}

    broadcaster = StateBroadcaster(look, lambda state: None)
    broadcaster.open()
    end = time.monotonic() + 10
    while broadcaster.latest[0] == 0 and time.monotonic() < end:
        broadcaster.notify()
        threading.Event().wait(0.01)
    broadcaster.close()
    assert broadcaster.latest[1] == '{"round": 1}'


def test_features_that_were_stopped_are_begun_again_if_somebody_wishes(
    jobs, project, monkeypatch
):
    jobs.ends["prepare"] = {"event": "canceled"}
    background, start = jobs.background, jobs.background.start
    monkeypatch.setattr(Background, "start", lambda _, name: start(name))
    browser = Browser(project)  # its background prepares this one
    background.begin()
    calls(jobs, 1, "features")
    assert background.status()["features"]["status"] == "canceled"
    with pytest.raises(JobError, match="were not all looked at"):
        background.ask("second_looks")
    jobs.ends["prepare"] = {"event": "done", "result": {}}
    assert browser.post("/api/features").status_code == 200
    calls(jobs, 2, "features")
    assert background.status()["features"]["status"] == "done"


def test_a_training_that_the_server_took_along_goes_on_after_a_restart(jobs, project):
    folder = str(project.folder)
    told = work.prepare(folder, allow_code=False)
    assert (told["takes_steps"], told["goes_on"]) == (True, False)
    (project.models_folder / "training").mkdir(parents=True)
    told = work.prepare(folder, allow_code=False)
    assert told["goes_on"]
    jobs.ends["prepare"] = {"event": "done", "result": told}
    jobs.background.begin()
    calls(jobs, 2, "training")
    assert [job.call for job in jobs.started] == ["prepare", "train"]


def test_a_failure_is_told_and_tried_again_only_if_asked_to(jobs):
    failed = {"event": "failed", "error": "DataError", "reason": "No such image."}
    jobs.ends["next_round"] = failed
    jobs.background.start("features")
    calls(jobs, 1, "features")
    jobs.background.consider(labeling_state(left=0))
    calls(jobs, 2)
    told = jobs.background.status()["round"]
    assert (told["status"], told["error"]) == ("failed", "No such image.")
    jobs.background.consider(labeling_state(left=0))
    assert len(jobs.started) == 2
    jobs.ends["next_round"] = {**failed, "error": "BudgetError"}
    jobs.background.choose_again()
    jobs.background.consider(labeling_state(left=0))
    calls(jobs, 3)
    assert jobs.background.status()["round"]["status"] == "finished"


def test_a_training_that_takes_steps_follows_each_round(jobs):
    jobs.ends["prepare"] = {"event": "done", "result": {"takes_steps": True}}
    background = jobs.background
    background.begin()
    calls(jobs, 1, "features")
    background.consider(labeling_state(left=0))
    calls(jobs, 3, "training")
    assert [job.call for job in jobs.started] == ["prepare", "next_round", "train"]
    background.cancel("training")
    background.cancel("export")  # there is none
    assert jobs.started[-1].is_canceled


def test_a_training_that_is_asked_for_meanwhile_comes_after(jobs):
    first = threading.Event()
    jobs.background.on_change = lambda: None
    slow = FakeJob.events

    def events(job):
        first.wait(10)
        yield from slow(job)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeJob, "events", events)
        jobs.background.train()
        jobs.background.train()
        jobs.background.train()
        assert len(jobs.started) == 1
        first.set()
        calls(jobs, 2, "training")
    assert [job.call for job in jobs.started] == ["train", "train"]


def test_each_new_state_is_sent_once(project):
    seen = []
    state = {"round": 1}
    broadcaster = StateBroadcaster(lambda: dict(state), seen.append)
    broadcaster.open()
    while not seen:
        threading.Event().wait(0.01)
    while broadcaster.latest[0] == 0:
        threading.Event().wait(0.01)
    version, text = broadcaster.latest
    assert text == '{"round": 1}'
    broadcaster.notify()
    state["round"] = 2
    while broadcaster.latest[0] == version:
        broadcaster.notify()
        threading.Event().wait(0.01)
    assert broadcaster.latest == (version + 1, '{"round": 2}')
    broadcaster.close()
    assert broadcaster.is_closed
