"""A real Chromium without a window, driven by selenium. Debian's packages are `chromium` and `chromium-driver`."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from selenium.webdriver import Chrome
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars")
MISSING = "Chromium is not installed; on Debian: apt-get install chromium chromium-driver"


def is_installed() -> bool:
    """Whether there is a Chromium with its driver."""
    return bool(shutil.which("chromium") and shutil.which("chromedriver"))


@contextmanager
def chromium(width: int = 1000, height: int = 1000, *, javascript: bool = True) -> Iterator[Chrome]:
    """A browser with a window of that size."""
    options = Options()
    options.binary_location = shutil.which("chromium") or ""
    for argument in (*ARGUMENTS, f"--window-size={width},{height}"):
        options.add_argument(argument)
    if not javascript:
        options.add_experimental_option("prefs", {"profile.managed_default_content_settings.javascript": 2})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


def resize(driver: Chrome, width: int, height: int) -> None:
    """Make the page as small as a telephone: a window cannot be."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
