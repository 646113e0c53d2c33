-- +goose Up

-- A steering message of a kind other than '' holds a command as JSON.
ALTER TABLE steering ADD COLUMN kind TEXT NOT NULL DEFAULT '';

CREATE TABLE memory (
    tenant_id TEXT    NOT NULL,
    scope     TEXT    NOT NULL,
    scope_id  TEXT    NOT NULL,
    key       TEXT    NOT NULL,
    value     TEXT    NOT NULL,
    at        INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, scope, scope_id, key)
) STRICT, WITHOUT ROWID;

PRAGMA user_version = 2;
