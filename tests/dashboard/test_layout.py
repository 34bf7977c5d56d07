"""The layout of the pages in a real Chromium, with forty jobs of all states, at the widths of a phone and of two screens."""

from collections.abc import Iterator

import pytest

pytest.importorskip("selenium")

from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from tests.dashboard.browser import MISSING, chromium, is_installed, resize
from tests.dashboard.forty import STATES, Forty, dashboard_of_forty

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not is_installed(), reason=MISSING)]
WIDTHS = (420, 1000, 1600)
LINES = """
    return [...document.querySelectorAll(arguments[0])].map(
        (one) => Math.round(one.getBoundingClientRect().height / parseFloat(getComputedStyle(one).lineHeight)))
"""


@pytest.fixture(scope="module")
def opened() -> Iterator[tuple[Chrome, str, Forty]]:
    with dashboard_of_forty() as (address, forty), chromium() as driver:
        driver.get(address)
        yield driver, address.partition("/?")[0], forty


@pytest.mark.parametrize("width", WIDTHS)
def test_the_list(opened: tuple[Chrome, str, Forty], width: int) -> None:
    driver, origin, _ = opened
    resize(driver, width, 1000)
    driver.get(origin)
    driver.execute_script("document.getElementById('pause').click()")
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    assert driver.execute_script(LINES, "tbody th a") == [1] * 40, "names do not wrap"
    assert set(driver.execute_script(LINES, "tbody time")) == {1}, "ages do not wrap"
    assert max(driver.execute_script(LINES, ".cause span")) == 2
    long = driver.find_element(By.XPATH, "//summary[contains(., 'No preemption victims found')]")
    long.click()
    assert max(driver.execute_script(LINES, ".cause span")) > 2, "the rest is shown on demand"
    assert "No preemption victims found" in str(long.get_attribute("title"))
    signs = driver.execute_script("""
        return [...document.querySelectorAll('.state')].map((one) => getComputedStyle(one, '::before').content)
    """)
    assert len(set(signs)) == len(set(STATES)), "each state has a sign of its own, beside its colour"


@pytest.mark.parametrize("state", sorted(set(STATES)))
def test_a_job(opened: tuple[Chrome, str, Forty], state: str) -> None:
    driver, origin, forty = opened
    driver.get(origin + forty.paths[state])
    for width in WIDTHS:
        resize(driver, width, 1000)
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width
        assert driver.find_element(By.CSS_SELECTOR, "main section").get_attribute("aria-labelledby") == "diagnosis"
