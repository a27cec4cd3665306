// Runs labkit in a worker for the page that opens links, so that the page stays responsive.  It
// uses the Python of the tab, which starts with labkit already imported.

// The tab's kernel would send the state of each widget to JupyterLab, which this page does not have.
const OPEN = `
import comm, json
from labkit.course.runs.open_run import open_run
from labkit.views.widgets.page import state_of

comm.create_comm = comm.DummyComm
try:
    view = open_run(given)
    result = state_of(view)
except Exception as error:
    result = json.dumps({"error": f"{type(error).__name__}: {error}"})
result
`;
// Exceptions need no handling here: the view shows them in its notice.
const ANSWER = `
try:
    view.handle(json.loads(given))
except Exception:
    pass
state_of(view)
`;
const folder = new URL("../tab/static/pyodide/", import.meta.url);
/** @type {Promise<any>} */
const starting = import(String(new URL("pyodide.mjs", folder))).then(({ loadPyodide }) =>
  loadPyodide({ indexURL: String(folder) })
);

starting.catch(() => {}); // Each response reports the error; the console need not.

/** @type {any} */
const worker = globalThis;

/** Answers `{ link }`, and then each `{ message }` of the view, with the state of the view. */
worker.onmessage = async (/** @type {MessageEvent} */ { data }) => {
  try {
    const python = await starting;
    python.globals.set("given", data.link ?? JSON.stringify(data.message));
    worker.postMessage(JSON.parse(python.runPython(data.link ? OPEN : ANSWER)));
  } catch (error) {
    worker.postMessage({ error: `Python did not start: ${error}` });
  }
};
