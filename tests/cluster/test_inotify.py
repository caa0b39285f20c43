import ctypes
import os

from cluster import inotify

INSTANCE = "anon_inode:inotify"


def test_a_process_that_ends_while_it_is_looked_at_keeps_no_bed_from_being_made(tmp_path, monkeypatch):
    """Among processes that came and went every 250th count failed, and with it the start of a bed."""
    for pid, files in (("11", [INSTANCE, "/dev/null"]), ("12", [INSTANCE]), ("13", [INSTANCE]), ("self", [INSTANCE])):
        folder = tmp_path / pid / "fd"
        folder.mkdir(parents=True)
        for number, target in enumerate(files):
            (folder / str(number)).symlink_to(target)

    def ended(look):
        def looked(path):
            if str(path).endswith("/12/fd"):
                raise FileNotFoundError(path)
            return look(path)
        return looked
    for name in ("listdir", "scandir"):
        monkeypatch.setattr(os, name, ended(getattr(os, name)))
    assert inotify.in_use(str(tmp_path)) == 2


def test_an_instance_is_counted_while_it_is_open(tmp_path):
    (tmp_path / "1").symlink_to("/proc/self")
    before = inotify.in_use(str(tmp_path))
    opened = ctypes.CDLL(None).inotify_init()
    assert inotify.in_use(str(tmp_path)) == before + 1
    os.close(opened)
    assert inotify.in_use(str(tmp_path)) == before
