CREATE TABLE workspace (
  name       TEXT PRIMARY KEY,
  spec       TEXT NOT NULL,
  created_at REAL NOT NULL
) STRICT;

CREATE TABLE workflow (
  id         TEXT PRIMARY KEY,
  kind       TEXT NOT NULL,
  workspace  TEXT,
  playbook   TEXT,
  options    TEXT NOT NULL,
  state      TEXT NOT NULL CHECK (state IN ('running', 'succeeded', 'failed', 'cancelled')),
  cancelling INTEGER NOT NULL DEFAULT 0,
  generation INTEGER,
  created_at REAL NOT NULL,
  ended_at   REAL,
  reason     TEXT NOT NULL DEFAULT '',
  hint       TEXT NOT NULL DEFAULT '',
  CHECK ((state = 'running') = (ended_at IS NULL))
) STRICT;
CREATE INDEX workflow_of_workspace ON workflow (workspace, created_at);
CREATE INDEX workflow_running ON workflow (state) WHERE state = 'running';

CREATE TABLE step (
  workflow   TEXT NOT NULL REFERENCES workflow (id),
  position   INTEGER NOT NULL,
  name       TEXT NOT NULL,
  stage      TEXT NOT NULL,
  state      TEXT NOT NULL CHECK (
    state IN ('blocked', 'ready', 'waiting', 'running', 'succeeded', 'failed', 'cancelled')),
  job        TEXT,
  started_at REAL,
  ended_at   REAL,
  reason     TEXT NOT NULL DEFAULT '',
  hint       TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (workflow, name),
  UNIQUE (workflow, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX step_live ON step (state, workflow, position) WHERE state IN ('ready', 'waiting', 'running');

-- The lawful moves of model.MOVES; a test holds the two against each other.
CREATE TABLE move (old TEXT NOT NULL, new TEXT NOT NULL, PRIMARY KEY (old, new)) STRICT, WITHOUT ROWID;
INSERT INTO move VALUES
  ('blocked', 'ready'), ('blocked', 'cancelled'),
  ('ready', 'running'), ('ready', 'waiting'), ('ready', 'succeeded'), ('ready', 'failed'),
  ('ready', 'cancelled'), ('ready', 'blocked'),
  ('waiting', 'ready'), ('waiting', 'failed'), ('waiting', 'cancelled'),
  ('running', 'succeeded'), ('running', 'failed'), ('running', 'cancelled'), ('running', 'ready'),
  ('succeeded', 'blocked'), ('succeeded', 'ready'),
  ('failed', 'ready'), ('failed', 'blocked'),
  ('cancelled', 'ready'), ('cancelled', 'blocked');
CREATE TRIGGER step_moves_lawfully BEFORE UPDATE OF state ON step
WHEN NOT EXISTS (SELECT 1 FROM move WHERE old = OLD.state AND new = NEW.state)
BEGIN
  SELECT RAISE(ABORT, 'unlawful move of a step');
END;

CREATE TABLE job (
  id         TEXT PRIMARY KEY,
  workflow   TEXT NOT NULL,
  step       TEXT NOT NULL,
  kind       TEXT NOT NULL CHECK (kind IN ('tofu', 'ansible', 'probe', 'scan')),
  spec       TEXT NOT NULL,
  key        TEXT,
  state      TEXT NOT NULL CHECK (state IN ('running', 'succeeded', 'failed', 'cancelled')),
  attempt    INTEGER NOT NULL,
  created_at REAL NOT NULL,
  ended_at   REAL,
  reason     TEXT NOT NULL DEFAULT '',
  hint       TEXT NOT NULL DEFAULT '',
  FOREIGN KEY (workflow, step) REFERENCES step (workflow, name)
) STRICT;
-- One holder of a concurrency key, always.
CREATE UNIQUE INDEX job_holds_key ON job (key) WHERE state = 'running' AND key IS NOT NULL;
CREATE INDEX job_of_workflow ON job (workflow, created_at);
CREATE INDEX job_running ON job (kind) WHERE state = 'running';

CREATE TABLE attempt (
  job        TEXT NOT NULL REFERENCES job (id),
  number     INTEGER NOT NULL,
  state      TEXT NOT NULL CHECK (state IN ('running', 'finished', 'lost')),
  started_at REAL NOT NULL,
  ended_at   REAL,
  exit_code  INTEGER,
  PRIMARY KEY (job, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE host_result (
  job         TEXT NOT NULL REFERENCES job (id),
  host        TEXT NOT NULL,
  outcome     TEXT NOT NULL,
  detail      TEXT NOT NULL DEFAULT '',
  ok          INTEGER NOT NULL DEFAULT 0,
  changed     INTEGER NOT NULL DEFAULT 0,
  failed      INTEGER NOT NULL DEFAULT 0,
  unreachable INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (job, host)
) STRICT, WITHOUT ROWID;

CREATE TABLE inventory (
  name      TEXT PRIMARY KEY,
  workspace TEXT,
  standing  TEXT NOT NULL,
  number    INTEGER NOT NULL
) STRICT;

CREATE TABLE generation (
  inventory  TEXT NOT NULL REFERENCES inventory (name) ON DELETE CASCADE,
  number     INTEGER NOT NULL,
  path       TEXT NOT NULL,
  digest     TEXT NOT NULL,
  hosts      TEXT NOT NULL,
  created_at REAL NOT NULL,
  workflow   TEXT,
  PRIMARY KEY (inventory, number)
) STRICT, WITHOUT ROWID;

-- One key per type and name: a second one would make ssh accept either.
CREATE TABLE pin (
  name        TEXT NOT NULL,
  key_type    TEXT NOT NULL,
  key         TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  trust       TEXT NOT NULL CHECK (trust IN ('tofu', 'verified', 'operator')),
  pinned_at   REAL NOT NULL,
  workflow    TEXT,
  PRIMARY KEY (name, key_type)
) STRICT, WITHOUT ROWID;

CREATE TABLE event (
  seq       INTEGER PRIMARY KEY AUTOINCREMENT,
  at        REAL NOT NULL,
  type      TEXT NOT NULL,
  workflow  TEXT,
  workspace TEXT,
  body      TEXT NOT NULL
) STRICT;
CREATE INDEX event_of_workflow ON event (workflow, seq) WHERE workflow IS NOT NULL;
CREATE TRIGGER event_is_append_only BEFORE UPDATE ON event BEGIN
  SELECT RAISE(ABORT, 'events are append-only');
END;
