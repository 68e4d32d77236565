"""Conditions that read rows mapped earlier: their programs and the machine that runs them."""
