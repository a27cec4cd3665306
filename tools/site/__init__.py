"""The static site: labkit's course on any web server, and labkit itself in a browser tab.

    pyodide     a browser's Python, labkit's wheel and the wheels of everything that labkit needs
    distribution  a Python with these that has started already
    tab         JupyterLite on that Python, with the notebooks
    views       views that play on a page without a kernel
    landing     a run in which a visitor can kill a bookie before any Python is loaded
    pages       the course, the documents and the essays, made by Sphinx
    doors       the links on each page: open in a tab, on Binder, at home
    offline     the site and all wheels in one folder, for a class without internet
    address     the address where the project is published, one line of pyproject.toml
    start/      the scripts that save a started Python and load it
    theme/      the scripts and styles of the pages

The site uses existing tools as they are: Pyodide, JupyterLite, Sphinx with MyST-NB and Furo.  This
package combines them so that no page loads anything from another host.  The builder works in a
checkout and is not part of the wheel.

Read in this order: `lessons`, `address`, `pyodide`, `distribution`, `tab`, `views`,
`landing`, `doors`, `pages`, `build`, `offline`.
"""
