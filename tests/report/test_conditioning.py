"""The section on conditioning: right numbers, only where networks were kept."""

import json
import re

import pytest
import torch
from tests.experiments.runs.toy import digits, whole_run

from fewlabels.experiments.diagnosis import Conditioning, diagnose
from fewlabels.experiments.runs import RunFolder
from fewlabels.experiments.settings import Choice
from fewlabels.files import add_checksum
from fewlabels.gram import spectrum
from fewlabels.report import write_report
from fewlabels.report.runs import conditioning
from fewlabels.report.wording import number

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


def test_the_page_shows_the_spectra(runs, pool, tmp_path):
    for folder in runs:
        page = write_report(tmp_path / "page.html", folder, pool).read_text("utf-8")
        for found in diagnose(folder, pool, whole_pool=False):
            for value in (found.spectrum.smallest, found.spectrum.condition):
                assert f"<td>{number(value)}</td>" in page
        again = write_report(tmp_path / "again.html", folder, pool).read_text("utf-8")
        assert page == again
        ids = re.findall(r' id="([^"]+)"', page)
        assert len(ids) == len(set(ids))


def test_without_networks_there_is_no_section(npc, tmp_path):
    page = write_report(tmp_path / "page.html", npc, digits()).read_text("utf-8")
    assert "Conditioning" not in page


def test_a_trainer_that_is_gone_costs_the_section_only(runs, pool, tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    for file in (runs[0].settings_file, runs[0].start_file, runs[0].rounds_file):
        (folder.path / file.name).write_bytes(file.read_bytes())
    content = json.loads(folder.settings_file.read_text("utf-8"))
    content["settings"]["trainer"]["name"] = "gone_away:Trainer"
    del content["checksum"]
    folder.settings_file.write_text(add_checksum(json.dumps(content)), "utf-8")
    page = write_report(tmp_path / "page.html", folder, pool).read_text("utf-8")
    assert "Conditioning" not in page


def test_eigenvalues_are_drawn_up_to_the_rank_and_read_out():
    element = conditioning("npc", [row()])[0].drawing.svg()
    assert "var(--hue-1)" in element
    assert (
        'aria-label="Eigenvalues of the Gram matrix of the labeled items: 4 ' in element
    )
    assert "down to 0.25 with 3 labels." in element
    (singular,) = conditioning("npc", [row(torch.tensor([4.0, 1.0, 0.0]))])
    assert singular.tables[0].rows[0][2].text == "2"
    assert not conditioning("npc", [row(torch.zeros(2))])
    assert not conditioning("npc", [])


def test_many_rounds_are_named_as_far_as_there_is_room():
    many = [row(torch.logspace(0, 3, size)) for size in range(2, 62)]
    element = conditioning("npc", many)[0].drawing.svg()
    words = re.findall(r"<text[^>]*>(\d+)</text>", element)
    assert {"2", "61"} <= set(words)
    assert len([word for word in words if int(word) % 10]) < 15


def test_a_stand_in_is_confessed():
    (note,) = conditioning("npc", [row(is_stand_in=True)])[0].notes
    assert "It is also shown for rounds" in note
    assert conditioning("npc", [row()])[0].notes == ["Kernel: last-layer."]
