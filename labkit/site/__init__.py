"""The static site: labkit on any web server, and in a browser tab without a server's help.

    pyodide     a browser's Python with labkit and all that its lessons need there
    tab         JupyterLite on that Python, with the notebooks
    views       views that play on a page without a kernel
    landing     a run that a reader can break before any Python is loaded
    pages       the course, the documents and the essays, set by Sphinx
    doors       on each page: open in a tab, on Binder, at home
    offline     the site and all wheels in one folder, for a class without internet
    address     where all of this is published, one line of pyproject.toml
    theme/      the scripts and styles of the pages

What the field has is used as it is: Pyodide, JupyterLite, Sphinx with MyST-NB and Furo.  What is
here puts them together so that no page asks another host for anything.  The builder works in a
checkout and is not part of the wheel.

Read in this order: `lessons`, `address`, `pyodide`, `tab`, `views`, `landing`, `doors`, `pages`,
`build`, `offline`.
"""
