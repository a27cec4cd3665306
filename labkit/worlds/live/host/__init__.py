"""Everything that depends on the operating system, Python or Java.

    java, own_python     the Java and the Python for other processes
    guard                ends a foreign process, such as a JVM, together with its owner
    stop_signal          the signals that stop a server
    exit_codes           how a process ends
    posix                locks, syncs and user ids, which Windows lacks
    file_system          syncs a whole file system at once
    regular_files        opens only regular files
    private              files that only their owner can read
    heap, gc_tuning      returns freed memory; the interval of Python's garbage collection
    safe_output          log lines of a server whose disk is full
    printable            a stranger's text without control characters
    os_error_advice      what to do about an error of the operating system

No module here depends on bookies or brokers.  Read `java` and `stop_signal` first.
"""
