"""The one home of the Delta log: create tables, commit to them, list what lives in a version."""

from chronicle.log.delta_log.files import (
    APPLICATION_ID,
    ASIDE_FOLDER,
    commit_stamp,
    put_aside,
    table_exists,
    torn_files,
    version_exists_after,
)
from chronicle.log.delta_log.foreign import (
    ForeignFile,
    ForeignTable,
    files_added_since,
    load_foreign,
)
from chronicle.log.delta_log.reading import (
    Commit,
    FollowedTable,
    LiveFile,
    LoggedChange,
    TableState,
    changes_since,
    commits,
    live_files,
    load_table,
    transaction_version,
    transaction_versions,
)
from chronicle.log.delta_log.writing import (
    NewFile,
    add_columns,
    commit_changes,
    create_table,
    new_files,
)

__all__ = [
    "APPLICATION_ID",
    "ASIDE_FOLDER",
    "Commit",
    "FollowedTable",
    "ForeignFile",
    "ForeignTable",
    "LiveFile",
    "LoggedChange",
    "NewFile",
    "TableState",
    "add_columns",
    "changes_since",
    "commit_changes",
    "commit_stamp",
    "commits",
    "create_table",
    "files_added_since",
    "live_files",
    "load_foreign",
    "load_table",
    "new_files",
    "put_aside",
    "table_exists",
    "torn_files",
    "transaction_version",
    "transaction_versions",
    "version_exists_after",
]
