"""The dashboard in a real Chromium: with keys alone, on a narrow screen, without JavaScript, and with its live parts."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("selenium")

from selenium.webdriver import Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.expected_conditions import staleness_of

from jobcommon.testutil.polling import polled_blocking
from tests.dashboard.browser import MISSING, chromium, is_installed, resize
from tests.dashboard.example import Shown

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.skipif(not is_installed(), reason=MISSING)]
JOB = "/jobs/pytorchjobs/default/resnet"
LOG = "/pods/default/resnet-master-0/log"
# A page that is to be missing; and Chromium ends streams when other programs give the machine an address or take it away.
EXPECTED = ("/no/such/page", "net::ERR_NETWORK_CHANGED")
PAGES = ("/", JOB, f"{JOB}/yaml", LOG, "/jobs/pytorchjobs/default/broken", "/jobs/pytorchjobs/default/later", "/no/such/page")


@pytest.fixture(scope="module")
def browser(shown: Shown) -> Iterator[Chrome]:
    """A browser that has opened the address with the token."""
    with chromium() as driver:
        driver.get(shown.address)
        yield driver


@pytest.fixture(autouse=True)
def nothing_is_complained_of(request: pytest.FixtureRequest) -> Iterator[None]:
    """No script fails, and the content security policy stops nothing."""
    yield
    if "browser" in request.fixturenames:
        driver = request.getfixturevalue("browser")
        resize(driver, 1000, 1000)
        entries = [entry["message"] for entry in driver.get_log("browser")]
        assert [text for text in entries if not any(part in text for part in EXPECTED)] == []


def text(driver: Chrome) -> str:
    return driver.find_element(By.TAG_NAME, "body").text


def visit(driver: Chrome, address: str) -> None:
    """Open a page, and keep what it shows: an update would replace the elements that a test holds."""
    driver.get(address)
    pause(driver)


def pause(driver: Chrome) -> None:
    driver.execute_script("document.getElementById('pause').click()")


def leave(driver: Chrome, act: Callable[[], None]) -> None:
    """Do what leads to another page, and wait until the browser has it.

    The address is asked for, not an element of the page that is left: in the middle of a navigation, ChromeDriver answers such
    a question with "Node with given id does not belong to the document".
    """
    left = driver.current_url
    act()
    polled_blocking(lambda: driver.current_url != left)


def focused(driver: Chrome) -> Any:
    return driver.switch_to.active_element


def press(driver: Chrome, *keys: str) -> None:
    focused(driver).send_keys(*keys)


def test_a_job_from_the_list_to_the_log_with_keys_alone(shown: Shown, browser: Chrome) -> None:
    visit(browser, f"{shown.origin}/?state=Running")
    press(browser, Keys.TAB)
    assert focused(browser).text == "Skip to the content"
    assert focused(browser).rect["x"] >= 0, "the link is to be seen when it has the focus"
    press(browser, Keys.ENTER)
    assert focused(browser).get_attribute("id") == "main"
    order = []
    while not order or order[-1] != "resnet":
        press(browser, Keys.TAB)
        order.append(focused(browser).text or focused(browser).get_attribute("id"))
        outline = focused(browser).value_of_css_property("outline-style")
        assert outline == "solid", f"{order[-1]}: the focus is to be seen"
        assert len(order) < 10
    assert [name.split("\n")[0] for name in order] == ["all", "all", "all", "Show", "resnet"]
    leave(browser, lambda: press(browser, Keys.ENTER))
    assert browser.current_url.endswith(JOB)
    pause(browser)
    press(browser, Keys.TAB, Keys.ENTER)
    for _ in range(30):
        press(browser, Keys.TAB)
        if focused(browser).tag_name == "summary":
            press(browser, Keys.ENTER)
            assert "waiting" in text(browser) or "starting" in text(browser), "the timeline is there in words"
        if focused(browser).get_attribute("aria-label") == "Log of resnet-master-0":
            break
    leave(browser, lambda: press(browser, Keys.ENTER))
    assert browser.current_url.endswith(LOG)
    polled_blocking(lambda: "epoch" in text(browser))


def test_a_log_is_live(shown: Shown, browser: Chrome) -> None:
    visit(browser, shown.origin + LOG)
    log = browser.find_element(By.ID, "log")
    polled_blocking(lambda: browser.find_element(By.ID, "log-state").text == "Live.")
    polled_blocking(lambda: len(log.text.splitlines()) > 3)
    seen = log.text.splitlines()
    polled_blocking(lambda: len(log.text.splitlines()) > len(seen) + 3)
    numbers = [int(line.split()[1]) for line in log.text.splitlines()]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), "no line is lost or shown twice"
    visit(browser, f"{shown.origin}/pods/default/digits-master-0/log")
    polled_blocking(lambda: browser.find_element(By.ID, "log-state").text == "The log has ended.")
    assert browser.find_element(By.ID, "log").text == "accuracy 0.97"


def test_lists_are_live_and_keep_what_the_reader_did(shown: Shown, browser: Chrome) -> None:
    browser.get(shown.origin + "/jobs/pytorchjobs/default/later")
    browser.execute_script("summary = document.querySelector('summary'); summary.focus(); summary.click()")
    state = "return document.querySelector('h1 + p .state').textContent"
    assert browser.execute_script(state) == "Suspended"
    shown.kubectl("patch", "pytorchjob", "later", "--type", "merge", "-p", '{"spec": {"runPolicy": {"suspend": false}}}')
    polled_blocking(lambda: browser.execute_script(state) != "Suspended")
    assert browser.execute_script("return document.querySelector('details').open")
    assert browser.execute_script("return document.activeElement.tagName") == "SUMMARY", "the focus is where it was"
    button = browser.find_element(By.ID, "pause")
    button.click()
    assert button.text == "Resume"


def test_a_paused_page_stays_also_when_an_update_was_under_way(shown: Shown, browser: Chrome) -> None:
    browser.get(shown.origin + JOB)
    browser.execute_script("fetch = () => new Promise((answer) => { window.answer = answer; })")
    polled_blocking(lambda: browser.execute_script("return Boolean(window.answer)"))
    pause(browser)
    heading = browser.find_element(By.TAG_NAME, "h1")
    browser.execute_async_script("""
        const page = document.documentElement.outerHTML, done = arguments[0];
        answer(new Response(page));
        new Response(page).text().then(() => setTimeout(done));
    """)
    assert not staleness_of(heading)(browser)


@pytest.mark.parametrize("path", PAGES)
def test_a_narrow_screen(shown: Shown, browser: Chrome, path: str) -> None:
    resize(browser, 360, 740)
    visit(browser, shown.origin + path)
    assert browser.execute_script("return innerWidth") == 360
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 360, "nothing is beyond the edge"
    for link in browser.find_elements(By.CSS_SELECTOR, "main a, main button, main select, main summary"):
        assert link.rect["x"] >= 0
        assert link.rect["x"] + link.rect["width"] <= 361, link.text


def test_without_javascript_everything_is_there_but_what_is_live(shown: Shown) -> None:
    with chromium(javascript=False) as driver:
        driver.get(shown.address)
        assert not driver.find_element(By.ID, "live").is_displayed(), "nothing is promised that does not happen"
        driver.find_element(By.ID, "state").send_keys("Running")
        leave(driver, driver.find_element(By.CSS_SELECTOR, "form button").click)
        leave(driver, driver.find_element(By.LINK_TEXT, "resnet").click)
        driver.find_element(By.CSS_SELECTOR, "#timeline-table summary").click()
        assert driver.find_element(By.CSS_SELECTOR, "details table").is_displayed()
        leave(driver, driver.find_element(By.LINK_TEXT, "Log").click)
        assert "epoch" in driver.find_element(By.ID, "log").text
        assert "Load the page again" in text(driver)


def test_colours_have_contrast(shown: Shown, browser: Chrome) -> None:
    """Text of 4.5 to 1 or more (WCAG 2.2 AA), light and dark."""
    for scheme in ("light", "dark"):
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
        visit(browser, shown.origin + JOB)
        for selector in ("h1", "a", ".since", "caption", ".warning td", "footer", ".state"):
            element = browser.find_element(By.CSS_SELECTOR, f"main {selector}, {selector}")
            assert contrast(browser, element) >= 4.5, (scheme, selector)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def contrast(driver: Chrome, element: Any) -> float:
    """The contrast of an element's text with what is behind it."""
    script = """
        let behind = arguments[0], ground = "rgba(0, 0, 0, 0)";
        for (; behind && ground === "rgba(0, 0, 0, 0)"; behind = behind.parentElement)
            ground = getComputedStyle(behind).backgroundColor;
        return [getComputedStyle(arguments[0]).color, ground].map(c => c.match(/[\\d.]+/g).slice(0, 3).map(Number));
    """
    lighter, darker = sorted((_luminance(rgb) for rgb in driver.execute_script(script, element)), reverse=True)
    return float((lighter + 0.05) / (darker + 0.05))


def _luminance(rgb: list[float]) -> float:
    linear = [c / 255 / 12.92 if c / 255 <= 0.03928 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
