"""Collections and roles that are brought into the data dir once and used by every job afterwards, offline."""
