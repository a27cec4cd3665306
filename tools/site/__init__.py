"""Builds the static site: the course on any web server, and labkit itself in a browser tab.

    lessons       lists the lessons, and what each one needs
    address       where the project is published
    pyodide       downloads Pyodide and the wheels of labkit and its dependencies
    distribution  saves the memory of a Pyodide that has already imported them
    tab           JupyterLite with this Python and the notebooks
    views         views that play on a page without a kernel
    landing       a run in which a visitor can kill a bookie before any Python is loaded
    run_page      opens links to runs: films made in advance, or labkit in a worker
    play_page     the game, with the same worker
    doors         the links on each page: open in a tab, on Binder, or locally
    pages         the course, the documents and the package docstrings, built by Sphinx
    *_page        generate pages from the code: API, configuration keys, errors, promises
    links         finds broken links in the built site
    cache         keeps the results of a build for the next build
    build         builds the whole site
    offline       the site and all wheels in one folder, for classes without internet
    start/        the scripts that save and load the memory of Pyodide
    theme/        the scripts and styles of the pages

The site uses Pyodide, JupyterLite and Sphinx (with MyST-NB and Furo) unmodified, and combines them
so that no page loads anything from another host. The builder requires a checkout, because it is not
part of the wheel.
"""
