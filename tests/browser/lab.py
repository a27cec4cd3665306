"""Operate JupyterLab as a user would, by opening a notebook, running cells and pressing buttons.

`JupyterLab` is the server, `Notebook` is an open notebook, and `View` is a cluster view in a
notebook. Every wait has a deadline, and if a wait fails, the error reports the output of the cells.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import nbformat
from playwright.sync_api import Browser, Locator, Page, ViewportSize, expect, sync_playwright
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ROOT = Path(__file__).parents[2]
ARTIFACTS = ROOT / "tests" / "artifacts"
START_MS = 90_000
CELL_MS = 120_000
STEP_MS = 20_000
WINDOW: ViewportSize = {"width": 1280, "height": 1400}

_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# On the page, an error looks like any other output, so look for it in the notebook's model.
_FAILED = """index => jupyterapp.shell.currentWidget.content.widgets
    .filter((cell) => cell.model.type === "code")[index]
    .model.sharedModel.outputs.some((output) => output.output_type === "error")"""
# Discard unsaved changes and shut down the kernel of the notebook that was open. A notebook that
# was saved after a run already shows prompts, as if this kernel had run its cells.
_OPEN = """async ([path, theme]) => {
    const { commands, restored, serviceManager, shell } = jupyterapp;
    await restored;
    [...shell.widgets("main")].forEach((widget) => widget.dispose());
    await serviceManager.sessions.shutdownAll();
    await commands.execute("apputils:change-theme", { theme });
    const { sessionContext } = await commands.execute("docmanager:open", { path });
    await sessionContext.ready;
    await commands.execute("notebook:clear-all-cell-outputs");
}"""
_SETTINGS = {
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
    "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"},
}


@contextmanager
def chromium() -> Iterator[Browser]:
    """Launch Debian's Chromium in headless mode."""
    expect.set_options(timeout=STEP_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=_FLAGS)
        yield browser
        browser.close()


class JupyterLab:
    """A JupyterLab server on a directory, with settings under `home`, and one browser window.

    JupyterLab takes many seconds to load, so all notebooks are opened in the same window.
    """

    def __init__(self, browser: Browser, folder: Path, home: Path) -> None:
        self.folder = folder
        self._browser = browser
        self._home = home
        self._log = home / "jupyter.log"
        home.mkdir(parents=True, exist_ok=True)
        (home / "app").mkdir(exist_ok=True)
        (home / "app" / "overrides.json").write_text(json.dumps(_SETTINGS))

    def __enter__(self) -> Self:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                self._command(port),
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._wait_until_it_serves()
        self.page = self._browser.new_page()
        self.page.goto(f"{self.url}/lab?reset")
        self.page.wait_for_function("globalThis.jupyterapp !== undefined", timeout=START_MS)
        return self

    def __exit__(self, *_: object) -> None:
        self.page.close()
        # On SIGTERM, the server shuts down its kernels, which run in process groups of their own.
        self._process.terminate()
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(5)

    def open(self, name: str, theme: str = "light") -> "Notebook":
        """Open a notebook, as the only one in the window, with the theme "light" or "dark"."""
        self.page.set_viewport_size(WINDOW)
        self.page.evaluate(_OPEN, [name, f"JupyterLab {theme.title()}"])
        notebook = Notebook(self.page, theme)
        notebook.wait_until_idle(START_MS)
        light = "false" if theme == "dark" else "true"
        expect(self.page.locator("body")).to_have_attribute("data-jp-theme-light", light)
        return notebook

    def show(self, name: str, *cells: str, theme: str = "light") -> "Notebook":
        """Write a notebook with these code cells, open it, and run the first cell."""
        write_notebook(self.folder / f"{name}.ipynb", *cells)
        notebook = self.open(f"{name}.ipynb", theme)
        notebook.run(0)
        return notebook

    def _command(self, port: int) -> list[str]:
        return [
            *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
            f"--ServerApp.port={port}",
            "--ServerApp.port_retries=0",
            "--ServerApp.ip=127.0.0.1",
            "--IdentityProvider.token=",
            f"--ServerApp.root_dir={self.folder}",
            f"--LabApp.app_settings_dir={self._home / 'app'}",
            "--LabApp.expose_app_in_browser=True",
        ]

    def _environment(self) -> dict[str, str]:
        own = {
            "JUPYTER_CONFIG_DIR": "config",
            "JUPYTER_DATA_DIR": "data",
            "JUPYTER_RUNTIME_DIR": "runtime",
            "JUPYTERLAB_SETTINGS_DIR": "settings",
            "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
            "IPYTHONDIR": "ipython",
        }
        # The kernels can then import the scripted clusters from tests/.
        return (
            os.environ
            | {"PYTHONPATH": str(ROOT)}
            | {name: str(self._home / folder) for name, folder in own.items()}
        )

    def _wait_until_it_serves(self) -> None:
        deadline = time.monotonic() + START_MS / 1000
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.url}/api", timeout=2):
                    return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(0.1)
        raise RuntimeError(f"JupyterLab is not responding at {self.url}:\n{self._log.read_text()}")


class Notebook:
    def __init__(self, page: Page, theme: str) -> None:
        self.page = page
        self.theme = theme
        self.cells = page.locator(".jp-Notebook .jp-CodeCell")

    def wait_until_idle(self, timeout_ms: float = CELL_MS) -> None:
        """Wait until the kernel is idle. The notebook's indicator says "idle" even if there is no
        kernel.
        """
        expect(self.page.locator("#jp-main-statusbar")).to_contain_text(
            "| Idle", timeout=timeout_ms
        )

    def run_all(self, timeout_ms: float = CELL_MS) -> None:
        """Run the code cells one after another."""
        for index in range(self.cells.count()):
            self.run(index, timeout_ms)

    def run(self, index: int, timeout_ms: float = CELL_MS) -> Locator:
        """Run the code cell with this index, wait until it finishes, and return it.

        Raises `AssertionError` with all outputs if the cell fails or does not finish in time, and
        saves a screenshot named `failed`.
        """
        cell = self.cells.nth(index)
        prompt = cell.locator(".jp-InputPrompt").first
        before = prompt.inner_text()
        prompt.click()  # The code may be folded.
        self.page.keyboard.press("Shift+Enter")
        try:
            self.page.wait_for_function(
                "([prompt, before]) => prompt.innerText !== before"
                " && /^\\[\\d+\\]/.test(prompt.innerText)",
                arg=[prompt.element_handle(), before],
                timeout=timeout_ms,
            )
        except PlaywrightTimeoutError as error:
            self.screenshot("failed")
            raise AssertionError(f"cell {index} did not finish:\n{self.outputs()}") from error
        if self.page.evaluate(_FAILED, index):
            self.screenshot("failed")
            raise AssertionError(f"cell {index} failed:\n{self.outputs()}")
        return cell

    def outputs(self) -> str:
        """Return the output of all cells."""
        return "\n---\n".join(self.page.locator(".jp-OutputArea").all_inner_texts())

    def view(self, index: int = 0) -> "View":
        """Return the cluster view with this index in the notebook."""
        root = self.page.locator(".lk-scene").nth(index)
        expect(root).to_be_visible(timeout=STEP_MS)
        return View(root)

    def screenshot(self, name: str) -> Path:
        """Save a screenshot of the window as `tests/artifacts/<name>.png`."""
        return _keep(self.page, name)


class View:
    def __init__(self, root: Locator) -> None:
        self.root = root
        self.slider = root.get_by_role("slider", name="Moment of the run")

    def press(self, label: str) -> None:
        """Press the button with this accessible name, such as `Kill b1`."""
        self.root.get_by_role("button", name=label, exact=True).click()

    def kill(self, bookie: str) -> None:
        """Press the bookie's kill button and wait until the picture shows the bookie as down."""
        self.press(f"Kill {bookie}")
        self.wait_for(bookie, "down")

    def wait_for(self, bookie: str, state: str) -> None:
        """Wait until the picture shows the bookie as "up", "down" or "paused"."""
        said = re.compile(f"^{bookie}: {'(?!down|paused)' if state == 'up' else state}")
        expect(self.head(bookie)).to_have_text(said, timeout=STEP_MS)

    def head(self, bookie: str) -> Locator:
        """Return the text element of the header of the bookie's column."""
        return self.root.locator(f'[data-kin="n-{bookie}"] > title')

    def cell(self, entry: int, bookie: str, ledger: int = 7) -> Locator:
        """Return the text element that describes an entry's copy on a bookie."""
        titles = self.root.locator(f'[data-kin="e{ledger}-{entry}"] > title')
        return titles.filter(has_text=f" on {bookie}:")

    def screenshot(self, name: str) -> Path:
        """Save a screenshot of the view as `tests/artifacts/<name>.png`."""
        return _keep(self.root, name)


def _keep(what: Page | Locator, name: str) -> Path:
    ARTIFACTS.mkdir(exist_ok=True)
    path = ARTIFACTS / f"{name}.png"
    what.screenshot(path=path)
    return path


def write_notebook(path: Path, *cells: str) -> None:
    """Write a notebook with these code cells."""
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in cells],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    )
    nbformat.write(notebook, path)
