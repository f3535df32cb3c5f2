"""The one place where kernel, engine, runtime and source meet."""
