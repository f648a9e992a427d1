"""Processor time and coverage of two commits' tests, measured one after the other.

``python scripts/test_time.py BEFORE AFTER`` checks both out beside each other, runs
each one's tests as its own ``make test`` does, then all once more to see which lines
of ``src`` they run, and writes benchmarks/results/test_time.json.
"""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "benchmarks" / "results" / "test_time.json"
LIMIT = 0.6
PROCESSES = """
import coverage
coverage.process_startup()
"""


def git(*words: str) -> str:
    """Return what git says in this repository."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), *words], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def options(place: Path) -> list[str]:
    """Return what this commit's ``make test`` hands to pytest."""
    recipe = (place / "Makefile").read_text("utf-8")
    found = re.search(r"^test:.*\n\t\$\(PYTEST\) (.*)$", recipe, re.MULTILINE)
    assert found is not None, "the Makefile has no target 'test'"
    return [word.strip('"') for word in re.findall(r'"[^"]*"|\S+', found[1])]


def environment(place: Path, **more: str) -> dict[str, str]:
    """Return the environment of a run: code and tests are those of the commit."""
    own = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(place / "src")}
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, **own, **more}


def tested(place: Path, env: dict[str, str]) -> dict[str, Any]:
    """Run all tests; return processor seconds of all processes, and the last line."""
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [*words, *options(place)],
        cwd=place,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    ends = [line for line in done.stdout.splitlines() if " passed" in line]
    failed = re.findall(r"^FAILED (\S+)", done.stdout, re.MULTILINE)
    return {
        "seconds": round(seconds, 1),
        "tests": ends[-1] if ends else done.stdout[-500:] + done.stderr[-500:],
        "failed": failed,
    }


def covered(place: Path, hook: Path) -> dict[str, Any]:
    """Run all tests once more; return which share of the lines of src was run."""
    settings = place / ".coveragerc"
    settings.write_text(
        f"[run]\nsource = {place / 'src'}\nparallel = true\nsigterm = true\n"
        "patch = _exit\n"  # forks end without Python's usual end, and count too
        f"data_file = {place / '.coverage'}\nconcurrency = thread,multiprocessing\n"
    )
    env = environment(place, COVERAGE_PROCESS_START=str(settings))
    env["PYTHONPATH"] = os.pathsep.join([str(hook), env["PYTHONPATH"]])
    tested(place, env)
    words = [sys.executable, "-m", "coverage"]
    told = f"--rcfile={settings}"
    subprocess.run([*words, "combine", "-q", told], cwd=place, check=True)
    subprocess.run([*words, "json", "-q", told, "-o", "c.json"], cwd=place, check=True)
    totals = json.loads((place / "c.json").read_text("utf-8"))["totals"]
    return {
        "percent": round(totals["percent_covered"], 2),
        "lines": totals["num_statements"],
        "missed": totals["missing_lines"],
    }


def checked_out(commit: str, place: Path) -> dict[str, Any]:
    """Check a commit out and compile it; return which one it is."""
    shown = {"commit": git("rev-parse", commit)}
    git("worktree", "add", "--detach", "--force", str(place), shown["commit"])
    collect = ["--collect-only", "-q", "-p", "no:cacheprovider"]
    words = [sys.executable, "-m", "pytest", *collect]  # byte code is warm then
    env = environment(place)
    subprocess.run(words, cwd=place, env=env, stdout=subprocess.DEVNULL, check=False)
    return shown


def kept(found: dict[str, Any]) -> bool:
    """Write down and print what was found; return whether the limits are kept."""
    before, after = found["before"], found["after"]
    share = after["seconds"] / before["seconds"]
    record = {**found, "share of processor time": round(share, 3), "limit": LIMIT}
    RECORD.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print(f"processor time: {100 * share:.0f} % of before", flush=True)
    if "coverage" not in after:
        return share <= LIMIT and not after["failed"]
    shares = before["coverage"]["percent"], after["coverage"]["percent"]
    print(f"line coverage of src: {shares[0]} % before, {shares[1]} % after")
    return share <= LIMIT and not after["failed"] and shares[1] >= shares[0]


def main(
    before: str,
    after: str,
    *,
    coverage: Annotated[bool, typer.Option(help="Measure coverage too.")] = True,
) -> None:
    """Compare the tests of two commits; leaves with 1 where a limit is not kept."""
    with tempfile.TemporaryDirectory() as folder:
        hook, places = Path(folder) / "hook", {}
        hook.mkdir()
        (hook / "sitecustomize.py").write_text(PROCESSES)
        try:
            found = {}
            for name, commit in (("before", before), ("after", after)):
                places[name] = Path(folder) / name
                found[name] = checked_out(commit, places[name])
            for name, place in places.items():  # next to each other: alike conditions
                found[name] |= tested(place, environment(place))
                print(name, json.dumps(found[name], indent=2), flush=True)
            is_kept = kept(found)
            for name, place in places.items() if coverage else ():
                found[name]["coverage"] = covered(place, hook)
            if coverage:
                is_kept = kept(found)
        finally:
            for place in places.values():
                shutil.rmtree(place, ignore_errors=True)
            git("worktree", "prune")
    sys.exit(not is_kept)


if __name__ == "__main__":
    typer.run(main)
