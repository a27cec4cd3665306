// Prints the digests of the runs of a number of seeds, made by a browser's Python:
//   node in_pyodide.mjs PYODIDE_FOLDER LABKIT_FOLDER PROTOBUF_FOLDER COUNT
// Half of them as a script, where only the browser's event loop runs, and half in a task of it, as a
// cell of a notebook is run.

import { pathToFileURL } from "node:url";

const [pyodideFolder, labkit, protobuf, count] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(`${pyodideFolder}/pyodide.mjs`));
const python = await loadPyodide();
python.mountNodeFS("/labkit", labkit);
python.mountNodeFS("/protobuf", protobuf);
python.runPython(`
import asyncio, sys
sys.path[:0] = ["/labkit", "/protobuf"]
from labkit.worlds.sim.run import run
from tests.worlds.sim.digests import scenarios

asyncio.get_running_loop()
waiting = scenarios(${count})
digests = [run(waiting.pop(0)).digest for _ in range(${count} // 2)]

async def cell():
    assert asyncio.current_task()
    digests.extend(run(scenario).digest for scenario in waiting)
    await asyncio.sleep(0)
`);
await python.runPythonAsync("await asyncio.create_task(cell())");
console.log(python.runPython('"\\n".join(digests)'));
