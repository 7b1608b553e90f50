"""Packaging. Installing needs neither node nor a C compiler, but makes use of the latter."""

import re
import subprocess
from email.parser import HeaderParser
from pathlib import Path
from urllib.parse import urlsplit

from setuptools import Extension, find_packages, setup

ROOT = Path(__file__).parent


def version() -> str:
    """Read the version as text: importing the package would need its dependencies."""
    text = (ROOT / "tos_notebook" / "_version.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    if found is None:
        raise RuntimeError('Expected a line __version__ = "..." in tos_notebook/_version.py.')
    return found[1]


def addresses() -> dict[str, str]:
    """Return where the project is, by what the checkout was cloned from; nothing if from a folder.

    A source distribution says it as it was told.
    """
    told = ROOT / "PKG-INFO"
    if told.is_file():
        lines = HeaderParser().parsestr(told.read_text(encoding="utf-8")).get_all("Project-URL", [])
        return dict(line.split(", ", 1) for line in lines)
    command = ["git", "-C", str(ROOT), "remote", "get-url", "origin"]
    try:
        remote = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return {}
    remote = re.sub(r"^(?:ssh://)?git@([\w.-]+)[:/]", r"https://\1/", remote)
    found = urlsplit(remote)
    if found.scheme != "https" or not found.hostname:
        return {}
    # Whatever stands before the host may be a password.
    page = f"https://{found.hostname}{found.path.removesuffix('/').removesuffix('.git')}"
    return {"Source": page, "Issues": f"{page}/issues"}


def labextension() -> list[tuple[str, list[str]]]:
    """Return where the plug-in's files go, which JupyterLab looks for outside of packages."""
    share = Path("share/jupyter/labextensions/tos-notebook")
    built = Path("tos_notebook/labextension")
    places: dict[str, list[str]] = {str(share): ["labextension/install.json"]}
    for path in sorted((ROOT / built).rglob("*")):
        if path.is_file():
            inside = path.relative_to(ROOT / built)
            places.setdefault(str(share / inside.parent), []).append(str(built / inside))
    return list(places.items())


REQUIRED = [
    "numpy>=1.26,<3",  # 1.26 is the oldest that TensorFlow 2.18 takes
    "pyspark>=4.0,<5",  # Spark 4: Java 17 and Python 3.11
    "tensorflow>=2.18,<3",  # TF1 graphs run through tf.compat.v1
    "keras>=3.12,<4",  # an older one runs code of a model file, whatever safe_mode says
    "pandas>=2.2,<3",  # run.history; PySpark 4 warns about pandas 3
    "pyarrow>=15,<30",  # a DataFrame's rows to the workers; 15 is the oldest for pandas 2.2
    "plotly>=6,<8",  # figures and the report; the report inlines its plotly.js
    "ipython>=8.18,<10",  # the magics
    "ipywidgets>=8.1,<9",  # the live view
    "anywidget>=0.9,<1",  # the live view's front end, wherever ipywidgets live
    "cryptography>=43,<60",  # a session's own certificate, where executors are on other hosts
    "findspark>=2,<3",  # a Spark that SPARK_HOME names
]

DEMO = [
    "scikit-learn>=1.4,<2",  # its bundled digits: data without a network
    "ipykernel>=6.29,<8",  # the first notebook, executed
    "nbclient>=0.10,<1",
]

LAB = [
    "jupyterlab>=4.4,<5",  # 4.4 answers the view's controls while a cell runs
    # From 4.25 on it compiles a grammar when imported: a second or two before JupyterLab answers,
    # and again before a kernel's first figure.
    "jsonschema>=4.18,<4.25",
]

LEGACY_KERAS = [
    "tf-keras>=2.18,<3",  # Keras 2; each release takes the TensorFlow of its own number only
]

TENSORBOARD = [
    "tensorboard>=2.18,<3",  # writes and reads event files; as old as TensorFlow may be
]

MLFLOW = [
    # Logs to a tracking server without what one needs itself; 3 has a stack of runs per thread.
    "mlflow-skinny>=3,<4",
]

CONNECT = [
    # What PySpark's own extra of this name asks for, in the ranges that go with TensorFlow's.
    "grpcio>=1.67,<2",  # Spark 4.0 asks for 1.67, 4.3 for 1.76
    "grpcio-status>=1.67,<2",  # says what a server has refused; of grpcio's number
    "googleapis-common-protos>=1.65,<2",  # its messages
    "zstandard>=0.25,<1",  # plans are sent compressed, from Spark 4.1 on
]

DOCS = [
    "sphinx>=9,<10",  # warnings are errors, and each major version has new ones
    "myst-parser>=5,<6",  # the pages are Markdown, for GitHub as well; 5 takes Sphinx 9
    "furo>=2025.9.25,<2027",  # the theme, light and dark; a version is a date
    "numpydoc>=1.9,<2",  # reads docstrings for the reference
]

TEST = [
    *DEMO,
    *LAB,
    *TENSORBOARD,
    *MLFLOW,
    *CONNECT,
    *DOCS,
    "pytest>=9,<10",  # puts pythonpath in place before it loads -p plug-ins
    "pytest-xdist>=3.6,<4",  # several processes at once
    "hypothesis>=6.100,<7",  # codecs, ledger, layouts
    "nbval>=0.11,<1",  # the notebooks
    "jupyter-repo2docker>=2025,<2027",  # says, without Docker, what Binder would build
    "playwright>=1.50,<2",  # the live view in a browser, which it does not bring along
    "axe-playwright-python>=0.1.4,<0.2",  # what a screen reader would miss in the view
    "notebook>=7.4,<8",  # the live view in Jupyter Notebook, too
    "datasets>=3,<6",  # Hugging Face's, as users have them
    "pillow>=11,<14",  # the README's animation, from screenshots
    "pyyaml>=6,<7",  # the manifests for Kubernetes
    "setuptools>=70.1",  # builds the wheel that the tests install
    "mypy>=2.4,<3",
    "codespell>=2.4,<2.5",  # a newer one knows more words, and fails what has not changed
    "ruff>=0.17,<0.18",  # a formatter's minor version changes what "formatted" means
]


def files(folder: str, pattern: str) -> list[str]:
    """Return the files of a package that match, as paths from here."""
    return sorted(
        str(path.relative_to(ROOT)) for path in ROOT.glob(f"tos_notebook/{folder}/{pattern}")
    )


# Without a C compiler Python and numpy do the same: nothing is lost but time. Sums and products
# must not be fused: both ends of a connection have to find the same numbers.
COMPILED = [
    Extension(
        f"tos_notebook.{folder}.{name}",
        files(folder, "*.c"),
        depends=files(folder, "*.h"),
        libraries=["m"],
        extra_compile_args=["-O3", "-ffp-contract=off", "-fvisibility=hidden"],
        py_limited_api=True,
        optional=True,
    )
    for folder, name in (("codecs", "_kernels"), ("common", "_exchange"))
]

setup(
    name="tos_notebook",
    version=version(),
    description="TensorFlow models trained on Spark from a notebook, by parameter server",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="BSD-3-Clause",
    author="The tos_notebook authors",
    project_urls=addresses(),
    # 3.14 has no TensorFlow wheel yet.
    python_requires=">=3.11,<3.14",
    packages=find_packages(include=["tos_notebook", "tos_notebook.*"]),
    install_requires=REQUIRED,
    package_data={
        "tos_notebook": ["py.typed", "labextension/*", "labextension/*/*", "labextension/*/*/*"],
        "tos_notebook.data": ["*.java"],
        "tos_notebook.widgets": ["static/*"],
    },
    data_files=labextension(),
    ext_modules=COMPILED,
    # One wheel for every Python from 3.11 on.
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
    extras_require={
        "demo": DEMO,
        "lab": LAB,
        "legacy-keras": LEGACY_KERAS,
        "tensorboard": TENSORBOARD,
        "mlflow": MLFLOW,
        "connect": CONNECT,
        "docs": DOCS,
        "test": TEST,
    },
    zip_safe=False,
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Framework :: Jupyter",
        "Intended Audience :: Education",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX",
        "Programming Language :: Python :: 3.11",
        "Typing :: Typed",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
)
