-- What stood around the attempt; NULL for jobs that run inside the daemon.
ALTER TABLE attempt ADD COLUMN tier TEXT CHECK (tier IN ('enforcing', 'degraded', 'off'));
