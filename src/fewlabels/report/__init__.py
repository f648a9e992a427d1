"""What came out of one run, or of several side by side: a table and a page."""

from fewlabels.report.page import write_report
from fewlabels.report.project import write_project_report
from fewlabels.report.table import AccuracyRow, AccuracyTable, accuracy_table

__all__ = [
    "AccuracyRow",
    "AccuracyTable",
    "accuracy_table",
    "write_project_report",
    "write_report",
]
