"""The section on conditioning: right numbers, only where networks were kept."""

import json
import re
from dataclasses import replace

import pytest
import torch
from tests.runs.toy import digits, whole_run

from fewlabels.gram import spectrum
from fewlabels.report import write_report
from fewlabels.report.conditioning import conditioning_rows, conditioning_view
from fewlabels.report.wording import number
from fewlabels.runs import Choice, Conditioning, diagnose

DIAGONAL = torch.tensor([4.0, 1.0, 0.25])


def row(values=DIAGONAL, **changed):
    found = spectrum(torch.diag(values))
    fields = {
        "step": 0,
        "num_labeled": len(values),
        "kernel": "last-layer",
        "is_stand_in": False,
        "spectrum": found,
        "eigenvalues": tuple(sorted(values.tolist())),
        "step_limit": found.step_limit,
    }
    return Conditioning(**fields | changed)


@pytest.fixture(scope="module")
def pool():
    return digits()


@pytest.fixture(scope="module")
def runs(tmp_path_factory, pool):
    place = tmp_path_factory.mktemp("runs")
    return [
        whole_run(place / name, pool, strategy=Choice(name=name), budget=15)[1]
        for name in ("npc", "random")
    ]


def test_the_page_shows_the_spectra_of_all_runs(runs, pool, tmp_path):
    page = write_report(tmp_path / "page.html", runs, pool).read_text("utf-8")
    assert page.count('class="plot panel"') == 2
    for folder in runs:
        for found in diagnose(folder, pool, whole_pool=False):
            for value in (found.spectrum.smallest, found.spectrum.condition):
                assert f"<td>{number(value)}</td>" in page
    again = write_report(tmp_path / "again.html", runs, pool).read_text("utf-8")
    assert page == again
    ids = re.findall(r'id="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_without_networks_there_is_no_section(npc, tmp_path):
    pool = digits()
    assert conditioning_rows(npc, pool) == ()
    page = write_report(tmp_path / "page.html", [npc], pool).read_text("utf-8")
    assert "Conditioning" not in page


def test_a_trainer_that_is_gone_costs_the_section_only(runs, pool, tmp_path):
    folder = replace(runs[0], path=tmp_path / "run")
    folder.path.mkdir()
    for file in (runs[0].settings_file, runs[0].start_file, runs[0].rounds_file):
        (folder.path / file.name).write_bytes(file.read_bytes())
    content = json.loads(folder.settings_file.read_text("utf-8"))
    content["settings"]["trainer"]["name"] = "gone_away:Trainer"
    del content["checksum"]
    folder.settings_file.write_text(json.dumps(content), "utf-8")
    assert conditioning_rows(folder, pool) == ()


def test_eigenvalues_are_drawn_up_to_the_rank():
    whole = conditioning_view([row()], 1, 0)
    assert not whole.is_singular
    singular = conditioning_view([row(torch.tensor([4.0, 1.0, 0.0]))], 1, 0)
    assert singular.is_singular
    assert "var(--hue-1)" in singular.spectra
    assert conditioning_view([row(torch.zeros(2))], 1, 0) is None
    assert conditioning_view([], 1, 0) is None


def test_many_rounds_are_named_as_far_as_there_is_room():
    many = [row(torch.logspace(0, 3, size)) for size in range(2, 62)]
    words = re.findall(
        r"<text[^>]*>(\d+)</text>", conditioning_view(many, 1, 0).spectra
    )
    named = [word for word in words if int(word) % 10]
    assert "2" in named
    assert "61" in named
    assert len(named) < 15


def test_the_drawing_is_read_out():
    words = conditioning_view([row()], 1, 0).spectra
    assert (
        'aria-label="Eigenvalues of the Gram matrix of the labeled items: 4 ' in words
    )
    assert "down to 0.25 with 3 labels." in words


def test_a_stand_in_is_confessed():
    assert conditioning_view([row(is_stand_in=True)], 1, 0).has_stand_in
    assert not conditioning_view([row()], 1, 0).has_stand_in
