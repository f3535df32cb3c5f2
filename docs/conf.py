"""How the documentation is built: `make docs`, warnings are errors."""

import os
import re
import sys
import zipfile
from importlib.metadata import version as version_of
from pathlib import Path

from myst_nb.core import render

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
    "navbar_center": [],  # all pages are in the sidebar
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
}
html_sidebars = {"**": ["globaltoc.html"]}
html_show_sourcelink = False

templates_path = ["_templates"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]  # README-like pages that are included begin where they like

# Tutorials are run, each in a folder of its own; a cell that fails fails the build.
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True
here = str(Path(sys.executable).parent)
os.environ["PATH"] = os.pathsep.join([here, os.environ["PATH"]])  # for `dhsic` in cells
os.environ["COLUMNS"] = "80"


def whole(outputs):
    """What a cell of commands writes, 100 bytes at a time, as it stood in a terminal."""
    merged, streams = [], {}
    for output in outputs:
        name = output.get("name")
        if name in streams:
            streams[name]["text"] += output["text"]
            continue
        merged.append(output)
        if output["output_type"] == "stream":
            streams[name] = output
    for output in streams.values():
        output["name"] = "stdout"  # dhsic tells of the run on stderr, where nothing is wrong
    return merged


render.coalesce_streams = whole

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
rst_prolog = r".. |S| replace:: \|S\|"  # in docstrings: how many features are in S

#: Links of pages to files of the repository that have a page here; those to others become names.
PAGES = {
    "../CHANGELOG.md": "changes.md",
    "../SECURITY.md": "security.md",
    "../deploy/README.md": "kubernetes.md",
    "../examples/files.md": "files.md",
    "../examples/mouse.md": "mouse.md",
}


#: Links that are called as the file is: on a page they are called as the page is.
NAMED_AS_FILES = re.compile(r"\[[\w/]+\.md\](?=\([\w/#-]+\.md\b)")


def pack(app):
    """All of `deploy/` as one file to download, the same bytes whenever it is made."""
    root = Path(__file__).parents[1]
    with zipfile.ZipFile(root / "docs" / "deploy.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(path for path in (root / "deploy").rglob("*") if path.is_file()):
            about = zipfile.ZipInfo(path.relative_to(root).as_posix())  # of 1980
            about.external_attr = (0o755 if os.access(path, os.X_OK) else 0o644) << 16
            about.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(about, path.read_bytes())


def link(app, *names_and_content):
    """Pages stand in the repository too, where their links go to files."""
    content = names_and_content[-1]

    def to(found: re.Match[str]) -> str:
        text, path = found.groups()
        page = PAGES.get(path, path.removeprefix("../docs/"))
        return f"[{text}]({page})" if "/" not in page else f"`{path.removeprefix('../')}`"

    linked = re.sub(r"\[([^\]]+)\]\((\.\./[^)]+)\)", to, content[0])
    content[0] = NAMED_AS_FILES.sub("[]", linked)


def join(app, what, name, obj, options, lines):
    """A type that goes on in the next line is one line, before numpydoc reads it."""
    lines[:] = re.sub(r"\\\n\s+", "", "\n".join(lines)).split("\n")


def escape(app, context, lines):
    """How many features are in S is no substitution, in the help of commands either."""
    lines[:] = [line.replace("|S|", r"\|S\|") for line in lines]


def setup(app):
    """Register what happens to pages and docstrings before they are read."""
    app.connect("builder-inited", pack)
    app.connect("source-read", link)
    app.connect("include-read", link)
    app.connect("autodoc-process-docstring", join, priority=100)
    app.connect("sphinx-click-process-options", escape)
