"""Feed damaged files to every parser: none may fail but with a sentence.

A good file of each kind is made in code (``fuzz_targets``, ``fuzz_data``) and damaged
at random (``fuzz_mutations``): its bytes, or what its format is made of with checksums
right. A child process reads one after the other. A case is a failure if anything but a
``FewlabelsError`` comes out, if it takes more than 10 seconds of a processor or a
minute of waiting, if the process dies, or if it has held more than 2 GB at any time.
Case n of a seed is always the same: ``python -m tests.harness.fuzzing --seed 0 --case
n`` does it alone and shows what happens.

Run ``python -m tests.harness.fuzzing --minutes 10 --out FILE``.
"""

import argparse
import json
import resource
import select
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import IO, Any

from tests.harness.fuzz_mutations import Target, damaged_bytes

ROOT = Path(__file__).parents[2]
MOST_SECONDS, MOST_WAITING = 10, 60
MOST_BYTES = 2 * 10**9
_START_SECONDS = 600


def prepared(found: Sequence[Target], seed: int, case: int, folder: Path) -> Target:
    """Write the files of a case.

    Args:
        found: All targets; the number of the case says which.
        seed: Decides the damage, with the number.
        case: Number of the case.
        folder: Where to write.

    Returns:
        The target.
    """
    target = found[case % len(found)]
    random = Random(f"{seed} {case}")
    damaged, how = random.choice(list(target.damaged.items()))
    for name, content in target.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        made = content
        if name == damaged:
            made = random.choice((damaged_bytes, *how))(content, random)
        path.write_bytes(made)
    return target


def outcome(target: Target, folder: Path) -> tuple[str, str]:
    """Read the files of a case.

    Args:
        target: What reads them.
        folder: Where they are.

    Returns:
        ``"read"``, ``"refused"`` or ``"failed"``, and what was said.
    """
    from fewlabels.errors import FewlabelsError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target.read(folder)
    except FewlabelsError as error:
        str(error).encode()  # what cannot be printed is a failure too
        return "refused", str(error)
    except BaseException:  # noqa: BLE001 - that is what is looked for
        return "failed", traceback.format_exc()
    return "read", ""


def child(seed: int, first: int, last: int | None) -> None:
    """Do cases one after the other; say before and after each how it stands."""
    from tests.harness.fuzz_targets import (
        targets,  # slow to import; the parent need not
    )

    with tempfile.TemporaryDirectory() as place:
        found = targets(Path(place))
        _limit_memory()
        case = first
        while last is None or case < last:
            print(json.dumps({"case": case}), flush=True)
            print(json.dumps(told_of(found, seed, case)), flush=True)
            case += 1


def told_of(found: Sequence[Target], seed: int, case: int) -> dict[str, Any]:
    """Do a case in this process.

    Args:
        found: All targets; the number of the case says which.
        seed: Decides the damage, with the number.
        case: Number of the case.

    Returns:
        What came of it.
    """
    with tempfile.TemporaryDirectory() as folder:
        target = prepared(found, seed, case, Path(folder))
        begun = time.process_time()
        came, said = outcome(target, Path(folder))
    return {
        "case": case,
        "target": target.name,
        "outcome": came,
        "said": said[-4000:] if came == "failed" else said[:200],
        "seconds": round(time.process_time() - begun, 3),
        "bytes": _peak(),
    }


def _peak() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _limit_memory() -> None:
    """Let no case take the machine's memory; the bound itself is looked at later."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + 4 * MOST_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def cases(seed: int, *, last: int | None = None) -> Iterator[dict[str, Any]]:
    """Do cases in a child process, and in another one if that dies or hangs.

    Args:
        seed: Decides the damage.
        last: Number of the case to stop before; None: go on for ever.

    Yields:
        What came of each case.
    """
    first = 0
    while last is None or first < last:
        words = ["--child", f"--seed={seed}", f"--case={first}"]
        words += [] if last is None else [f"--last={last}"]
        with subprocess.Popen(
            [sys.executable, "-m", "tests.harness.fuzzing", *words],
            stdout=subprocess.PIPE,
            bufsize=0,  # what lies in a buffer cannot be waited for
            cwd=ROOT,
        ) as process:
            try:
                for told in _watched(process):
                    first = told["case"] + 1
                    yield told
            finally:
                process.kill()


def _watched(process: "subprocess.Popen[bytes]") -> Iterator[dict[str, Any]]:
    """Yield what a child says, and a failure in the end if it did not end well."""
    assert process.stdout is not None
    begun: dict[str, Any] = {}
    while True:
        line = _line(process.stdout, patience=MOST_WAITING if begun else _START_SECONDS)
        told = json.loads(line) if line else {}
        if "outcome" in told:
            yield told
            if told["bytes"] > MOST_BYTES:
                return  # a new child, which has not held so much
        elif told:
            begun = told
        elif line is not None and process.wait() == 0:
            return
        else:
            said = "it took too long" if line is None else "the process died"
            yield {"case": -1, **begun, "outcome": "failed", "said": said, "bytes": 0}
            return


def _line(stream: IO[bytes], patience: float) -> bytes | None:
    """Return the next line; nothing at the end; None if it does not come."""
    ready, _, _ = select.select([stream], [], [], patience)
    return stream.readline() if ready else None


def is_failure(told: dict[str, Any]) -> bool:
    """Return whether a case broke a promise."""
    too_slow = told.get("seconds", 0) > MOST_SECONDS
    return told["outcome"] == "failed" or too_slow or told["bytes"] > MOST_BYTES


def main() -> None:
    """Fuzz for some minutes, or do one case alone."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int)
    parser.add_argument("--last", type=int)
    parser.add_argument("--child", action="store_true")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.child:
        child(given.seed, given.case, given.last)
    elif given.case is not None:
        child(given.seed, given.case, given.case + 1)
    else:
        _fuzz(given.minutes, given.seed, given.out)


def _fuzz(minutes: float, seed: int, out: Path | None) -> None:
    counts: dict[str, Counter[str]] = {}
    failures: list[dict[str, Any]] = []
    slowest: dict[str, Any] = {"seconds": 0.0}
    peak, num_cases = 0, 0
    begun = end = time.monotonic()
    for told in cases(seed):
        num_cases += 1
        if num_cases == 1:
            begun = time.monotonic()
        counts.setdefault(told.get("target", "?"), Counter())[told["outcome"]] += 1
        if told.get("seconds", 0) > slowest["seconds"]:
            slowest = {key: told[key] for key in ("seconds", "target", "case")}
        peak = max(peak, told["bytes"])
        if is_failure(told):
            last = told["said"].strip().splitlines()[-1]  # without paths of a machine
            failures.append({**told, "said": last})
            print(f"{told.get('target')}, case {told['case']}:", flush=True)
            print(told["said"], flush=True)
        end = time.monotonic()
        if end > begun + 60 * minutes:
            break
    record = {
        "seed": seed,
        "minutes": round((end - begun) / 60, 1),
        "cases": num_cases,
        "failures": failures,
        "slowest": slowest,
        "peak_bytes": peak,
        "outcomes": {name: dict(found) for name, found in sorted(counts.items())},
    }
    print(json.dumps({**record, "failures": len(failures)}, indent=2))
    if out is not None:
        out.write_text(json.dumps(record, indent=2) + "\n")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
