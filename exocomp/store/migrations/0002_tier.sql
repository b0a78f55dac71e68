-- What stood around the attempt; NULL for jobs that run inside the daemon.
ALTER TABLE attempt ADD COLUMN tier TEXT CHECK (tier IN ('enforcing', 'degraded', 'off'));
-- What ran: digest of the staged module or project, and the git commit it was staged at, if any.
ALTER TABLE attempt ADD COLUMN source TEXT;
ALTER TABLE attempt ADD COLUMN git_commit TEXT;
