"""The command `labkit`.

    main        the verbs and their arguments
    doctor      says which parts of the machine are missing or unfit, and the remedy
    lab         starts JupyterLab on a notebook
    search      `labkit search`: tries seeds until a promise breaks
    intermixed  the parser: options may stand between arguments

Each verb imports what it needs when it runs, so a bookie starts fast, and `labkit doctor` works
where packages are missing.  Only this package and the shell print.

Read `main` and `doctor` first.
"""
