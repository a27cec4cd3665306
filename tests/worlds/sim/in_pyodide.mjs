// Prints the digests of the runs of several seeds, computed by a browser's Python:
//   node in_pyodide.mjs PYODIDE_FOLDER LABKIT_FOLDER PROTOBUF_FOLDER COUNT
// Half of the runs are started by a script outside of any task, and half in a task of the event
// loop, like a notebook cell.

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
