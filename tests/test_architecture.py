"""ARCHITECTURE.md describes the tree that is there."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "fewlabels"
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
MOST_WORDS, MOST_PACKAGES, MOST_MODULES = 1500, 12, 7


def section(title: str) -> str:
    return TEXT.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_it_is_short_enough_to_be_read():
    assert len(TEXT.split()) <= MOST_WORDS


def test_it_lists_all_packages_and_modules_at_the_top():
    tree = section("The tree")
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    modules = {path.stem for path in SOURCE.glob("*.py")} - {"__init__", "__main__"}
    assert set(re.findall(r"^\| `(\w+)`", tree, re.MULTILINE)) == packages
    assert len(packages) <= MOST_PACKAGES
    assert len(modules) <= MOST_MODULES
    for module in modules:
        assert f"`{module}` (" in tree or f"`{module}`," in tree


def test_its_layers_are_those_of_the_contract():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(c["layers"] for c in contracts if c["type"] == "layers")
    printed = section("The tree").split("```")[1].split("\n")[1:-1]
    assert ["__main__", *printed] == layers


@pytest.mark.parametrize(
    "path", sorted(set(re.findall(r"[`\[]([a-z_]+(?:/\w+)*(?:/|\.py))[`\]]", TEXT)))
)
def test_a_file_or_folder_that_it_names_exists(path):
    assert (SOURCE / path).exists() or (ROOT / path).exists()


@pytest.mark.parametrize(
    ("name", "path"),
    sorted(set(re.findall(r'[`"]([\w.]+)`? in `?([a-z_/]+\.py)', TEXT))),
)
def test_a_function_is_in_the_file_that_is_named_for_it(name, path):
    *owner, function = name.split(".")
    body = ast.parse((SOURCE / path).read_text(encoding="utf-8")).body
    for wanted in owner:
        (found,) = (n for n in body if isinstance(n, ast.ClassDef) and n.name == wanted)
        body = found.body
    nodes = (node for part in body for node in ast.walk(part))  # routes are nested
    assert function in {n.name for n in nodes if isinstance(n, ast.FunctionDef)}


def test_three_files_hold_the_path_of_a_label():
    files = re.findall(r"^\d\. `(.+?)`: ", section("A label's path"), re.MULTILINE)
    handler, route, function = ((SOURCE / file).read_text("utf-8") for file in files)
    assert all(f"  {name}(" in handler for name in ("actionOf", "answer"))
    assert '"/api/act"' in handler
    assert '"/api/act"' in route
    assert "labels.label(" in route
    assert "\ndef label(" in function
    assert "store.append(" in function
