"""The live page in a real browser."""

import http.server
import os
import re
import shutil
import threading
import uuid
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from server import Server

FIGURE = "import matplotlib.pyplot as plt\nplt.figure(figsize=(4, 2))\nplt.plot([1, 3, 2])\nplt.show()"
TABLE = "import pandas as pd\npd.DataFrame({'city': ['Bergen', 'Pune'], 'celsius': [9.5, 31]})"

# On a machine that is busy with other tests a session may take its time.
expect.set_options(timeout=30_000)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    path = os.environ.get("CELLBLOCK_TEST_CHROMIUM") or shutil.which("chromium")
    assert path, "chromium is missing: `apt-get install chromium`"
    # Its sandbox refuses root, and all that it sees here is ours.
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=flags)
        yield browser
        browser.close()


def log_in(server: Server, context: BrowserContext) -> Page:
    page = context.new_page()
    page.goto(server.url)
    page.get_by_label("A token of this server").fill(server.said["token"])
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Sessions")).to_be_visible()
    return page


@pytest.fixture
def page(server: Server, chromium: Browser) -> Iterator[Page]:
    """A browser that is logged in. Nobody but the server answers it, and its own script does not fail."""
    context = chromium.new_context()
    page = log_in(server, context)
    answered: list[str] = []
    complaints: list[str] = []
    # What the policy forbids is a request too, for the driver, but one that never leaves.
    page.on("response", lambda response: answered.append(response.url))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    strangers = [url for url in answered if not url.startswith((server.url, "data:", "about:"))]
    context.close()
    assert strangers == [] and complaints == []


@pytest.fixture
def mine() -> str:
    return f"mine-{uuid.uuid4()}"


def look(page: Page, server: Server, identifier: str) -> None:
    page.goto(server.url)
    page.get_by_role("link", name=identifier).click()
    expect(page.get_by_role("heading", name=identifier)).to_be_visible()


def test_one_logs_in_once(server: Server, chromium: Browser) -> None:
    context = chromium.new_context()
    page = context.new_page()
    page.goto(server.url)
    assert page.url == f"{server.url}/login"
    page.get_by_label("A token of this server").fill("not-this-one-0123456789")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_have_text("This is no token of this server.")
    page.get_by_label("A token of this server").fill(server.said["token"])
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Sessions")).to_be_visible()
    assert page.evaluate("document.cookie") == "", "no script sees the cookie"
    page.goto(server.url)
    expect(page.get_by_role("heading", name="Sessions")).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    context.close()


def test_a_figure_shows(server: Server, page: Page, mine: str) -> None:
    server.execute(mine, FIGURE)
    look(page, server, mine)
    figure = page.locator("img.figure")
    expect(figure).to_be_visible()
    assert figure.evaluate("image => image.decode().then(() => image.naturalWidth)") > 100


def test_a_table_shows_in_its_frame(server: Server, page: Page, mine: str) -> None:
    server.execute(mine, TABLE)
    look(page, server, mine)
    frame = page.frame_locator("iframe")
    expect(frame.get_by_role("cell", name="Bergen")).to_be_visible()


def test_html_of_the_container_reaches_nothing(server: Server, page: Page, mine: str) -> None:
    asked: list[str] = []

    class Stranger(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

    stranger = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stranger)
    threading.Thread(target=stranger.serve_forever, daemon=True).start()
    there = f"http://127.0.0.1:{stranger.server_port}"
    evil = f"""<h3>shown</h3>
        <script>parent.document.title = "owned"; document.body.append("ran"); fetch("{there}/fetch")</script>
        <img src="{there}/image" onerror="parent.document.title = 'owned'">
        <meta http-equiv="refresh" content="0;url={there}/refresh">
        <link rel="stylesheet" href="{there}/style"><style>body {{ background: url({there}/url) }}</style>
        <iframe src="{there}/frame"></iframe><object data="{there}/object"></object>
        <a href="{there}/link" target="_top">link</a>"""
    server.execute(mine, f"from IPython.display import HTML\nHTML({evil!r})")
    # In any output that is no HTML it is text.
    server.execute(mine, f"print({evil!r})\nraise ValueError({evil!r})")
    look(page, server, mine)
    frame = page.frame_locator("iframe")
    expect(frame.get_by_role("heading", name="shown")).to_be_visible()
    frame.get_by_role("link").click()
    # A round of the page's own script is time enough for anything of theirs.
    with page.expect_response(re.compile("/cells")):
        pass
    assert page.url.startswith(f"{server.url}/live/")
    assert page.title() == f"{mine} · cellblock"
    expect(frame.locator("body")).not_to_contain_text("ran")
    expect(page.locator("iframe")).to_have_count(1)
    assert page.evaluate("document.scripts.length") == 1
    # And a script that came into the page itself, by a fault of ours, would not run either.
    page.evaluate("document.body.append(Object.assign(document.createElement('script'), { text: 'window.ran = 1' }))")
    assert page.evaluate("window.ran") is None
    stranger.shutdown()
    assert asked == []


def test_cells_appear_as_they_run(server: Server, page: Page, mine: str) -> None:
    server.execute(mine, "import pathlib, time")
    look(page, server, mine)
    page.evaluate("window.same = true")
    waiting = "print('begun', flush=True)\nwhile not pathlib.Path('go').exists(): time.sleep(.01)\nprint('over')"
    server.execute(mine, waiting, executionType="Asynchronous")
    cell = page.locator("article").nth(1)
    expect(cell.locator(".stdout")).to_have_text("begun")
    expect(cell.locator(".pill")).to_have_text("running")
    expect(page.locator("#status .pill").first).to_contain_text("running")
    server.shell(mine, "touch go")
    expect(cell.locator(".stdout")).to_have_text("begun\nover")
    expect(cell.locator(".pill")).to_have_text("ok")
    expect(page.locator("article").nth(2).locator("pre.code")).to_have_text("touch go")
    assert page.evaluate("window.same"), "the page was not loaded again"


def test_buttons(server: Server, page: Page, mine: str) -> None:
    server.execute(mine, "import time; x = 'kept'")
    look(page, server, mine)
    server.execute(mine, "time.sleep(600)", executionType="Asynchronous")
    cell = page.locator("article").nth(1)
    expect(cell.locator(".pill")).to_have_text("running")
    page.get_by_role("button", name="Interrupt").click()
    expect(cell.locator(".pill")).to_have_text("interrupted")
    assert server.execute(mine, "x")["result"]["executionResult"] == "kept"

    other = page.context.new_page()
    look(other, server, mine)
    questions: list[str] = []

    def answer(dialog: object) -> None:
        questions.append(dialog.message)
        dialog.dismiss() if len(questions) == 1 else dialog.accept()

    page.on("dialog", answer)
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#status")).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("heading", name="Sessions")).to_be_visible()
    expect(page.get_by_role("link", name=mine)).to_have_count(0)
    assert questions == ["End this session? Its variables and files are lost."] * 2
    expect(other.locator(".banner")).to_contain_text("This session has ended")


def test_it_reads_and_works_without_javascript(server: Server, chromium: Browser, mine: str) -> None:
    server.execute(mine, FIGURE)
    context = chromium.new_context(java_script_enabled=False)
    page = log_in(server, context)
    look(page, server, mine)
    expect(page.locator("pre.code")).to_contain_text("plt.show()")
    expect(page.locator("img.figure")).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("heading", name="Sessions")).to_be_visible()
    expect(page.get_by_role("link", name=mine)).to_have_count(0)
    context.close()


@pytest.fixture(scope="module")
def wide(server: Server) -> str:
    identifier = "an-identifier-of-the-longest-kind-" * 7
    server.execute(identifier, f"print('wide ' * 200)\n{FIGURE}\n{TABLE}")
    server.execute(identifier, "1 / 0")
    return identifier


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 360), ("dark", 360)])
def test_it_fits(server: Server, chromium: Browser, wide: str, scheme: str, width: int) -> None:
    context = chromium.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
    page = log_in(server, context)
    for path in ("list", "session"):
        if path == "session":
            look(page, server, wide)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        brightness = sum(int(part) for part in re.findall(r"\d+", colour)[:3])
        assert (brightness > 600) == (scheme == "light"), colour
    context.close()
