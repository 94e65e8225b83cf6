"""What users see of the lineage in their logs: not the steps of the library that makes its tables."""

import logging
import subprocess
import sys
import threading

from mvcs.lineage.alembic_logs import warnings_only

PROGRAM = """
import logging
logging.basicConfig(level=logging.INFO)
from mvcs.repository import Repository
with Repository.init(".") as repo:
    repo.commit({"weight": 1.0})
logging.getLogger("alembic.runtime.migration").info("of somebody else")
"""


def test_a_program_that_logs_everything_hears_nothing_of_making_the_tables(tmp_path):
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert result.stderr == "INFO:alembic.runtime.migration:of somebody else\n"
    assert (tmp_path / ".mvcs" / "lineage.sqlite").exists()


def test_warnings_and_other_threads_are_heard_meanwhile(caplog):
    logger = logging.getLogger("alembic.runtime.migration")
    caplog.set_level(logging.INFO)
    with warnings_only():
        logger.info("a step")
        logger.warning("a warning")
        other = threading.Thread(target=logger.info, args=("another migration",))
        other.start()
        other.join()
    assert caplog.messages == ["a warning", "another migration"]
