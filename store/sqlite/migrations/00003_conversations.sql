-- +goose Up

ALTER TABLE runs ADD COLUMN agent_id TEXT NOT NULL DEFAULT '';
CREATE INDEX runs_agent ON runs (tenant_id, agent_id, id) WHERE agent_id <> '';

-- When an item was committed. Items that a fork copied belong to no run of its own: run is 0, and origin the id of the
-- run that they came from.
ALTER TABLE transcript ADD COLUMN at     INTEGER NOT NULL DEFAULT 0;
ALTER TABLE transcript ADD COLUMN origin TEXT    NOT NULL DEFAULT '';

-- A conversation that began as a copy of another one. Its key comes from the same numbers as those of runs.
CREATE TABLE forks (
    conv              INTEGER PRIMARY KEY,
    tenant_id         TEXT    NOT NULL,
    conversation_id   TEXT    NOT NULL,
    title             TEXT    NOT NULL,
    from_conversation TEXT    NOT NULL,
    from_run          TEXT    NOT NULL,
    created_at        INTEGER NOT NULL
) STRICT;
CREATE INDEX forks_conversation ON forks (tenant_id, conversation_id);
CREATE INDEX forks_tenant ON forks (tenant_id, conv);

-- Conversations that are deleted for readers and still have rows. files: what is kept outside of the store is still to
-- be removed. forking: a fork that is being made; it is seen by nobody, and what a crash leaves of it is deleted.
CREATE TABLE tombstones (
    conv            INTEGER PRIMARY KEY,
    tenant_id       TEXT    NOT NULL,
    conversation_id TEXT    NOT NULL,
    files           INTEGER NOT NULL,
    forking         INTEGER NOT NULL,
    at              INTEGER NOT NULL
) STRICT;

-- Numbers that must outlive the rows they were taken from: the highest keys of runs and of transcript items that were
-- ever in use, so that the key of a deleted row is not given away again; and what tells this file from any other.
CREATE TABLE marks (
    name  TEXT    PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO marks (name, value) VALUES ('runs', 0), ('transcript', 0), ('identity', abs(random() / 2));

-- What readers see.
CREATE VIEW live AS SELECT * FROM runs WHERE NOT EXISTS (SELECT 1 FROM tombstones d WHERE d.conv = runs.conv);
CREATE VIEW live_forks AS SELECT * FROM forks WHERE NOT EXISTS (SELECT 1 FROM tombstones d WHERE d.conv = forks.conv);

PRAGMA user_version = 3;
