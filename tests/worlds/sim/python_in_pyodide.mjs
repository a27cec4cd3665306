// Runs a script in the Python that a tab starts, and prints what it prints:
//   node python_in_pyodide.mjs DISTRIBUTION SCRIPT

import { pathToFileURL } from "node:url";

const [distribution, script] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(`${distribution}/pyodide.mjs`));
const python = await loadPyodide({ indexURL: distribution });
await python.runPythonAsync(script);
