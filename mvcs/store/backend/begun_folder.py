"""Folders that come with the first file in them: nobody ever sees one that is empty, whoever is killed."""

import os
import pathlib

from mvcs.local_files import FOLDER, remove_begun, sync_folder, temporary_name


def begin_folder(file: pathlib.Path, target: pathlib.Path, top: pathlib.Path, staging: pathlib.Path) -> bool:
    """Give a file another name in folders that are missing, which come with it in one rename.

    That fails where a folder of this name is there that holds something, and takes the place of an empty one:
    whoever made that creates the same file in it, by its path, and finds this one.

    Args:
        file: a durable file.
        target: its other name.
        top: the first folder of that which is missing.
        staging: a folder of the same disk, for what is begun.

    Returns:
        Whether that was done; where it was not, nothing is left.

    Raises:
        OSError: it was done and may not outlive a power cut.
    """
    begun = staging / temporary_name(FOLDER)
    leaf = begun / target.relative_to(top)
    try:
        leaf.parent.mkdir(parents=True)
        os.link(file, leaf)
        folder = leaf.parent
        while folder != staging:
            sync_folder(folder)
            folder = folder.parent
        begun.rename(top)
    except OSError:
        return False
    finally:
        remove_begun(begun)
    sync_folder(top.parent)
    return True
