"""Documents that cannot go stale: they run, are complete and name what exists."""

import ast
import dataclasses
import importlib
import inspect
import re
import shlex
import signal
import subprocess
import sys
import types
from pathlib import Path

import pytest
import typer
import yaml
from scripts.docs_hooks import (
    learner_table,
    options_table,
    public_names,
    strategy_page,
    strategy_table,
)

from fewlabels import cli, errors, strategies
from fewlabels.experiments.bench.experiment import Experiment
from fewlabels.experiments.settings import RunSettings

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
DOCUMENTS = sorted(ROOT.glob("*.md"))
TEXT_ENDINGS = {".py", ".md", ".toml", ".yml", ".yaml", ".txt", ".cff", ".html", ".css"}


def guide():
    """All pages of the guide as one text."""
    return "\n".join(page.read_text("utf-8") for page in PAGES[1:])


# ---------------------------------------------------------------------- they run


def blocks(page):
    """Return (first line number, language, text) of every block that is executed."""
    pattern = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    text = page.read_text("utf-8")
    return [
        (text.count("\n", 0, found.start(2)), found[1], found[2])
        for found in pattern.finditer(text)
    ]


def test_scripts_that_are_named_start_from_a_checkout():
    """A script that is run by its path finds no other of its folder's modules."""
    own = [*(ROOT / "benchmarks").glob("*.py"), *(ROOT / "scripts").glob("*.py")]
    texts = [path.read_text("utf-8") for path in (*PAGES, *own, ROOT / "Makefile")]
    named = set(
        re.findall(r"python ((?:benchmarks|scripts)/\w+\.py)", "\n".join(texts))
    )
    assert named
    for path in named:
        text = (ROOT / path).read_text("utf-8")
        assert not re.search(r"^(from|import) (benchmarks|tests)\b", text, re.MULTILINE)


@pytest.fixture
def shell(capsys):
    """Run each line after a ``$``; the lines below it must be in what it prints."""
    handlers = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}

    def run(text):
        shown = ""
        for line in text.splitlines():
            if line.startswith("$ "):
                shown = printed_by(line)
            else:
                parts = map(re.escape, line.split("..."))  # dots stand for anything
                assert re.search(".*".join(parts), shown), f"{line}\n{shown}"

    def printed_by(line):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", shlex.split(line.removeprefix("$ ")))
            with pytest.raises(SystemExit) as left:
                cli.main()
        shown = "\n".join(capsys.readouterr())
        assert not left.value.code, f"{line}\n{shown}"
        return shown

    yield run
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name
)
def test_what_a_page_shows_runs(page, tmp_path, monkeypatch, shell, request):
    monkeypatch.chdir(tmp_path)
    if any("start_training" in code for _, _, code in blocks(page)):
        request.getfixturevalue("forked_workers")
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    for line, language, code in blocks(page):
        if language == "console":
            shell(code)
            continue
        shifted = "\n" * line + code  # so that a traceback shows the page's own line
        exec(compile(shifted, str(page), "exec"), vars(module))


def commands_to_read(page):
    """Yield every fewlabels command in the blocks of a page that are not executed."""
    language = None
    for line in page.read_text("utf-8").replace("\\\n", " ").splitlines():
        if fence := re.match(r" *```(.*)$", line):
            language = fence[1] if language is None else None
        elif language in {"", "bash"} and line.strip().startswith("fewlabels "):
            yield shlex.split(line, comments=True)[1:]


def test_commands_that_are_only_shown_are_commands_with_such_options():
    module = importlib.import_module("fewlabels.cli.app")
    shown = [words for page in PAGES for words in commands_to_read(page)]
    assert len(shown) > 30
    for name, *words in shown:
        inner, rest = module.command(name), words
        while hasattr(inner, "commands"):
            inner, rest = inner.commands[rest[0]], rest[1:]
        inner.make_context(name, list(rest))  # raises what click would print


def test_settings_that_are_only_shown_are_settings():
    shown = [
        (page.name, yaml.safe_load(text))
        for page in PAGES
        for text in re.findall(
            r"^```yaml\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S
        )
    ]
    assert [name for name, _ in shown] == ["experiments.md", "run-folder.md"]
    Experiment.model_validate(shown[0][1])
    RunSettings.model_validate(shown[1][1])


def test_every_fence_is_closed():
    for page in [*DOCUMENTS, *PAGES]:
        fences = re.findall(r"^```", page.read_text("utf-8"), re.MULTILINE)
        assert len(fences) % 2 == 0, page.name


def test_no_place_was_left_to_fill_in():
    for page in [*DOCUMENTS, *PAGES]:
        assert not re.findall(r"@\w+@|TODO|TBD", page.read_text("utf-8")), page.name


def test_the_readme_shows_both_commands():
    readme = PAGES[0].read_text("utf-8")
    assert "make demo" in readme
    assert "make test" in readme


# ------------------------------------------------------------------ they are whole


def command_names():
    """Return every command of the command line, such as ``fewlabels run``."""
    module = importlib.import_module("fewlabels.cli.app")
    found = []
    for command in typer.main.get_command(module.app).commands:
        inner = getattr(module.command(command), "commands", [""])
        found += [f"fewlabels {command} {name}".rstrip() for name in inner]
    return found


def test_every_command_is_in_the_guide():
    commands = command_names()
    assert len(commands) >= 3
    assert [name for name in commands if name not in guide()] == []


@pytest.mark.parametrize("module", ["training", "data", "models.encoders"])
def test_every_name_is_in_the_guide(module):
    names = importlib.import_module(f"fewlabels.{module}").names()
    assert names
    text = guide() + " ".join(f"`{name}`" for name in learners_in(learner_table()))
    assert [name for name in names if f"`{name}`" not in text] == []


def learners_in(table):
    """Yield the names that a table of learners and their forms stands for."""
    for row in table.splitlines()[2:]:
        base, *forms = re.findall(r"`([^`]+)`", row)
        stems = [base, *(base + form for form in forms if form.startswith("-"))]
        yield from stems
        if "frozen-" in forms:
            yield from (f"frozen-{stem}" for stem in stems)


def test_the_table_of_learners_names_all_and_no_other():
    names = importlib.import_module("fewlabels.training").names()
    assert sorted(learners_in(learner_table())) == sorted(names)


def test_the_table_of_learners_is_on_its_page():
    page = (ROOT / "docs" / "training.md").read_text("utf-8")
    assert page.count("\n<!-- learners -->\n") == 1


SECTIONS = ["When to use it", "Options", "Reference"]


@pytest.mark.parametrize("name", strategies.names())
def test_a_strategy_page_has_all_its_parts(name):
    page = strategy_page(name)
    assert page.startswith(f"# `{name}`\n\n*"), "title and sentence"
    assert re.search(r"^    \S", page, re.MULTILINE), "formula"
    sections = re.findall(r"^## (.+)$", page, re.MULTILINE)
    is_written = (ROOT / "docs" / "strategies" / f"{name}.md").is_file()
    assert sections == (SECTIONS if is_written else ["Options"])
    options = dataclasses.fields(strategies.resolve(name))
    assert ("<!-- options -->" in page) is bool(options)
    rows = options_table(name).splitlines()[2:]
    for option, row in zip(options, rows, strict=True):
        assert row.startswith(f"| `{option.name}` | `")
        assert not row.endswith("|  |"), f"{option.name} has no docstring"
        if type(option.default) in {int, float}:
            assert f"`{option.default:,g}`" in row


def test_the_strategies_are_in_a_table_and_have_no_other_pages():
    folder = ROOT / "docs" / "strategies"
    names = strategies.names()
    assert {page.stem for page in folder.glob("*.md")} <= {"index", *names}
    assert "<!-- strategies -->" in (folder / "index.md").read_text("utf-8")
    assert strategy_table().count("\n| [`") == len(names)


def test_a_strategy_without_a_file_has_the_page_of_its_docstring():
    page = strategy_page("coreset")
    assert page.startswith("# `coreset`\n\n*Cover the pool with the smallest radius")
    assert page.endswith("\n## Options\n\n<!-- options -->\n")


def test_every_exception_is_in_the_guide():
    kinds = [
        kind.__name__
        for kind in vars(errors).values()
        if inspect.isclass(kind) and issubclass(kind, Exception)
    ]
    assert [name for name in kinds if f"`{name}`" not in guide()] == []


@pytest.mark.parametrize(
    "package",
    [
        "data",
        "strategies",
        "gram",
        "search",
        "models",
        "jobs",
        "projects",
        "experiments.bench",
        "experiments.evaluation",
    ],
)
def test_the_reference_lists_every_public_name_of_a_package(package):
    assert f"\n<!-- package: fewlabels.{package} -->\n" in guide()
    module = importlib.import_module(f"fewlabels.{package}")
    assert set(public_names(f"fewlabels.{package}")) == set(module.__all__)


# --------------------------------------------------------- they name what exists


def paper_rows():
    """Return (paper, function, test) cells of every table row of PAPER.md."""
    rows = []
    for line in (ROOT / "PAPER.md").read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) >= 4 and set(cells[0]) != {"-"}:
            rows.append((cells[0], cells[1], cells[2]))
    return [row for row in rows if row[0] != "paper"]


def missing_object(name):
    """Return the dotted name if nothing is found under it, else an empty string."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part, None)
        return "" if found is not None else name
    return name


def missing_test(path):
    """Return the path if no such test function exists, else an empty string."""
    file_name, _, function = path.partition("::")
    file = ROOT / file_name
    if not file.is_file():
        return path
    tree = ast.parse(file.read_text("utf-8"))
    known = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    return "" if function in known else path


@pytest.mark.parametrize("row", paper_rows(), ids=lambda row: row[0][:40])
def test_a_row_of_the_paper_names_what_exists(row):
    _, functions, tests = row
    for cell, missing, pattern in (
        (functions, missing_object, r"fewlabels(\.\w+)+"),
        (tests, missing_test, r"tests/[\w/]+\.py::test_\w+"),
    ):
        names = re.findall(r"`([^`]+)`", cell)
        if not names:
            assert cell in {"not yet", "note only"}
        assert all(re.fullmatch(pattern, name) for name in names), cell
        assert [name for name in map(missing, names) if name] == []


def test_paper_has_a_row_for_everything_numbered():
    text = "\n".join(row[0] for row in paper_rows())
    numbered = [f"Eq. ({number})" for number in range(1, 14)]
    numbered += [f"Proposition {number}" for number in range(1, 6)]
    numbered += [f"Lemma {number}" for number in range(1, 4)]
    numbered += ["Algorithm 1", "Theorem 1", "Definition 1", "Definition 2"]
    numbered += ["Table 1", "Table 2", "Table 3", "Figure 1"]
    assert [name for name in numbered if name not in text] == []


def test_links_between_documents_lead_somewhere():
    for page in [*DOCUMENTS, *PAGES]:
        shown = re.sub(r"<!--.*?-->", "", page.read_text("utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", shown):
            if not target.startswith("https://"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_links_to_a_heading_find_it():
    """MkDocs checks the same between its pages, not in the files beside them."""
    for page in DOCUMENTS:
        for target, anchor in re.findall(
            r"\]\(([^)#:]*\.md|)#([^)]+)\)", page.read_text("utf-8")
        ):
            text = (page.parent / target if target else page).read_text("utf-8")
            titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
            slugs = [
                re.sub(r"[^\w -]", "", title).lower().replace(" ", "-")
                for title in titles
            ]
            assert anchor in slugs, f"{page.name}: {target}#{anchor}"


@pytest.mark.slow  # `make docs`, and so `make check`, builds it as strictly
def test_the_site_builds_strictly_and_loads_nothing_from_elsewhere(tmp_path):
    site = tmp_path / "site"
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    loaded = re.compile(r"""(src=|<link[^>]+href=|url\(|@import)\s*["']?(https?:)?//""")
    pages = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert len(pages) > 10
    assert [page.name for page in pages if loaded.search(page.read_text("utf-8"))] == []


# ------------------------------------------------------------------- the tree itself


def tracked_files():
    """Return the files under version control, or all where there is no git."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True
    )
    if listed.returncode:
        pytest.skip("not a git checkout: there is no list of tracked files")
    return [ROOT / name for name in listed.stdout.splitlines()]


def text_files():
    return [
        path
        for path in tracked_files()
        if path.is_file()
        and (path.suffix in TEXT_ENDINGS or path.name in {"Makefile", "run"})
    ]


def test_no_python_file_is_longer_than_800_lines():
    python = [path for path in text_files() if path.suffix == ".py"]
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path in python}
    assert lengths
    assert {path: length for path, length in lengths.items() if length > 800} == {}


def test_no_file_names_a_place_on_one_machine():
    folders = "|".join(["root", "home", "work", "Users", "tmp"])
    machine_path = re.compile(rf"(?<![\w.$}}/~])/({folders})/\w")
    hosts = [".".join(parts) for parts in (("pypi", "org"), ("pytorch", "org", "whl"))]
    hosts += ["python" + "hosted", "anaconda" + ".org", "extra-" + "index-url"]
    for path in text_files():
        text = path.read_text("utf-8")
        found = [*machine_path.findall(text), *(host for host in hosts if host in text)]
        assert not found, f"{path.relative_to(ROOT)}: {found}"
