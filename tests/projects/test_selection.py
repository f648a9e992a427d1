"""What is asked about: chosen once, within the budget, an honest slice in between."""

import json
import shutil
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from PIL import Image
from tests.data.pictures import pixels
from tests.projects.toy import (
    answer,
    begin,
    begun,
    changed,
    go_on,
    num_events,
    paths,
    pictures,
    write,
)

from fewlabels.errors import (
    BudgetError,
    FewlabelsWarning,
    StoreError,
    UnknownNameError,
    UsageError,
)
from fewlabels.experiments.settings import Choice
from fewlabels.projects import NextStep, selection
from fewlabels.projects.store import Kind, candidates_digest
from fewlabels.strategies.random import Random


def roles(asked, role):
    return {one.item for one in asked.items if one.role == role}


def test_the_first_query_needs_no_label_and_no_model(tmp_path):
    with begin(tmp_path, strategy="npc") as project:
        asked = project.ask()
        assert (asked.step, asked.strategy, asked.model) == (0, "npc", None)
        assert len(roles(asked, "query")) == 4
        assert len(roles(asked, "audit")) == asked.num_audit == 3
        assert not project.records()
        (stored,) = project.store.rounds()
        assert isinstance(stored.options["value"], float)  # NPC's own score


def test_a_seed_decides_everything(tmp_path):
    chosen = {}
    for name, seed in (("one", 1), ("again", 1), ("other", 2)):
        with begin(tmp_path / name, strategy="npc", seed=seed) as project:
            chosen[name] = paths(project, project.ask())
    assert chosen["one"] == chosen["again"] != chosen["other"]


def test_the_audit_slice_is_drawn_uniformly(tmp_path):
    counts = torch.zeros(8)
    pictures(tmp_path / "images", range(8))
    with begin(tmp_path, budget=4, audit=2) as project:
        plain, snapshot = project.settings, project.snapshot()
        for seed in range(200):
            drawn = replace(project, settings=plain.model_copy(update={"seed": seed}))
            free = snapshot.candidates
            counts[selection._audit_slice(drawn, snapshot, free)] += 1
    expected = 200 * 2 / 8
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert counts.sum() == 400
    assert chi_square < 24.3  # one in a thousand with 7 degrees of freedom


def test_the_audit_slice_is_mixed_among_the_query(tmp_path):
    pictures(tmp_path / "images", range(60))
    with begin(tmp_path, budget=40, audit=20, query=20) as project:
        kinds = [one.role for one in project.ask().items]
    assert kinds.count("audit") == 20
    changes = sum(a != b for a, b in pairwise(kinds))
    assert changes >= 8  # sorted apart, there would be one


def test_no_label_of_the_audit_slice_trains_or_is_a_candidate(tmp_path):
    with begun(tmp_path) as project:
        audit = roles(go_on(project), "audit")
        snapshot = project.snapshot()
        places = torch.tensor([snapshot.positions[item] for item in audit])
        pool = snapshot.pool(project.images(snapshot))
        assert (pool.labels[places] == -1).all()
        assert len(pool.labeled) == 4
        assert not torch.isin(pool.candidates, places).any()
        assert snapshot.audited.keys() == audit
        status = project.status()
        assert sum(status.class_counts) == 4
        assert (status.num_spent, status.num_audited) == (7, 3)
        project.train()
        assert sum(project.records()[0].class_counts) == 4
        later = go_on(project)
        assert not later.num_audit
        assert not audit & roles(later, "query")


def test_labels_that_a_strategy_chose_never_estimate(tmp_path):
    with begin(tmp_path, audit=0) as project:
        go_on(project)
        project.train()
        status = project.status()
        assert status.num_audited == 0
        assert status.curve[-1].audited.accuracy is None
        assert status.gain.gain is None
        assert "No images were set aside to measure" in status.notes[0]


def test_a_budget_beyond_the_images_leaves_images_to_learn_from(tmp_path):
    with begin(tmp_path, budget=1_000_000, audit=None, query=5) as project:
        assert project.settings.audit == 4  # a fifth of the 24 images
        assert len(go_on(project).items) == 9
        assert project.train().record.num_labeled == 5
    with pytest.raises(UsageError, match=r"24 images is 13; it must be at most 12"):
        begin(tmp_path / "other", budget=1_000_000, audit=13)


def test_an_audit_slice_of_more_images_than_there_are_is_half_of_them(tmp_path):
    project = begin(tmp_path, budget=1_000_000, query=5)
    with changed(project, audit=200_000) as project:  # as an earlier version wrote it
        assert project.ask().num_audit == 12
        assert project.ask(anew=True).num_audit == 12


def test_an_audit_slice_may_come_later(tmp_path):
    project = begin(tmp_path, audit=0)
    go_on(project)
    project.train()
    with changed(project, audit=3) as project:
        asked = project.ask()
        assert (asked.num_audit, asked.model) == (3, "model-000")
        rows = project.write_query(asked, tmp_path / "query.jsonl").read_text()
        guesses = [json.loads(row).get("suggestion") for row in rows.splitlines()]
        assert guesses == [None] * 7  # a guess would sway the labels that judge it
        answer(project, asked)
        status = project.status()
        assert status.num_audited == 3
        assert status.curve[-1].audited.num_audited == 3  # the older model, too
        assert not any("have no label" in note for note in status.notes)
        project.train()
        status = project.status()
        assert status.num_audited == 3
        assert [p.num_labeled for p in status.curve] == [4, 8]
        assert status.curve[-1].audited.accuracy is not None


def test_more_checks_measure_the_models_there_are(tmp_path):
    with begun(tmp_path) as project:
        for _ in range(3):
            go_on(project)
            project.train()
        before = project.status()
        assert before.num_spent == before.budget
        assert before.num_awaited == 0
        more = project.with_budget(project.settings.budget + 5, before.audit_size + 5)
        assert more.status().num_awaited == 5
        asked = more.ask()
        assert (asked.num_audit, len(asked.items), asked.strategy) == (5, 5, "random")
        answer(more, asked)
        status = more.status()
        assert (status.num_awaited, status.num_audited) == (0, before.audit_size + 5)
        assert status.num_spent == status.budget
        assert [point.audited.num_audited for point in status.curve] == [8, 8, 8]
        named = f"About {status.num_checks} more random checks"
        assert (named in status.advice) == (status.num_checks > 0)
        record, snapshot = more.records()[-1], more.snapshot()
        pool = snapshot.pool(more.images(snapshot))
        checks = [snapshot.positions[item] for item in record.audit]
        model = more.classifier(record, pool)
        seen = model.outputs(pool.images, torch.tensor(checks)).logits.argmax(dim=1)
        assert [pool.classes[number] for number in seen] == [*record.audit.values()]
        with pytest.raises(BudgetError, match="17 of 17 labels are spent"):
            more.ask()
        more.close()


def test_a_check_that_a_model_may_have_learned_does_not_measure_it(tmp_path):
    with begin(tmp_path, audit=0, budget=24) as project:
        asked = go_on(project)
        project.train()
        done = [event.uuid for event in project.store.labels()]
        for uuid in done:
            project.undo(target=uuid, annotator="ann")
        more = project.with_budget(24, 12)
        answer(more, more.ask(anew=True))
        known = {item.item for item in asked.items}
        assert known & more.snapshot().audit
        assert more.records()[0].audit == {}
        assert not more.status().curve[-1].audited.num_audited


def test_copies_are_asked_about_once(tmp_path):
    images = pictures(tmp_path / "images", range(6))
    shutil.copy(images / "00.png", images / "copy.png")
    shutil.copy(images / "01.png", images / "other copy.png")
    picture = Image.fromarray(pixels(50)).resize((64, 64), Image.Resampling.BICUBIC)
    picture.save(images / "near.png")
    picture.save(images / "nearly the same.jpg", quality=90)
    with begin(tmp_path, budget=12, audit=2, query=10) as project:
        status = project.status()
        assert (status.num_images, status.num_candidates) == (10, 7)
        asked = project.ask()
        names = paths(project, asked)
        assert len(asked.items) == 7
        for group in (
            {"00.png", "copy.png"},
            {"01.png", "other copy.png"},
            {"near.png", "nearly the same.jpg"},
        ):
            assert len(group & set(names)) == 1
        rows = [(name, "even") for name in names]
        project.tell(write(tmp_path / "all.csv", rows))
        with pytest.raises(BudgetError, match="every image has been asked about"):
            project.ask()


def test_an_open_round_is_asked_again(tmp_path):
    with begun(tmp_path) as project:
        first = project.ask()
        again = project.ask()
        assert (again.step, again.items, again.is_new) == (0, first.items, False)
        name = paths(project, first)[0]
        project.tell(write(tmp_path / "one.csv", [(name, "even")]))
        assert project.ask().items == first.items[1:]
        assert len(project.store.rounds()) == 1


def test_anew_leaves_the_query_and_keeps_the_audit_slice(tmp_path):
    with begun(tmp_path) as project:
        first = project.ask()
        snapshot = project.snapshot()
        free = {snapshot.items[index].id for index in snapshot.candidates}
        assert not free & roles(first, "audit")  # though nobody has labeled them
        assert free >= roles(first, "query")
        second = project.ask(anew=True)
        assert (second.step, second.is_new) == (1, True)
        assert roles(second, "audit") == roles(first, "audit")
        assert len(roles(second, "query")) == 4
        assert project.status().audit_size == 3


def test_the_budget_holds_with_the_audit_slice(tmp_path):
    with begin(tmp_path, budget=12, audit=3, query=5) as project:
        sizes = []
        for _ in range(2):
            sizes.append(len(go_on(project).items))
            project.train()
        with pytest.raises(BudgetError, match="12 of 12 labels are spent"):
            project.ask()
        assert sizes == [8, 4]
        assert project.status().num_spent == 12
        assert project.status().next_step is NextStep.EXPORT


def test_the_budget_holds_for_audit_images_that_are_asked_again(tmp_path):
    with begin(tmp_path, budget=10, audit=3, query=7) as project:
        asked = project.ask()
        some = replace(asked, items=[o for o in asked.items if o.role == "query"][:5])
        answer(project, some)
        with pytest.warns(
            FewlabelsWarning, match="no model was trained on the 5 labels"
        ):
            second = project.ask(anew=True)
        assert (len(roles(second, "query")), second.num_audit) == (2, 3)


def test_a_query_smaller_or_of_another_strategy(tmp_path):
    with begun(tmp_path) as project:
        asked = project.ask(size=2, strategy=Choice(name="npc", options={"draws": 9}))
        assert (len(roles(asked, "query")), asked.strategy) == (2, "npc")
        (stored,) = project.store.rounds()
        assert stored.options["strategy_options"] == {"draws": 9}
        with pytest.raises(UnknownNameError, match=r"'mragin'.*margin"):
            project.ask(strategy="mragin", anew=True)
    with begin(tmp_path / "other") as project, pytest.raises(UsageError, match="0"):
        project.ask(size=0)


def test_rounds_say_who_chose_and_never_change(tmp_path):
    with begin(tmp_path, seed=7) as project:
        go_on(project)
        project.train()
        asked = project.ask()
        first, second = project.store.rounds()
        assert (first.strategy, first.seed, first.model) == ("random", 7, None)
        assert (second.strategy, second.seed, second.model) == (
            "random",
            7,
            "model-000",
        )
        snapshot = project.snapshot()
        free = [snapshot.items[i].id for i in snapshot.candidates]
        assert second.candidates_digest == candidates_digest(free)
        assert second.candidates_digest != first.candidates_digest
        assert second.items == asked.items
        with pytest.raises(StoreError):
            project.store.add_round(replace(second, seed=8))
        answer(project, asked)
        assert project.store.rounds() == (first, second)
        labels = [s for s in project.store.events() if s.kind is Kind.LABEL]
        assert {(e.round, e.model) for e in labels} == {(0, None), (1, "model-000")}


def test_labels_without_a_model_are_noted(tmp_path):
    with begun(tmp_path) as project:
        go_on(project)
        with pytest.warns(
            FewlabelsWarning, match="no model was trained on the 4 labels"
        ):
            project.ask()


def test_asking_writes_no_event(tmp_path):
    with begun(tmp_path) as project:
        before = num_events(project)
        project.ask()
        assert num_events(project) == before


def test_a_first_choice_at_random_lists_no_files(tmp_path, monkeypatch):
    with begun(tmp_path) as project:
        monkeypatch.setattr(type(project), "images", None)  # of many, that takes long
        asked = project.ask(strategy="random", scan=False)
        assert len(asked.items) > asked.num_audit > 0


def test_a_round_that_is_chosen_ahead_keeps_open_what_is_open(tmp_path):
    with begin(tmp_path, budget=20, audit=2, query=4) as project:
        first = [item.item for item in project.ask().items]
        project.label(first[0], "odd")
        with pytest.warns(UserWarning, match="no model"):
            second = [item.item for item in project.ask(ahead=True).items]
        assert not set(first) & set(second)
        waiting = [*first[1:], *second]
        assert [item.item for item in project.ask().items] == waiting
        assert list(project.lease(99).items) == waiting
        assert project.status().num_open == len(waiting)
        with pytest.warns(UserWarning, match="no model"):
            third = [item.item for item in project.ask(anew=True).items]
        assert [item.item for item in project.ask().items] == third  # and no others


def test_images_that_are_open_count_as_labeled_for_what_is_chosen_ahead(
    tmp_path, monkeypatch
):
    seen = []
    with begin(tmp_path, budget=20, audit=2, query=4) as project:
        items = project.ask().items
        for item in items[:3]:
            project.label(item.item, "odd")
        select = Random.select

        def watched(self, classifier, pool, *given, **more):
            seen.append({pool.ids[index] for index in pool.labeled.tolist()})
            return select(self, classifier, pool, *given, **more)

        monkeypatch.setattr(Random, "select", watched)
        with pytest.warns(UserWarning, match="no model"):
            project.ask(ahead=True)
    assert seen == [{item.item for item in items if item.role == "query"}]
