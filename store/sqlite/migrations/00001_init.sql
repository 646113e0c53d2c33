-- +goose Up

-- A run's row holds what changes; what never changes and what is large stands in run_inputs and checkpoints, so that
-- an update of the row stays small. The seq of the last event is not kept here: the events themselves tell it.
-- conv is the id of the conversation's first run: the compact key of the conversation.
-- finished_at is null exactly while the run is open.
CREATE TABLE runs (
    id              INTEGER PRIMARY KEY,
    run_id          TEXT    NOT NULL,
    tenant_id       TEXT    NOT NULL,
    conversation_id TEXT    NOT NULL,
    conv            INTEGER NOT NULL,
    previous_run_id TEXT    NOT NULL,
    status          TEXT    NOT NULL,
    epoch           INTEGER NOT NULL,
    attempts        INTEGER NOT NULL DEFAULT 0,
    steps           INTEGER NOT NULL DEFAULT 0,
    output          TEXT    NOT NULL DEFAULT '',
    error           TEXT    NOT NULL DEFAULT '',
    reason          TEXT    NOT NULL DEFAULT '',
    usage           TEXT    NOT NULL DEFAULT '',
    cost            TEXT    NOT NULL DEFAULT '',
    cancel          INTEGER NOT NULL DEFAULT 0,
    cancelled_by    TEXT    NOT NULL DEFAULT '',
    created_by      TEXT    NOT NULL,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    finished_at     INTEGER
) STRICT;
CREATE UNIQUE INDEX runs_run_id ON runs (run_id);
CREATE INDEX runs_conversation ON runs (tenant_id, conversation_id, id);
CREATE INDEX runs_tenant ON runs (tenant_id, id);
CREATE INDEX runs_open ON runs (conv, id) WHERE finished_at IS NULL;
CREATE INDEX runs_status ON runs (status, id) WHERE finished_at IS NULL;
CREATE INDEX runs_cancel ON runs (id) WHERE cancel = 1 AND finished_at IS NULL;

CREATE TABLE run_inputs (
    run     INTEGER PRIMARY KEY,
    prompt  TEXT NOT NULL,
    request BLOB
) STRICT;

CREATE TABLE checkpoints (
    run   INTEGER PRIMARY KEY,
    state BLOB NOT NULL
) STRICT;

-- Events lie in the order of their commits, with an index for (run, seq): a group commit of many runs then writes a
-- few pages at the end of the table. A table clustered by (run, seq) writes a page for each run (twice the CPU).
CREATE TABLE events (
    id      INTEGER PRIMARY KEY,
    run     INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    type    TEXT    NOT NULL,
    time    INTEGER NOT NULL,
    payload BLOB    NOT NULL
) STRICT;
CREATE UNIQUE INDEX events_run_seq ON events (run, seq);

CREATE TABLE approvals (
    id           INTEGER PRIMARY KEY,
    approval_id  TEXT    NOT NULL,
    run          INTEGER NOT NULL,
    tenant_id    TEXT    NOT NULL,
    conv         INTEGER NOT NULL,
    step         INTEGER NOT NULL,
    call_id      TEXT    NOT NULL,
    harness      TEXT    NOT NULL,
    tool         TEXT    NOT NULL,
    kind         TEXT    NOT NULL,
    arguments    TEXT    NOT NULL,
    cwd          TEXT    NOT NULL,
    digest       TEXT    NOT NULL,
    why          TEXT    NOT NULL,
    status       TEXT    NOT NULL,
    scope        TEXT    NOT NULL,
    requested_by TEXT    NOT NULL,
    requested_at INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    decided_by   TEXT    NOT NULL,
    decided_at   INTEGER,
    reason       TEXT    NOT NULL,
    settled      INTEGER NOT NULL,
    details      BLOB
) STRICT;
CREATE UNIQUE INDEX approvals_approval_id ON approvals (approval_id);
CREATE INDEX approvals_run ON approvals (run, id);
CREATE INDEX approvals_tenant ON approvals (tenant_id, id);
CREATE INDEX approvals_pending ON approvals (tenant_id, id) WHERE status = 'pending';
CREATE INDEX approvals_deadline ON approvals (expires_at) WHERE status = 'pending';
CREATE INDEX approvals_session ON approvals (conv, id) WHERE scope = 'session';
-- The answers that no owner has taken yet. A consumed approval was taken by its owner.
CREATE INDEX approvals_arrived ON approvals (run) WHERE settled = 0 AND status IN ('approved', 'denied', 'expired');

CREATE TABLE questions (
    id          INTEGER PRIMARY KEY,
    question_id TEXT    NOT NULL,
    run         INTEGER NOT NULL,
    tenant_id   TEXT    NOT NULL,
    step        INTEGER NOT NULL,
    call_id     TEXT    NOT NULL,
    tool        TEXT    NOT NULL,
    questions   TEXT    NOT NULL,
    status      TEXT    NOT NULL,
    asked_at    INTEGER NOT NULL,
    deadline_at INTEGER NOT NULL,
    answered_by TEXT    NOT NULL,
    answered_at INTEGER,
    answers     TEXT    NOT NULL,
    settled     INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX questions_question_id ON questions (question_id);
CREATE INDEX questions_run ON questions (run, id);
CREATE INDEX questions_deadline ON questions (deadline_at) WHERE status = 'pending';
CREATE INDEX questions_arrived ON questions (run) WHERE settled = 0 AND status IN ('answered', 'expired');

CREATE TABLE steering (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    run       INTEGER NOT NULL,
    text      TEXT    NOT NULL,
    by        TEXT    NOT NULL,
    at        INTEGER NOT NULL,
    delivered INTEGER NOT NULL
) STRICT;
CREATE INDEX steering_arrived ON steering (run, id) WHERE delivered = 0;

CREATE TABLE transcript (
    id   INTEGER PRIMARY KEY,
    conv INTEGER NOT NULL,
    idx  INTEGER NOT NULL,
    run  INTEGER NOT NULL,
    kind TEXT    NOT NULL,
    data BLOB    NOT NULL
) STRICT;
CREATE UNIQUE INDEX transcript_conv_idx ON transcript (conv, idx);

CREATE TABLE idempotency (
    tenant_id   TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    body_digest TEXT    NOT NULL,
    run         INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_created ON idempotency (created_at);

CREATE TABLE api_keys (
    id         TEXT PRIMARY KEY,
    prefix     TEXT    NOT NULL,
    hash       BLOB    NOT NULL,
    tenant_id  TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    scopes     TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    last_used  INTEGER
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX api_keys_hash ON api_keys (hash);
CREATE INDEX api_keys_tenant ON api_keys (tenant_id, created_at);

-- The version that Open compares before it starts the migrator.
PRAGMA user_version = 1;
