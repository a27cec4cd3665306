// Runs a script in the Python of a browser tab and prints its output:
//   node python_in_pyodide.mjs DISTRIBUTION SCRIPT

import { pathToFileURL } from "node:url";

const [distribution, script] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(`${distribution}/pyodide.mjs`));
const python = await loadPyodide({ indexURL: distribution });
await python.runPythonAsync(script);
