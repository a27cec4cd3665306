// Replaces Pyodide's own script: loadPyodide starts from memory that was saved when the site was
// built, after all modules that the lessons need had been imported.

import { loadPyodide as load } from "./core.mjs";
import create from "./pyodide.asm.mjs";

const BLOCK = 512; // of a tar archive

/**
 * @param {Record<string, any>} options Pyodide's; `packages` is ignored, because all are in memory.
 */
export async function loadPyodide(options = {}) {
  const content = unpacked(new URL("python.tar.gz", import.meta.url));
  const files = content.then((bytes) => new Map(entries(bytes)));
  const memory = files.then((found) => /** @type {Uint8Array} */ (found.get("memory")));
  /** @type {any} */
  let api;
  const python = await load({
    ...options,
    packages: [],
    /** @param {any} settings */
    createPyodideModule: async (settings) => {
      const module = await create(settings);
      api = module.API;
      makeRoom(module, await memory);
      return module;
    },
    _loadSnapshot: memory,
    /** @param {{ owner: string, name?: string }} saved */
    _snapshotDeserializer: ({ owner, name }) => {
      const members = owner === "api" ? api : api.public_api;
      return name === undefined ? members : members[name];
    },
    /** @param {any} FS @param {{ sitePackages: string }} folders */
    fsInit: async (FS, { sitePackages }) => {
      for (const [name, bytes] of await files) {
        if (name === "memory") continue;
        const path = `${sitePackages}/${name}`;
        FS.mkdirTree(path.slice(0, path.lastIndexOf("/")));
        FS.writeFile(path, bytes.slice(), { canOwn: true });
      }
    },
  });
  // Otherwise every tab would generate the same random numbers
  python.runPython("import random; random.seed()", { globals: python.toPy({}) });
  return python;
}

/**
 * Grows a module's memory so that the saved memory fits.
 * @param {any} module
 * @param {Uint8Array} memory
 */
function makeRoom(module, memory) {
  module.growMemory(memory.length);
  // The address of the function with which Python calls C functions depends on the browser
  const words = new Uint32Array(memory.buffer, memory.byteOffset, memory.length / 4);
  const place = module.__PyRuntime + module.HEAPU32[module.__PyEM_EMSCRIPTEN_TRAMPOLINE_OFFSET / 4];
  words[(words[1] + place) / 4] = module.HEAPU32[place / 4];
}

/**
 * Returns the content of a compressed file next to this script.  Node.js cannot `fetch` files.
 * @param {URL} url
 */
async function unpacked(url) {
  const response = url.protocol === "file:"
    ? new Response(await (await import("node:fs/promises")).readFile(url))
    : await fetch(url);
  if (!response.ok || !response.body) {
    throw new Error(`cannot load ${url}: status ${response.status}`);
  }
  const stream = response.body.pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/**
 * Yields the name and content of each file of a tar archive (POSIX.1-1988).
 * @param {Uint8Array} archive
 * @returns {Generator<[string, Uint8Array]>}
 */
function* entries(archive) {
  /** @param {number} from @param {number} size */
  const text = (from, size) =>
    new TextDecoder().decode(archive.subarray(from, from + size)).split("\0")[0];
  for (let at = 0; archive[at];) {
    const [name, size] = [text(at, 100), parseInt(text(at + 124, 12), 8)];
    const folder = text(at + 345, 155);
    at += BLOCK;
    yield [folder ? `${folder}/${name}` : name, archive.subarray(at, at + size)];
    at += Math.ceil(size / BLOCK) * BLOCK;
  }
}
