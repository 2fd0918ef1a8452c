"""Independent oracles: slow, simple and exact. Nothing here shares code or design with the extension."""
