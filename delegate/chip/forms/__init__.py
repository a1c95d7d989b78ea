"""Forms of tasks: what registers say but for their numbers, and which of these have been run."""
