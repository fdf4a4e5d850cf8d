"""Bases and who depends on them: which object a new one is coded against, and why no base goes while it is needed."""
