// Starts Pyodide under Node.js, runs a Python script that imports modules, and saves the memory:
//   node save.mjs PYODIDE_FOLDER SITE_PACKAGES SCRIPT FILE
// JavaScript objects that Python refers to are saved as their names in Pyodide's interface.

import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [core, packages, script, file] = process.argv.slice(2);
process.argv[1] = "python"; // this becomes part of the saved memory
process.on("uncaughtException", (error) => {
  console.error(String(error.stack ?? error).slice(-2000));
  process.exit(1);
});

const { loadPyodide } = await import(pathToFileURL(`${core}/core.mjs`));
const python = await loadPyodide({ indexURL: core, packages: [], _makeSnapshot: true });
python.mountNodeFS(python._api.sitePackages, packages);
python.globals.set("script", readFileSync(script, "utf8"));
const failed = python.runPython(`
import gc, importlib, sys, traceback

# Bytecode files are useless, because files in a tab are lost when it is closed
sys.dont_write_bytecode = True
importlib.invalidate_caches()
failed = ""
try:
    exec(script, {})
except Exception:
    # Return the traceback, because pyodide_kernel replaces the standard streams
    failed = traceback.format_exc()
del script, traceback
sys.path_importer_cache.clear()
gc.collect()
failed
`);
if (failed) throw new Error(failed);

/** @param {object} wanted */
function nameOf(wanted) {
  for (const owner of ["public_api", "api"]) {
    const members = owner === "api" ? python._api : python._api.public_api;
    if (members === wanted) return { owner };
    for (const name of Object.getOwnPropertyNames(members)) {
      const descriptor = Object.getOwnPropertyDescriptor(members, name);
      if (descriptor?.value === wanted) return { owner, name };
    }
  }
  throw new Error(
    `Python refers to a JavaScript object without a name: ${String(wanted).slice(0, 200)}`,
  );
}

writeFileSync(file, python.makeMemorySnapshot({ serializer: nameOf }));
