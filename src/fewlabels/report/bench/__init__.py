"""The report of an experiment: a page, figures, and tables for a paper."""

from fewlabels.report.bench.page import write_bench_report

__all__ = ["write_bench_report"]
