"""Builds the static site, which offers the course on any web server, and labkit itself in a browser
tab.

    lessons       lists the lessons, and what each one needs
    address       where the project is published
    pyodide       downloads Pyodide and the wheels of labkit and its dependencies
    distribution  saves the memory of a Pyodide that has already imported them
    tab           JupyterLite with this Python and the notebooks
    views         views that play on a page without a kernel
    landing       a run in which a visitor can kill a bookie before any Python is loaded
    run_page      opens links to runs, by showing films made in advance or running labkit in a
                  worker
    play_page     the game, with the same worker
    doors         the links on each page, which open it in a tab, on Binder, or locally
    pages         the course, the documents and the package docstrings, built by Sphinx
    *_page        generate pages from the code, about the API, configuration keys, errors and
                  promises
    links         finds broken links in the built site
    cache         keeps the results of a build for the next build
    build         builds the whole site
    offline       the site and all wheels in one folder, for classes without internet
    start/        the scripts that save and load the memory of Pyodide
    theme/        the scripts and styles of the pages

The site uses unmodified versions of Pyodide, JupyterLite and Sphinx (with MyST-NB and Furo), and
combines them so that no page loads anything from another host. The builder requires a checkout of
the repository, because the builder is not part of the wheel.
"""
