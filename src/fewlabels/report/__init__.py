"""What came out of runs, of a project or of an experiment: tables and pages."""

from typing import TYPE_CHECKING

from fewlabels.deferred import imported_when_used

if TYPE_CHECKING:
    from fewlabels.report.bench import write_bench_report
    from fewlabels.report.page import write_report
    from fewlabels.report.project import write_project_report
    from fewlabels.report.sheet import sheet_path, write_contact_sheet
    from fewlabels.report.table import AccuracyRow, AccuracyTable, accuracy_table
else:
    __getattr__ = imported_when_used(__name__)

__all__ = [
    "AccuracyRow",
    "AccuracyTable",
    "accuracy_table",
    "sheet_path",
    "write_bench_report",
    "write_contact_sheet",
    "write_project_report",
    "write_report",
]
