"""Packages are fetched once, and not at all when they are not what was pinned."""

import hashlib
import zipfile

import pytest

from . import programs, wheel

FILES = {"ours.py": "", "ours-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: ours\nVersion: 1\n",
         "ours-1.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: us\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
         "ours-1.dist-info/RECORD": ""}


@pytest.fixture
def package(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tmp_path / "ours-1-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in FILES.items():
            archive.writestr(name, text)
    return file


def pinned(package, digest: str):
    requirements = package.parent / "requirements.txt"
    requirements.write_text(f"{package} --hash=sha256:{digest}\n")
    return requirements


def test_what_is_there_is_not_fetched_again(package):
    requirements = pinned(package, hashlib.sha256(package.read_bytes()).hexdigest())
    folder = wheel.installed(requirements)
    assert (folder / "ours.py").exists()
    package.unlink()
    assert wheel.installed(requirements) == folder


def test_another_file_than_the_pinned_one_leaves_nothing(package):
    with pytest.raises(programs.Failure, match="HASH"):
        wheel.installed(pinned(package, "0" * 64))
    assert [path.name for path in programs.cache_root().iterdir()] == ["lock"]
