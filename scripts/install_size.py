"""How large an installation is: fewlabels with torch, and what each extra adds.

    python -m build
    python scripts/install_size.py dist/*.whl

Builds a virtual environment in a temporary folder, installs the wheel there with the
versions of constraints.txt, and adds up the bytes of all files, byte code included.
What an extra adds is installed beside it (``--no-extras``: not measured). Writes
benchmarks/results/install_size.json, which has an entry for each build of torch.
"""

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import tomllib
import venv
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "benchmarks" / "results" / "install_size.json"


def main() -> None:
    """Measure and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--no-extras", action="store_true")
    options = parser.parse_args()
    wheel = options.wheel.resolve()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = [] if options.no_extras else [*project["optional-dependencies"]]
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        venv.create(home / "venv", with_pip=True)
        [python] = [
            path
            for path in (home / "venv").glob("*/*")
            if path.name in {"python", "python.exe"}
        ]
        site = _site_packages(python)
        empty = _megabytes(site)
        _pip(python, "install", str(wheel))
        record = {
            "megabytes": {
                "fewlabels": _megabytes(site / "fewlabels"),
                "torch": _megabytes(site / "torch"),
                "all": round(_megabytes(site) - empty, 1),
            },
            "packages": len(list(site.glob("*.dist-info"))) - 1,
            "extras": {
                name: _extra(python, wheel, name, home / name)
                for name in extras
                if name != "dev"
            },
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
        }
        records = json.loads(RESULT.read_text("utf-8")) if RESULT.exists() else {}
        records[_version(site, "torch")] = record
        RESULT.write_text(json.dumps(records, indent=1) + "\n", "utf-8")
    print(RESULT.read_text("utf-8"), end="")


def _extra(python: Path, wheel: Path, name: str, folder: Path) -> dict[str, float]:
    """Return the size of what an extra adds to the environment."""
    report = folder.with_suffix(".json")
    wanted = f"{wheel}[{name}]"
    _pip(python, "install", "--dry-run", "--report", str(report), wanted)
    chosen = [entry["metadata"] for entry in json.loads(report.read_text())["install"]]
    added = [f"{item['name']}=={item['version']}" for item in chosen]
    added = [name for name in added if not name.startswith("fewlabels==")]
    _pip(python, "install", "--no-deps", "--target", str(folder), *added)
    return {"megabytes": _megabytes(folder), "packages": len(added)}


def _pip(python: Path, *words: str) -> None:
    """Run pip with the pinned versions."""
    pinned = ("-c", str(ROOT / "constraints.txt"))
    subprocess.run(
        [python, "-m", "pip", "--disable-pip-version-check", *words, *pinned],
        check=True,
        stdout=sys.stderr,
    )


def _site_packages(python: Path) -> Path:
    """Return where packages are installed."""
    asked = "import sysconfig; print(sysconfig.get_path('purelib'))"
    shown = subprocess.run([python, "-c", asked], check=True, capture_output=True)
    return Path(shown.stdout.decode().strip())


def _version(site: Path, name: str) -> str:
    """Return the version of an installed package."""
    [metadata] = site.glob(f"{name}-*.dist-info/METADATA")
    return Parser().parsestr(metadata.read_text("utf-8"))["Version"]


def _megabytes(folder: Path) -> float:
    """Return the bytes of all files in a folder, in millions."""
    sizes = [path.lstat().st_size for path in folder.rglob("*") if path.is_file()]
    return round(sum(sizes) / 1e6, 1)


if __name__ == "__main__":
    main()
