"""Messages and stub of tipstaff.core.v1: generated, never edited."""
