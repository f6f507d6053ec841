"""Looking at a capture: rows read back, filtered, counted, exported, turned into rules."""
