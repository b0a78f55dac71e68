"""What is said between processes and actors: commands, queries, events, jobs, mail, and their codec."""
