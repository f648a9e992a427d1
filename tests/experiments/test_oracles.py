import torch

from fewlabels.experiments.acquisition import TableOracle
from fewlabels.pool import UNKNOWN, Query


def test_a_table_answers_what_it_knows_and_skips_the_rest():
    table = TableOracle(torch.tensor([2, UNKNOWN, 0, 1]))
    answers = table.answer(Query(torch.tensor([3, 1, 0])))
    assert answers.indices.tolist() == [3, 0]
    assert answers.labels.tolist() == [1, 2]
    assert answers.skipped.tolist() == [1]


def test_nothing_asked_is_nothing_answered():
    answers = TableOracle(torch.tensor([2, 0])).answer(Query())
    assert len(answers.indices) == len(answers.labels) == len(answers.skipped) == 0
