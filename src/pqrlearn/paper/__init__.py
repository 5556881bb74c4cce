"""The paper regenerated: its protocol, tables and figures, beside what it prints."""
