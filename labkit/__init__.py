"""labkit: the storage system under Apache Pulsar, taught by running it.

    system/         the storage system itself: bookies, clients, autorecovery, brokers
    worlds/         where the system runs: in real processes, or in a simulation
    views/          tools that show the system: widgets, the shell, Spark tables
    course/         the lessons, the exercises and their grading
    cli/            the command `labkit`
    shipped_files   finds the notebooks and data that are installed with labkit
    lazy_names      imports the names of a package on first use

A package imports only packages listed above it; for example, the system never imports the worlds.
Each package's `__init__` lists its modules, and ARCHITECTURE.md follows an entry through them.

`__init__.pyi` lists the names that `import labkit` provides, namely those that notebooks use most.
Each name is imported on first use, so that a bookie process can start without importing the
widgets.
"""

from labkit.lazy_names import names_of

__version__ = "0.1.0"
__getattr__, __dir__ = names_of(__name__)
