"""The conformance suite: what every strategy promises, checked on anybody's."""

from fewlabels.conformance.finding import Finding, Outcome
from fewlabels.conformance.memory import Memory
from fewlabels.conformance.problems import Problem, problem
from fewlabels.conformance.suite import check

__all__ = ["Finding", "Memory", "Outcome", "Problem", "check", "problem"]
