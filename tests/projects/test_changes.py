"""What a project knows of how sure its models are, and how they change."""

import pytest
from tests.projects.toy import begin, go_on

from fewlabels.projects.folder import ModelRecord


@pytest.fixture
def project(tmp_path):
    with begin(tmp_path, audit=5, budget=20) as opened:
        go_on(opened)
        opened.train()
        go_on(opened)
        opened.train()
        yield opened


def test_a_model_is_compared_with_the_one_before(project):
    first, second = project.records()
    assert first.change is None
    assert second.change is not None
    assert second.change.num_before == first.num_labeled < second.num_labeled
    assert second.change.num_labeled == second.num_labeled
    assert 0 <= second.change.share <= 1
    status = project.status()
    assert status.gain is not None
    assert status.advice


def test_a_damaged_file_of_predictions_tells_nothing(project):
    file = project.models_folder / "model-001" / "predicted.bin"
    file.write_bytes(file.read_bytes()[:-1])
    go_on(project)
    assert project.train().record.change is None


def test_confidences_are_those_of_the_checks_and_of_the_rest(project):
    record = project.records()[-1]
    assert record.confidences.keys() == record.audit.keys()
    assert all(0.5 <= sure <= 1 for sure in record.confidences.values())
    assert 0.5 <= record.mean_confidence <= 1
    others = project.status().num_images - record.num_labeled - len(record.audit)
    assert record.num_unlabeled == others


def test_records_of_earlier_versions_are_read(project):
    new = {"confidences", "mean_confidence", "num_unlabeled", "change"}
    earlier = project.records()[-1].model_dump_json(exclude=new)
    record = ModelRecord.model_validate_json(earlier)
    assert (record.confidences, record.change) == ({}, None)
