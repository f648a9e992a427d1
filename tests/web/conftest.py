"""A project to label, and a browser that shows it."""

import pytest
from tests.projects.toy import begun
from tests.web.pages import Browser


@pytest.fixture
def project(tmp_path):
    with begun(tmp_path) as project:
        project.ask()
        yield project


@pytest.fixture
def browser(project):
    return Browser(project)
