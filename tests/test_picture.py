"""The module picture is current, and a stale one is noticed."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "scripts" / "module_picture.py"


def load_script():
    spec = importlib.util.spec_from_file_location("module_picture", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_script(root, *arguments):
    return subprocess.run(
        [sys.executable, str(SCRIPT), "--root", str(root), *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    )


def test_the_picture_of_this_package_is_current():
    checked = run_script(ROOT, "--check")
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.fixture
def small_house(tmp_path):
    """A package of three modules: roof imports wall, wall imports cellar."""
    package = tmp_path / "smallhouse"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "cellar.py").touch()
    (package / "wall.py").write_text("import smallhouse.cellar\n")
    (package / "roof.py").write_text("import smallhouse.wall\n")
    (tmp_path / "pyproject.toml").write_text(
        "[tool.importlinter]\n"
        'root_package = "smallhouse"\n'
        "[[tool.importlinter.contracts]]\n"
        'type = "layers"\n'
        'layers = ["roof | (chimney)", "wall", "cellar"]\n'
    )
    script = load_script()
    document = tmp_path / "ARCHITECTURE.md"
    document.write_text(f"Before\n{script.BEGIN}\nold\n{script.END}\nAfter\n")
    return tmp_path


def test_drawing_fills_the_markers_and_nothing_else(small_house):
    assert run_script(small_house).returncode == 0
    text = (small_house / "ARCHITECTURE.md").read_text()
    assert text.startswith("Before\n")
    assert text.endswith("\nAfter\n")
    assert "    roof --> wall\n    wall --> cellar\n" in text
    assert "old" not in text
    assert "chimney" not in text
    assert run_script(small_house, "--check").returncode == 0


def test_a_new_arrow_makes_the_picture_stale(small_house):
    run_script(small_house)
    (small_house / "smallhouse" / "attic.py").write_text("import smallhouse.roof\n")
    checked = run_script(small_house, "--check")
    assert checked.returncode == 1
    assert checked.stdout == (
        "ARCHITECTURE.md: the module picture is stale; run `make picture`.\n"
    )


def test_a_removed_arrow_makes_the_picture_stale(small_house):
    run_script(small_house)
    (small_house / "smallhouse" / "roof.py").write_text("")
    assert run_script(small_house, "--check").returncode == 1


def test_an_implied_arrow_is_not_drawn(small_house):
    run_script(small_house)
    before = (small_house / "ARCHITECTURE.md").read_text()
    roof = small_house / "smallhouse" / "roof.py"
    roof.write_text("import smallhouse.wall\nimport smallhouse.cellar\n")
    assert run_script(small_house, "--check").returncode == 0
    assert (small_house / "ARCHITECTURE.md").read_text() == before


def test_missing_markers_are_named(small_house):
    (small_house / "ARCHITECTURE.md").write_text("no markers here\n")
    drawn = run_script(small_house)
    assert drawn.returncode == 1
    assert "ARCHITECTURE.md needs the two lines" in drawn.stderr


def test_a_diamond_keeps_its_four_arrows():
    diamond = [("a", "b"), ("a", "c"), ("a", "d"), ("b", "d"), ("c", "d")]
    assert load_script().reduced(diamond) == [
        ("a", "b"),
        ("a", "c"),
        ("b", "d"),
        ("c", "d"),
    ]
