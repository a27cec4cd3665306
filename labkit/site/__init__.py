"""The static site: labkit on any web server, and in a browser tab without a server's help.

    pyodide     a browser's Python with labkit and all that its lessons need there
    tab         JupyterLite on that Python, with the notebooks

What the field has is used as it is: Pyodide, JupyterLite, Sphinx with MyST-NB.  What is here puts
them together so that no page asks another host for anything.

Read in this order: `pyodide`, `tab`.
"""
