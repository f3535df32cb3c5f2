"""The papers' tables, and comparisons with what a user would pick instead, by one command."""
