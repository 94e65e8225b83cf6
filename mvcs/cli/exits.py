"""Exit codes, and what they mean."""

FAILED, USAGE, NOT_FOUND, CONFLICT, CORRUPTION, UNSUPPORTED, STORAGE = 1, 2, 3, 4, 5, 6, 7
INTERRUPTED = 130
BROKEN_PIPE = 141

MEANINGS = {
    0: "done",
    FAILED: "failed",
    USAGE: "usage",
    NOT_FOUND: "not found",
    CONFLICT: "conflict",
    CORRUPTION: "corruption",
    UNSUPPORTED: "unsupported format",
    STORAGE: "storage",
}
