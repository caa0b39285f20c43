"""The checker of volumes, with logs made by hand and a file system in a file. No root, no cluster."""

import subprocess

import pytest

from . import disk_image
from .checker import Gap, Writer, fsck_errors, judge

ONE = Writer("node-1", "boot-a", "pod-1")
TWO = Writer("node-2", "boot-b", "pod-2")


def line(writer, number, time, words=""):
    return f"{number} {time:.9f} {writer.node} {writer.boot} {writer.pod}{words}\n"


def durable(text, done):
    return f"durable {done:.9f} {text}"


def lines(writer, numbers, start, step=1.0):
    return [line(writer, number, start + step * index) for index, number in enumerate(numbers)]


def test_one_writer_after_the_other_is_whole():
    disk = "".join(lines(ONE, range(5), 100) + [line(TWO, 0, 110, ' found 5 lines, last "4 104 node-1 boot-a pod-1"')]
                   + lines(TWO, range(1, 5), 111))
    report = judge(disk)
    assert report.writers == [ONE, TWO]
    assert report.whole and report.overlaps == []


def test_an_empty_volume_is_whole():
    report = judge("")
    assert report.writers == [] and report.whole and report.overlaps == []


def test_lines_of_two_writers_between_each_other_overlap():
    one, two = lines(ONE, range(6), 100), lines(TWO, range(4), 103.5)
    disk = "".join([*one[:4], two[0], one[4], two[1], one[5], two[2], two[3]])
    [overlap] = judge(disk).overlaps
    assert (overlap.one, overlap.other, overlap.seconds) == (ONE, TWO, 1.5)


def test_one_line_of_the_other_is_enough():
    [overlap] = judge("".join(lines(ONE, range(6), 100)), [durable(line(TWO, 0, 103.5), 104)]).overlaps
    assert (overlap.one, overlap.other, overlap.seconds) == (ONE, TWO, 0)


def test_a_writer_whose_lines_the_other_overwrote_still_overlaps():
    one, two = lines(ONE, range(6), 100), lines(TWO, range(4), 103.5)
    output = "".join(durable(text, 100.25 + index) for index, text in enumerate(one))
    report = judge("".join(one[:3] + two), [output])
    [overlap] = report.overlaps
    assert overlap.seconds == 1.5
    assert report.lost == [text.strip() for text in one[3:]]


def found(text):
    return f' found 9 lines, last "{text.strip()}"'


def test_a_line_that_the_next_writer_did_not_find_was_written_under_it():
    """A frozen machine: the write was pending when the new writer came, and overwrote what that had written."""
    one, two = lines(ONE, range(4), 100), lines(TWO, range(10), 130)
    two[0] = line(TWO, 0, 130, found(one[2]))
    report = judge("".join(one + two[2:]), ["".join(durable(text, 135) for text in one + two)])
    [overlap] = report.overlaps
    assert (overlap.one, overlap.other, overlap.seconds) == (ONE, TWO, 0)
    assert report.lost == [text.strip() for text in two[:2]]


def test_a_line_that_the_next_writer_found_was_written_before_it_whenever_it_was_called_durable():
    """A frozen machine again: the line was on the disk, but its writer came to say so only when it was thawed."""
    one, two = lines(ONE, range(4), 100), lines(TWO, range(10), 130)
    two[0] = line(TWO, 0, 130, found(one[3]))
    report = judge("".join(one + two), ["".join(durable(text, 150) for text in one + two)])
    assert report.overlaps == [] and report.whole


def test_a_life_that_found_the_first_line_of_another_is_read_all_the_same():
    one, two = lines(ONE, range(1), 100), lines(TWO, range(3), 110)
    one[0] = line(ONE, 0, 100, ' found 0 lines, last ""')
    two[0] = line(TWO, 0, 110, ' found 1 lines, last "' + one[0].strip().replace('"', '\\"') + '"')
    report = judge("".join(one + two))
    assert report.writers == [ONE, TWO]
    assert report.overlaps == [] and report.whole


def test_the_order_in_the_file_shows_a_late_write_of_a_writer_that_died():
    one, two = lines(ONE, range(3), 100), lines(TWO, range(4), 130)
    [overlap] = judge("".join([*one[:2], *two, one[2]])).overlaps
    assert (overlap.one, overlap.other, overlap.seconds) == (ONE, TWO, 0)


def test_two_lives_of_one_pod_that_overlap_are_two_writers():
    """A reboot gives another boot id; the pod keeps its UID."""
    again = Writer("node-1", "boot-c", "pod-1")
    [overlap] = judge("".join(lines(ONE, range(5), 100) + lines(again, range(3), 102.5))).overlaps
    assert (overlap.one, overlap.other) == (ONE, again)


def test_a_container_that_is_started_again_counts_anew():
    report = judge("".join(lines(ONE, range(5), 100) + lines(ONE, range(5), 110)))
    assert report.writers == [ONE, ONE]
    assert report.whole and report.overlaps == []


@pytest.mark.parametrize("numbers, after, before", [([0, 1, 4, 5], 1, 4), ([2, 3], -1, 2)])
def test_missing_numbers_are_a_gap(numbers, after, before):
    report = judge("".join(lines(ONE, numbers, 100)))
    assert report.gaps == [Gap(ONE, after, before)]
    assert not report.whole


def test_a_durable_line_that_is_not_on_the_disk_is_lost():
    text = lines(ONE, range(5), 100)
    report = judge("".join(text[:3]), ["".join(durable(each, 105) for each in text)])
    assert report.lost == [text[3].strip(), text[4].strip()]
    assert report.gaps == [] and not report.whole


def test_a_line_that_nobody_was_promised_may_be_missing():
    """The last one before a power-off: begun, not durable."""
    text = lines(ONE, range(5), 100)
    assert judge("".join(text[:4]), ["".join(durable(each, 105) for each in text[:4])]).whole
    assert judge("".join(text), ["".join(durable(each, 105) for each in text[:4])]).whole


def test_container_logs_are_read_as_they_are():
    text = lines(ONE, range(3), 100)
    log = "".join(f"2026-11-26T13:00:00.00000000{index}Z stdout F {durable(each, 105)}"
                  for index, each in enumerate(text))
    assert judge("".join(text[:2]), [log]).lost == [text[2].strip()]


def test_the_last_words_of_a_killed_writer_may_be_cut():
    text = lines(ONE, range(3), 100)
    output = durable(text[0], 105) + durable(text[1], 105)[:30]
    assert judge("".join(text), [output]).whole


@pytest.mark.parametrize("text", ["\0" * 20, "3 100.5 node-1", "x 100.000000000 node-1 boot-a pod-1",
                                  "0 100.000000000 node-1 boot-a pod-1"])
def test_what_is_no_line_or_stands_twice_is_damage(text):
    report = judge("".join(lines(ONE, range(3), 100)) + text + "\n")
    assert report.damaged == [text]
    assert not report.whole


def test_only_complaints_of_fsck_are_errors():
    said = """e2fsck 1.47.0 (5-Feb-2023)
Pass 1: Checking inodes, blocks, and sizes
Inode 12, i_blocks is 14, should be 8.  Fix? no

Pass 5: Checking group summary information
Free blocks count wrong (25830, counted=22826).
Fix? no

Free blocks count wrong for group #0 (7000, counted=6998).
Fix? no


disk.img: 11/8192 files (0.0% non-contiguous), 6938/32768 blocks
"""
    assert fsck_errors(said) == ["Inode 12, i_blocks is 14, should be 8.  Fix? no",
                                 "Free blocks count wrong for group #0 (7000, counted=6998)."]


# --- images


@pytest.fixture
def image(tmp_path):
    made = tmp_path / "disk.img"
    with open(made, "wb") as file:
        file.truncate(16 << 20)
    subprocess.run(["mkfs.ext4", "-q", made], check=True)
    return made


def put(image, text):
    source = image.with_name("log")
    source.write_text(text)
    subprocess.run(["debugfs", "-w", "-R", f"write {source} log", image], check=True, capture_output=True)


def test_the_log_of_an_image_is_judged(image):
    put(image, "".join(lines(ONE, [0, 1, 3], 100)))
    report = disk_image.check(image)
    assert report.gaps == [Gap(ONE, 1, 3)]
    assert report.file_system == []


def test_an_image_without_a_log_is_empty_and_whole(image):
    report = disk_image.check(image)
    assert report.writers == [] and report.whole


def test_a_file_system_with_a_fault_is_damaged(image):
    put(image, "".join(lines(ONE, range(3), 100)))
    subprocess.run(["debugfs", "-w", "-R", "clri log", image], check=True, capture_output=True)
    assert disk_image.check(image).file_system != []


def test_an_error_that_a_kernel_met_is_told_though_fsck_finds_nothing(image):
    subprocess.run(["debugfs", "-w", "-R", "ssv error_count 3", image], check=True, capture_output=True)
    assert disk_image.check(image).file_system == ["FS Error count:           3"]


def test_a_file_that_is_no_file_system_is_damaged(tmp_path):
    torn = tmp_path / "disk.img"
    torn.write_bytes(bytes(1 << 20))
    assert not disk_image.check(torn).whole


def test_the_image_itself_is_left_as_it_is(image):
    put(image, "".join(lines(ONE, range(3), 100)))
    before = image.read_bytes()
    disk_image.check(image)
    assert image.read_bytes() == before
