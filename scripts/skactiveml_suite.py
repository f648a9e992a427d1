"""Run scikit-activeml's own generic tests on our strategies, through the adapter.

    python scripts/skactiveml_suite.py                 # the five that must pass
    python scripts/skactiveml_suite.py npc maxdet      # any others

The tests are no part of the installed package: the last wheel with them is 0.6.1. It is
fetched by pip, checked by its hash, and only its folder of tests is unpacked, into a
temporary folder that the installed package is told to look in as well.
"""

import argparse
import hashlib
import subprocess
import sys
import tempfile
import unittest
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import skactiveml

from fewlabels.strategies.skactiveml import FewlabelsQuery

REQUIRED = ("npc", "badge", "coreset", "margin", "typiclust")
WHEEL = "scikit-activeml==0.6.1"
SHA256 = "50b213116e0c940e2e9b879766f656693309676c7b57122bc06ac97480c50475"
NOT_FETCHED = 3
"""Exit code where the tests could not be fetched, so that none was run."""


class Counted(unittest.TextTestResult):
    """A result that counts subtests, too."""

    num_subtests = 0

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802 - its name
        """Count a finished subtest; unittest calls this."""
        self.num_subtests += 1
        super().addSubTest(test, subtest, err)


def main() -> int:
    """Run the suite on the strategies named and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("strategies", nargs="*", default=list(REQUIRED))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if not fetch_tests(Path(folder)):
            return NOT_FETCHED
        return 0 if run(options.strategies) else 1


def fetch_tests(folder: Path) -> bool:
    """Make ``skactiveml.tests`` importable from ``folder``; False: not fetched."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    fetched = subprocess.run([*command, "--dest", str(folder), WHEEL], check=False)
    wheels = list(folder.glob("*.whl"))
    if fetched.returncode or not wheels:
        print(f"pip could not download {WHEEL}; the suite was not run.")
        return False
    seen = hashlib.sha256(wheels[0].read_bytes()).hexdigest()
    if seen != SHA256:
        sys.exit(f"{wheels[0].name} has SHA-256 {seen}, not {SHA256}; do not run it.")
    with zipfile.ZipFile(wheels[0]) as wheel:
        tests = [n for n in wheel.namelist() if n.startswith("skactiveml/tests/")]
        wheel.extractall(folder, tests)
    skactiveml.__path__.append(str(folder / "skactiveml"))
    return True


def run(names: list[str]) -> bool:
    """Run the suite on each strategy, print the numbers and say whether all passed."""
    total_tests = total_subtests = 0
    all_passed = True
    for name in names:
        tests = unittest.defaultTestLoader.loadTestsFromTestCase(test_case(name))
        runner = unittest.TextTestRunner(resultclass=Counted, verbosity=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = runner.run(tests)
        word = "passed" if result.wasSuccessful() else "FAILED"
        counts = f"{result.testsRun} tests, {result.num_subtests} subtests"
        print(f"{name}: {word}, {counts}")
        total_tests += result.testsRun
        total_subtests += result.num_subtests
        all_passed &= result.wasSuccessful()
    print(f"{len(names)} strategies, {total_tests} tests, {total_subtests} subtests")
    return all_passed


def test_case(name: str) -> type[unittest.TestCase]:
    """Return scikit-activeml's generic tests for one of our strategies.

    They can be imported only after they were fetched.
    """
    from skactiveml.classifier import ParzenWindowClassifier
    from skactiveml.tests.template_query_strategy import (
        TemplateSingleAnnotatorPoolQueryStrategy as Template,
    )
    from skactiveml.tests.utils import (
        ParzenWindowClassifierEmbedding,
        ParzenWindowClassifierTuple,
    )

    generator = np.random.default_rng(0)
    X = generator.normal(size=(20, 4))
    y = np.full(20, np.nan)
    y[[3, 7, 11]] = [0, 1, 1]

    class TestCase(Template, unittest.TestCase):
        """The template, and what it wants to be written for each strategy."""

        def setUp(self) -> None:
            clf = ParzenWindowClassifier(classes=[0, 1])
            super().setUp(
                qs_class=FewlabelsQuery,
                init_default_params={"strategy": name},
                query_default_params_clf={"X": X, "y": y, "clf": clf},
            )

        def test_init_param_strategy(self) -> None:
            cases = [(name, None), ("no-such", ValueError), (3, ValueError)]
            self._test_param("init", "strategy", cases)

        def test_init_param_options(self) -> None:
            cases = [(None, None), ({}, None), (3, ValueError)]
            cases += [({"no_such": 1}, ValueError)]
            self._test_param("init", "options", cases)

        def test_init_param_clf_embedding_flag_name(self) -> None:
            cases = [(None, None), (3, TypeError), ("no_such", ValueError)]
            self._test_param("init", "clf_embedding_flag_name", cases)
            asked = [("return_embeddings", None), ({"return_embeddings": True}, None)]
            clf = ParzenWindowClassifierEmbedding(classes=[0, 1])
            self._test_param(
                "init",
                "clf_embedding_flag_name",
                asked,
                replace_query_params={"clf": clf},
            )

        def test_query_param_clf(self) -> None:
            both = ParzenWindowClassifierTuple(classes=[0, 1])
            other = ParzenWindowClassifier(classes=[0, 1], missing_label="none")
            super().test_query_param_clf([(both, None), (other, TypeError)])

        def test_query(self) -> None:
            query_strategy = FewlabelsQuery(name, random_state=0)
            clf = ParzenWindowClassifier(classes=[0, 1])
            for size in (1, 5, 17):
                chosen, utilities = query_strategy.query(
                    X, y, clf, batch_size=size, return_utilities=True
                )
                assert len(set(chosen.tolist())) == size  # Badge 1.0.1 repeats some
                assert np.isnan(y[chosen]).all()
                np.testing.assert_array_equal(np.nanargmax(utilities, axis=1), chosen)
                num_missing = np.isnan(utilities).sum(axis=1)
                np.testing.assert_array_equal(num_missing, 3 + np.arange(size))

    TestCase.__qualname__ = f"Test[{name}]"
    return TestCase


if __name__ == "__main__":
    sys.exit(main())
