"""The pictures in docs/dashboard.md, taken in a real browser: ``make pictures``."""

import sys
import tempfile
from pathlib import Path

from selenium.webdriver.common.by import By

from jobcommon.testutil.polling import polled_blocking
from tests.dashboard.browser import MISSING, chromium, is_installed, resize
from tests.dashboard.example import dashboard_with_jobs

DOCS = Path(__file__).resolve().parents[2] / "docs"


def main() -> None:
    """Take them."""
    if not is_installed():
        sys.exit(MISSING)
    with tempfile.TemporaryDirectory() as directory, dashboard_with_jobs(Path(directory)) as shown, chromium() as browser:
        browser.get(shown.address)
        resize(browser, 1000, 560)
        browser.save_screenshot(str(DOCS / "dashboard-jobs.png"))
        browser.get(f"{shown.origin}/jobs/pytorchjobs/default/broken")
        resize(browser, 1000, 960)
        browser.save_screenshot(str(DOCS / "dashboard-job.png"))
        browser.get(f"{shown.origin}/jobs/pytorchjobs/default/resnet")
        resize(browser, 360, 740)
        browser.find_element(By.ID, "timeline").location_once_scrolled_into_view  # noqa: B018  it scrolls
        browser.save_screenshot(str(DOCS / "dashboard-narrow.png"))
        browser.get(f"{shown.origin}/pods/default/resnet-master-0/log")
        resize(browser, 1000, 560)
        polled_blocking(lambda: "epoch" in browser.find_element(By.ID, "log").text)
        browser.save_screenshot(str(DOCS / "dashboard-log.png"))


if __name__ == "__main__":
    main()
