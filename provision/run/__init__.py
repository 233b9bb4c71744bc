"""One run: its name, its lock on each machine, its journal, what it has seen and what it was shown to do."""
