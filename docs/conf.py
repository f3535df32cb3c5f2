"""How the documentation is built: `make docs`, warnings are errors."""

import re
from importlib.metadata import version as version_of

project, author = "dhsic", "the dhsic developers"
copyright = author  # noqa: A001  # Sphinx calls it so
release = version_of("dhsic")

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_click",
    "sphinx_copybutton",
]
exclude_patterns = ["_build"]
html_theme = "pydata_sphinx_theme"
html_title = "dhsic"
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
}
html_show_sourcelink = False

templates_path = ["_templates"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "off"
suppress_warnings = ["myst.header"]  # README-like pages that are included begin where they like

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
rst_prolog = r".. |S| replace:: \|S\|"  # in docstrings: how many features are in S

#: Links of pages to files of the repository that have a page here; those to others become names.
PAGES = {"../examples/mouse.md": "mouse.md", "../examples/files.md": "files.md"}


def link(app, name, content):
    """Pages stand in the repository too, where their links go to files."""

    def to(found: re.Match[str]) -> str:
        text, path = found.groups()
        return f"[{text}]({PAGES[path]})" if path in PAGES else f"`{path.removeprefix('../')}`"

    content[0] = re.sub(r"\[([^\]]+)\]\((\.\./[^)]+)\)", to, content[0])


def join(app, what, name, obj, options, lines):
    """A type that goes on in the next line is one line, before numpydoc reads it."""
    lines[:] = re.sub(r"\\\n\s+", "", "\n".join(lines)).split("\n")


def escape(app, context, lines):
    """How many features are in S is no substitution, in the help of commands either."""
    lines[:] = [line.replace("|S|", r"\|S\|") for line in lines]


def setup(app):
    """Register what happens to pages and docstrings before they are read."""
    app.connect("source-read", link)
    app.connect("autodoc-process-docstring", join, priority=100)
    app.connect("sphinx-click-process-options", escape)
