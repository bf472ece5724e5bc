"""Chaos: real processes, real files, a real target, and everything that happens to them; judged by the checker."""
