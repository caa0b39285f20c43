"""Control groups that come and go while somebody looks. Ordinary folders will do."""

import os
import shutil

from .groups import below, processes_in


def test_groups_that_are_removed_while_somebody_looks_are_left_out(tmp_path, monkeypatch):
    """Seen once: the group of a container that ended, below that of its pod, and a story of machines failed over it."""
    for name in ("pod/ends", "pod/runs/deep"):
        (tmp_path / name).mkdir(parents=True)
    for group in [tmp_path, *(path for path in tmp_path.rglob("*") if path.is_dir())]:
        (group / "cgroup.procs").write_text("7\n" if group.name == "deep" else "")
    look = os.scandir

    def scandir(place):
        if str(place).endswith("ends"):
            shutil.rmtree(place)
        return look(place)
    monkeypatch.setattr(os, "scandir", scandir)
    groups = below(tmp_path)
    assert (tmp_path / "pod" / "runs" / "deep") in groups
    assert processes_in(groups) == {7}
