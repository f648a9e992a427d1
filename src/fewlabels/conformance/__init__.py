"""The conformance suite: what strategies, trainers, classifiers and kernels promise."""

from fewlabels.conformance.finding import Finding, Outcome
from fewlabels.conformance.kinds import Kind
from fewlabels.conformance.memory import Memory
from fewlabels.conformance.problems import CheckCase, problem
from fewlabels.conformance.suite import check

__all__ = ["CheckCase", "Finding", "Kind", "Memory", "Outcome", "check", "problem"]
