// Runs the code cells of notebooks in a browser's Python, each notebook in a fresh namespace:
//   node notebook_in_pyodide.mjs DISTRIBUTION NOTEBOOK...
// Prints a line of JSON for each notebook: its path, the number of cells, and the failures.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [distribution, ...notebooks] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(`${distribution}/pyodide.mjs`));
// Node.js prints an uncaught exception with its source line, which in Pyodide is a megabyte long.
process.on("uncaughtException", (error) => {
  console.error(String(error).slice(-2000));
  process.exit(1);
});
const python = await loadPyodide({
  indexURL: distribution,
  stdout: () => {},
});
await python.runPythonAsync(`
from IPython.core.interactiveshell import InteractiveShell

async def failures(cells):
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance(colors="nocolor")
    return [str(problem) async for problem in problems(shell, cells)]

async def problems(shell, cells):
    for number, cell in enumerate(cells):
        code = shell.transform_cell(cell)
        done = await shell.run_cell_async(cell, store_history=True, transformed_cell=code)
        if not done.success:
            yield f"cell {number}: {done.error_before_exec or done.error_in_exec!r}"
`);
for (const path of notebooks) {
  const { cells } = JSON.parse(readFileSync(path));
  const code = cells.filter((cell) => cell.cell_type === "code").map((cell) =>
    [cell.source].flat().join("")
  );
  python.globals.set("cells", python.toPy(code));
  const failed = await python.runPythonAsync("await failures(cells)");
  console.log(JSON.stringify({ path, cells: code.length, failed: failed.toJs() }));
}
