import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import fewlabels


def test_the_package_can_be_run_as_a_module():
    command = [sys.executable, "-m", "fewlabels", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("fewlabels ")


def test_importing_it_runs_nothing():
    command = [sys.executable, "-c", "import fewlabels.__main__"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == ""


LIGHT = """
import sys
import fewlabels
assert not {"numpy", "scipy", "torch"} & sys.modules.keys(), "the import is heavy"
assert not [name for name in sys.modules if name.startswith("fewlabels.")]
assert fewlabels.errors is sys.modules["fewlabels.errors"]
"""


def test_modules_are_reached_from_the_package_and_imported_only_then():
    command = [sys.executable, "-c", LIGHT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    path = Path(fewlabels.__file__).parent
    own = {entry.name for entry in pkgutil.iter_modules([str(path)])}
    inner = {"__main__", "cli", "files", "names", "web"}
    for name in sorted(own - inner):
        module = fewlabels.__getattr__(name)  # as if it were not imported yet
        assert module.__name__ == f"fewlabels.{name}"
        assert name in fewlabels.__all__


def test_no_module_hides_a_name_that_its_package_imports_when_it_is_used():
    """``import fewlabels.data.load`` would make a module of the function ``load``."""
    packages = [fewlabels]
    for entry in pkgutil.iter_modules(fewlabels.__path__):
        if entry.ispkg:
            packages.append(importlib.import_module(f"fewlabels.{entry.name}"))
    checked = [one for one in packages if hasattr(one, "lazy_loader")]
    assert len(checked) > 5
    for package in checked:
        inner = {entry.name for entry in pkgutil.iter_modules(package.__path__)}
        for name in package.__all__:
            found = getattr(package, name)
            assert (name in inner) == isinstance(found, ModuleType), (package, name)
