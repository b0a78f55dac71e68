-- A step that planned waits for a decision on what it would apply.
INSERT INTO move VALUES ('running', 'waiting');

-- Who asked for a workflow, as the daemon knew them.
ALTER TABLE workflow ADD COLUMN requester TEXT NOT NULL DEFAULT '';

CREATE TABLE approval (
  id         TEXT PRIMARY KEY,
  workflow   TEXT NOT NULL REFERENCES workflow (id),
  workspace  TEXT NOT NULL,
  step       TEXT NOT NULL,
  proposal   TEXT NOT NULL,
  digest     TEXT NOT NULL,
  state      TEXT NOT NULL CHECK (state IN ('open', 'approved', 'rejected', 'void')),
  asked_at   REAL NOT NULL,
  expires_at REAL NOT NULL,
  requester  TEXT NOT NULL DEFAULT '',
  decided_at REAL,
  decided_by TEXT NOT NULL DEFAULT '',
  reason     TEXT NOT NULL DEFAULT '',
  job        TEXT,
  CHECK ((state = 'open') = (decided_at IS NULL)),
  CHECK (job IS NULL OR state = 'approved')
) STRICT;
CREATE INDEX approval_of_workflow ON approval (workflow, asked_at);
-- A step asks one question at a time.
CREATE UNIQUE INDEX approval_open ON approval (workflow, step) WHERE state = 'open';
-- The first decision stands, and an approved plan is applied by one job.
CREATE TRIGGER approval_is_decided_once BEFORE UPDATE ON approval
WHEN OLD.state IN ('rejected', 'void') OR (OLD.state = 'approved' AND (NEW.state != OLD.state OR OLD.job IS NOT NULL))
BEGIN
  SELECT RAISE(ABORT, 'an approval is decided once');
END;

-- The id of the key that sealed what lies sealed; one row, once there is a key.
CREATE TABLE master_key (
  id    TEXT PRIMARY KEY,
  since REAL NOT NULL
) STRICT;
