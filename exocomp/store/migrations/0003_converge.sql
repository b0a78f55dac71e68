-- What its plays run over, the key it holds or waits for, and what started it when no person did.
ALTER TABLE workflow ADD COLUMN inventory TEXT;
ALTER TABLE workflow ADD COLUMN key TEXT;
ALTER TABLE workflow ADD COLUMN origin TEXT NOT NULL DEFAULT '';
UPDATE workflow SET inventory = 'tf:' || workspace WHERE workspace IS NOT NULL;
CREATE INDEX workflow_of_key ON workflow (key) WHERE state = 'running' AND key IS NOT NULL;

CREATE TABLE schedule (
  name       TEXT PRIMARY KEY,
  cron       TEXT NOT NULL,
  zone       TEXT NOT NULL,
  catch_up   TEXT NOT NULL CHECK (catch_up IN ('none', 'once')),
  work       TEXT NOT NULL,
  target     TEXT NOT NULL,
  paused     INTEGER NOT NULL DEFAULT 0,
  created_at REAL NOT NULL,
  next_at    REAL,
  planned_at REAL NOT NULL
) STRICT;

CREATE TABLE rule (
  name       TEXT PRIMARY KEY,
  on_event   TEXT NOT NULL,
  matches    TEXT NOT NULL,
  work       TEXT NOT NULL,
  target     TEXT NOT NULL,
  enabled    INTEGER NOT NULL DEFAULT 1,
  created_at REAL NOT NULL,
  since      INTEGER NOT NULL
) STRICT;

CREATE TABLE fire (
  id       INTEGER PRIMARY KEY AUTOINCREMENT,
  source   TEXT NOT NULL CHECK (source IN ('schedule', 'rule')),
  name     TEXT NOT NULL,
  at       REAL NOT NULL,
  outcome  TEXT NOT NULL CHECK (outcome IN ('started', 'queued', 'skipped', 'refused', 'missed')),
  due_at   REAL,
  event    INTEGER,
  workflow TEXT,
  reason   TEXT NOT NULL DEFAULT '',
  hint     TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX fire_of ON fire (source, name, id);
-- A rule answers an event once, whatever dies in between.
CREATE UNIQUE INDEX fire_answers_once ON fire (name, event) WHERE source = 'rule' AND event IS NOT NULL;
CREATE INDEX fire_of_workflow ON fire (workflow) WHERE workflow IS NOT NULL;

-- Up to which event the rules have looked.
CREATE TABLE looked (one INTEGER PRIMARY KEY CHECK (one = 1), seq INTEGER NOT NULL) STRICT;
INSERT INTO looked VALUES (1, 0);

-- What plays told of a host, as long as it is the same machine: gone when it leaves, or is dialled elsewhere.
CREATE TABLE host_state (
  inventory    TEXT NOT NULL REFERENCES inventory (name) ON DELETE CASCADE,
  host         TEXT NOT NULL,
  onboarded_at REAL,
  onboarded_by TEXT,
  converged_at REAL,
  converged_by TEXT,
  playbook     TEXT,
  source       TEXT,
  changed_at   REAL,
  unreachable  INTEGER NOT NULL DEFAULT 0,
  seen_at      REAL,
  PRIMARY KEY (inventory, host)
) STRICT, WITHOUT ROWID;
