"""The command `labkit`.

    main        defines the subcommands and their arguments, and runs the requested one
    doctor      `labkit doctor`: checks whether this machine has everything that labkit needs
    lab         `labkit lab`: opens a notebook in JupyterLab
    search      `labkit search`: runs random scenarios until a promise breaks
    intermixed  an argument parser that accepts options between positional arguments

Each subcommand imports its modules when it runs, so that a bookie starts fast and `labkit doctor`
works even if packages are missing. In labkit, only this package and `labkit.views.shell` print to
the terminal.

Read `main` and `doctor` first.
"""
