"""Matching strategies: every match of SEMANTICS CONTIGUOUS, SKIP TILL NEXT or SKIP TILL ANY."""
