"""Your bookie.

Each class below is a step of the track "build a bookie".  The check is

    from labkit.workshop import check
    check("bookie", 1)                      in a notebook
    labkit workshop bookie 1                in a terminal

Write a step where it raises NotImplementedError, and leave the names and arguments as they are.
What you have not written yet is labkit's own.  All formats are Apache BookKeeper's, so that at the
end its own tools read your files.  Numbers in files are big-endian.

What `disk` and the `file` that it gives can do:

    disk.create(path)                       a new empty file        disk.open(path)
    disk.exists(path)                       disk.files(folder, suffix)      names, sorted
    disk.rename(old, new)                   disk.remove(path)
    disk.sync_folder(folder)                makes new, renamed and removed names durable
    file.write(offset, data)                file.read(offset, size)         file.size()
    file.sync()                             makes everything written to the file durable
"""

from labkit.storage.disk import Disk

# Step 1: the journal


class Journal:
    """One file of the journal, current/<file id in hex>.txn, as its only writer.

    The file:   header   512 bytes: b"BKLG", i32 6, zeros
                groups   each begins at a multiple of 512
    A group:    records  each an i32 (how many bytes follow) and its body
                padding  i32 -0x100, i32 (how many zeros follow), zeros up to a multiple of 512;
                         none if the file is there already.  With fewer than 8 bytes left, the
                         zeros go on to the end of the next block

    While one group is being written, in another thread, records of the next one are appended.
    """

    def __init__(self, disk: Disk, file_id: int) -> None:
        """Make the file with its header: contents and name (folder "current") are durable."""
        raise NotImplementedError

    def append(self, body: bytes) -> int:
        """Add a record to the open group; returns the offset at which it will lie in the file.

        Takes no time: it touches no disk.
        """
        raise NotImplementedError

    def seal(self) -> tuple[int, bytes] | None:
        """Close the open group and begin the next one behind it.

        Returns the group's offset in the file and all its bytes, padding included; None if it has
        no records.
        """
        raise NotImplementedError

    def write(self, offset: int, data: bytes) -> None:
        """Put a sealed group on disk: one write and one sync.  Durable on return, and only then are
        its adds answered.
        """
        raise NotImplementedError
