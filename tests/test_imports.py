"""A small run executes few files: what it does not need is not imported."""

import subprocess
import sys
from pathlib import Path

LIMIT = 55
SOURCE = Path(__file__).parents[1] / "src" / "fewlabels"
RUN = """
import sys
from fewlabels.cli import main
try:
    main()
finally:
    files = {getattr(module, "__file__", None) for module in sys.modules.values()}
    print(*sorted(filter(None, files)), sep="\\n")
"""


def test_a_small_run_executes_few_files(tmp_path):
    """The first run of a newcomer: the paper's strategy, a network, a report."""
    settings = tmp_path / "settings.yaml"
    settings.write_text("trainer: {name: supervised, options: {steps: 5}}")
    command = [sys.executable, "-c", RUN, "run", "digits", "--strategy", "npc"]
    command += ["--settings", str(settings), "--out", str(tmp_path / "run"), "--quiet"]
    command += ["--start", "10", "--query", "10", "--budget", "20"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (tmp_path / "run" / "report.html").is_file()
    ours = [line for line in done.stdout.splitlines() if line.startswith(str(SOURCE))]
    names = [str(Path(file).relative_to(SOURCE)) for file in ours]
    assert names
    assert len(names) <= LIMIT, f"{len(names)} files:\n" + "\n".join(names)
