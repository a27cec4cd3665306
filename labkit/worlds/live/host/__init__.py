"""Everything that depends on the operating system, Python or Java.

    java, own_python     finds a Java runtime; starts labkit in other Python processes
    guard                ends a child process, such as a JVM, when its owner exits
    stop_signal          the signals that stop a server
    exit_codes           exit codes of the labkit command
    ports                free ports that are likely to stay free
    posix                file locks, syncs and user ids, which Windows lacks
    file_system          syncs a whole file system with one call
    regular_files        opens only regular files
    private              files and directories that only their owner can access
    memory               returns freed memory; tunes Python's garbage collector
    safe_output          prints log lines even if the disk is full
    printable            escapes control characters in untrusted text
    os_error_advice      advice about operating system errors

No module here depends on bookies or brokers. Read `java` and `stop_signal` first.
"""
