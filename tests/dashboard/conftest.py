"""One cluster with jobs and a dashboard for all tests in a browser."""

from collections.abc import Iterator

import pytest

from tests.dashboard.example import Shown, dashboard_with_jobs


@pytest.fixture(scope="session")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    with dashboard_with_jobs(tmp_path_factory.mktemp("dashboard")) as shown:
        yield shown
