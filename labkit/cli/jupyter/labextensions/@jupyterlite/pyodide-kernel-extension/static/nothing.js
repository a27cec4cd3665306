// Replaces the extension of the same name, which only the lab in a browser tab can load. It comes
// with the extra `site`, and would log an error at each start of JupyterLab.
(globalThis._JUPYTERLAB ??= {})["@jupyterlite/pyodide-kernel-extension"] = { init() {}, get() {} };
