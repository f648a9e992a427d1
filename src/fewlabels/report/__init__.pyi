from .bench import write_bench_report as write_bench_report
from .project import write_project_report as write_project_report
from .runs import write_report as write_report
from .sheet import sheet_path as sheet_path, write_contact_sheet as write_contact_sheet
