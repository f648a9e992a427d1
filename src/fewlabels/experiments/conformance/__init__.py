"""The conformance suite: what strategies, trainers, classifiers and kernels promise."""

from fewlabels.experiments.conformance.problems import (
    CheckCase,
    Finding,
    Outcome,
    problem,
)
from fewlabels.experiments.conformance.suite import Kind, check

__all__ = ["CheckCase", "Finding", "Kind", "Outcome", "check", "problem"]
